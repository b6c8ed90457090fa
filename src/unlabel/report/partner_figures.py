"""What the partners saw: what they could learn about the request, and what was sent to them."""

from __future__ import annotations

from collections import Counter

from unlabel.audit.figures import Estimate
from unlabel.audit.verdict import Verdict
from unlabel.report import charts
from unlabel.report.charts import Mark, Row
from unlabel.report.section import Section, Table
from unlabel.report.wording import interval, number
from unlabel.words import amount


def leakage(verdict: Verdict) -> Section:
    """Show what partners could find out, against chance and against the proven limit."""
    privacy = verdict.privacy
    heading = "What the partners could learn about the request"
    explanation: tuple[str, ...] = (
        "How often attacks on everything a partner saw name what was forgotten. The dashed line is "
        "what guessing gives: an attack at that line has learnt nothing.",
    )
    if privacy.sentence:
        explanation += (privacy.sentence,)
    rows, lines = [], []
    for each in privacy.attacks or ():
        if each.value is not None:
            mark = Mark("forgotten", each.value, each.low, each.high)
            rows.append(Row(each.name, (mark,), each.chance))
            right = interval(Estimate(each.value, each.low, each.high), "share")
            lines.append((each.name, right, number(each.chance, "share")))
    attacks = len(rows)
    if not attacks:
        explanation += ("No attack was tried on what the partners of this request saw.",)
    best, chance = privacy.best_guess if privacy.holds else None, privacy.chance
    if best is not None:
        name = "Proven limit for any attack"
        rows.append(Row(name, (Mark("limit", best),), chance, strong=True))
        lines.append((name, number(best, "share"), number(chance, "share")))
    if not rows:
        missing = "What the partners could learn was not measured."
        return Section("leakage", heading, explanation, missing=missing)
    about = f"{attacks} attacks with their success and chance."
    picture = charts.dot_rows("leakage", heading, about, rows)
    meanings = {
        "m-forgotten": "Attack, with a 95 % interval" if attacks else "",
        "chance": "Guessing",
        "m-limit": "Proven limit" if best is not None else "",
    }
    legend = tuple((name, meaning) for name, meaning in meanings.items() if meaning)
    table = Table(("Attack", "Right", "Guessing"), tuple(lines))
    pictures = (("Share of right answers", picture),)
    return Section("leakage", heading, explanation, legend, pictures, table)


def messages(verdict: Verdict) -> Section:
    """Show what crossed each party's boundary, over time."""
    heading = "What was sent to each party"
    explanation = (
        "Bytes over the course of the request: upwards what a partner received, downwards what it "
        "sent. All partners have one scale.",
    )
    if not verdict.messages and verdict.facts.construction.get("method") == "refit":
        return Section("messages", heading, ("No message was sent to any party.",))
    if not verdict.messages:
        missing = "No transcript was recorded, so what was sent to the partners is not known."
        return Section("messages", heading, explanation, missing=missing)
    every = [each.at for lane in verdict.messages.values() for each in lane]
    first, last = (min(every), max(every)) if every else (0.0, 0.0)
    lanes = {
        party: [
            ((each.at - first) / ((last - first) or 1.0), each.direction, each.bytes)
            for each in lane
        ]
        for party, lane in verdict.messages.items()
    }
    counted: Counter[tuple[str, str, str]] = Counter()
    weighed: Counter[tuple[str, str, str]] = Counter()
    for party, lane in verdict.messages.items():
        for each in lane:
            counted[party, each.kind, each.direction] += 1
            weighed[party, each.kind, each.direction] += each.bytes
    rows = [(*key, str(count), amount(weighed[key])) for key, count in sorted(counted.items())]
    silent = [party for party, lane in verdict.messages.items() if not lane]
    rows += [(party, "none", "-", "0", amount(0)) for party in silent]
    total = sum(weighed.values())
    about = f"{sum(counted.values())} messages of {amount(total)} to and from {len(lanes)} parties."
    ends = ("first message", "last message") if every else ("no message", "")
    picture = charts.timeline("messages", heading, about, lanes, ends)
    head = ("Party", "Message", "Direction", "Count", "Bytes")
    legend = (("received", "Received by the partner"), ("sent", "Sent by the partner"))
    pictures, table = (("Bytes over time", picture),), Table(head, tuple(rows))
    return Section("messages", heading, explanation, legend, pictures, table)
