"""What became of each label: how often it is recognised, and where forgotten samples go."""

from __future__ import annotations

from unlabel.audit.figures import Estimate
from unlabel.audit.verdict import Verdict
from unlabel.report import charts
from unlabel.report.charts import Mark, Row
from unlabel.report.section import BAR, COMPARED, Section, Table, model_signs, named
from unlabel.report.wording import MODEL_NAMES, interval, number

#: Labels that a picture shows; the table has them all.
MOST_LABELS = 24
#: Destinations that a picture shows.
MOST_PLACES = 10


def accuracy(verdict: Verdict) -> Section:
    """Show how often each label is still recognised."""
    shares = verdict.pictures.get("accuracy") or {}
    names = verdict.pictures.get("labels") or []
    forgotten = set(verdict.pictures.get("forgotten") or [])
    models = [model for model in COMPARED if model in shares]
    heading = "Accuracy, label by label"
    explanation: tuple[str, ...] = (
        "Of the test samples of each label, the share that the model calls by its name. A good "
        "result leaves the forgotten label (in bold) at the left and all others where they were.",
        "Lines are 95 % intervals: the fewer samples, the longer.",
    )
    if verdict.people:
        explanation = (
            "Of the test samples of each label, the share that the model calls by its name; "
            "without these people's. A good result leaves all labels where they were.",
            explanation[1],
        )
    if not models:
        missing = "Accuracy by label was not measured."
        return Section("accuracy", heading, explanation, missing=missing)

    def change(n: int) -> float:
        first, last = (shares[models[0]][n], shares[models[-1]][n])
        return abs(first[0] - last[0]) if first and last else 0.0

    shown = list(range(len(names)))
    if len(shown) > MOST_LABELS:
        first = sorted(shown, key=lambda n: (n not in forgotten, -change(n)))[:MOST_LABELS]
        shown = sorted(first)
        part = f"The picture has the {MOST_LABELS} labels that changed most of {len(names)}."
        explanation += (part,)
    rows = []
    for n in shown:
        marks = tuple(Mark(m, *shares[m][n][:3]) for m in models if shares[m][n])
        rows.append(Row(names[n], marks, strong=n in forgotten))
    lines = []
    for n, name in enumerate(names):
        measured = [shares[m][n] and Estimate(*shares[m][n][:3]) for m in models]
        count = next((int(shares[m][n][3]) for m in models if shares[m][n]), 0)
        whole_name = name + (" (forgotten)" if n in forgotten else "")
        lines.append((whole_name, *(interval(each, "share") for each in measured), str(count)))
    head = ("Label", *(MODEL_NAMES[m] for m in models), "Test samples")
    about = f"A row for each of {len(rows)} labels with the accuracy {named(models)}."
    picture = charts.dot_rows("accuracy", heading, about, rows)
    pictures = (("Share of test samples recognised", picture),)
    table = Table(head, tuple(lines))
    return Section("accuracy", heading, explanation, model_signs(models), pictures, table)


def destination(verdict: Verdict) -> Section:
    """Show which labels forgotten samples are given now."""
    destinations = verdict.pictures.get("destination") or {}
    names = verdict.pictures.get("labels") or []
    forgotten = set(verdict.pictures.get("forgotten") or [])
    models = [model for model in COMPARED if model in destinations]
    heading = "Where the forgotten samples went"
    explanation = (
        "Which label the model gives to samples of what was forgotten. A model that never learnt "
        "the label spreads them over what they look like. If nearly all go to one wrong label, "
        "that label points at what was hidden.",
    )
    if not models:
        missing = "Where the forgotten samples went was not measured."
        return Section("destination", heading, explanation, missing=missing)
    most = {n: max(destinations[m]["shares"][n] for m in models) for n in range(len(names))}
    shown = sorted(sorted(most, key=lambda n: -most[n])[:MOST_PLACES])
    shown = [n for n in shown if most[n] >= 0.005]
    rows = []
    for n in shown:
        marks = tuple(Mark(m, destinations[m]["shares"][n]) for m in models)
        rows.append(Row(names[n], marks, strong=n in forgotten))
    given = [destinations[m] for m in models]
    lines = [(names[n], *(number(each["shares"][n], "share") for each in given)) for n in most]
    lines.append(("Samples", *(str(each["rows"]) for each in given)))
    lines.append(("Spread (entropy in nats)", *(number(each["entropy"]) for each in given)))
    table = Table(("Given label", *(MODEL_NAMES[m] for m in models)), tuple(lines))
    about = (
        f"Bars for {len(rows)} labels: the share of forgotten samples given each of them "
        f"{named(models)}."
    )
    picture = charts.bars("destination", heading, about, rows)
    pictures = (("Share of the forgotten samples given each label", picture),)
    return Section("destination", heading, explanation, model_signs(models, BAR), pictures, table)
