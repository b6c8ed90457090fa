"""`unlabel evaluate`: how well a run predicts its test rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from unlabel.cli.output import Json, percent, print_json, print_table
from unlabel.cli.target import Kit, Run, Target

if TYPE_CHECKING:
    from unlabel.train import Evaluation


def evaluate(
    run: Run = None,
    federation: Kit = None,
    part: Annotated[
        str, typer.Option(help="Rows to judge by: test, validation or train.")
    ] = "test",
    threshold: Annotated[
        float,
        typer.Option(help="Of two labels: probability above which the second is predicted."),
    ] = 0.5,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto; the run's own by default.")] = "",
    json: Json = False,
) -> None:
    """Show the accuracy of a run, label by label, and what is mistaken for what."""
    target = Target.of(run, federation)
    with target.open(device=device) as opened:
        target.note_unfinished(opened)
        found = opened.evaluate(part, threshold=threshold)
    by_label = dict(zip(opened.labels, found.per_label_accuracy, strict=True))
    gone = found.forgotten
    stays = found.accuracy_on(found.stay)
    if json:
        print_json(
            {
                "accuracy": stays,
                "accuracy_all_labels": found.accuracy_all,
                "retained_accuracy": stays,
                "forgotten_labels": [opened.labels[number] for number in gone],
                "loss": found.loss if stays is not None else None,
                "macro_f1": found.macro_f1,
                "auc": found.auc,
                "average_precision": found.average_precision,
                "threshold": found.threshold,
                "threshold_confusion": found.threshold_confusion,
                "per_label_accuracy": by_label,
                "confusion": [list(line) for line in found.confusion],
                "labels": list(opened.labels),
                "part": part,
                **target.json(),
            }
        )
        return
    rows = [["label", "accuracy", "rows", "most often mistaken for"]]
    for index, (name, accuracy) in enumerate(by_label.items()):
        line = found.confusion[index]
        wrong = [(count, other) for other, count in enumerate(line) if other != index and count]
        mistaken = f"{opened.labels[max(wrong)[1]]} ({max(wrong)[0]})" if wrong else "-"
        shown = f"{name} (forgotten)" if index in gone else name
        rows.append([shown, percent(accuracy), str(sum(line)), mistaken])
    title = f"{part.capitalize()} accuracy {percent(stays)}"
    if gone:
        # A forgotten label is meant to be missed, so it would only blur what the model is worth.
        title += f" on the {len(opened.labels) - len(gone)} labels that stay, {len(gone)} forgotten"
    more = [f"On all labels: {percent(found.accuracy_all)}."] if gone else []
    print_table(title, rows, " ".join([*more, *_further(found, opened.labels)]) or None)


def _further(found: Evaluation, names: Sequence[str]) -> Iterator[str]:
    """Say what there is beside the accuracy: of two labels that stay, or of more."""
    if found.threshold_confusion is None:
        if found.macro_f1 is not None:
            yield f"Macro F1 {found.macro_f1:.3f}."
        return
    first, second = (names[number] for number in found.stay)
    if found.auc is not None and found.average_precision is not None:
        yield f"AUC {found.auc:.3f}, average precision {found.average_precision:.3f}."
    (kept, raised), (missed, caught) = found.threshold_confusion
    yield (
        f"At threshold {found.threshold:g} of '{second}': {caught} of {caught + missed} rows of "
        f"'{second}' and {kept} of {kept + raised} of '{first}' right."
    )
