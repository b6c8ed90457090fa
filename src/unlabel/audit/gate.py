"""The gate: how deep a request went, not a stamp.

answers  the predictions are those of a model that never had the label; a hidden output gets here
top      the active party's model has lost the label too: its own score ranks the label's samples no
         better and no worse than a retrained model's does, and no edit of its output brings the
         label back
bottoms  every party's bottom has: residual knowledge and the cost of relearning are near those of
         retrained models

A depth holds where none of its findings fails, nor any of a shallower depth, and each of these has
a finding that is known. One that is unknown decides nothing by itself: for want of a retrained
model, or because on these data it cannot tell the original from retrained models. Rank and revival
cannot where the original itself would pass; what is a ratio to the original's distance from
retrained models, residual knowledge and relearning, cannot where that is below three standard
errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean, stdev
from typing import Literal

from unlabel.audit.figures import Measurement, Measurements, ModelFigure
from unlabel.audit.residual import ERRORS, residual_knowledge, standard_error
from unlabel.audit.verdict import Finding, Ruling
from unlabel.config import AuditSettings
from unlabel.terms import DEPTHS, Depth

#: What a rule says of a measurement: how it came out, and why in a sentence.
Judgement = tuple[Ruling, str]
Rule = Callable[[Measurement, AuditSettings], Judgement]

#: Probes whose residual knowledge is judged.
PROBES = ("probe-linear", "probe-mlp", "probe-nearest")
#: Where a score ranks well enough, either way, to look like knowledge without a retrained model.
KNOWS = 0.8
#: An interval of residual knowledge that reaches further than this to either side decides nothing.
UNSURE = 0.5
NOT_MEASURED = Measurement("", None, None, "number", {})
NO_RETRAINED = "there is no retrained model to compare with (`--retrained 3` trains some)"
UNCHANGED = "The model of party '{}' is the same as before the request."
WOULD_PASS = "Nothing follows: on these data the original itself would pass."


def judge(
    measures: Measurements, limits: AuditSettings, unchanged: Sequence[str] = ()
) -> list[Finding]:
    """Return a finding for everything that decides a depth.

    unchanged  passive parties whose models are the same as before: they have lost nothing
    """
    rules: list[tuple[Depth, str, Rule]] = [
        ("answers", "forgotten-accuracy", _forgotten),
        ("answers", "retained-accuracy", _retained),
        ("answers", "membership", _membership),
        ("top", "rank", _rank),
        ("top", "revival", _revival),
    ]
    for name in PROBES:
        parties = ("", *measures.get(name, NOT_MEASURED).parties)
        rules += [("bottoms", name, partial(_residual, party=party)) for party in parties]
    rules.append(("bottoms", "relearning", _relearning))
    return [
        Finding(depth, name, *rule(measures.get(name, NOT_MEASURED), limits))
        for depth, name, rule in rules
    ] + [Finding("bottoms", "weights", "fail", UNCHANGED.format(party)) for party in unchanged]


def depth_of(findings: list[Finding]) -> Depth | Literal["none"]:
    """Return the deepest depth that holds.

    >>> passed = Finding("answers", "forgotten-accuracy", "pass", "")
    >>> depth_of([passed, Finding("top", "rank", "fail", "")])
    'answers'
    """
    reached: Depth | Literal["none"] = "none"
    for depth in DEPTHS:
        rulings = [finding.ruling for finding in findings if finding.depth == depth]
        known = [ruling for ruling in rulings if ruling != "unknown"]
        if not known or "fail" in known:
            break
        reached = depth
    return reached


def _ruled(excess: float, limit: float) -> Ruling:
    """Return pass up to a limit, warn up to twice of it, fail beyond.

    >>> _ruled(0.01, 0.02), _ruled(0.03, 0.02), _ruled(0.05, 0.02)
    ('pass', 'warn', 'fail')
    """
    return "pass" if excess <= limit else "warn" if excess <= 2 * limit else "fail"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _forgotten(measured: Measurement, limits: AuditSettings) -> Judgement:
    now = measured.value("forgotten")
    if now is None:
        return "unknown", "There are no test rows of the label."
    sentence = f"{_percent(now)} of the label's test rows are still called by it."
    return _ruled(now, limits.forgotten), sentence


def _retained(measured: Measurement, limits: AuditSettings) -> Judgement:
    now = measured.value("forgotten")
    aim, whose = measured.value("retrained"), "retrained models reach"
    if aim is None:
        aim, whose = measured.value("original"), "the original reaches"
    if now is None or aim is None:
        return "unknown", "There is nothing to compare accuracy with."
    return _ruled(aim - now, limits.retained), (
        f"The other labels are predicted with {_percent(now)} accuracy; {whose} {_percent(aim)}."
    )


def _membership(measured: Measurement, limits: AuditSettings) -> Judgement:
    now, aim = measured.value("forgotten"), measured.value("retrained")
    if now is None or aim is None:
        return "unknown", (
            f"Whether the attack succeeds as often as it should is unknown: {NO_RETRAINED}."
        )
    # Retrained models differ among themselves; nobody is asked to be nearer than they are.
    spread = max((abs(value - aim) for value in measured.figure("retrained").known), default=0.0)
    return _ruled(abs(now - aim) - spread, limits.membership), (
        f"The membership attack calls {_percent(now)} of the forgotten training rows "
        f"members, against {_percent(aim)} in retrained models."
    )


def _rank(measured: Measurement, limits: AuditSettings) -> Judgement:
    now, seeds = measured.value("forgotten"), measured.figure("retrained").known
    if now is None:
        return "unknown", "There are no test rows to rank."
    start = f"The label's own score ranks its samples with an area of {now:.2f}"
    if not seeds:
        sentence = f"{start} (0.5 is chance); what a retrained model would have is unknown."
        return "warn" if 1 - KNOWS <= now <= KNOWS else "fail", sentence
    # At chance it knows nothing, and what retrained models have any model would have.
    low, high = min(0.5, *seeds), max(0.5, *seeds)
    sentence = f"{start}; chance and retrained models span {low:.2f} to {high:.2f}."
    return _beside(now, measured.value("original"), (low, high), limits.rank, sentence)


def _revival(measured: Measurement, limits: AuditSettings) -> Judgement:
    now, seeds = measured.value("forgotten"), measured.figure("retrained").known
    if now is None:
        return "unknown", "There are no test rows to bring back."
    start = (
        f"The best edit of the label's output brings {_percent(now)} of the label back, net of "
        f"false alarms; "
    )
    if not seeds:
        return "unknown", f"{start}whether that is much is unknown: {NO_RETRAINED}."
    sentence = f"{start}in retrained models up to {_percent(max(seeds))}."
    span = (-math.inf, max(seeds))
    return _beside(now, measured.value("original"), span, limits.revival, sentence)


def _beside(
    now: float, original: float | None, span: tuple[float, float], limit: float, sentence: str
) -> Judgement:
    """Judge how far a value is outside a span; nothing follows where the original is within it."""
    if original is not None and max(span[0] - original, original - span[1]) <= limit:
        return "unknown", WOULD_PASS
    return _ruled(max(span[0] - now, now - span[1]), limit), sentence


def _residual(measured: Measurement, limits: AuditSettings, party: str) -> Judgement:
    """Return what a probe says of the embeddings of a party, or of all together."""
    whose = f"party '{party}'" if party else "all parties together"
    now, original, retrained = (
        measured.figure(model).estimates(party) for model in ("forgotten", "original", "retrained")
    )
    if not (now and original and retrained):
        missing = "the original model is gone" if not original else NO_RETRAINED
        return "unknown", f"What the embeddings of {whose} still know is unknown: {missing}."
    known = residual_knowledge(now[0], original[0], retrained)
    if known.value is None:
        return _indistinct(f" from the embeddings of {whose}")
    error = standard_error(known) or 0.0
    ruling = _ruled(abs(known.value) - 2 * error, limits.residual)
    if ruling != "fail" and 2 * error > UNSURE:
        ruling = "unknown"
    return ruling, (
        f"The embeddings of {whose} know {_percent(known.value)} ± {_percent(2 * error)} of what "
        f"the original knew beyond retrained models."
    )


def _relearning(measured: Measurement, limits: AuditSettings) -> Judgement:
    """Compare steps by their logarithms; a label that never came back counts with all steps."""
    now, original, retrained = (
        _steps(measured.figure(model)) for model in ("forgotten", "original", "retrained")
    )
    if not (now and original and retrained):
        return "unknown", f"Whether the label comes back too easily is unknown: {NO_RETRAINED}."
    aims = [math.log(value) for value in retrained]
    aim = mean(aims)
    error = stdev(aims) / len(aims) ** 0.5 if len(aims) > 1 else math.inf
    # Steps are whole numbers: seeds that agree have no spread, and then an equal original tells
    # nothing either.
    if abs(aim - math.log(original[0])) <= ERRORS * error:
        return _indistinct()
    return _ruled(1 - now[0] / math.exp(aim), limits.relearning), (
        f"On frozen embeddings the label is back after {now[0]:.0f} steps; retrained models need "
        f"{math.exp(aim):.0f}, the original {original[0]:.0f}."
    )


def _steps(figure: ModelFigure) -> list[float]:
    """Return the steps that each seed of a model needed, where every one has some."""
    most = float(figure.detail.get("tried", 0))
    steps = [most if value is None else value for value in figure.seeds]
    return steps if all(value > 0 for value in steps) else []


def _indistinct(by: str = "") -> Judgement:
    return "unknown", (
        f"Nothing follows{by}: on these data the original and retrained models differ by less than "
        f"{ERRORS:g} standard errors."
    )
