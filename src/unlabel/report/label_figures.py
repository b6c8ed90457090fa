"""What became of each label: how often it is recognised, and where forgotten samples go."""

from __future__ import annotations

from collections.abc import Sequence

from unlabel.audit.measure import Estimate
from unlabel.audit.verdict import Verdict
from unlabel.report import charts
from unlabel.report.chapter import COMPARED, Chapter, Table, bar_signs, model_signs, named
from unlabel.report.charts import Mark, Row
from unlabel.report.words import MODEL_NAMES, interval, number

#: Labels that a picture shows; the table has them all.
MOST_LABELS = 24
#: Destinations that a picture shows.
MOST_PLACES = 10


def accuracy(verdict: Verdict) -> Chapter:
    """Show how often each label is still recognised."""
    found = verdict.pictures.get("accuracy") or {}
    names = verdict.pictures.get("labels") or []
    forgotten = set(verdict.pictures.get("forgotten") or [])
    models = [model for model in COMPARED if model in found]
    reading: tuple[str, ...] = (
        "Of the test samples of each label, the share that the model calls by its name. A good "
        "result leaves the forgotten label (in bold) at the left and all others where they were.",
        "Lines are 95 % intervals: the fewer samples, the longer.",
    )
    if not models:
        missing = "Accuracy by label was not measured."
        return Chapter("accuracy", "Accuracy, label by label", reading, missing=missing)

    def change(n: int) -> float:
        first, last = (found[models[0]][n], found[models[-1]][n])
        return abs(first[0] - last[0]) if first and last else 0.0

    shown = list(range(len(names)))
    if len(shown) > MOST_LABELS:
        first = sorted(shown, key=lambda n: (n not in forgotten, -change(n)))[:MOST_LABELS]
        shown = sorted(first)
        reading += (f"The picture has the {MOST_LABELS} labels that changed most of {len(names)}.",)
    rows = [
        Row(
            names[n],
            tuple(Mark(m, *found[m][n][:3]) for m in models if found[m][n]),
            strong=n in forgotten,
        )
        for n in shown
    ]
    table = Table(
        ("Label", *(MODEL_NAMES[m] for m in models), "Test samples"),
        tuple(
            (
                name + (" (forgotten)" if n in forgotten else ""),
                *(_share(found[m][n]) for m in models),
                str(next((int(found[m][n][3]) for m in models if found[m][n]), 0)),
            )
            for n, name in enumerate(names)
        ),
    )
    picture = charts.dot_rows(
        "accuracy",
        "Accuracy, label by label",
        f"A row for each of {len(rows)} labels with the accuracy {named(models)}.",
        rows,
    )
    return Chapter(
        "accuracy",
        "Accuracy, label by label",
        reading,
        model_signs(models),
        (("Share of test samples recognised", picture),),
        table,
    )


def destination(verdict: Verdict) -> Chapter:
    """Show which labels forgotten samples are given now."""
    found = verdict.pictures.get("destination") or {}
    names = verdict.pictures.get("labels") or []
    forgotten = set(verdict.pictures.get("forgotten") or [])
    models = [model for model in COMPARED if model in found]
    heading = "Where the forgotten samples went"
    reading = (
        "Which label the model gives to samples of what was forgotten. A model that never learnt "
        "the label spreads them over what they look like. If nearly all go to one wrong label, "
        "that label points at what was hidden.",
    )
    if not models:
        missing = "Where the forgotten samples went was not measured."
        return Chapter("destination", heading, reading, missing=missing)
    most = {n: max(found[m]["shares"][n] for m in models) for n in range(len(names))}
    shown = sorted(sorted(most, key=lambda n: -most[n])[:MOST_PLACES])
    shown = [n for n in shown if most[n] >= 0.005]
    rows = [
        Row(
            names[n],
            tuple(Mark(m, found[m]["shares"][n]) for m in models),
            strong=n in forgotten,
        )
        for n in shown
    ]
    table = Table(
        ("Given label", *(MODEL_NAMES[m] for m in models)),
        (
            *((names[n], *(number(found[m]["shares"][n], "share") for m in models)) for n in most),
            ("Samples", *(str(found[m]["rows"]) for m in models)),
            ("Spread (entropy in nats)", *(number(found[m]["entropy"]) for m in models)),
        ),
    )
    picture = charts.bars(
        "destination",
        heading,
        f"Bars for {len(rows)} labels: the share of forgotten samples given each of them "
        f"{named(models)}.",
        rows,
    )
    drawn = (("Share of the forgotten samples given each label", picture),)
    return Chapter("destination", heading, reading, bar_signs(models), drawn, table)


def _share(found: Sequence[float] | None) -> str:
    if found is None:
        return "not measured"
    return interval(Estimate(*found[:3]), "share")
