"""What the model still knows: attack scores, every measure, and a map of the embeddings."""

from __future__ import annotations

from collections.abc import Sequence

from unlabel.audit.measurement import Measurement
from unlabel.audit.verdict import MODELS, Verdict
from unlabel.report import charts
from unlabel.report.chapter import COMPARED, Chapter, Table, model_signs, named
from unlabel.report.charts import Mark, Row
from unlabel.report.words import MEASURE_NAMES, MODEL_NAMES, interval, places

#: Names of the ticks of an axis that not all measures read as a share.
UNITS = ("0", "0.25", "0.5", "0.75", "1")


def scores(verdict: Verdict) -> Chapter:
    """Show what an attack on membership sees."""
    found = verdict.pictures.get("scores") or {}
    groups = found.get("models") or {}
    models = [model for model in COMPARED if model in groups]
    heading = "Can an attacker tell who was trained on?"
    reading = (
        "How sure the model is of the true label: of forgotten samples it was trained on (filled) "
        "and of comparable samples it never saw (line). Where the two shapes lie on each other, "
        "an attacker who looks at this score learns nothing about who was in the training data.",
        "After forgetting, the shapes should look as in the model that was trained again.",
    )
    if not models:
        missing = "Attack scores were not measured."
        return Chapter("scores", heading, reading, missing=missing)
    drawn, rows = [], []
    for model in models:
        pair = groups[model]
        middle = [pair[name]["quartiles"][1] for name in ("members", "strangers")]
        about = (
            f"Two distributions of the score, {MODEL_NAMES[model].lower()}: the median is "
            f"{middle[0]:.1f} for training samples and {middle[1]:.1f} for strangers."
        )
        counts = {name: pair[name]["counts"] for name in ("members", "strangers")}
        title = f"Attack scores: {MODEL_NAMES[model]}"
        picture = charts.histogram(f"scores-{model}", title, about, found["edges"], counts)
        drawn.append((MODEL_NAMES[model], picture))
        for name, words in (("members", "trained on"), ("strangers", "never seen")):
            quartiles = (f"{q:.2f}" for q in pair[name]["quartiles"])
            rows.append((MODEL_NAMES[model], words, *quartiles, str(pair[name]["rows"])))
    head = ("Model", "Samples", "Lower quartile", "Median", "Upper quartile", "Count")
    signs = (("members", "Forgotten samples, trained on"), ("strangers", "Never seen"))
    return Chapter("scores", heading, reading, signs, tuple(drawn), Table(head, tuple(rows)))


def residue(verdict: Verdict) -> Chapter:
    """Show every measure for all models, level by level."""
    heading = "What is left of it"
    reading = (
        "Every measure for the model before and after, for one that merely hides the answer, and "
        "for one that was trained again. The aim is the last of these, not zero: a model that "
        "never learnt a label still tells it apart now and then.",
    )
    order = list(MEASURE_NAMES)
    known = sorted(
        verdict.measures.items(),
        key=lambda item: order.index(item[0]) if item[0] in order else len(order),
    )
    measures = {
        name: found
        for name, found in known
        if any(figure.value is not None for figure in found.values.values())
    }
    models = [m for m in MODELS if any(m in found.values for found in measures.values())]
    drawn = []
    named_places = places(verdict.measures)
    for level in (None, *named_places):
        rows = [
            Row(
                MEASURE_NAMES.get(name, name),
                tuple(
                    Mark(m, figure.value, figure.low, figure.high)
                    for m in models
                    if (figure := found.values.get(m)) and figure.value is not None
                ),
            )
            for name, found in measures.items()
            if found.level == level and _within(found)
        ]
        place = named_places[level] if level else "Everything else the model knows"
        if rows:
            about_it = f"{len(rows)} measures, each with a value {named(models)}."
            title = f"What is left: {place.lower()}"
            key = f"residue-{level or 'utility'}"
            drawn.append((place, charts.dot_rows(key, title, about_it, rows, UNITS)))
    if not measures:
        missing = "Nothing was measured."
        return Chapter("residue", heading, reading, missing=missing)
    table = Table(
        ("Measure", *(MODEL_NAMES[m] for m in models)),
        tuple(
            (
                MEASURE_NAMES.get(name, name),
                *(interval(found.values.get(m), found.unit) for m in models),
            )
            for name, found in measures.items()
        ),
    )
    return Chapter("residue", heading, reading, model_signs(models), tuple(drawn), table)


def embeddings(verdict: Verdict) -> Chapter:
    """Show the embeddings of test rows before and after, in one basis."""
    found = verdict.pictures.get("map") or {}
    names = verdict.pictures.get("labels") or []
    forgotten = list(verdict.pictures.get("forgotten") or [])
    maps = {m: found["models"][m] for m in COMPARED if m in found.get("models", {})}
    heading = "What the parties' models see"
    reading: tuple[str, ...] = (
        "Each dot is a test sample as the parties' models describe it to the label holder, drawn "
        "flat, before and after on the same scale. A cloud of forgotten samples that still stands "
        "apart can still be recognised by whoever holds these models.",
    )
    if not maps:
        missing = "A map of the embeddings was not made."
        return Chapter("map", heading, reading, missing=missing)
    reading += (
        f"A flat picture shows {100 * found['explained']:.0f} % of the differences: clouds that "
        f"are apart here are apart, clouds that overlap here need not. The measures above decide.",
    )
    xs, ys = ([point[axis] for points in maps.values() for point in points] for axis in (0, 1))
    box = (min(xs), max(xs), min(ys), max(ys))
    drawn = tuple(
        (
            MODEL_NAMES[model],
            charts.scatter(
                f"map-{model}",
                f"Embeddings: {MODEL_NAMES[model]}",
                f"A map of {len(points)} test samples of {len(names)} labels.",
                points,
                box,
                names,
                forgotten,
            ),
        )
        for model, points in maps.items()
    )
    rows = tuple(
        (names[label], *(_middle(points, label) for points in maps.values()))
        for label in range(len(names))
        if any(point[2] == label for points in maps.values() for point in points)
    )
    head = ("Middle of the dots of", *(MODEL_NAMES[m] for m in maps))
    signs = (("dot-forgotten", "Forgotten"), ("dot", "Other labels"))
    shown = signs if forgotten else signs[1:]
    return Chapter("map", heading, reading, shown, drawn, Table(head, rows))


def _within(found: Measurement) -> bool:
    """Return whether all values of a measure fit an axis from 0 to 1."""
    figures = found.values.values()
    ends = [end for each in figures for end in (each.value, each.low, each.high)]
    return found.unit != "ratio" and all(0 <= end <= 1 for end in ends if end is not None)


def _middle(points: Sequence[Sequence[float]], label: int) -> str:
    own = [point for point in points if point[2] == label]
    if not own:
        return "-"
    x, y = (sorted(point[axis] for point in own)[len(own) // 2] for axis in (0, 1))
    return f"({x:.1f}, {y:.1f})"
