"""The report in plain words: what a depth means, what it does not, and how a number is written.

Four things are never said, since no measurement shows them: FORBIDDEN. Copies outside the
federation cannot be looked for, law is for lawyers, and a forgotten model is another model than a
retrained one. What a party removed is only ever "attested by" that party.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from unlabel import compat, terms
from unlabel.audit.facts import RULES
from unlabel.audit.figures import Estimate, Figure, Measurement, Measurements, ModelFigure
from unlabel.audit.verdict import Verdict
from unlabel.data import ACTIVE
from unlabel.report import people_words
from unlabel.terms import Construction

FORBIDDEN = ("erased", "compliant", "anonymous", "equivalent to retraining")

#: The models that figures are given for, as people call them.
MODEL_NAMES = {
    "original": "Before",
    "mask": "Answer hidden only (control)",
    "forgotten": "After",
    "retrained": "Trained again without it",
    "matched": "Trained again, as briefly",
    "refitted": "Top fitted anew without it",
}
SPREADS = (
    "Every figure but the two accuracies is held against those of models without the label, its "
    "references. One spread is how far such models lay from others like them, as recorded; more "
    "than {:g} is too far."
)
RULINGS = {"pass": "passed", "warn": "doubtful", "fail": "failed", "unknown": "not known"}

ROW_DELETION = (
    "The label holder's top model is one linear layer, and all other models were left alone: the "
    "label's row of that layer was deleted and the others were refitted, {taught}. All that the "
    "other models know of the label stays where it is."
)
#: By what the others were refitted: the labels of retained samples, or the old model on them.
TAUGHT = ("to what the old model said of other samples", "to the labels that stay")
PURGED = "Removal of older weights is attested by {party} on {at}; nobody else has checked it."
NOT_PURGED = (
    "No removal of older weights is attested by {party}: the model from before may still be there."
)
#: What no audit can look at, beside what it says itself.
NEVER_TESTED = (
    "What the features themselves say about a label: they stay with their owners.",
    "Other models, reports or decisions that were made with this model before the request.",
)
#: Of an exact request whose version was replaced or purged before it was certified.
REPLACED = (
    "The request is exact by its method, but the model that it made was replaced before it was "
    "certified. What that was computed from is not kept, so nothing is stated about how deep it "
    "went."
)
STATES = {
    "staged": "The new model is not in use yet: it waits for a decision.",
    "committed": "The new model is in use at all parties.",
    "replaced": "The new model was in use at all parties; a later one is now.",
    "rolled-back": "The new model was dropped: all parties use the one from before.",
}

#: Measures as people call them; another one is shown under its own name.
MEASURE_NAMES = {
    "retained-accuracy": "Accuracy on everything else",
    "per-label-accuracy": "Accuracy of the weakest label",
    "confusion": "Labels mistaken for each other",
    "calibration": "Error of the stated certainty",
    "forgotten-accuracy": "Answers with the forgotten label",
    "destination": "Spread over other labels",
    "membership": "Attack on membership, simple",
    "divergence": "Distance from answers without it",
    "entropy": "Indecision about its samples",
    "likelihood": "Attack on membership, strong",
    "trace-output": "The label's own output",
    "echo": "Echo of the old answers",
    "trace-top": "Trace in the hidden layers",
    "rank": "Ranking by the label's own score",
    "revival": "Revival by editing the outputs",
    "trace": "Trace in the embeddings",
    "probe-linear": "Linear probe of the embeddings",
    "probe-mlp": "Network probe of the embeddings",
    "probe-nearest": "Neighbour probe of the embeddings",
    "relearning": "Cost of learning it again",
    "resurfacing": "Return after more training",
    "weights": "Models before and after",
    "outputs": "What the model learns from",
    "replay": "The same computation once more",
    "base": "Bottom models, as made without labels",
    "gradients": "Gradients that reached a bottom model",
    "old-labels": "Answers with the old label",
    "confidence": "Certainty of the old labels",
    "people-membership": "Attack on membership of these people",
    "people-embeddings": "The same attack on the embeddings",
}


#: A measure that only requests about people have.
_PEOPLE = "people-membership"


def listed(words: Sequence[str]) -> str:
    """Return words as a list in a sentence.

    >>> listed(["3"]), listed(["3", "5"]), listed(["3", "5", "8"])
    ('3', '3 and 5', '3, 5 and 8')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def is_of_people(measures: Measurements | None) -> bool:
    """Return whether an audit measured people, and not a label."""
    return _PEOPLE in (measures or {})


def of_people(measures: Measurements | None) -> Measurements:
    """Return measurements that are known to be of people, also where they are not at hand."""
    return {_PEOPLE: Measurement("", None, None, "number", {}), **(measures or {})}


def has_own_bottom(measures: Measurements | None) -> bool:
    """Return whether the label holder has a bottom model of its own, by whose were probed."""
    figures = [each for m in (measures or {}).values() for each in m.values.values()]
    return any(ACTIVE in each.parties for each in figures)


def places(measures: Measurements | None) -> Mapping[str, str]:
    """Return the names of the three places that knowledge of a label can sit in."""
    return terms.OWN_PLACES if has_own_bottom(measures) else terms.PLACES


def places_of(verdict: Verdict) -> Mapping[str, str]:
    """Return the same for a verdict, whose evidence may name the label holder's bottom too."""
    own_bottom = ACTIVE in verdict.facts.construction.get("bases", {})
    return terms.OWN_PLACES if own_bottom else places(verdict.measures)


def is_probable(
    depth: str, measures: Measurements | None, exact: Construction | None = None
) -> bool:
    """Return whether a depth below the answers rests on no comparison with models without it."""
    if exact is not None or depth not in ("top", "bottoms"):
        return False
    return not (_compared(measures, "refitted") or _compared(measures, "retrained"))


def _compared(measures: Measurements | None, model: str) -> bool:
    return any(m.value(model) is not None for m in (measures or {}).values())


def headline(depth: str, measures: Measurements | None, exact: Construction | None = None) -> str:
    """Return a depth in words."""
    if exact is not None:
        return terms.EXACT_HEADLINE if exact.holds else terms.EXACT_FAILED
    words = (terms.OWN_HEADLINES if has_own_bottom(measures) else terms.HEADLINES)[depth]
    return f"Probably {words[0].lower()}{words[1:]}" if is_probable(depth, measures) else words


def not_meant(
    depth: str, measures: Measurements | None, exact: Construction | None = None
) -> tuple[str, ...]:
    """Return what a depth does not mean, in sentences."""
    if exact is not None and exact.holds:
        word = (terms.BY_WORD,) if exact.by_word else ()
        return (*word, *terms.EXACT_NOT_MEANT, terms.NEVER_MEANT)
    if exact is None and is_of_people(measures):
        return people_words.not_meant(depth)
    sentences = terms.OWN_NOT_MEANT if has_own_bottom(measures) else terms.NOT_MEANT
    return (*sentences[depth], terms.NEVER_MEANT)


def subject(verdict: Verdict) -> str:
    """Return what was to be forgotten, in words."""
    if verdict.labels:
        quoted = [f"“{name}”" for name in verdict.labels]
        return f"the label{'s' if len(quoted) > 1 else ''} {listed(quoted)}"
    return f"the labels of {verdict.people} {'person' if verdict.people == 1 else 'people'}"


def meaning(depth: str, measures: Measurements | None, exact: Construction | None = None) -> str:
    """Return what a depth means; a comparison is claimed only where there was one.

    measures  of the audit that found the depth, None where only the depth is known
    exact     how a request was made exact, None where it was not
    """
    if exact is not None:
        return terms.EXACT_MEANING[exact.restart] if exact.holds else terms.EXACT_FAILED_MEANING
    if is_of_people(measures):
        return people_words.MEANINGS[depth]
    if _compared(measures, "refitted") and depth in ("top", "bottoms"):
        return terms.MEANINGS[depth]
    if _compared(measures, "retrained") or depth not in terms.UNCOMPARED:
        return compat.MEANINGS.get(depth, terms.MEANINGS[depth])
    why = terms.NOT_AT_HAND if measures is None else terms.NOT_COMPARED
    return f"{terms.UNCOMPARED[depth]} {why}"


def demand(verdict: Verdict) -> str:
    """Return whether the demanded depth was reached, in a sentence."""
    if verdict.demanded == "none":
        return "Nothing was demanded of this request."
    asked = f"Demanded: forgotten as far as {places_of(verdict)[verdict.demanded].lower()}"
    reached = "Reached." if verdict.passed else "NOT reached."
    return f"{asked} (depth “{verdict.demanded}”). {reached}"


def with_noise(verdict: Verdict) -> bool:
    """Return whether something about a hidden request reached the partners, and moved them."""
    return bool(verdict.privacy.rho)


def row_deletion(verdict: Verdict) -> str:
    """Return the honest sentence about a hidden request under a linear top, or nothing."""
    linear, silent = verdict.facts.top == "linear", not with_noise(verdict)
    if verdict.facts.construction:
        return ""
    if not (verdict.visibility == "hidden" and linear and silent):
        return ""
    by_labels = verdict.settings.get("samples") == "all" and verdict.facts.rules == RULES
    return ROW_DELETION.format(taught=TAUGHT[by_labels])


def spreads(verdict: Verdict) -> str:
    """Return what a spread is, where findings go by it."""
    if verdict.facts.rules != RULES or not verdict.labels:
        return ""
    return SPREADS.format(verdict.thresholds.spreads)


def purges(times: Mapping[str, str | None]) -> list[str]:
    """Return a sentence a party: when its ledger attests a purge, or that it attests none."""
    return [
        PURGED.format(party=party, at=moment(at)) if at else NOT_PURGED.format(party=party)
        for party, at in times.items()
    ]


def moment(at: str) -> str:
    """Return a date with a time for people; anything else stays as it is.

    >>> moment("2026-11-16T09:21:40+02:00"), moment("soon"), moment("20")
    ('2026-11-16 07:21 UTC', 'soon', '20')
    """
    try:
        parsed = datetime.fromisoformat(at if "T" in at else "")
    except ValueError:
        return at
    utc = parsed.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return utc if parsed.tzinfo else parsed.strftime("%Y-%m-%d %H:%M")


def number(value: float | None, unit: str = "number") -> str:
    """Return a value for people.

    >>> number(0.97812, "share"), number(2.345678), number(1.3, "ratio"), number(None)
    ('97.8 %', '2.35', '1.3 times', 'not measured')
    >>> number(12345.6)
    '12,346'
    """
    if value is None:
        return "not measured"
    if unit == "share":
        return f"{100 * value:.1f} %"
    text = f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return text + (" times" if unit == "ratio" else "")


def interval(figure: Estimate | None, unit: str = "number") -> str:
    """Return a value with its interval and, where it is undefined, why.

    >>> interval(Estimate(0.5, 0.41, 0.6), "share")
    '50.0 % (41.0 to 60.0)'
    >>> interval(Figure(None, note="no test rows")), interval(None)
    ('undefined: no test rows', 'not measured')
    """
    if figure is None:
        return "not measured"
    if figure.value is None:
        note = figure.note if isinstance(figure, Figure) else ""
        return f"undefined: {note}" if note else "not measured"
    text, low, high = number(figure.value, unit), figure.low, figure.high
    if low is not None and high is not None:
        ends = [number(end, unit).removesuffix(" %").removesuffix(" times") for end in (low, high)]
        text += f" ({ends[0]} to {ends[1]})"
    count = len(figure.seeds) if isinstance(figure, ModelFigure) else 1
    return f"{text}, {count} models" if count > 1 else text


def short(text: str, most: int) -> str:
    """Return a text that fits; the whole of it stands in the table beside the picture.

    >>> short("aeroplane", 6)
    'aerop…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"
