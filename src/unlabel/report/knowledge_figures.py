"""What the model still knows: attack scores, every measure, and a map of the embeddings."""

from __future__ import annotations

from collections.abc import Sequence

from unlabel.audit.figures import Estimate, Measurement
from unlabel.audit.verdict import Verdict
from unlabel.report import charts
from unlabel.report.charts import Mark, Row
from unlabel.report.section import COMPARED, Section, Table, model_signs, named
from unlabel.report.wording import MEASURE_NAMES, MODEL_NAMES, interval, places_of

NO_EVIDENCE = (
    "An attack on membership that succeeds as often as on models without the label is no evidence "
    "by itself: the old model with its answer hidden and its scores stretched can match them. So "
    "its figure is to be read with the distance from answers without the label and with the "
    "indecision about its samples."
)
#: Names of the ticks of an axis that not all measures read as a share.
UNITS = ("0", "0.25", "0.5", "0.75", "1")


def scores(verdict: Verdict) -> Section:
    """Show what an attack on membership sees."""
    histograms = verdict.pictures.get("scores") or {}
    groups = histograms.get("models") or {}
    models = [model for model in COMPARED if model in groups]
    heading = "Can an attacker tell who was trained on?"
    explanation: tuple[str, ...] = (
        "How sure the model is of the true label: of forgotten samples it was trained on (filled) "
        "and of comparable samples it never saw (line). Where the two shapes lie on each other, "
        "an attacker who looks at this score learns nothing about who was in the training data.",
        "After forgetting, the shapes should look as in the model that was trained again.",
    )
    if verdict.people:
        explanation = (
            "How sure the model is of the true label: of these people, where it was trained on "
            "them (filled), and of test samples of everybody else (line). Where the two shapes lie "
            "on each other, an attacker who looks at this score learns nothing about who was in "
            "the training data. Of few people the filled shape is a few bars.",
        )
    if not models:
        return Section("scores", heading, explanation, missing="Attack scores were not measured.")
    pictures, rows = [], []
    for model in models:
        pair = groups[model]
        middle = [pair[name]["quartiles"][1] for name in ("members", "strangers")]
        about = (
            f"Two distributions of the score, {MODEL_NAMES[model].lower()}: the median is "
            f"{middle[0]:.1f} for training samples and {middle[1]:.1f} for strangers."
        )
        counts = {name: pair[name]["counts"] for name in ("members", "strangers")}
        title = f"Attack scores: {MODEL_NAMES[model]}"
        picture = charts.histogram(f"scores-{model}", title, about, histograms["edges"], counts)
        pictures.append((MODEL_NAMES[model], picture))
        for name, words in (("members", "trained on"), ("strangers", "never seen")):
            quartiles = (f"{q:.2f}" for q in pair[name]["quartiles"])
            rows.append((MODEL_NAMES[model], words, *quartiles, str(pair[name]["rows"])))
    head = ("Model", "Samples", "Lower quartile", "Median", "Upper quartile", "Count")
    legend = (("members", "Forgotten samples, trained on"), ("strangers", "Never seen"))
    table = Table(head, tuple(rows))
    return Section("scores", heading, explanation, legend, tuple(pictures), table)


def residue(verdict: Verdict) -> Section:
    """Show every measure for all models, depth by depth."""
    heading = "What is left of it"
    explanation: tuple[str, ...] = (
        "Every measure for the model before and after, for one that merely hides the answer, and "
        "for models without the label: trained again, or the top alone fitted anew to the same "
        "embeddings. The aim is the figure of these, not zero: a model that never learnt a label "
        "still tells it apart now and then.",
    )
    if "divergence" in verdict.measures:
        explanation += (NO_EVIDENCE,)
    known = {
        name: measurement
        for name, measurement in verdict.measures.items()
        if any(figure.value is not None for figure in measurement.values.values())
    }
    measures = {name: known[name] for name in (*MEASURE_NAMES, *known) if name in known}
    if not measures:
        return Section("residue", heading, explanation, missing="Nothing was measured.")
    models = [m for m in MODEL_NAMES if any(m in each.values for each in measures.values())]
    pictures = []
    named_places = places_of(verdict)
    for depth in (None, *named_places):
        rows = []
        for name, each in measures.items():
            if each.depth == depth and _within(each):
                shown = [(m, each.figure(m)) for m in models]
                marks = [_mark(m, f.value, f) for m, f in shown if f.value is not None]
                rows.append(Row(MEASURE_NAMES.get(name, name), tuple(marks)))
        place = named_places[depth] if depth else "Everything else the model knows"
        if rows:
            about_it = f"{len(rows)} measures, each with a value {named(models)}."
            title = f"What is left: {place.lower()}"
            key = f"residue-{depth or 'utility'}"
            pictures.append((place, charts.dot_rows(key, title, about_it, rows, UNITS)))
    lines = []
    for name, each in measures.items():
        figures = (
            "-"
            if m == "refitted" and m not in each.values
            else interval(each.values.get(m), each.unit)
            for m in models
        )
        about = f"{each.about[:1].upper()}{each.about[1:]}."
        lines.append((MEASURE_NAMES.get(name, name), about, *figures))
    head = ("Measure", "What it says", *(MODEL_NAMES[m] for m in models))
    table = Table(head, tuple(lines))
    return Section("residue", heading, explanation, model_signs(models), tuple(pictures), table)


def embeddings(verdict: Verdict) -> Section:
    """Show the embeddings of test rows before and after, in one basis."""
    flat = verdict.pictures.get("map") or {}
    names = verdict.pictures.get("labels") or []
    forgotten = list(verdict.pictures.get("forgotten") or [])
    maps = {m: flat["models"][m] for m in COMPARED if m in flat.get("models", {})}
    heading = "What the parties' models see"
    explanation: tuple[str, ...] = (
        "Each dot is a test sample as the parties' models describe it to the label holder, drawn "
        "flat, before and after on the same scale. A cloud of forgotten samples that still stands "
        "apart can still be recognised by whoever holds these models.",
    )
    if not maps:
        return Section("map", heading, explanation, missing="A map of the embeddings was not made.")
    explanation += (
        f"A flat picture shows {100 * flat['explained']:.0f} % of the differences: clouds that "
        f"are apart here are apart, clouds that overlap here need not. The measures above decide.",
    )
    xs, ys = ([point[axis] for points in maps.values() for point in points] for axis in (0, 1))
    box = (min(xs), max(xs), min(ys), max(ys))
    pictures = []
    for model, points in maps.items():
        title = f"Embeddings: {MODEL_NAMES[model]}"
        about = f"A map of {len(points)} test samples of {len(names)} labels."
        picture = charts.scatter(f"map-{model}", title, about, points, box, names, forgotten)
        pictures.append((MODEL_NAMES[model], picture))
    rows = tuple(
        (names[label], *(_middle(points, label) for points in maps.values()))
        for label in range(len(names))
        if any(point[2] == label for points in maps.values() for point in points)
    )
    head = ("Middle of the dots of", *(MODEL_NAMES[m] for m in maps))
    legend = (("dot-forgotten", "Forgotten"), ("dot", "Other labels"))
    shown = legend if forgotten else legend[1:]
    return Section("map", heading, explanation, shown, tuple(pictures), Table(head, rows))


def _within(measurement: Measurement) -> bool:
    """Return whether all values of a measure fit an axis from 0 to 1, shares that oppose at 0."""
    figures = measurement.values.values()
    ends = [end for each in figures for end in (each.value, each.low, each.high)]
    return measurement.unit != "ratio" and all(-1 <= end <= 1 for end in ends if end is not None)


def _mark(model: str, value: float, figure: Estimate) -> Mark:
    """Return a model's mark; what is below 0 is drawn at 0, and the table has the number."""
    ends = (None if end is None else max(0.0, end) for end in (figure.low, figure.high))
    return Mark(model, max(0.0, value), *ends)


def _middle(points: Sequence[Sequence[float]], label: int) -> str:
    inside = [point for point in points if point[2] == label]
    if not inside:
        return "-"
    x, y = (sorted(point[axis] for point in inside)[len(inside) // 2] for axis in (0, 1))
    return f"({x:.1f}, {y:.1f})"
