"""Numbers of 16 bits between the parties: the bytes of a training step, and the accuracy."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, Any

from unlabel.config import DefendSettings
from unlabel.federation import Federation
from unlabel.wire import Recorder
from unlabel_bench.registry import Say

if TYPE_CHECKING:
    from unlabel_bench.speed.wire import WireSettings

#: What is sent, and the defence that makes it so.
SENT = {"float32": [], "fp16": ["half:dtype=fp16"], "bf16": ["half:dtype=bf16"]}


def half_precision(settings: WireSettings, say: Say) -> list[dict[str, Any]]:
    """Return bytes a step and test accuracy for each dataset and each way of sending numbers."""
    lines = []
    for data in settings.data:
        for sent in SENT:
            accuracies = []
            for seed in range(settings.seeds):
                say(f"{data}, {sent}: seed {seed} of {settings.seeds}")
                federation = _federation(settings, data, sent, seed)
                federation.train()
                accuracies.append(federation.evaluate().accuracy)
            lines.append(
                {
                    "data": data,
                    "sent": sent,
                    "parties": settings.compare,
                    **bytes_a_step(_federation(settings, data, sent, 0), settings.batch),
                    "accuracies": accuracies,
                    "accuracy": mean(accuracies),
                }
            )
    return lines


def bytes_a_step(federation: Federation, batch: int) -> dict[str, int]:
    """Return the encoded bytes of one training step, all parties together, by direction."""
    rows = federation.holdings.rows.train
    federation.active.prepare(rows, steps=1)
    recorder = federation.active.transport = Recorder(federation.active.transport)
    federation.active.step(rows[:batch], 0)
    transcripts = recorder.transcripts.values()
    return {
        "to_parties": sum(one.total_bytes("received") for one in transcripts),
        "from_parties": sum(one.total_bytes("sent") for one in transcripts),
    }


def _federation(settings: WireSettings, data: str, sent: str, seed: int) -> Federation:
    return Federation.local(
        data,
        parties=settings.compare,
        model=settings.model,
        encoded=True,
        defend=DefendSettings(gradients=SENT[sent], embeddings=SENT[sent]),
        epochs=settings.epochs,
        batch=settings.batch,
        seed=seed,
    )
