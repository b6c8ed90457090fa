"""The figures of `alignment` as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from unlabel.bench.alignment_theory import EPSILONS, KINDS
from unlabel.errors import SettingsError
from unlabel.files import writing


def find_figure() -> Any:
    """Return matplotlib's Figure; it is no part of what the package needs."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingsError(
            "A picture needs matplotlib; install it with pip install 'unlabel[plots]'."
        ) from error
    return Figure


def draw(
    found: dict[str, Any],
    path: Path,
    *,
    title: str,
    samples: Sequence[int],
) -> None:
    """Draw cosine against n for every model, and below it the share of draws beside the bound."""
    models = list(dict.fromkeys(x["model"] for x in found["figures"]))
    figure = find_figure()(figsize=(4 * len(models), 7), layout="constrained")
    axes = figure.subplots(2, len(models), squeeze=False, sharey="row")
    epsilon = EPSILONS[1]
    for column, model in enumerate(models):
        above, below = axes[0][column], axes[1][column]
        for kind, colour in zip(KINDS, ("tab:grey", "tab:blue"), strict=True):
            own = [x for x in found["figures"] if x["model"] == model and x["kind"] == kind]
            n = [x["samples"] for x in own]
            above.plot(n, [x["mean"] for x in own], "o-", color=colour, label=f"{kind}, mean")
            low = [x["quantile_5"] for x in own]
            above.plot(n, low, "v--", color=colour, label=f"{kind}, 5 % of draws below")
            share = [x["share_at_most"][str(epsilon)] for x in own]
            below.plot(n, share, "o-", color=colour, label=f"{kind}, measured")
        limit = median(x["limit_mixed"][model] for x in found["runs"])
        above.axhline(limit, color="tab:blue", lw=0.8, ls=":", label="mixed, all samples (median)")
        bound = next(
            x
            for x in found["bounds"]
            if x["model"] == model and x["kind"] == "mixed" and x["epsilon"] == epsilon
        )
        first = next((c for c in bound["c_at"].values() if c), None)
        if first is not None:
            grid = np.geomspace(min(samples), max(samples), 50)
            # exp(-c n eps^2) = 5 % solved for eps.
            above.plot(
                *(grid, 1 - np.sqrt(math.log(20) / (first * grid))),
                *("tab:red",),
                label="bound on the 5 %, c of the smallest n",
            )
            below.plot(
                *(grid, np.exp(-first * grid * epsilon**2)),
                *("tab:red",),
                label=f"exp(-c n eps^2), c = {first:.2g}",
            )
        above.set(title=model, xscale="log", ylim=(-0.3, 1.02))
        below.set(xscale="log", xlabel="few-shot samples n", ylim=(-0.02, 1.02))
        for axis in (above, below):
            axis.set_xticks(samples, [str(n) for n in samples])
            axis.minorticks_off()
            axis.grid(alpha=0.3)
        below.legend(fontsize=8)
    axes[0][0].set_ylabel("cosine with the label's full gradient")
    axes[1][0].set_ylabel(f"share of draws with cosine <= {1 - epsilon:.1f}")
    axes[0][-1].legend(fontsize=8)
    figure.suptitle(title)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="png", dpi=110)
