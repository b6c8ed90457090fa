"""`unlabel evaluate`: how well a run predicts its test rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unlabel.cli.output import Json, percent, print_json, print_table
from unlabel.federation import Federation


def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder of the run.")],
    part: Annotated[
        str, typer.Option(help="Rows to judge by: test, validation or train.")
    ] = "test",
    device: Annotated[str, typer.Option(help="cpu, cuda or auto; the run's own by default.")] = "",
    json: Json = False,
) -> None:
    """Show the accuracy of a run, label by label, and what is mistaken for what."""
    federation = Federation.open(run, device=device)
    found = federation.evaluate(part)
    by_label = dict(zip(federation.labels, found.per_label_accuracy, strict=True))
    if json:
        print_json(
            {
                "accuracy": found.accuracy,
                "loss": found.loss,
                "per_label_accuracy": by_label,
                "confusion": [list(line) for line in found.confusion],
                "labels": list(federation.labels),
                "part": part,
                "run": str(run),
            }
        )
        return
    rows = [["label", "accuracy", "rows", "most often mistaken for"]]
    for index, (name, accuracy) in enumerate(by_label.items()):
        line = found.confusion[index]
        wrong = [(count, other) for other, count in enumerate(line) if other != index and count]
        mistaken = f"{federation.labels[max(wrong)[1]]} ({max(wrong)[0]})" if wrong else "-"
        rows.append([name, percent(accuracy), str(sum(line)), mistaken])
    print_table(f"{part.capitalize()} accuracy {percent(found.accuracy)}", rows)
