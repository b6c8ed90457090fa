"""Watchers of a training: progress, metrics.jsonl, TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from unlabel.files import write_atomically
from unlabel.train.progress import Epoch


class Watcher:
    """Called at what happens in a training; every method may be left as it is."""

    def started(self, history: Sequence[Epoch], epochs: int, rows: int) -> None:
        """Training begins or resumes after the epochs in `history`."""

    def stepped(self, rows: int, loss: Tensor, correct: Tensor) -> None:
        """A step over so many rows was taken; reading the tensors may wait for the device."""

    def epoch_ended(self, epoch: Epoch, history: Sequence[Epoch]) -> None:
        """An epoch ended; `history` includes it."""

    def ended(self) -> None:
        """Training ended, well or not."""


class MetricsFile(Watcher):
    """Keeps `metrics.jsonl`: a line of JSON an epoch, and no line torn by a crash."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def started(self, history: Sequence[Epoch], epochs: int, rows: int) -> None:  # noqa: ARG002
        """Drop the lines of epochs that will be repeated."""
        self._write(history)

    def epoch_ended(self, epoch: Epoch, history: Sequence[Epoch]) -> None:  # noqa: ARG002
        """Add a line."""
        self._write(history)

    def _write(self, history: Sequence[Epoch]) -> None:
        text = "".join(json.dumps(asdict(epoch)) + "\n" for epoch in history)
        write_atomically(self._path, text.encode())


class TensorBoard(Watcher):
    """Curves for TensorBoard, where it is installed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None

    def started(self, history: Sequence[Epoch], epochs: int, rows: int) -> None:  # noqa: ARG002
        """Open the event file, if TensorBoard is there to read it."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._writer = SummaryWriter(str(self._folder), purge_step=len(history) + 1)

    def epoch_ended(self, epoch: Epoch, history: Sequence[Epoch]) -> None:  # noqa: ARG002
        """Add a point to each curve."""
        if self._writer is not None:
            for name, value in asdict(epoch).items():
                if name != "epoch" and value is not None:
                    self._writer.add_scalar(name, value, epoch.epoch)

    def ended(self) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()
