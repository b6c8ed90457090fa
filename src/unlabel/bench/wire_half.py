"""Numbers of 16 bits between the parties: the bytes of a training step, and the accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any, Protocol

from unlabel.defend import DefendSettings
from unlabel.federation import Federation
from unlabel.wire import Recorder

#: What is sent, and the defence that makes it so.
SENT = {"float32": [], "fp16": ["half:dtype=fp16"], "bf16": ["half:dtype=bf16"]}


class Trial(Protocol):
    """What is tried: see `WireSettings`."""

    @property
    def data(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def model(self) -> str: ...  # noqa: D102
    @property
    def compare(self) -> int: ...  # noqa: D102
    @property
    def epochs(self) -> int: ...  # noqa: D102
    @property
    def batch(self) -> int: ...  # noqa: D102
    @property
    def seeds(self) -> int: ...  # noqa: D102


def half_precision(trial: Trial, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return bytes a step and test accuracy for each dataset and each way of sending numbers."""
    found = []
    for data in trial.data:
        for sent in SENT:
            accuracies = []
            for seed in range(trial.seeds):
                say(f"{data}, {sent}: seed {seed} of {trial.seeds}")
                federation = _federation(trial, data, sent, seed)
                federation.train()
                accuracies.append(federation.evaluate().accuracy)
            found.append(
                {
                    "data": data,
                    "sent": sent,
                    "parties": trial.compare,
                    **bytes_a_step(_federation(trial, data, sent, 0), trial.batch),
                    "accuracies": accuracies,
                    "accuracy": mean(accuracies),
                }
            )
    return found


def bytes_a_step(federation: Federation, batch: int) -> dict[str, int]:
    """Return the encoded bytes of one training step, all parties together, by direction."""
    rows = federation.holdings.rows.train
    federation.active.prepare(rows, steps=1)
    recorder = federation.active.transport = Recorder(federation.active.transport)
    federation.active.step(rows[:batch], 0)
    noted = recorder.transcripts.values()
    return {
        "to_parties": sum(one.total_bytes("received") for one in noted),
        "from_parties": sum(one.total_bytes("sent") for one in noted),
    }


def _federation(trial: Trial, data: str, sent: str, seed: int) -> Federation:
    return Federation.local(
        data,
        parties=trial.compare,
        model=trial.model,
        encoded=True,
        defend=DefendSettings(gradients=SENT[sent], embeddings=SENT[sent]),
        epochs=trial.epochs,
        batch=trial.batch,
        seed=seed,
    )
