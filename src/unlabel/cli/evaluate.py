"""`unlabel evaluate`: how well a run predicts its test rows."""

from __future__ import annotations

from typing import Annotated

import typer

from unlabel.cli.output import Json, percent, print_json, print_table
from unlabel.cli.target import Far, Run, Target


def evaluate(
    run: Run = None,
    federation: Far = None,
    part: Annotated[
        str, typer.Option(help="Rows to judge by: test, validation or train.")
    ] = "test",
    device: Annotated[str, typer.Option(help="cpu, cuda or auto; the run's own by default.")] = "",
    json: Json = False,
) -> None:
    """Show the accuracy of a run, label by label, and what is mistaken for what."""
    target = Target.of(run, federation)
    with target.open(device=device) as opened:
        found = opened.lasting(lambda: opened.evaluate(part))
    by_label = dict(zip(opened.labels, found.per_label_accuracy, strict=True))
    if json:
        print_json(
            {
                "accuracy": found.accuracy,
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
        rows.append([name, percent(accuracy), str(sum(line)), mistaken])
    print_table(f"{part.capitalize()} accuracy {percent(found.accuracy)}", rows)
