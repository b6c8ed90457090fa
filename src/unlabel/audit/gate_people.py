"""The gate of people: how deep a request went, beside models that never had their labels.

answers  the model gives their old labels as retrained models do, and everybody else is answered as
         well
top      an attack on the label holder's scores finds these people as it does in retrained models
bottoms  so does a head that never met their labels, on every party's embeddings; and no party's
         model is the one from before

A figure holds where it lies within the prediction interval of the retrained models
(`intervals.prediction_interval`), widened by a limit to either side. That takes two models at
least, and five say much more: Student's factor is 12.7 for two, 4.3 for three, 2.8 for five.
Where the model from before would pass too, these people look alike with and without their labels,
as one whose label is easily guessed does: for `answers` that is a warning, for `top` and `bottoms`
it decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from unlabel.audit.figures import Measurement, Measurements
from unlabel.audit.gate import NOT_MEASURED, UNCHANGED
from unlabel.audit.intervals import prediction_interval
from unlabel.audit.verdict import Finding, Ruling, reaches
from unlabel.config import AuditSettings
from unlabel.terms import Depth

#: Models that show how far retrained ones differ.
LEAST = 2
TOO_FEW = f"that takes at least {LEAST} models retrained without these people (`--retrained 5`)"
#: What the run's own demand counts as: of one person no test can be sure to show more.
DEMANDED: Depth = "answers"


@dataclass(frozen=True)
class Rule:
    """How a figure is judged: what it says, and how far it may be from retrained models' interval.

    one  the same of one person
    """

    depth: Depth
    many: str
    one: str
    limit: float

    def words(self, people: int, whose: str) -> str:
        """Return what the figure says, as the beginning of a sentence."""
        return (self.one if people == 1 else self.many).format(whose)


RULES = {
    "confidence": Rule(
        "answers",
        "The model gives these people's old labels a mean probability",
        "The model gives this person's old label a probability",
        0.03,
    ),
    "people-membership": Rule(
        "top",
        "By the top's scores these people stand above strangers with an area",
        "By the top's scores this person stands above a share of strangers",
        0.05,
    ),
    "people-embeddings": Rule(
        "bottoms",
        "By the embeddings of {} these people stand above strangers with an area",
        "By the embeddings of {} this person stands above a share of strangers",
        0.05,
    ),
}


def judge_people(
    measures: Measurements, limits: AuditSettings, people: int, unchanged: Sequence[str] = ()
) -> list[Finding]:
    """Return a finding for everything that decides a depth.

    people     how many they are
    unchanged  passive parties whose models are the same as before: they have lost nothing
    """
    retained = measures.get("retained-accuracy", NOT_MEASURED)
    findings = [Finding("answers", "retained-accuracy", *_retained(retained, limits))]
    for name, rule in RULES.items():
        measured = measures.get(name, NOT_MEASURED)
        findings += [
            Finding(rule.depth, name, *_judged(rule, measured, people, party))
            for party in ("", *measured.parties)
        ]
    return findings + [
        Finding("bottoms", "weights", "fail", UNCHANGED.format(party)) for party in unchanged
    ]


def demanded_of_people(demand: Depth | Literal["none"]) -> Depth | Literal["none"]:
    """Return the depth that a run's own demand asks of a request about people."""
    return demand if reaches(DEMANDED, demand) else DEMANDED


def _retained(measured: Measurement, limits: AuditSettings) -> tuple[Ruling, str]:
    now, references = measured.value("forgotten"), measured.figure("retrained").known
    if now is None or not references:
        return "unknown", f"Accuracy on everybody else is not judged: {TOO_FEW}."
    lost = min(references) - now
    ruling: Ruling = "pass" if lost <= limits.retained else "fail"
    span = f"{100 * min(references):.1f} to {100 * max(references):.1f} %"
    return (
        ruling,
        f"Everybody else is predicted with {100 * now:.1f} % accuracy; retrained: {span}.",
    )


def _judged(rule: Rule, measured: Measurement, people: int, party: str) -> tuple[Ruling, str]:
    """Judge a figure beside retrained models: of all parties together, or of one alone."""
    what = rule.words(people, f"party '{party}'" if party else "all parties")
    values = {
        model: [each.value for each in measured.figure(model).estimates(party)]
        for model in ("forgotten", "original", "retrained")
    }
    references = [value for value in values["retrained"] if value is not None]
    now, before = (next(iter(values[model]), None) for model in ("forgotten", "original"))
    if now is None:
        return "unknown", f"{what}: not measured, as none of them was trained on."
    if len(references) < LEAST:
        return "unknown", f"{what} of {now:.2f}: not judged, {TOO_FEW}."
    low, high = prediction_interval(references, 1 + len(measured.parties))
    low, high = low - rule.limit, high + rule.limit
    span = f"{max(0.0, low):.2f} to {min(1.0, high):.2f}"
    sentence = f"{what} of {now:.2f}; by {len(references)} retrained models {span} is expected"
    would_pass = before is not None and low <= before <= high
    if not low <= now <= high:
        shown = (
            "that is not how they answer" if rule.depth == "answers" else "it tells these people"
        )
        return "fail", f"{sentence}: {shown}."
    if not would_pass:
        return "pass", f"{sentence}."
    alike = f"The model from before ({before:.2f}) lies there too"
    if rule.depth == "answers":
        return "warn", f"{sentence}. {alike}: nothing tells it from a model without these labels."
    return "unknown", f"{sentence}. {alike}, so nothing follows."
