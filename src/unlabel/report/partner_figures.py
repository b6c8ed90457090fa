"""What the partners saw: what they could learn about the request, and what was sent to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from unlabel.audit.verdict import Verdict
from unlabel.report import charts
from unlabel.report.chapter import Chapter, Table
from unlabel.report.charts import Mark, Row
from unlabel.report.words import guaranteed, interval, number
from unlabel.words import amount


def leakage(verdict: Verdict) -> Chapter:
    """Show what partners could find out, against chance and against the proven limit."""
    privacy = verdict.privacy
    heading = "What the partners could learn about the request"
    reading: tuple[str, ...] = (
        "How often attacks on everything a partner saw name what was forgotten. The dashed line is "
        "what guessing gives: an attack at that line has learnt nothing.",
    )
    if privacy.get("sentence"):
        reading += (str(privacy["sentence"]),)
    attacks = [each for each in privacy.get("attacks") or [] if each.get("value") is not None]
    if not attacks:
        reading += ("No attack was tried on what the partners of this request saw.",)
    best, chance = privacy.get("best_guess"), privacy.get("chance")
    if not guaranteed(privacy):
        best = None
    rows = [
        Row(
            str(each["name"]),
            (Mark("forgotten", each["value"], each.get("low"), each.get("high")),),
            each.get("chance"),
        )
        for each in attacks
    ]
    lines = [
        (str(each["name"]), interval(each, "share"), number(each.get("chance"), "share"))
        for each in attacks
    ]
    if best is not None:
        rows.append(Row("Proven limit for any attack", (Mark("limit", best),), chance, True))
        lines.append(
            ("Proven limit for any attack", number(best, "share"), number(chance, "share"))
        )
    if not rows:
        missing = "What the partners could learn was not measured."
        return Chapter("leakage", heading, reading, missing=missing)
    about = f"{len(attacks)} attacks with their success and chance."
    picture = charts.dot_rows("leakage", heading, about, rows)
    meanings = {
        "m-forgotten": "Attack, with a 95 % interval" if attacks else "",
        "chance": "Guessing",
        "m-limit": "Proven limit" if best is not None else "",
    }
    signs = tuple((name, meaning) for name, meaning in meanings.items() if meaning)
    table = Table(("Attack", "Right", "Guessing"), tuple(lines))
    return Chapter(
        "leakage", heading, reading, signs, (("Share of right answers", picture),), table
    )


def messages(verdict: Verdict) -> Chapter:
    """Show what crossed each party's boundary, over time."""
    heading = "What was sent to each party"
    reading = (
        "Bytes over the course of the request: upwards what a partner received, downwards what it "
        "sent. All partners have one scale.",
    )
    if not verdict.messages:
        missing = "No transcript was recorded, so what was sent to the partners is not known."
        return Chapter("messages", heading, reading, missing=missing)
    moments = _moments(verdict.messages)
    every = [moment for lane in moments.values() for moment in lane]
    first, last = (min(every), max(every)) if every else (0.0, 0.0)
    lanes = {
        party: [
            ((moment - first) / ((last - first) or 1.0), each["direction"], each["bytes"])
            for moment, each in zip(moments[party], lane, strict=True)
        ]
        for party, lane in verdict.messages.items()
    }
    counted = Counter(
        (party, each["kind"], each["direction"])
        for party, lane in verdict.messages.items()
        for each in lane
    )
    weighed: Counter[tuple[str, str, str]] = Counter()
    for party, lane in verdict.messages.items():
        for each in lane:
            weighed[party, each["kind"], each["direction"]] += each["bytes"]
    rows = [(*key, str(count), amount(weighed[key])) for key, count in sorted(counted.items())]
    silent = [party for party, lane in verdict.messages.items() if not lane]
    rows += [(party, "none", "-", "0", amount(0)) for party in silent]
    total = sum(weighed.values())
    about = f"{sum(counted.values())} messages of {amount(total)} to and from {len(lanes)} parties."
    ends = ("first message", "last message") if every else ("no message", "")
    picture = charts.timeline("messages", heading, about, lanes, ends)
    head = ("Party", "Message", "Direction", "Count", "Bytes")
    signs = (("received", "Received by the partner"), ("sent", "Sent by the partner"))
    return Chapter(
        "messages",
        heading,
        reading,
        signs,
        (("Bytes over time", picture),),
        Table(head, tuple(rows)),
    )


def _moments(lanes: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[float]]:
    """Return when each message went: seconds or dates where they are told, else its place."""
    found: dict[str, list[float]] = {}
    for party, lane in lanes.items():
        told = [each.get("at") for each in lane]
        if all(isinstance(at, str) for at in told):
            found[party] = [datetime.fromisoformat(str(at)).timestamp() for at in told]
        elif all(isinstance(at, int | float) for at in told):
            found[party] = [float(at) for at in told if at is not None]
        else:
            found[party] = [float(place) for place in range(len(lane))]
    return found
