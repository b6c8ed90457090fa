"""The gate: how deep a request went, not a stamp.

answers  the predictions are those of a model that never had the label; a hidden output gets here
top      the label holder's model has lost the label too: its hidden layers and its answers about
         the label's rows are those of tops that only the other labels taught
bottoms  every party's bottom has: what its embeddings still give of the old direction of the label,
         what probes find with few labels, and the cost of relearning are as in retrained models

Every figure below the first two is judged beside references, in units of how these differ among
themselves (`audit/spread.py`): of the top, tops refitted to the same embeddings without the label;
of all else, models retrained without it. Where the request took fewer passes than the training,
bottoms are judged beside models retrained with as many. Without references a figure is not judged.

A depth holds where none of its findings fails, nor any of a shallower depth, and each of these has
a finding that is known. One that is unknown decides nothing by itself: for want of references, or
because on these data the original itself would pass. That the label's own output is gone is not
enough for the top: an output that was overwritten passes that, and the rest is as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Literal

from unlabel.audit.figures import Measurement, Measurements, ModelFigure
from unlabel.audit.spread import RECORDED, Spread
from unlabel.audit.verdict import Finding, Ruling
from unlabel.config import AuditSettings
from unlabel.terms import DEPTHS, Depth

#: How a figure came out, and why in a sentence.
Judgement = tuple[Ruling, str]

NOT_MEASURED = Measurement("", None, None, "number", {})
NO_RETRAINED = "there is no retrained model to compare with (`--retrained 3` trains some)"
NO_TOPS = "there is no top refitted without the label to compare with"
UNCHANGED = "The model of party '{}' is the same as before the request."
#: Measures that can stop a depth, and not carry it alone.
NOT_ENOUGH = ("trace-output",)
WOULD_PASS = "not judged, on these data the original itself would pass"


@dataclass(frozen=True)
class Rule:
    """How a measure is judged beside references.

    what     of the model it is about, as the subject of a sentence; {} is the party or the layer
    aims     the references, the first of these that there are
    above    what follows where the figure is above theirs; "" where nothing does
    below    what follows where it is below
    missing  what to say where there are no references
    """

    depth: Depth
    what: str
    aims: tuple[str, ...]
    above: str
    below: str = ""
    missing: str = NO_RETRAINED

    def outside(self, away: float, limit: float) -> bool:
        """Return whether a figure lies too far from its references, on a side that counts."""
        return (bool(self.above) and away > limit) or (bool(self.below) and away < -limit)


_SHORT = ("matched", "retrained")
_PROBE = "What a {} with one labelled row a class finds of it in the embeddings of {}"
RULES = {
    "membership": Rule(
        "answers",
        "Share of forgotten training rows that a membership attack calls members",
        ("retrained",),
        "answers about them are surer than they should be",
        "answers about them are less sure than they should be, which tells them too",
    ),
    "trace-output": Rule(
        "top",
        "What the label's own output gives of the old one",
        ("refitted",),
        "the output is still there",
        missing=NO_TOPS,
    ),
    "echo": Rule(
        "top",
        "Share of the old model in the answers about the label's rows",
        ("refitted",),
        "the outputs that stay were not taught anew",
        missing=NO_TOPS,
    ),
    "trace-top": Rule(
        "top",
        "What {} of the top gives of the old direction of the label",
        ("refitted",),
        "the layer still knows it",
        missing=NO_TOPS,
    ),
    "trace": Rule(
        "bottoms",
        "What the embeddings of {} give of the old direction of the label",
        _SHORT,
        "they still give it",
        "less than features alone give, which tells it too",
    ),
    **{
        name: Rule("bottoms", _PROBE.format(kind, "{}"), _SHORT, "more than they should",
                   "less than they should, which tells it too")
        for name, kind in (
            ("probe-linear", "linear probe"),
            ("probe-mlp", "small network"),
            ("probe-nearest", "nearest neighbour"),
        )
    },
    "relearning": Rule(
        "bottoms",
        "Steps until the label is back on frozen embeddings",
        _SHORT,
        "",
        "it comes back too easily",
    ),
}  # fmt: skip


def judge(
    measures: Measurements, limits: AuditSettings, unchanged: Sequence[str] = ()
) -> list[Finding]:
    """Return a finding for everything that decides a depth.

    unchanged  passive parties whose models are the same as before: they have lost nothing
    """
    findings = [
        Finding("answers", "forgotten-accuracy", *_forgotten(measures, limits)),
        Finding("answers", "retained-accuracy", *_retained(measures, limits)),
    ]
    for name, rule in RULES.items():
        findings += [
            Finding(rule.depth, name, *_beside(rule, RECORDED[name], figures, limits.spreads))
            for figures in figures_beside(name, measures.get(name, NOT_MEASURED))
        ]
    return findings + [
        Finding("bottoms", "weights", "fail", UNCHANGED.format(party)) for party in unchanged
    ]


def depth_of(findings: Sequence[Finding]) -> Depth | Literal["none"]:
    """Return the deepest depth that holds.

    >>> passed = Finding("answers", "forgotten-accuracy", "pass", "")
    >>> depth_of([passed, Finding("top", "echo", "fail", "")])
    'answers'
    """
    reached: Depth | Literal["none"] = "none"
    for depth in DEPTHS:
        known = [f for f in findings if f.depth == depth and f.ruling != "unknown"]
        telling = [f for f in known if f.measure not in NOT_ENOUGH]
        if not telling or any(f.ruling == "fail" for f in known):
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


def _forgotten(measures: Measurements, limits: AuditSettings) -> Judgement:
    now = measures.get("forgotten-accuracy", NOT_MEASURED).value("forgotten")
    if now is None:
        return "unknown", "There are no test rows of the label."
    sentence = f"{_percent(now)} of the label's test rows are still called by it."
    return _ruled(now, limits.forgotten), sentence


def _retained(measures: Measurements, limits: AuditSettings) -> Judgement:
    """Compare with retrained models, else with the mask.

    What the original had before includes confusion with the label that goes; the mask does not. Of
    retrained models two standard deviations are allowed for: nobody has to be nearer than they are.
    """
    measured = measures.get("retained-accuracy", NOT_MEASURED)
    now, names = measured.value("forgotten"), {"retrained": "retrained models reach"}
    names |= {"mask": "the original with its output hidden", "original": "the original"}
    known = [(words, measured.value(name)) for name, words in names.items()]
    aims = [(words, value) for words, value in known if value is not None]
    if now is None or not aims:
        return "unknown", "There is nothing to compare accuracy with."
    beside = ", ".join(f"{words} {_percent(value)}" for words, value in aims[:2])
    retrained = measured.figure("retrained").known
    spread = 2 * stdev(retrained) if len(retrained) > 1 else 0.0
    return _ruled(aims[0][1] - now - spread, limits.retained), (
        f"The other labels are predicted with {_percent(now)} accuracy; {beside}."
    )


@dataclass(frozen=True)
class Beside:
    """A figure beside references: of all parties, or of a party or a layer of the top alone.

    part    name of that party or layer, "" for all
    before  the original's figure
    note    why there is none of the new model
    """

    part: str
    now: float | None
    before: float | None
    references: Sequence[float]
    note: str = ""


def figures_beside(name: str, measured: Measurement) -> Iterator[Beside]:
    """Yield what a measure's rule judges: of bottoms all together and each, of tops each layer."""
    rule = RULES[name]
    together = ("",) if rule.depth == "bottoms" or not measured.parties else ()
    for part in (*together, *measured.parties):
        seeds = {model: _values(name, measured, model, part) for model in measured.values}
        now, before = (next(iter(seeds.get(m, [])), None) for m in ("forgotten", "original"))
        aims = (seeds[model] for model in rule.aims if seeds.get(model))
        yield Beside(part, now, before, next(aims, []), measured.figure("forgotten").note)


def _beside(rule: Rule, spread: Spread, figures: Beside, limit: float) -> Judgement:
    """Judge a figure by how many spreads it lies from its references."""
    part, now, references = figures.part, figures.now, figures.references
    bottoms = rule.depth == "bottoms"
    one, every = (
        ("party '{}'", "all parties together") if bottoms else ("hidden {}", "a hidden layer")
    )
    what = rule.what.format(one.format(part) if part else every)
    if now is None:
        note = figures.note or "It was not measured."
        return "unknown", f"{what}: not judged, {note[0].lower()}{note[1:]}"
    if not references:
        return "unknown", f"{what} ({_number(now)}): not judged, {rule.missing}."
    away = spread.away(now, references)
    sentence = _sentence(what, now, references, away)
    before = figures.before
    if before is not None and not rule.outside(spread.away(before, references), limit):
        return "unknown", f"{sentence}: {WOULD_PASS}."
    if not rule.outside(away, limit):
        return "pass", f"{sentence}."
    return "fail", f"{sentence}: {rule.above if away > 0 else rule.below}."


def _sentence(what: str, now: float, references: Sequence[float], away: float) -> str:
    ends = dict.fromkeys(_number(end) for end in (min(references), max(references)))
    side = "above" if away > 0 else "below"
    span = " to ".join(ends)
    return f"{what}: {_number(now)}, references {span} ({abs(away):.2f} spreads {side})"


def _number(value: float) -> str:
    """Return a share with two digits, and a number of steps without any."""
    return f"{value:.2f}" if value <= 1 else f"{value:.0f}"


def _values(name: str, measured: Measurement, model: str, part: str) -> list[float]:
    """Return the values of a model's seeds; steps that were not enough count with all tried."""
    figure = measured.figure(model)
    if name == "relearning":
        return _steps(figure)
    return [float(each.value) for each in figure.estimates(part) if each.value is not None]


def _steps(figure: ModelFigure) -> list[float]:
    """Return the steps that each seed of a model needed, where every one has some."""
    most = float(figure.detail.get("tried", 0))
    steps = [most if value is None else value for value in figure.seeds]
    return steps if all(value > 0 for value in steps) else []
