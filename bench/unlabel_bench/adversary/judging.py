"""What recorded figures of honest models and fakes come to: units, a limit, and two error rates."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import mean, variance
from typing import Any

from unlabel.audit.figures import Measurement, measurements_from_json
from unlabel.audit.gate import RULES, Rule, depth_of, figures_beside, judge
from unlabel.audit.spread import RECORDED, Spread
from unlabel.audit.verdict import reaches
from unlabel.config import AuditSettings
from unlabel_bench import markdown
from unlabel_bench.adversary.fakes import FAKES
from unlabel_bench.registry import Result

#: Share of honest models that may lie outside of the limit.
REFUSED = 0.05
#: By how much the reach of labels that were learnt from is stretched for others: without it, 18 in
#: 100 honest models of labels that were held out are refused.
MARGIN = 1.5
#: Least and most freedom that recorded spreads may count with.
FREEDOM = (2.0, 30.0)
HONEST = {"retrained": "bottoms", "refitted": "top"}


def is_held_out(line: Result) -> bool:
    """Return whether a line shows what limits are worth, and decided none."""
    return bool(line["label"] % 2)


def distances(
    measures: dict[str, Measurement], honest: str
) -> Iterator[tuple[str, Rule, float, Sequence[float]]]:
    """Yield measure, rule, value and references of what is judged.

    honest  the depth up to which a model is honest; deeper rules say nothing of it
    """
    for name, rule in RULES.items():
        figures = figures_beside(name, measures[name]) if reaches(honest, rule.depth) else ()
        for each in figures:
            if each.now is not None and each.references:
                yield name, rule, each.now, each.references


def calibrated(lines: Sequence[Result]) -> dict[str, Spread]:
    """Return the recorded spread of each measure.

    With d = (x - m) sqrt(n / (n + 1)) the distance of an honest model from the mean m of its n
    references, on the measure's scale, and s_g^2 the mean of d^2 in a group (a label in a scene) of
    k_g figures: s0^2 is the mean of s_g^2, and the freedom v is how much evidence s0 is, by the
    moments of a scaled F: var ln s_g^2 = 2 / k_g + 2 / v (to first order).
    """
    groups: dict[str, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        measures = measurements_from_json(line["values"])
        for name, _, now, references in distances(measures, HONEST[line["kind"]]):
            scale, count = RECORDED[name].scale, len(references)
            gap = scale(now) - mean(map(scale, references))
            group = groups[name][line["scene"], line["label"]]
            group.append(gap**2 * count / (count + 1))
    return {name: _spread(name, list(some.values())) for name, some in groups.items()}


def _spread(name: str, groups: Sequence[Sequence[float]]) -> Spread:
    squares = [mean(group) for group in groups]
    deviation = max(1e-6, math.sqrt(mean(squares)))
    logs = [math.log(max(each, 1e-6 * deviation**2, 1e-12)) for each in squares]
    excess = variance(logs) - mean(2 / len(group) for group in groups) if len(logs) > 1 else 0.0
    freedom = min(FREEDOM[1], max(FREEDOM[0], 2 / excess if excess > 0 else math.inf))
    freedom = round(freedom, 1) if math.isfinite(RECORDED[name].freedom) else math.inf
    spread = RECORDED[name]
    return replace(spread, deviation=float(f"{deviation:.3g}"), freedom=freedom, reach=1.0)


def with_reach(lines: Sequence[Result], spreads: Mapping[str, Spread]) -> dict[str, Spread]:
    """Return spreads whose reach all but so few models keep within that few are refused by any.

    A model is as far as its furthest figure of a measure, on the sides that count. Of all models 5
    in 100 may be refused, and all measures have an equal part in that: the reach is the quantile,
    with a margin.
    """
    farthest: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        measures = measurements_from_json(line["values"])
        most: dict[str, float] = defaultdict(float)
        for name, rule, now, references in distances(measures, HONEST[line["kind"]]):
            away = spreads[name].away(now, references)
            sides = (away if rule.above else 0.0, -away if rule.below else 0.0)
            most[name] = max(most[name], *sides)
        for name, each in most.items():
            farthest[name].append(each)
    return {
        name: replace(spread, reach=_quantile(farthest[name], 1 - REFUSED / len(spreads)))
        for name, spread in spreads.items()
    }


def _quantile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of the values do not exceed, with the margin, to a tenth."""
    place = min(len(values), math.ceil(share * (len(values) + 1))) - 1
    return math.ceil(10 * MARGIN * sorted(values)[place]) / 10


def depth_reached(line: Result, limits: AuditSettings) -> str:
    """Return the depth that the audit finds."""
    return depth_of(judge(measurements_from_json(line["values"]), limits))


def summary(lines: Sequence[Result]) -> Result:
    """Return units and limit by the labels of even numbers, and errors of all, by kind."""
    learnt = [line for line in lines if line["kind"] in HONEST and not is_held_out(line)]
    spreads = with_reach(learnt, calibrated(learnt))
    limits = AuditSettings(demand="none")
    kinds: dict[str, dict[str, Any]] = {}
    for line in lines:
        kind, depth = line["kind"], depth_reached(line, limits)
        wrong = (
            not reaches(depth, line["depth"])
            if kind in HONEST
            else reaches(depth, line["depth"]) and depth != line["depth"]
        )
        for part in ("held out" if is_held_out(line) else "learnt from",):
            entry = kinds.setdefault(kind, {"depth": line["depth"]}).setdefault(
                part, {"models": 0, "wrong": 0, "found": defaultdict(int)}
            )
            entry["models"] += 1
            entry["wrong"] += wrong
            entry["found"][depth] += 1
    return {
        "kinds": {name: kinds[name] for name in (*HONEST, *FAKES) if name in kinds},
        "errors": {
            "honest models refused": _rate(kinds, list(HONEST)),
            "fakes found too deep": _rate(kinds, list(FAKES)),
        },
        "spreads": {name: _plain(spread) for name, spread in spreads.items()},
        "applied": {name: _plain(spread) for name, spread in RECORDED.items()},
    }


def _plain(spread: Spread) -> dict[str, float | None]:
    free = spread.freedom if math.isfinite(spread.freedom) else None
    return {"deviation": spread.deviation, "freedom": free, "reach": spread.reach}


def _rate(kinds: dict[str, dict[str, Any]], names: Sequence[str]) -> Result:
    """Return models, errors and their share, by whether limits were learnt from them."""
    rates = {}
    for part in ("learnt from", "held out"):
        some = [kinds[name][part] for name in names if part in kinds.get(name, {})]
        models, wrong = sum(e["models"] for e in some), sum(e["wrong"] for e in some)
        rates[part] = {
            "models": models,
            "wrong": wrong,
            "share": wrong / models if models else None,
        }
    return rates


def table(result: Result) -> list[list[str]]:
    """Return a row a kind."""
    rows = [["kind", "true depth", "models", "wrong", "held out", "wrong", "depths found"]]
    for name, kind in result["kinds"].items():
        counts: dict[str, int] = defaultdict(int)
        cells = []
        for part in ("learnt from", "held out"):
            entry = kind.get(part, {"models": 0, "wrong": 0, "found": {}})
            cells += [str(entry["models"]), str(entry["wrong"])]
            for depth, count in entry["found"].items():
                counts[depth] += count
        depths = ", ".join(f"{depth} {count}" for depth, count in sorted(counts.items()))
        rows.append([name, kind["depth"], *cells, depths])
    return rows


def page(result: Result) -> str:
    """Return the result in Markdown."""
    rates = [
        [what, *(_share(rate[part]) for part in ("learnt from", "held out"))]
        for what, rate in result["errors"].items()
    ]
    units = [
        [name, *("-" if value is None else f"{value:g}" for value in each.values())]
        for name, each in result["spreads"].items()
    ]
    return markdown.page(
        "# Fakes and honest models before the audit",
        "Models retrained, or tops refitted, without the label must reach the depth that they "
        "truly have; fakes must not be found deeper. Units and limit come from labels of even "
        "numbers (learnt from). Those of odd numbers decided no limit, but were seen when measures "
        f"and the margin of {MARGIN:g} were chosen: they are no clean test.",
        markdown.table([["", "learnt from", "held out"], *rates]),
        "## By kind",
        markdown.table(table(result)),
        "## Units",
        "One spread is `reach` deviations; `src/unlabel/audit/spread.py` has these figures.",
        markdown.table([["measure", "deviation", "freedom", "reach"], *units]),
    )


def _share(rate: Result) -> str:
    if rate["share"] is None:
        return "-"
    return f"{100 * rate['share']:.1f} % ({rate['wrong']} of {rate['models']})"
