"""The report's pictures: rows of dots, bars, distributions, maps and timelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from markupsafe import Markup

from unlabel.report.svg import (
    AXIS,
    LEFT,
    PERCENT,
    RIGHT,
    WIDTH,
    axis,
    bar,
    frame,
    glyph,
    line,
    text,
)
from unlabel.report.wording import short
from unlabel.words import amount

LETTERS = 16  # of a name that fit left of the plot
LINE, LINES = 48, 3  # letters in a line of a name above its row, and lines of one
STEP = 11  # between marks of one row


@dataclass(frozen=True)
class Mark:
    """A measured value: the model it belongs to, and its interval where there is one."""

    model: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Row:
    """A line of a chart: its name, the values in it, and what chance alone would give."""

    name: str
    marks: tuple[Mark, ...]
    chance: float | None = None
    strong: bool = False


def dot_rows(
    key: str, title: str, about: str, rows: Sequence[Row], ticks: Sequence[str] = PERCENT
) -> Markup:
    """Return a row a name: each value from 0 to 1 as a dot with its interval.

    Names stand left of the plot where all of them fit there, else each above its row.
    """
    beside = all(len(row.name) <= LETTERS for row in rows)
    left = LEFT if beside else 18
    names = [[row.name] if beside else name_lines(row.name) for row in rows]
    aboves = [0 if beside else 2 + 14 * len(lines) for lines in names]

    def at(value: float) -> float:
        return left + (RIGHT - left) * min(1.0, max(0.0, value))

    heights = [
        above + STEP * max(1, len(row.marks)) + 11 for row, above in zip(rows, aboves, strict=True)
    ]
    bottom = 4 + sum(heights)
    parts, top = axis(ticks, 4, bottom, left), 4.0
    for row, words, above, height in zip(rows, names, aboves, heights, strict=True):
        parts.append(line("rule", 0, top, RIGHT, top))
        name = "name strong" if row.strong else "name"
        foot = top + height / 2 + 4 if beside else top + 15
        for index, words_of_line in enumerate(words):
            parts.append(text(words_of_line, 0, foot + 14 * index, "start", name))
        if row.chance is not None:
            x = at(row.chance)
            parts.append(line("chance", x, top + above + 3, x, top + height - 2))
        for index, mark in enumerate(row.marks):
            y = top + above + 11 + STEP * index
            if mark.low is not None and mark.high is not None:
                parts.append(line(f"range m-{mark.model}", at(mark.low), y, at(mark.high), y))
            parts.append(glyph(mark.model, at(mark.value), y))
        top += height
    return frame(key, title, about, bottom + AXIS, parts)


def name_lines(name: str) -> list[str]:
    """Return a name as lines that fit the width of a picture.

    >>> name_lines("shop: rows that moved most (area under the curve)")
    ['shop: rows that moved most (area under the', 'curve)']
    """
    return wrap(name, LINE, max_lines=LINES, placeholder="…") or [""]


def bars(key: str, title: str, about: str, rows: Sequence[Row]) -> Markup:
    """Return a bar a value, those of one name together, from 0 to 100 %."""
    thick = 9
    heights = [thick * max(1, len(row.marks)) + 10 for row in rows]
    bottom = 4 + sum(heights)
    parts, top = axis(PERCENT, 4, bottom), 4.0
    for row, height in zip(rows, heights, strict=True):
        name = "strong" if row.strong else ""
        parts.append(text(short(row.name, LETTERS), 0, top + height / 2 + 4, "start", name))
        for index, mark in enumerate(row.marks):
            y, width = top + 5 + thick * index, (RIGHT - LEFT) * min(1.0, mark.value)
            if width:
                parts.append(bar(f"m-{mark.model}", LEFT, y, width, thick - 1.5))
        top += height
    return frame(key, title, about, bottom + AXIS, parts)


def histogram(
    key: str, title: str, about: str, edges: Sequence[float], groups: Mapping[str, Sequence[int]]
) -> Markup:
    """Return two distributions over each other: members as an area, strangers as a line.

    Each is drawn as shares of its own rows, so that a large group does not hide a small one.
    """
    left, right, top, bottom = 8.0, WIDTH - 8.0, 8.0, 128.0
    low, high = edges[0], edges[-1]
    heights = {n: [c / max(1, sum(counts)) for c in counts] for n, counts in groups.items()}
    peak = max((max(shares) for shares in heights.values()), default=0.0) or 1.0

    def at(value: float) -> float:
        return left + (right - left) * (value - low) / (high - low)

    def steps(shares: Sequence[float]) -> str:
        points = [f"{at(low):.1f},{bottom}"]
        for start, end, share in zip(edges, edges[1:], shares, strict=False):
            y = bottom - (bottom - top) * share / peak
            points += [f"{at(start):.1f},{y:.1f}", f"{at(end):.1f},{y:.1f}"]
        return " ".join([*points, f"{at(high):.1f},{bottom}"])

    parts = [line("grid", left, bottom, right, bottom)]
    parts += [
        Markup('<polyline class="{}" points="{}"/>').format(name, steps(heights[name]))
        for name in ("members", "strangers")
        if name in heights
    ]
    if low < 0 < high:
        parts.append(line("chance", at(0), top, at(0), bottom))
    parts += [
        text("← sure it is not", left, bottom + 16, "start", "tick"),
        text("sure that it is →", right, bottom + 16, "end", "tick"),
    ]
    return frame(key, title, about, bottom + AXIS, parts)


def scatter(
    key: str,
    title: str,
    about: str,
    points: Sequence[Sequence[float]],
    box: tuple[float, float, float, float],
    names: Sequence[str],
    forgotten: Sequence[int],
) -> Markup:
    """Return rows as dots: those of forgotten labels stand out, the others carry their names.

    `box` is (x low, x high, y low, y high) of all maps that are to be compared.
    """
    side = WIDTH - 20.0

    def at(x: float, y: float) -> tuple[float, float]:
        wide, tall = (box[1] - box[0]) or 1.0, (box[3] - box[2]) or 1.0
        return 10 + side * (x - box[0]) / wide, 10 + side * 0.8 * (box[3] - y) / tall

    height = 20 + side * 0.8
    parts = [
        Markup('<rect class="field" x="1" y="1" width="{}" height="{:.0f}"/>').format(
            WIDTH - 2, height - 2
        )
    ]
    inside: dict[int, list[tuple[float, float]]] = {}
    for x, y, label in points:
        inside.setdefault(int(label), []).append(at(x, y))
    for label in sorted(inside, key=lambda each: each in forgotten):
        name = "dot-forgotten" if label in forgotten else "dot"
        parts += [
            Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{}"/>').format(
                name, x, y, 2.6 if label in forgotten else 1.8
            )
            for x, y in inside[label]
        ]
    return frame(key, title, about, height, [*parts, *_names(inside, names, forgotten)])


def _names(
    inside: Mapping[int, Sequence[tuple[float, float]]],
    names: Sequence[str],
    forgotten: Sequence[int],
) -> list[Markup]:
    """Return labels' names in the middle of their dots, where two would not cover each other."""
    taken: list[tuple[float, float, float]] = []
    parts = []
    for label in sorted(inside, key=lambda each: (each not in forgotten, -len(inside[each]))):
        places = inside[label]
        words = short(names[label], 12)
        half = 4.0 * len(words) + 4
        x = sorted(place[0] for place in places)[len(places) // 2]
        y = sorted(place[1] for place in places)[len(places) // 2]
        x = min(max(x, half + 4), WIDTH - half - 4)
        y = min(max(y, 20), 20 + (WIDTH - 20) * 0.8 - 10)
        if all(abs(x - a) > half + b or abs(y - c) > 18 for a, c, b in taken):
            taken.append((x, y, half))
            name = "halo strong name-forgotten" if label in forgotten else "halo"
            parts.append(text(words, x, y + 4, "middle", name))
    return parts


def timeline(
    key: str,
    title: str,
    about: str,
    lanes: Mapping[str, Sequence[tuple[float, str, int]]],
    ends: tuple[str, str],
) -> Markup:
    """Return a lane a party: bytes it received as bars upwards, bytes it sent downwards.

    A lane holds (place from 0 to 1, direction, bytes) a message. Bars of all lanes have one scale.
    """
    bins, half, gap = 36, 34.0, 26.0
    left, right = 8.0, WIDTH - 8.0
    wide = (right - left) / bins
    totals: dict[str, dict[str, list[int]]] = {}
    for party, messages in lanes.items():
        totals[party] = {"received": [0] * bins, "sent": [0] * bins}
        for place, direction, count in messages:
            totals[party][direction][min(bins - 1, int(place * bins))] += count
    peak = max((n for lane in totals.values() for side in lane.values() for n in side), default=0)
    parts, top = [], 0.0
    for party, lane in totals.items():
        middle = top + gap + half
        sent, received = sum(lane["sent"]), sum(lane["received"])
        crossed = f"received {amount(received)}, sent {amount(sent)}"
        parts += [
            text(short(party, LETTERS), left, top + 16, "start", "strong"),
            text(crossed, right, top + 16, "end", "tick"),
            line("grid", left, middle, right, middle),
        ]
        for side, counts in lane.items():
            for index, count in enumerate(counts):
                if count:
                    x, tall = left + wide * index + 0.5, half * count / peak
                    y = middle - tall if side == "received" else middle
                    parts.append(bar(side, x, y, wide - 1, round(max(0.8, tall), 1)))
        top = middle + half + 8
    parts += [
        text(ends[0], left, top + 14, "start", "tick"),
        text(ends[1], right, top + 14, "end", "tick"),
    ]
    return frame(key, title, about, top + AXIS, parts)
