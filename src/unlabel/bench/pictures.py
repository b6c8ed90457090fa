"""What all pictures of benches share; matplotlib is needed for these alone, so it comes late."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from unlabel.errors import SettingsError
from unlabel.files import writing

#: Colours that stay apart for people who see few of them.
COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"),
    *("#882255", "#117733", "#332288", "#ddcc77", "#aa4499", "#44aa99"),
)
MARKS = "osD^vP*Xdh<>ph"


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def expect_plots(picture: str) -> None:
    """Raise where a picture is asked for that cannot be drawn, before hours go into figures."""
    if picture and not can_draw():
        raise SettingsError(
            "A picture needs matplotlib; install it with pip install 'unlabel[plots]'."
        )


def new_plot() -> Any:
    """Return matplotlib's pyplot, drawing into files."""
    expect_plots("some")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save(pyplot: Any, figure: Any, path: Path) -> None:
    """Write a figure and let go of it."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110, format="png")
    pyplot.close(figure)


def labels_in_words(request: str) -> str:
    """Return the labels of a request for people.

    >>> labels_in_words("0"), labels_in_words("0+2")
    ('label 0', 'labels 0, 2')
    """
    return f"{'labels' if '+' in request else 'label'} {request.replace('+', ', ')}"


def short_name(name: str) -> str:
    """Return a method's name for an axis: without the preset, which the title tells.

    >>> short_name("mixup-ascent@resnet18-cifar10:lr=0.001")
    'mixup-ascent lr=0.001'
    """
    head, *words = name.split(":")
    return " ".join([head.partition("@")[0], *words])
