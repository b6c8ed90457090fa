"""Retained accuracy against what is left in the partners' models, each row a mark.

The cross is a retrained model: what it has and what it knows. A blind or tuned run has nothing
from the label in any model by construction, so it stands in a strip of its own, where probes of
features would only find what features always hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from unlabel.report.svg import RIGHT, frame, glyph, legend_sign, line, text
from unlabel_bench.scoreboard.rows import Row, group

#: Group of methods -> sign, as the report's pictures have them, and its name.
GROUPS = {
    "ours": ("forgotten", "hidden, renormalise, deep"),
    "paper": ("refitted", "the paper's ascent"),
    "published": ("original", "other published methods"),
    "exact": ("retrained", "exact: blind, tuned; retrained"),
    "control": ("mask", "controls that forget nothing"),
}
LEFT, STRIP, TOP, BOTTOM = 44, 78, 14, 262
#: Residual knowledge and points of accuracy at the edges; what lies outside stands on the edge.
RESIDUAL, POINTS = (-0.25, 1.25), (-15.0, 5.0)


def plot(rows: Sequence[Row]) -> Markup:
    """Return the picture."""
    parts: list[Markup] = []
    for value in (5, 0, -5, -10, -15):
        y = _y(value)
        parts += [
            line("chance" if value == 0 else "rule", LEFT, y, RIGHT, y),
            text(
                f"{value:+d}".replace("-", "\N{MINUS SIGN}") if value else "0",
                LEFT - 6,
                y + 4,
                "end",
                "tick",
            ),
        ]
    for share, name in ((0.0, "0"), (0.5, "0.5"), (1.0, "1")):
        x = _x(share)
        parts += [
            line("chance" if share == 0 else "rule", x, TOP, x, BOTTOM),
            text(name, x, BOTTOM + 16, "middle", "tick"),
        ]
    parts += [
        line("grid", STRIP + 8, TOP, STRIP + 8, BOTTOM),
        text("exact", (LEFT + STRIP) / 2 + 4, BOTTOM + 16, "middle", "tick"),
        text("residual knowledge, linear probe", (STRIP + RIGHT) / 2, BOTTOM + 34, "middle"),
    ]
    parts += [_mark(number, row) for number, row in enumerate(rows) if is_drawn(row)]
    about = (
        "Marks of the rows of the table below that have both figures: points of retained accuracy "
        "above a retrained model's, upwards, against residual knowledge, to the right."
    )
    return frame("plot", "Retained accuracy against residual knowledge", about, 306, parts)


def is_drawn(row: Row) -> bool:
    """Return whether a row has a place in the picture."""
    placed = row["residual"] is not None or row["guarantee"] == "exact"
    return placed and row["against_retrained"] is not None


def _mark(number: int, row: Row) -> Markup:
    above = row["against_retrained"]
    exact = row["residual"] is None
    x = (LEFT + STRIP) / 2 + 4 if exact else _x(row["residual"]["mean"])
    left = "exact" if exact else f"residual {row['residual']['mean']:.2f}"
    words = f"{row['method']}, {row['data']}: {above:+.1f} points, {left}"
    return Markup('<g data-row="{}"><title>{}</title>{}</g>').format(
        number, words, glyph(GROUPS[group(row)][0], round(x, 1), round(_y(above), 1))
    )


def legend() -> Markup:
    """Return the groups and their signs as the entries of a list."""
    return Markup("").join(
        Markup("<li>{}{}</li>").format(legend_sign(sign, as_bar=False), name)
        for sign, name in GROUPS.values()
    )


def _x(residual: float) -> float:
    return _between(residual, RESIDUAL, STRIP + 14, RIGHT - 4)


def _y(points: float) -> float:
    return _between(points, POINTS, BOTTOM, TOP)


def _between(value: float, ends: tuple[float, float], start: float, end: float) -> float:
    share = (min(max(value, ends[0]), ends[1]) - ends[0]) / (ends[1] - ends[0])
    return start + share * (end - start)
