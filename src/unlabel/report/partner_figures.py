"""What the partners saw: what they could learn about the request, and what was sent to them."""

from __future__ import annotations

from collections import Counter

from unlabel.audit.verdict import Verdict
from unlabel.report import charts
from unlabel.report.chapter import Chapter, Table
from unlabel.report.charts import Mark, Row
from unlabel.report.words import interval, number
from unlabel.words import amount


def leakage(verdict: Verdict) -> Chapter:
    """Show what partners could find out, against chance and against the proven limit."""
    privacy = verdict.privacy
    heading = "What the partners could learn about the request"
    reading: tuple[str, ...] = (
        "How often attacks on everything a partner saw name what was forgotten. The dashed line is "
        "what guessing gives: an attack at that line has learnt nothing.",
    )
    if privacy.sentence:
        reading += (privacy.sentence,)
    attacks = [each for each in privacy.attacks or () if each.value is not None]
    if not attacks:
        reading += ("No attack was tried on what the partners of this request saw.",)
    best, chance = privacy.best_guess if privacy.holds else None, privacy.chance
    rows = [
        Row(each.name, (Mark("forgotten", each.value, each.low, each.high),), each.chance)
        for each in attacks
        if each.value is not None
    ]
    lines = [
        (each.name, interval(each.estimate, "share"), number(each.chance, "share"))
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
    every = [each.at for lane in verdict.messages.values() for each in lane]
    first, last = (min(every), max(every)) if every else (0.0, 0.0)
    lanes = {
        party: [
            ((each.at - first) / ((last - first) or 1.0), each.direction, each.bytes)
            for each in lane
        ]
        for party, lane in verdict.messages.items()
    }
    counted = Counter(
        (party, each.kind, each.direction)
        for party, lane in verdict.messages.items()
        for each in lane
    )
    weighed: Counter[tuple[str, str, str]] = Counter()
    for party, lane in verdict.messages.items():
        for each in lane:
            weighed[party, each.kind, each.direction] += each.bytes
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
