"""`unlabel evaluate`: how well a run predicts its test rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated

import typer

from unlabel.cli.output import Json, percent, print_json, print_table
from unlabel.cli.target import Kit, Run, Target


def evaluate(
    run: Run = None,
    federation: Kit = None,
    part: Annotated[
        str, typer.Option(help="Rows to judge by: test, validation or train.")
    ] = "test",
    device: Annotated[str, typer.Option(help="cpu, cuda or auto; the run's own by default.")] = "",
    json: Json = False,
) -> None:
    """Show the accuracy of a run, label by label, and what is mistaken for what."""
    target = Target.of(run, federation)
    with target.open(device=device) as opened:
        target.note_unfinished(opened)
        found = opened.evaluate(part)
    by_label = dict(zip(opened.labels, found.per_label_accuracy, strict=True))
    gone = opened.forgotten.labels
    stays = accuracy_without(found.confusion, gone)
    if json:
        print_json(
            {
                "accuracy": found.accuracy,
                "retained_accuracy": stays,
                "forgotten_labels": [opened.labels[number] for number in gone],
                "loss": found.loss,
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
    print_table(title, rows, f"On all labels: {percent(found.accuracy)}." if gone else None)


def accuracy_without(
    confusion: Sequence[Sequence[int]], gone: Collection[int] = ()
) -> float | None:
    """Return the share of right answers on rows whose label was not forgotten.

    >>> accuracy_without([[8, 2], [5, 0]], [1]), accuracy_without([[8, 2], [5, 0]])
    (0.8, 0.5333333333333333)
    """
    stays = [number for number in range(len(confusion)) if number not in gone]
    rows = sum(sum(confusion[number]) for number in stays)
    return sum(confusion[number][number] for number in stays) / rows if rows else None
