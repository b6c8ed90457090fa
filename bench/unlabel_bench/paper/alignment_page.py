"""The figures of `alignment`: sentences of where theory and measurement part, table, picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean, median
from typing import Any

import numpy as np

from unlabel_bench.drawing import Panel, Picture, Series
from unlabel_bench.paper.alignment_theory import EPSILONS, KINDS, Figures
from unlabel_bench.registry import Result


def table(result: Result) -> list[list[str]]:
    """Return the cosines as rows for people, then the sentences."""
    heads = [f"cos <= {1 - eps:.1f}" for eps in EPSILONS]
    rows = [["model", "kind", "n", "mean", "5 %", "cos <= 0", *heads]]
    for x in result["figures"]:
        shares = [x["share_at_most_0"], *x["share_at_most"].values()]
        rows.append(
            [x["model"], x["kind"], str(x["samples"])]
            + [f"{x['mean']:.3f}", f"{x['quantile_5']:.3f}"]
            + [f"{100 * share:.1f} %" for share in shares]
        )
    return rows


def says(result: Result) -> list[str]:
    """Return in sentences where theory and measurement agree and where they part."""
    figures: Figures = result["figures"]
    lines = [*_says_cosine(figures), *_says_limit(result["runs"]), *_says_spread(figures)]
    lines += _says_bound(result["bounds"])
    for check in result["coefficient"][:1]:
        lines.append(
            f"Coefficient: with lambdas {check['lambdas']} the linear network's mixed gradient has "
            f"{check['second']['main']:.4f} of the unmixed one; our algebra says "
            f"{check['main']:.4f}, the paper's formula {check['paper_main']:.4f}."
        )
        lines.append(
            f"Dropped term: on that network |mean(e) mean(h)^T| is "
            f"{check['second']['cross_to_main']:.2f} of the main term (cosine "
            f"{check['second']['cross_main_cosine']:.2f}), so the slope on the unmixed gradient "
            f"alone is {check['second']['slope_on_main_alone']:.2f}."
        )
    ratios = [x["cross_to_main"] for x in result["runs"] if x["cross_to_main"] is not None]
    if ratios:
        angles = [x["cross_main_cosine"] for x in result["runs"] if x["cross_to_main"] is not None]
        lines.append(
            f"Dropped term: in the trained federations, at a mean loss of "
            f"{mean(x['loss'] for x in result['runs']):.4f}, it is {min(ratios):.2f} to "
            f"{max(ratios):.2f} of the main term for the top, so it does not vanish with the loss; "
            f"its cosine with the main term is {min(angles):.2f} to {max(angles):.2f}, so dropping "
            f"it does no harm to the sign."
        )
    return lines


def _says_cosine(figures: Figures) -> list[str]:
    lines = []
    for n in dict.fromkeys(x["samples"] for x in figures):
        means = {
            kind: [x["mean"] for x in figures if x["samples"] == n and x["kind"] == kind]
            for kind in KINDS
        }
        wrong = {
            kind: max(
                x["share_at_most_0"] for x in figures if x["samples"] == n and x["kind"] == kind
            )
            for kind in KINDS
        }
        lines.append(
            f"n = {n}: mean cosine {_range(means['mixed'])} mixed and {_range(means['unmixed'])} "
            f"unmixed; at worst {100 * wrong['mixed']:.1f} % of draws point the wrong way mixed, "
            f"{100 * wrong['unmixed']:.1f} % unmixed."
        )
    return lines


def _says_limit(runs: Figures) -> list[str]:
    mixed = [v for x in runs for v in x["limit_mixed"].values()]
    plain = [v for x in runs for v in x["limit_unmixed"].values()]
    sizes = [x["limit_samples"] for x in runs]
    text = (
        f"Limit: with {min(sizes)} to {max(sizes)} samples the mixed gradient has cosine "
        f"{_range(mixed)} with the full one, the unmixed {_range(plain)}"
    )
    whole = [v for x in runs if x["limit_samples"] == x["rows"] for v in x["limit_mixed"].values()]
    if whole:
        text += (
            f"; over all rows of a label mixing leaves it at 0.9 or less in "
            f"{sum(value <= 0.9 for value in whole)} of {len(whole)} cases, where the bound at "
            f"eps = 0.1 cannot hold for large n"
        )
    return [text + "."]


def _says_spread(figures: Figures) -> list[str]:
    most = max(x["samples"] for x in figures)
    spreads = {(x["model"], x["kind"]): x["spread"] for x in figures if x["samples"] == most}
    ratios = [
        spreads[m, "mixed"] / spreads[m, "unmixed"]
        for m, kind in spreads
        if kind == "mixed" and spreads[m, "unmixed"]
    ]
    if not ratios:
        return []
    return [
        f"Variance: at n = {most} the mixed gradient varies {_range(ratios)} times as much as the "
        f"unmixed one, relative to its length squared; were its mixtures independent samples, it "
        f"would be {1 / (2 * most):.4f} times."
    ]


def _says_bound(bounds: Figures) -> list[str]:
    lines = []
    for epsilon in EPSILONS:
        for x in (x for x in bounds if x["epsilon"] == epsilon and x["kind"] == "mixed"):
            fitted = ", ".join(
                f"{n}: {'any' if c is None else f'{c:.2g}'}" for n, c in x["c_at"].items()
            )
            lines.append(
                f"Bound, {x['model']}, mixed, eps = {epsilon}: largest c by n {fitted}; "
                f"{_verdict(x)}; taken alone, it shrinks for {x['runs_without_one_c']} of "
                f"{x['runs']} models and labels."
            )
    return lines


def _verdict(bound: dict[str, Any]) -> str:
    if bound["c"] is None:
        return "no draw came that low"
    parts = []
    if bound["broken_at"]:
        parts.append(f"it has shrunk by n = {', '.join(map(str, bound['broken_at']))}")
    if bound["grown_at"]:
        parts.append(f"it has grown by n = {', '.join(map(str, bound['grown_at']))}")
    return " and ".join(parts) or "one c fits every n"


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def picture(result: Result) -> Picture:
    """Return the cosine against n for every model, and below it the share of draws."""
    about = result["settings"]
    models = list(dict.fromkeys(x["model"] for x in result["figures"]))
    columns = [_column(result, model, about["samples"], models) for model in models]
    return Picture(
        [[above for above, _ in columns], [below for _, below in columns]],
        (4 * len(models), 7),
        f"{about['data']}: {len(about['labels'])} labels, {len(about['seeds'])} seeds, "
        f"{about['draws']} draws each",
        title_size=12,
        options={"sharey": "row", "layout": "constrained"},
    )


def _column(
    result: Result, model: str, samples: Sequence[int], models: Sequence[str]
) -> tuple[Panel, Panel]:
    """Return the panels of a model: cosines, and shares beside the bound."""
    epsilon = EPSILONS[1]
    above, below = [], []
    for kind, colour in zip(KINDS, ("tab:grey", "tab:blue"), strict=True):
        lines = [x for x in result["figures"] if (x["model"], x["kind"]) == (model, kind)]
        n = [x["samples"] for x in lines]
        look = {"color": colour, "marker": "o", "ls": "-"}
        lowest = {"color": colour, "marker": "v", "ls": "--"}
        low = [x["quantile_5"] for x in lines]
        share = [x["share_at_most"][str(epsilon)] for x in lines]
        above += [
            Series(n, [x["mean"] for x in lines], f"{kind}, mean", options=look),
            Series(n, low, f"{kind}, 5 % of draws below", options=lowest),
        ]
        below.append(Series(n, share, f"{kind}, measured", options=look))
    bound = next(
        x
        for x in result["bounds"]
        if (x["model"], x["kind"], x["epsilon"]) == (model, "mixed", epsilon)
    )
    first = next((c for c in bound["c_at"].values() if c), None)
    if first is not None:
        grid, red = np.geomspace(min(samples), max(samples), 50), {"color": "tab:red"}
        # exp(-c n eps^2) = 5 % solved for eps.
        reach = 1 - np.sqrt(math.log(20) / (first * grid))
        falling = np.exp(-first * grid * epsilon**2)
        text = f"exp(-c n eps^2), c = {first:.2g}"
        above.append(
            Series(grid, reach, "bound on the 5 %, c of the smallest n", options=red)  # type: ignore[arg-type]
        )
        below.append(Series(grid, falling, text, options=red))  # type: ignore[arg-type]
    limit = median(x["limit_mixed"][model] for x in result["runs"])
    dotted = {"color": "tab:blue", "lw": 0.8, "ls": ":", "label": "mixed, all samples (median)"}
    shared: dict[str, Any] = {
        "xscale": "log",
        "xticks": (samples, [str(n) for n in samples]),
        "grid": {"alpha": 0.3},
    }
    is_first = model == models[0]
    legend = {"fontsize": 8}
    return (
        Panel(
            above,
            title=model,
            ylabel="cosine with the label's full gradient" if is_first else "",
            lines=[("y", limit, dotted)],
            ylim=(-0.3, 1.02),
            legend=legend if model == models[-1] else None,
            **shared,
        ),
        Panel(
            below,
            xlabel="few-shot samples n",
            ylabel=f"share of draws with cosine <= {1 - epsilon:.1f}" if is_first else "",
            ylim=(-0.02, 1.02),
            legend=legend,
            **shared,
        ),
    )
