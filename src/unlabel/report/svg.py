"""The strokes that the report's pictures are made of: SVG, in colours of the page's style sheet.

Every picture is 360 units wide, so that its letters keep their size on a phone, and says in words
what it shows to who cannot see it. All text goes through `Markup.format`, which escapes it: a
label's name is the user's and may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

WIDTH = 360
#: Where the names of rows end and the plot begins, and where it ends.
LEFT, RIGHT = 112, 338
AXIS = 26  # room for the ticks below a plot
#: Names of the ticks of a share.
PERCENT = ("0 %", "25 %", "50 %", "75 %", "100 %")


def frame(key: str, title: str, about: str, height: float, parts: Iterable[Markup]) -> Markup:
    """Return a picture with its title and description for who cannot see it."""
    return Markup(
        '<svg role="img" class="chart" viewBox="0 0 {} {:.0f}" aria-labelledby="{}-t {}-d">'
        '<title id="{}-t">{}</title><desc id="{}-d">{}</desc>{}</svg>'
    ).format(WIDTH, height, key, key, key, title, key, about, Markup("").join(parts))


def glyph(model: str, x: float, y: float) -> Markup:
    """Return the sign of a model; they differ in shape and filling, not in colour alone."""
    r = 4
    if model == "refitted":
        corners = f"{x},{y - r - 1} {x + r + 1},{y + r} {x - r - 1},{y + r}"
        return Markup('<polygon class="mark m-{}" points="{}"/>').format(model, corners)
    if model in ("retrained", "matched"):
        corners = f"{x},{y - r - 1} {x + r + 1},{y} {x},{y + r + 1} {x - r - 1},{y}"
        return Markup('<polygon class="mark m-{}" points="{}"/>').format(model, corners)
    if model in ("limit", "mask"):
        wide, tall = (2, 2 * r + 2) if model == "limit" else (2 * r - 1, 2 * r - 1)
        return Markup(
            '<rect class="mark m-{}" x="{:.1f}" y="{:.1f}" width="{}" height="{}"/>'
        ).format(model, x - wide / 2, y - tall / 2, wide, tall)
    return Markup('<circle class="mark m-{}" cx="{:.1f}" cy="{:.1f}" r="{}"/>').format(
        model, x, y, r
    )


def bar(name: str, x: float, y: float, width: float, height: float) -> Markup:
    """Return a bar of a class of the style sheet."""
    return Markup('<rect class="bar {}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}"/>').format(
        name, x, y, width, height
    )


def legend_sign(model: str, *, as_bar: bool) -> Markup:
    """Return a model's mark, or its bar, for the legend above a picture."""
    shape = bar(f"m-{model}", 1, 3, 12, 8) if as_bar else glyph(model, 7, 7)
    return Markup('<svg class="sign" viewBox="0 0 14 14" aria-hidden="true">{}</svg>').format(shape)


def line(name: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    """Return a line of a class of the style sheet."""
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(
        name, x1, y1, x2, y2
    )


def text(words: str, x: float, y: float, anchor: str = "start", name: str = "") -> Markup:
    """Return words at a place."""
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        name, x, y, anchor, words
    )


def axis(names: Sequence[str], top: float, bottom: float, left: float = LEFT) -> list[Markup]:
    """Return ticks in quarters, with their names below a plot and a thin line up through it."""
    parts = []
    for k, name in enumerate(names):
        x = left + (RIGHT - left) * k / 4
        parts += [line("grid", x, top, x, bottom), text(name, x, bottom + 16, "middle", "tick")]
    return parts
