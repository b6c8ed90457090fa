"""Small runs whose bottoms are made without labels, and all that a passive party sees of one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unlabel import Federation
from unlabel.config import FitSettings, LabelFreeSettings, ModelSettings, RunConfig
from unlabel.config.run import ActiveTable, PassiveTable
from unlabel.data.dataset import Array
from unlabel.party import PassiveParty
from unlabel.wire import Message, encode

ROWS = 90
IDS = np.array([f"P{number:03d}" for number in range(ROWS)])
NAMES = ("alder", "beech", "cedar")
#: A fit that is quick, and still depends on every row, label and weight.
FIT = FitSettings(epochs=3, batch=16)
TESTS = Path(__file__).parent

#: Settings of `blind_run` that say how bottoms are made.
LABEL_FREE = ("across", "views", "width", "scale")

Cells = Sequence[str | float | None] | Array


def features() -> Array:
    """Return the columns of all parties together."""
    x: Array = np.random.default_rng(3).normal(size=(ROWS, 7)).round(3)
    return x


def cells(seed: int = 0, names: Sequence[str] = NAMES) -> Array:
    """Return a label a person, which features say something of."""
    x, rng = features(), np.random.default_rng(seed)
    scores = x[:, :1] * np.arange(len(names)) + rng.normal(size=(ROWS, len(names)))
    labels: Array = np.array(names, dtype=object)[scores.argmax(1)]
    return labels


def without(labels: Cells, rows: Sequence[int] | Array) -> Array:
    """Return labels with some cells empty."""
    left = np.array(labels, dtype=object)
    left[np.asarray(rows, dtype=np.int64)] = None
    return left


def tables(labels: Cells, *, active_part: bool = True) -> dict[str, dict[str, Any]]:
    """Return the tables of a bank with the labels, a shop and a gym; a category and a gap each."""
    x = features()
    bank: dict[str, Any] = {"id": IDS, "grown": np.array(labels, dtype=object)}
    if active_part:
        bank |= {"age": x[:, 0], "town": np.where(x[:, 1] > 0, "north", "south")}
    shop = {"id": IDS, **{f"s{n}": x[:, n] for n in (1, 2, 3, 4)}}
    gaps = np.where(x[:, 6] > 1, np.nan, x[:, 6])
    gym = {"id": IDS, "g1": x[:, 5], "g2": gaps, "kind": np.where(x[:, 6] > 0, "gold", "tin")}
    return {"bank": bank, "shop": shop, "gym": gym}


def blind_run(
    labels: Cells,
    folder: Path | None = None,
    *,
    kind: str = "blind",
    top: str | None = "linear",
    objective: str = "auto",
    active_part: bool = True,
    train: bool = True,
    options: Mapping[str, Any] | None = None,
    bottom: str = "mlp",
    **more: Any,
) -> Federation:
    """Return a run over `tables`, trained."""
    settings = {name: more.pop(name) for name in LABEL_FREE if name in more}
    settings = {"epochs": 2, "batch": 32, **settings}
    if kind == "tuned":
        more = {"epochs": 2, "batch": 16, **more}
    run = Federation.from_frames(
        tables(labels, active_part=active_part),
        label="grown",
        folder=folder,
        missing="flag",
        bottoms=kind,  # type: ignore[arg-type]
        model=ModelSettings(bottom=bottom, top=top, options=dict(options or {})),
        label_free=LabelFreeSettings(objective=objective, **settings),
        fit=more.pop("fit", FIT),
        **more,
    )
    if train:
        run.train()
    return run


def write_files(folder: Path, labels: Cells) -> RunConfig:
    """Write the tables as CSV files; return a blind run over them."""
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables(labels).items():
        pd.DataFrame(table).to_csv(folder / f"{name}.csv", index=False)
    return RunConfig(
        active=ActiveTable(table=folder / "bank.csv", label="grown", missing="flag"),
        passive=[
            PassiveTable(name=name, table=folder / f"{name}.csv", missing="flag")
            for name in ("shop", "gym")
        ],
        bottoms="blind",
        model=ModelSettings(top="linear"),
        fit=FIT,
    )


def scaled_by_two(shape: tuple[int, ...]) -> nn.Module:
    """Return an encoder that somebody else might have trained."""
    layer = nn.Linear(shape[0], 3)
    nn.init.constant_(layer.weight, 0.5)
    return layer


# What a run is


def state_of(run: Federation) -> dict[str, Tensor]:
    """Return the tensors of the version that a run is on, of all parties."""
    states = {"active": run.active.versions.model_state()}
    states |= {name: party.bottom.model_state() for name, party in run.passives.items()}
    return {f"{who}/{name}": each for who, state in states.items() for name, each in state.items()}


def differences(one: Federation, other: Federation) -> list[str]:
    """Return in what two runs differ: tensors, parts, labels, predictions, figures."""
    first, second = state_of(one), state_of(other)
    wrong = [f"tensor {name}" for name in first.keys() ^ second.keys()]
    both = first.keys() & second.keys()
    wrong += [f"tensor {name}" for name in both if not torch.equal(first[name], second[name])]
    for part in ("train", "validation", "test"):
        rows = [getattr(each.holdings.rows, part) for each in (one, other)]
        if not torch.equal(*rows):
            wrong.append(f"the {part} rows")
    if one.labels != other.labels:
        wrong.append(f"labels {one.labels} and {other.labels}")
    if not torch.equal(one.holdings.labels, other.holdings.labels):
        wrong.append("the labels of rows")
    for part in ("train", "validation", "test"):
        predicted = [each.predict(part=part) for each in (one, other)]
        if repr(predicted[0]) != repr(predicted[1]):
            wrong.append(f"predictions of {part}")
        if not np.array_equal(predicted[0].probabilities, predicted[1].probabilities):
            wrong.append(f"probabilities of {part}")
        if repr(one.evaluate(part)) != repr(other.evaluate(part)):
            wrong.append(f"evaluation of {part}")
    return wrong


# What a passive party sees


@dataclass
class Views:
    """Every message that reached each passive party, and every answer it gave, as bytes."""

    received: dict[str, list[bytes]] = field(default_factory=dict)
    sent: dict[str, list[bytes]] = field(default_factory=dict)

    def count(self) -> int:
        """Return how many messages reached a party at all."""
        return sum(map(len, self.received.values()))


@contextmanager
def watching(patch: pytest.MonkeyPatch) -> Iterator[Views]:
    """Note all that reaches passive parties, whoever sends it; stop the clock."""
    views, handle = Views(), PassiveParty.handle

    def noted(party: PassiveParty, message: Message) -> Message:
        views.received.setdefault(party.name, []).append(encode(message))
        answer = handle(party, message)
        views.sent.setdefault(party.name, []).append(encode(answer))
        return answer

    with patch.context() as inside:
        inside.setattr(PassiveParty, "handle", noted)
        for module in ("ledger", "label_free", "attesting", "checkpoint"):
            if hasattr(__import__(f"unlabel.party.{module}", fromlist=["x"]), "datetime"):
                inside.setattr(f"unlabel.party.{module}.datetime", StoppedClock)
        yield views


class StoppedClock(datetime):
    """A clock that always shows one moment: dates depend on no label either way."""

    @classmethod
    def now(cls, tz: Any = None) -> StoppedClock:  # noqa: ARG003
        """Return that moment."""
        return cls(2026, 1, 1, tzinfo=UTC)


def kept_in(home: Path) -> dict[str, bytes]:
    """Return every file in a passive party's folder; its random key by its size alone."""
    return {
        str(path.relative_to(home)): (
            str(path.stat().st_size).encode() if path.name == "signing.key" else path.read_bytes()
        )
        for path in sorted(home.rglob("*"))
        if path.is_file()
    }


def passives_of(run: Federation) -> dict[str, dict[str, bytes]]:
    """Return what all passive parties keep."""
    return {name: kept_in(run.folder / name) for name in run.passives}


def answers_of(views: Views) -> dict[str, list[bytes]]:
    """Return the answers of the parties without signatures by keys drawn at random."""
    return {
        name: [answer for answer in answers if b"signature" not in answer]
        for name, answers in views.sent.items()
    }


def attested(run: Federation) -> dict[str, Any]:
    """Return what the parties signed, without keys and signatures."""
    assert run.bottoms is not None
    assert run.bottoms.base is not None
    return {
        party: json.loads(each["part"]) for party, each in run.bottoms.base.attestations.items()
    }
