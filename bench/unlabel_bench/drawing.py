"""Pictures: a bench says what is to be seen as data, and this module draws it.

matplotlib is needed for nothing else, so it is imported late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from unlabel.errors import SettingsError
from unlabel.files import writing

#: Colours that stay apart for people who see few of them.
COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"),
    *("#882255", "#117733", "#332288", "#ddcc77", "#aa4499", "#44aa99"),
)
MARKS = "osD^vP*Xdh<>ph"
GRID = {"color": "#dddddd", "lw": 0.6}

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Series:
    """Points of one method or model.

    x, y     places and figures; bars that lie (`rows`) have their places on the other axis
    error    deviations, or two lists: how far each interval reaches below and above
    options  of matplotlib
    """

    x: Sequence[float]
    y: Sequence[float]
    label: str | None = None
    error: Any = None
    kind: Literal["points", "bars", "rows"] = "points"
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    lines   (axis, value, options): straight lines across, `x` for a vertical one
    texts   (text, place, options)
    xticks  places and names; yticks likewise
    ylim    from and to, or a function from the limits that matplotlib would choose
    open    leave out the upper and the right edge
    image   pixels to show; `bare` leaves out all edges and ticks
    """

    series: Sequence[Series]
    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    lines: Sequence[tuple[Literal["x", "y"], float, Options]] = ()
    texts: Sequence[tuple[str, tuple[float, float], Options]] = ()
    xticks: tuple[Sequence[float], Sequence[Any]] | None = None
    yticks: tuple[Sequence[float], Sequence[Any]] | None = None
    ticks: Options = field(default_factory=dict)
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | Callable[[float, float], tuple[float, float]] | None = None
    xscale: str = "linear"
    yscale: str = "linear"
    grid: Options | None = None
    open: bool = False
    legend: Options | None = None
    titled: Options = field(default_factory=dict)
    image: Any = None
    bare: bool = False


@dataclass(frozen=True)
class Picture:
    """Panels in rows, a title above them and perhaps one legend for all.

    rect     what tight_layout may use
    options  of matplotlib's `subplots`
    """

    rows: Sequence[Sequence[Panel | None]]
    size: tuple[float, float]
    title: str = ""
    title_size: float = 11
    legend: Options | None = None
    rect: tuple[float, float, float, float] | None = None
    options: Options = field(default_factory=dict)


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def expect_plots(picture: str) -> None:
    """Raise where a picture is wanted that cannot be drawn, before hours go into figures."""
    if picture and not can_draw():
        raise SettingsError(
            "A picture needs matplotlib; install it with pip install 'unlabel[plots]'."
        )


def colour(number: int) -> str:
    """Return the colour of a series by its number."""
    return COLOURS[number % len(COLOURS)]


def mark(number: int) -> str:
    """Return the marker of a series by its number."""
    return MARKS[number % len(MARKS)]


def with_deviations(
    places: Sequence[float],
    spreads: Sequence[Mapping[str, float] | None],
    number: int,
    label: str | None = None,
    **options: Any,
) -> Series:
    """Return means with their deviations as points; what was not measured has none."""
    points = [(place, x) for place, x in zip(places, spreads, strict=True) if x]
    look = {"color": colour(number), "marker": mark(number), "capsize": 2, **options}
    return Series(
        [place for place, _ in points],
        [x["mean"] for _, x in points],
        label,
        [x["deviation"] for _, x in points],
        options=look,
    )


def draw(picture: Picture, path: Path) -> None:
    """Write a picture as PNG."""
    expect_plots("some")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    width = max(map(len, picture.rows))
    figure, grid = pyplot.subplots(
        len(picture.rows), width, figsize=picture.size, squeeze=False, **picture.options
    )
    for places, panels in zip(grid, picture.rows, strict=True):
        for axes, panel in zip(places, [*panels, *[None] * (width - len(panels))], strict=True):
            if panel is None:
                axes.set_visible(False)
            else:
                _panel(axes, panel)
    if picture.title:
        figure.suptitle(picture.title, fontsize=picture.title_size)
    if picture.legend is not None:
        handles = {
            text: handle
            for axes in grid.flat
            for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        if handles:
            figure.legend(handles.values(), handles, **picture.legend)
    if "layout" not in picture.options:
        figure.tight_layout(rect=picture.rect or (0, 0, 1, 1))
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110, format="png")
    pyplot.close(figure)


def _panel(axes: Any, panel: Panel) -> None:
    if panel.image is not None:
        axes.imshow(panel.image, cmap="gray_r", interpolation="nearest")
    if panel.bare:
        axes.set_axis_off()
    for series in panel.series:
        _series(axes, series)
    for axis, value, options in panel.lines:
        (axes.axvline if axis == "x" else axes.axhline)(value, **options)
    for text, place, options in panel.texts:
        axes.annotate(text, place, **options)
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel)
    if panel.xscale != "linear":
        axes.set_xscale(panel.xscale)
        axes.minorticks_off()
    if panel.yscale != "linear":
        axes.set_yscale(panel.yscale)
    if panel.title:
        axes.set_title(panel.title, **panel.titled)
    if panel.xticks is not None:
        axes.set_xticks(*panel.xticks, **panel.ticks)
    if panel.yticks is not None:
        axes.set_yticks(*panel.yticks)
    if panel.xlim is not None:
        axes.set_xlim(*panel.xlim)
    if panel.ylim is not None:
        axes.set_ylim(*(panel.ylim(*axes.get_ylim()) if callable(panel.ylim) else panel.ylim))
    if panel.grid is not None:
        axes.grid(**panel.grid)
        axes.set_axisbelow(True)
    if panel.open:
        axes.spines[["top", "right"]].set_visible(False)
    if panel.legend is not None and axes.get_legend_handles_labels()[0]:
        axes.legend(**panel.legend)


def _series(axes: Any, series: Series) -> None:
    options = {"label": series.label, **series.options}
    if series.kind == "bars":
        axes.bar(series.x, series.y, yerr=series.error, **options)
    elif series.kind == "rows":
        axes.barh(series.y, series.x, xerr=series.error, **options)
    elif series.error is not None:
        axes.errorbar(series.x, series.y, yerr=series.error, **options)
    else:
        axes.plot(series.x, series.y, **options)
