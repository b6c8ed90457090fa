"""`unlabel evaluate`: how well a run predicts its test rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from unlabel.cli.output import Json, percent, print_json, print_table
from unlabel.cli.target import Device, Kit, Run, Target

if TYPE_CHECKING:
    from unlabel.train import Evaluation

#: Figures that the JSON object has under the names of `Evaluation`.
FIGURES = (
    *("macro_f1", "auc", "average_precision", "threshold", "threshold_confusion", "confusion"),
)


def evaluate(
    run: Run = None,
    federation: Kit = None,
    part: Annotated[
        str, typer.Option(help="Rows to judge by: test, validation or train.")
    ] = "test",
    threshold: Annotated[
        float, typer.Option(help="Of two labels: probability above which the second is predicted.")
    ] = 0.5,
    device: Device = "",
    json: Json = False,
) -> None:
    """Show the accuracy of a run, label by label, and what is mistaken for what."""
    target = Target.of(run, federation)
    with target.open(device=device) as opened:
        target.note_unfinished(opened)
        evaluation = opened.evaluate(part, threshold=threshold)
    by_label = dict(zip(opened.labels, evaluation.per_label_accuracy, strict=True))
    forgotten = evaluation.forgotten
    stays = evaluation.accuracy_on(evaluation.stay)
    if json:
        facts = {
            "accuracy": stays,
            "accuracy_all_labels": evaluation.accuracy_all,
            "retained_accuracy": stays,
            "forgotten_labels": [opened.labels[number] for number in forgotten],
            "loss": evaluation.loss if stays is not None else None,
            **{name: getattr(evaluation, name) for name in FIGURES},
            "per_label_accuracy": by_label,
            "labels": list(opened.labels),
            "part": part,
        }
        print_json({**facts, **target.json()})
        return
    rows = [["label", "accuracy", "rows", "most often mistaken for"]]
    for index, (name, accuracy) in enumerate(by_label.items()):
        line = evaluation.confusion[index]
        wrong = [(count, other) for other, count in enumerate(line) if other != index and count]
        mistaken = f"{opened.labels[max(wrong)[1]]} ({max(wrong)[0]})" if wrong else "-"
        shown = f"{name} (forgotten)" if index in forgotten else name
        rows.append([shown, percent(accuracy), str(sum(line)), mistaken])
    title = f"{part.capitalize()} accuracy {percent(stays)}"
    if forgotten:
        # A forgotten label is meant to be missed, so it would only blur what the model is worth.
        stay = len(opened.labels) - len(forgotten)
        title += f" on the {stay} labels that stay, {len(forgotten)} forgotten"
    more = [f"On all labels: {percent(evaluation.accuracy_all)}."] if forgotten else []
    print_table(title, rows, " ".join([*more, *_further(evaluation, opened.labels)]) or None)


def _further(evaluation: Evaluation, names: Sequence[str]) -> Iterator[str]:
    """Say what there is beside the accuracy: of two labels that stay, or of more."""
    if evaluation.threshold_confusion is None:
        if evaluation.macro_f1 is not None:
            yield f"Macro F1 {evaluation.macro_f1:.3f}."
        return
    first, second = (names[number] for number in evaluation.stay)
    if evaluation.auc is not None and evaluation.average_precision is not None:
        yield f"AUC {evaluation.auc:.3f}, average precision {evaluation.average_precision:.3f}."
    (kept, raised), (missed, caught) = evaluation.threshold_confusion
    yield (
        f"At threshold {evaluation.threshold:g} of '{second}': {caught} of {caught + missed} rows "
        f"of '{second}' and {kept} of {kept + raised} of '{first}' right."
    )
