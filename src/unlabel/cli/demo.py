"""`unlabel demo`: two parties learn together what neither could alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.panel import Panel
from rich.text import Text

from unlabel.cli.output import (
    Json,
    amount,
    make_table,
    messages,
    percent,
    print_json,
    results,
    to_svg,
)
from unlabel.cli.progress import ProgressBar
from unlabel.data import Features
from unlabel.federation import Federation
from unlabel.files import write_atomically
from unlabel.models import ModelSettings
from unlabel.party import PassiveParty
from unlabel.train import Holdings, RunConfig, TrainSettings, assemble, load_holdings

EPOCHS = 15


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Names every random draw.")] = 0,
    picture: Annotated[
        Path | None, typer.Option(help="Also keep what is shown as an SVG picture.")
    ] = None,
    json: Json = False,
) -> None:
    """Train two parties on bundled data and show what each saw; well under a minute.

    A digit is cut in two: one party holds the left half of every image, another the right half,
    and a third the labels. They train one model without showing each other anything but
    embeddings and gradients.
    """
    config = RunConfig(
        data="digits",
        parties={"left": 4, "right": 4},
        model=ModelSettings(bottom="convnet"),
        train=TrainSettings(epochs=EPOCHS, seed=seed),
    )
    holdings = load_holdings(config)
    alone = {name: _train_alone(holdings, name) for name in holdings.features}
    federation = Federation.create(config, out, overwrite=True, record=True)
    federation.train(watchers=[ProgressBar(messages, "left + right")])
    found = federation.evaluate()
    wire = {name: _wire(party) for name, party in federation.passives.items()}
    if json:
        print_json(
            {
                "accuracy": found.accuracy,
                "alone": alone,
                "wire": wire,
                "parties": len(wire),
                "run": str(out),
            }
        )
        return
    page = _page(alone, found.accuracy, wire, out)
    results.print(page)
    if picture is not None:
        write_atomically(picture, to_svg(page, "unlabel demo").encode())


def _train_alone(holdings: Holdings, name: str) -> float:
    """Return the accuracy the label holder reaches with one party's half only."""
    features: dict[str, Features] = {name: holdings.features[name]}
    own = replace(holdings, features=features)
    active, passives = assemble(own)
    federation = Federation(own, active, passives)
    federation.train(watchers=[ProgressBar(messages, f"{name} alone")])
    return federation.evaluate().accuracy


def _wire(party: PassiveParty) -> dict[str, Any]:
    assert party.transcript is not None
    return {
        "messages": len(party.transcript.entries),
        "bytes_received": party.transcript.total_bytes("received"),
        "bytes_sent": party.transcript.total_bytes("sent"),
        "kinds_sent": sorted({e.kind for e in party.transcript.entries if e.direction == "sent"}),
    }


def _page(alone: dict[str, float], together: float, wire: dict[str, Any], out: Path) -> Group:
    who = [["who trains", "test accuracy"]]
    who += [[f"label holder + {name} half", percent(accuracy)] for name, accuracy in alone.items()]
    who.append(["[bold]label holder + left half + right half[/]", f"[bold]{percent(together)}[/]"])
    crossed = [["party", "messages", "received", "sent", "what it sent"]]
    crossed += [
        [
            name,
            f"{seen['messages']:,}",
            amount(seen["bytes_received"]),
            amount(seen["bytes_sent"]),
            ", ".join(seen["kinds_sent"]),
        ]
        for name, seen in wire.items()
    ]
    about = Text(
        "Ten handwritten digits, each image cut in two. One party holds the left halves, one the "
        "right halves, a third the labels. Nobody shows the others their data."
    )
    next_steps = Text(
        f"{out} has one subfolder a party, with its checkpoint and its transcript.\n"
        f"unlabel evaluate {out}    accuracy label by label\n"
        f"unlabel train --help          your own data and models"
    )
    return Group(
        Panel(about, title="unlabel demo", title_align="left"),
        make_table("Together they know more", who),
        make_table("What crossed each party's boundary", crossed, "embeddings up, gradients down"),
        Panel(next_steps, title="Where to look", title_align="left"),
    )
