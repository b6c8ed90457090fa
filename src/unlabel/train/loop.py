"""The training loop of vertical federated learning: embeddings up, gradients down."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from unlabel.config import TrainSettings
from unlabel.data import Rows
from unlabel.errors import DIVERGED, PartyRefused, TrainingDiverged
from unlabel.party import REMEMBERED, ActiveParty, Stream, own_randomness
from unlabel.party.optimisers import learning_rate
from unlabel.train.epochs import epochs_of, patience_of
from unlabel.train.evaluation import evaluate
from unlabel.train.facts import VersionFacts
from unlabel.train.progress import Epoch, Progress
from unlabel.train.watch import Watcher


class Training:
    """One training of a federation.

    Every step is a function of the weights, the seed and the step's number. So a training that
    was killed and resumes from its last version ends in the same weights as an undisturbed one.

    The untrained models are kept as version 0: parties that live on after a training was
    interrupted, or while others got lost, have moved and must be able to return to where all began.
    """

    def __init__(
        self,
        active: ActiveParty,
        rows: Rows,
        settings: TrainSettings,
        *,
        labels: int,
        facts: VersionFacts | None = None,
        watchers: Sequence[Watcher] = (),
        first: int = 0,
    ) -> None:
        self.active = active
        self.rows = rows
        self.settings = settings
        self.labels = labels
        self.facts = facts or VersionFacts()
        self.watchers = tuple(watchers)
        self.progress = Progress(version=first)
        self.steps_an_epoch = batch_count(rows.train, settings.batch)
        self.epochs = epochs_of(settings, len(rows.train))
        self.patience = patience_of(settings, rows)

    def run(self) -> Progress:
        """Train to the end, from the newest version that all parties have."""
        with own_randomness(self.active.device):
            rows = self.rows.train.to(self.active.device)
            self.active.prepare(rows, self.steps_an_epoch * self.epochs)
            self._resume()
            history, epochs = self.progress.history, self.epochs
            for watcher in self.watchers:
                watcher.started(history, epochs, len(rows))
            try:
                while not self.progress.finished:
                    with self._naming_divergence():
                        history.append(self._epoch(rows, len(history) + 1))
                        self._judge()
                    for watcher in self.watchers:
                        watcher.epoch_ended(history[-1], history)
            finally:
                for watcher in self.watchers:
                    watcher.ended()
        return self.progress

    def _resume(self) -> None:
        if self.active.versions.kept is None:
            return
        versions = self.active.versions.common()
        self.active.versions.expect_newest(versions)
        if versions:
            kept = VersionFacts.from_json(self.active.versions.restore(versions[-1]))
            self.progress = kept.progress or Progress()
        else:
            self._save()

    def _epoch(self, rows: Tensor, number: int) -> Epoch:
        started = time.perf_counter()
        first = (number - 1) * self.steps_an_epoch
        loss = torch.zeros((), dtype=torch.float64, device=self.active.device)
        correct = torch.zeros((), dtype=torch.int64, device=self.active.device)
        planned = list(batches(rows, self.settings.batch, seed=self.settings.seed, epoch=number))
        for step, batch in enumerate(planned, first):
            self._remember(batch)
            step_loss, step_correct = self.active.step(batch, step)
            loss += step_loss * len(batch)
            correct += step_correct
            for watcher in self.watchers:
                watcher.stepped(len(batch), step_loss, step_correct)
        mean_loss = loss.item() / len(rows)  # waits for the device, so the time below is whole
        seconds = time.perf_counter() - started
        if not torch.isfinite(loss):
            raise TrainingDiverged(
                f"The loss is not finite after epoch {number}; "
                f"lower `lr` (now {self.settings.lr:g})."
            )
        held = self.rows.validation
        validated = evaluate(self.active, held, self.labels) if len(held) else None
        return Epoch(
            epoch=number,
            loss=mean_loss,
            accuracy=correct.item() / len(rows),
            validation_loss=validated.loss if validated else None,
            validation_accuracy=validated.accuracy if validated else None,
            lr=learning_rate(self.settings, first, self.active.top.steps),
            seconds=seconds,
            rows_per_second=len(rows) / seconds,
        )

    @contextlib.contextmanager
    def _naming_divergence(self) -> Iterator[None]:
        """Say what to do where a party refuses numbers that have run away.

        Gradients may be refused only with the request after them (see `wire.Pipelined`).
        """
        try:
            yield
        except PartyRefused as error:
            if error.code not in DIVERGED:
                raise
            raise TrainingDiverged(
                f"{error} If the training diverges, lower `lr` (now {self.settings.lr:g})."
            ) from error

    def _remember(self, batch: Tensor) -> None:
        """Have the change kept that a batch with a label to be remembered is about to make."""
        wanted = self.settings.remember
        if not wanted:
            return
        labels = self.active.labels[batch]
        if torch.isin(labels, torch.tensor(wanted, device=labels.device)).any():
            self.active.accumulate_updates(REMEMBERED)

    def _judge(self) -> None:
        """Decide after an epoch whether to go on, and keep what has to be kept."""
        progress = self.progress
        last = progress.history[-1]
        better = self._is_better(last)
        if better:
            progress.best_accuracy = last.validation_accuracy or 0.0
            progress.best_epoch = last.epoch
        waited = last.epoch - progress.best_epoch
        stop_early = self.patience > 0 and waited >= self.patience
        progress.finished = last.epoch >= self.epochs or stop_early
        if self.active.versions.kept is None:
            return
        kept = progress.best_version is not None
        return_to_best = self.patience > 0 and progress.finished and not better and kept
        due = last.epoch % self.settings.save_every == 0 or progress.finished
        if not return_to_best and (due or (better and self.patience > 0)):
            progress.version += 1
            if better:
                progress.best_version = progress.version
            self._save()
        if return_to_best and progress.best_version is not None:
            self.active.versions.restore(progress.best_version)
            progress.version += 1
            progress.best_version = progress.version
            self._save()

    def _is_better(self, last: Epoch) -> bool:
        """Return whether an epoch ended better than all before it.

        The higher validation accuracy counts. Few validation rows give the same accuracy again
        and again, and the first epoch that had it is hardly the best: then the lower loss counts.
        """
        progress = self.progress
        accuracy = last.validation_accuracy or 0.0
        if accuracy != progress.best_accuracy or not progress.best_epoch:
            return accuracy > progress.best_accuracy
        before = progress.history[progress.best_epoch - 1].validation_loss
        return (
            self.patience > 0
            and before is not None
            and last.validation_loss is not None
            and last.validation_loss < before
        )

    def _save(self) -> None:
        progress = self.progress
        keep_best = self.patience > 0 and not progress.finished
        also = [progress.best_version] if keep_best and progress.best_version else []
        facts = replace(self.facts, progress=progress)
        self.active.versions.save(progress.version, facts.to_json(), also=also)


def batches(rows: Tensor, size: int, *, seed: int, epoch: int) -> Iterator[Tensor]:
    """Yield the rows in the random order of an epoch, `size` at a time.

    A last single row takes one more from the batch before it, since batch normalisation cannot
    train on one; batches of two instead grow to three.
    """
    order = torch.randperm(len(rows), generator=Stream(seed, "rows").generator(epoch))
    shuffled = rows[order.to(rows.device)]
    for start, end in _bounds(len(rows), size):
        yield shuffled[start:end]


def batch_count(rows: Tensor, size: int) -> int:
    """Return how many batches `batches` yields."""
    return len(_bounds(len(rows), size))


def _bounds(count: int, size: int) -> list[tuple[int, int]]:
    starts = list(range(0, count, size))
    if len(starts) > 1 and count - starts[-1] == 1:
        starts.pop()
        if size > 2:
            starts.append(count - 2)
    return list(zip(starts, [*starts[1:], count], strict=True))
