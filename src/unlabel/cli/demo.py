"""`unlabel demo`: two parties learn together, and a label vanishes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Group
from rich.panel import Panel
from rich.text import Text

from unlabel import erasure
from unlabel.audit import linear_probe
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
from unlabel.forget import Forgotten
from unlabel.models import ModelSettings
from unlabel.party import PassiveParty
from unlabel.train import Holdings, RunConfig, TrainSettings, assemble, load_holdings

EPOCHS = 15
FORGOTTEN = 3
#: Decides the draws of the request, so that the demo shows the same every time.
KEY = "2a" * 32
#: Rows of the table, by the name of the model behind each.
SHOWN = {
    "original": "before",
    "renormalise": "after `renormalise` (committed)",
    "deep": "after `deep` instead",
    "mask": "control: output hidden, nothing forgotten",
    "retrained": "retrained without the label",
}


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Names every random draw.")] = 0,
    picture: Annotated[
        Path | None, typer.Option(help="Also keep what is shown as an SVG picture.")
    ] = None,
    json: Json = False,
) -> None:
    """Train two parties on bundled data, forget a label, and show what is left; under a minute.

    A digit is cut in two: one party holds the left half of every image, another the right half,
    and a third the labels. They train one model without showing each other anything but
    embeddings and gradients. Then they forget one digit, beside a model retrained without it.
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
    together = federation.evaluate().accuracy
    wire = {name: _wire(party) for name, party in federation.passives.items()}
    models = _forget(federation, holdings)
    if json:
        print_json(
            {
                "accuracy": together,
                "alone": alone,
                "wire": wire,
                "parties": len(wire),
                "forgotten": str(FORGOTTEN),
                "models": models,
                "run": str(out),
            }
        )
        return
    page = _page(alone, together, wire, models, out)
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


def _forget(federation: Federation, holdings: Holdings) -> dict[str, dict[str, float | None]]:
    """Forget a digit in several ways, the last for good; judge each beside a retrained model."""
    models = {"original": _judge(federation)}
    for name in ("mask", "deep", "renormalise"):
        messages.print(f"forgetting the digit {FORGOTTEN}: {name}")
        outcome = federation.forget([FORGOTTEN], method=name, key=KEY)
        models[name] = {**_judge(federation), "seconds": outcome.result.seconds}
        if name != "renormalise":
            outcome.rollback()
    outcome.commit()
    erasure.purge(federation)
    active, passives = assemble(holdings)
    retrained = Federation(holdings, active, passives)
    retrained.forgotten = Forgotten(labels=(FORGOTTEN,))
    retrained.train(watchers=[ProgressBar(messages, f"without the {FORGOTTEN}")])
    models["retrained"] = _judge(retrained)
    return {name: models[name] for name in SHOWN}


def _judge(federation: Federation) -> dict[str, float | None]:
    """Return accuracies, and what a probe still reads from the frozen embeddings."""
    found = federation.evaluate()
    active, rows = federation.active, federation.holdings.rows
    labels = federation.holdings.labels
    asked = rows.test[labels[rows.test] == FORGOTTEN]
    train, test = (torch.cat(active.embeddings(part), 1) for part in (rows.train, asked))
    count = len(federation.labels)
    return {
        "retained": found.accuracy_on(n for n in range(count) if n != FORGOTTEN),
        "forgotten": found.accuracy_on([FORGOTTEN]),
        "probe": linear_probe(train, labels[rows.train], test, labels[asked], count),
    }


def _wire(party: PassiveParty) -> dict[str, Any]:
    assert party.transcript is not None
    return {
        "messages": len(party.transcript.entries),
        "bytes_received": party.transcript.total_bytes("received"),
        "bytes_sent": party.transcript.total_bytes("sent"),
        "kinds_sent": sorted({e.kind for e in party.transcript.entries if e.direction == "sent"}),
    }


def _page(
    alone: dict[str, float],
    together: float,
    wire: dict[str, Any],
    models: dict[str, dict[str, float | None]],
    out: Path,
) -> Group:
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
    gone = [["model", "other digits", f"the {FORGOTTEN}", "probe"]]
    for name, title in SHOWN.items():
        found = models[name]
        cells = [percent(found[key]) for key in ("retained", "forgotten", "probe")]
        bold = name == "renormalise"
        gone.append([f"[bold]{cell}[/]" if bold else cell for cell in (title, *cells)])
    about = Text(
        "Ten handwritten digits, each image cut in two. One party holds the left halves, one the "
        f"right halves, a third the labels. Nobody shows the others their data. Then the digit "
        f"{FORGOTTEN} has to go."
    )
    next_steps = Text(
        f"{out} has one subfolder a party, with its checkpoint and its ledger; what stems from "
        f"before was purged.\n"
        f"unlabel evaluate {out}              accuracy label by label\n"
        f"unlabel status {out}                who is on which version\n"
        f"unlabel forget {out} --label 7      the next request"
    )
    return Group(
        Panel(about, title="unlabel demo", title_align="left"),
        make_table("Together they know more", who),
        make_table("What crossed each party's boundary in training", crossed),
        make_table(
            f"The digit {FORGOTTEN} is forgotten",
            gone,
            "probe: a linear classifier fitted on the frozen embeddings with all labels; a hidden "
            "output does not lower it",
        ),
        Panel(next_steps, title="Where to look", title_align="left"),
    )
