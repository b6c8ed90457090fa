"""Where theory and measurement of `alignment` part, in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from unlabel.bench.alignment_theory import EPSILONS, KINDS, Figures


def says(found: dict[str, Any]) -> list[str]:
    """Return in sentences where theory and measurement agree and where they part."""
    figures: Figures = found["figures"]
    lines = [*_says_cosine(figures), *_says_limit(found["runs"]), *_says_spread(figures)]
    lines += _says_bound(found["bounds"])
    for check in found["coefficient"][:1]:
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
    ratios = [x["cross_to_main"] for x in found["runs"] if x["cross_to_main"] is not None]
    if ratios:
        angles = [x["cross_main_cosine"] for x in found["runs"] if x["cross_to_main"] is not None]
        lines.append(
            f"Dropped term: in the trained federations, at a mean loss of "
            f"{mean(x['loss'] for x in found['runs']):.4f}, it is {min(ratios):.2f} to "
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
        own = [x for x in bounds if x["epsilon"] == epsilon and x["kind"] == "mixed"]
        for x in own:
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
