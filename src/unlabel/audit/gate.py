"""The gate: levels of forgetting, not a stamp.

output  the predictions are those of a model that never had the label; hiding an output is enough
top     the active party's model has lost the label too: its own score ranks the label's samples no
        better and no worse than a retrained model's does, and no edit of its output brings the
        label back
deep    every party's bottom has: residual knowledge and the cost of relearning are near those of
        retrained models

A level holds where none of its findings fails, nor any of a level above it, and each of these has a
finding that is known. One that is unknown decides nothing by itself: for want of a retrained model,
or because on these data it cannot tell the original from retrained models. Rank and revival cannot
where the original itself would pass; what is a ratio to the original's distance from retrained
models, residual knowledge and relearning, cannot where that is below three standard errors.
"""

from __future__ import annotations

import math
from statistics import mean, stdev
from typing import Literal

from unlabel.audit.measure import LEVELS, Estimate, Level
from unlabel.audit.measurement import Measurements, ModelFigure
from unlabel.audit.residual import ERRORS, residual_knowledge, standard_error
from unlabel.audit.verdict import Finding, Ruling
from unlabel.train.demands import AuditSettings

#: Probes whose residual knowledge is judged.
PROBES = ("probe-linear", "probe-mlp", "probe-nearest")
#: Where a score ranks well enough, either way, to look like knowledge without a retrained model.
KNOWS = 0.8
#: An interval of residual knowledge that reaches further than this to either side decides nothing.
UNSURE = 0.5
NOT_MEASURED = ModelFigure(None)
NO_RETRAINED = "there is no retrained model to compare with (`--retrained 3` trains some)"
WOULD_PASS = "Nothing follows: on these data the original itself would pass."


def judge(measures: Measurements, limits: AuditSettings) -> list[Finding]:
    """Return a finding for everything that decides a level."""
    return [
        _forgotten(measures, limits),
        _retained(measures, limits),
        _membership(measures, limits),
        _rank(measures, limits),
        _revival(measures, limits),
        *_residuals(measures, limits),
        _relearning(measures, limits),
    ]


def level_of(findings: list[Finding]) -> Level | Literal["none"]:
    """Return the deepest level that holds.

    >>> passed = Finding("output", "forgotten-accuracy", "pass", "")
    >>> level_of([passed, Finding("top", "rank", "fail", "")])
    'output'
    """
    reached: Level | Literal["none"] = "none"
    for level in LEVELS:
        rulings = [finding.ruling for finding in findings if finding.level == level]
        said = [ruling for ruling in rulings if ruling != "unknown"]
        if not said or "fail" in said:
            break
        reached = level
    return reached


def _figure(measures: Measurements, name: str, model: str) -> ModelFigure:
    """Return what a measure says of a model, an undefined figure where it was not measured."""
    measured = measures[name].values if name in measures else {}
    return measured.get(model, NOT_MEASURED)


def _value(measures: Measurements, name: str, model: str) -> float | None:
    return _figure(measures, name, model).value


def _each(measures: Measurements, name: str, model: str, party: str) -> list[Estimate]:
    """Return the figures of all seeds of a model, of one party's embeddings or of all."""
    return _figure(measures, name, model).estimates(party)


def _ruled(excess: float, limit: float) -> Ruling:
    """Return pass up to a limit, warn up to twice of it, fail beyond.

    >>> _ruled(0.01, 0.02), _ruled(0.03, 0.02), _ruled(0.05, 0.02)
    ('pass', 'warn', 'fail')
    """
    return "pass" if excess <= limit else "warn" if excess <= 2 * limit else "fail"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _forgotten(measures: Measurements, limits: AuditSettings) -> Finding:
    name = "forgotten-accuracy"
    now = _value(measures, name, "forgotten")
    if now is None:
        return Finding("output", name, "unknown", "There are no test rows of the label.")
    ruling = _ruled(now, limits.forgotten)
    sentence = f"{_percent(now)} of the label's test rows are still called by it."
    return Finding("output", name, ruling, sentence)


def _retained(measures: Measurements, limits: AuditSettings) -> Finding:
    name = "retained-accuracy"
    now = _value(measures, name, "forgotten")
    aim, whose = _value(measures, name, "retrained"), "retrained models reach"
    if aim is None:
        aim, whose = _value(measures, name, "original"), "the original reaches"
    if now is None or aim is None:
        return Finding("output", name, "unknown", "There is nothing to compare accuracy with.")
    ruling = _ruled(aim - now, limits.retained)
    sentence = (
        f"The other labels are predicted with {_percent(now)} accuracy; {whose} {_percent(aim)}."
    )
    return Finding("output", name, ruling, sentence)


def _membership(measures: Measurements, limits: AuditSettings) -> Finding:
    name = "membership"
    now, aim = (_value(measures, name, model) for model in ("forgotten", "retrained"))
    if now is None or aim is None:
        sentence = f"Whether the attack succeeds as often as it should is unknown: {NO_RETRAINED}."
        return Finding("output", name, "unknown", sentence)
    # Retrained models differ among themselves; nobody is asked to be nearer than they are.
    spread = max((abs(value - aim) for value in _seeds(measures, name)), default=0.0)
    ruling = _ruled(abs(now - aim) - spread, limits.membership)
    sentence = (
        f"The membership attack calls {_percent(now)} of the forgotten training rows "
        f"members, against {_percent(aim)} in retrained models."
    )
    return Finding("output", name, ruling, sentence)


def _seeds(measures: Measurements, name: str) -> tuple[float, ...]:
    return _figure(measures, name, "retrained").known


def _indistinct(level: Level, name: str, whose: str = "") -> Finding:
    by = f" from the embeddings of {whose}" if whose else ""
    sentence = (
        f"Nothing follows{by}: on these data the original and retrained models differ by less than "
        f"{ERRORS:g} standard errors."
    )
    return Finding(level, name, "unknown", sentence)


def _rank(measures: Measurements, limits: AuditSettings) -> Finding:
    name = "rank"
    now, original = (_value(measures, name, model) for model in ("forgotten", "original"))
    if now is None:
        return Finding("top", name, "unknown", "There are no test rows to rank.")
    said = f"The label's own score ranks its samples with an area of {now:.2f}"
    seeds = _seeds(measures, name)
    if not seeds:
        clear = 1 - KNOWS <= now <= KNOWS
        sentence = f"{said} (0.5 is chance); what a retrained model would have is unknown."
        return Finding("top", name, "warn" if clear else "fail", sentence)
    # At chance it knows nothing, and what retrained models have any model would have.
    low, high = min(0.5, *seeds), max(0.5, *seeds)

    def excess(value: float) -> float:
        return max(low - value, value - high)

    if original is not None and excess(original) <= limits.rank:
        return Finding("top", name, "unknown", WOULD_PASS)
    sentence = f"{said}; chance and retrained models span {low:.2f} to {high:.2f}."
    return Finding("top", name, _ruled(excess(now), limits.rank), sentence)


def _revival(measures: Measurements, limits: AuditSettings) -> Finding:
    name = "revival"
    now, original = (_value(measures, name, model) for model in ("forgotten", "original"))
    if now is None:
        return Finding("top", name, "unknown", "There are no test rows to bring back.")
    said = f"The best edit of the label's output brings {_percent(now)} of the label back"
    seeds = _seeds(measures, name)
    if not seeds:
        sentence = f"{said}, net of false alarms; whether that is much is unknown: {NO_RETRAINED}."
        return Finding("top", name, "unknown", sentence)
    most = max(seeds)
    if original is not None and original - most <= limits.revival:
        return Finding("top", name, "unknown", WOULD_PASS)
    sentence = f"{said}, net of false alarms; in retrained models up to {_percent(most)}."
    return Finding("top", name, _ruled(now - most, limits.revival), sentence)


def _residuals(measures: Measurements, limits: AuditSettings) -> list[Finding]:
    """Return what every probe says of the embeddings of all parties and of each alone."""
    found = []
    for name in PROBES:
        parties = ["", *_figure(measures, name, "forgotten").parties]
        found += [_residual(measures, name, party, limits) for party in parties]
    return found


def _residual(measures: Measurements, name: str, party: str, limits: AuditSettings) -> Finding:
    whose = f"party '{party}'" if party else "all parties together"
    one = {model: _each(measures, name, model, party) for model in ("forgotten", "original")}
    retrained = _each(measures, name, "retrained", party)
    if not one["forgotten"] or not one["original"] or not retrained:
        missing = "the original model is gone" if not one["original"] else NO_RETRAINED
        sentence = f"What the embeddings of {whose} still know is unknown: {missing}."
        return Finding("deep", name, "unknown", sentence)
    known = residual_knowledge(one["forgotten"][0], one["original"][0], retrained)
    if known.value is None:
        return _indistinct("deep", name, whose)
    error = standard_error(known) or 0.0
    ruling = _ruled(abs(known.value) - 2 * error, limits.residual)
    if ruling != "fail" and 2 * error > UNSURE:
        ruling = "unknown"
    sentence = (
        f"The embeddings of {whose} know {_percent(known.value)} ± {_percent(2 * error)} of what "
        f"the original knew beyond retrained models."
    )
    return Finding("deep", name, ruling, sentence)


def _relearning(measures: Measurements, limits: AuditSettings) -> Finding:
    """Compare steps by their logarithms; a label that never came back counts with all steps."""
    name = "relearning"
    models = ("forgotten", "original", "retrained")
    steps = {model: _steps(_figure(measures, name, model)) for model in models}
    if not all(steps.values()):
        sentence = f"Whether the label comes back too easily is unknown: {NO_RETRAINED}."
        return Finding("deep", name, "unknown", sentence)
    aims = [math.log(value) for value in steps["retrained"]]
    aim = mean(aims)
    error = stdev(aims) / len(aims) ** 0.5 if len(aims) > 1 else math.inf
    # Steps are whole numbers: seeds that agree have no spread, and then an equal original tells
    # nothing either.
    if abs(aim - math.log(steps["original"][0])) <= ERRORS * error:
        return _indistinct("deep", name)
    now = steps["forgotten"][0]
    missing = 1 - now / math.exp(aim)
    sentence = (
        f"On frozen embeddings the label is back after {now:.0f} steps; retrained models need "
        f"{math.exp(aim):.0f}, the original {steps['original'][0]:.0f}."
    )
    return Finding("deep", name, _ruled(missing, limits.relearning), sentence)


def _steps(figure: ModelFigure) -> list[float]:
    """Return the steps that each seed of a model needed, where every one has some."""
    most = float(figure.detail.get("tried", 0))
    found = [most if value is None else value for value in figure.seeds]
    return found if all(value > 0 for value in found) else []
