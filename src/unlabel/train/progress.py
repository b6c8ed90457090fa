"""How far a training has come, and whether it came to its end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from unlabel.errors import ForgetError


@dataclass(frozen=True)
class Epoch:
    """What is known after an epoch.

    Loss and accuracy are means over the epoch while the weights moved; the validation figures
    are of the weights at its end, and None where there are no validation rows.
    """

    epoch: int
    loss: float
    accuracy: float
    validation_loss: float | None
    validation_accuracy: float | None
    lr: float
    seconds: float
    rows_per_second: float


@dataclass(repr=False)
class Progress:
    """How far a training has come; kept with every version, so that it can be resumed.

    best_version, best_accuracy  the version with the highest validation accuracy so far, and of
                                 those with the same the one with the lowest validation loss
    advice                       what the training's owner should do about it; no part of what is
                                 kept
    """

    version: int = 0
    history: list[Epoch] = field(default_factory=list)
    best_version: int | None = None
    best_accuracy: float = -1.0
    best_epoch: int = 0
    finished: bool = False
    advice: tuple[str, ...] = ()

    def to_facts(self) -> dict[str, Any]:
        """Return plain data."""
        return {name: value for name, value in asdict(self).items() if name != "advice"}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Progress:
        """Return the progress that `to_facts` described."""
        history = [Epoch(**epoch) for epoch in facts["history"]]
        return cls(**{**facts, "history": history})

    def __repr__(self) -> str:
        last = self.history[-1] if self.history else None
        loss = "" if last is None else f", loss {last.loss:.3f}"
        advice = "".join(f" {sentence}" for sentence in self.advice)
        state = "finished" if self.finished else "not finished"
        return f"<Progress: {len(self.history)} epochs{loss}, {state}.{advice}>"

    def most_accurate(self) -> Epoch:
        """Return the epoch that early stopping keeps: the highest validation accuracy, and of
        those the lowest validation loss; it stands in the history after requests too.
        """

        def worth(epoch: Epoch) -> tuple[float, float]:
            loss = epoch.validation_loss
            return epoch.validation_accuracy or 0.0, -math.inf if loss is None else -loss

        return max(self.history, key=worth)

    def continued(self, version: int) -> Progress:
        """Return the progress at a version that training did not make, but a request.

        The count of versions goes on from here; what was best before may know the label, or be
        purged.
        """
        done = len(self.history)
        return Progress(version, self.history, best_epoch=done, finished=self.finished)


def unfinished(facts: Mapping[str, Any]) -> str:
    """Return how far the training of a version came, "" where it came to its end.

    facts  what was noted with the version; one that a request made has them from the version that
           it began with

    >>> settings = {"epochs": 20}
    >>> unfinished({"progress": {"history": [{}] * 7, "finished": False}, "settings": settings})
    'Training stopped after epoch 7 of 20'
    >>> unfinished({"progress": {"history": [{}] * 9, "finished": True}, "settings": settings})
    ''
    """
    progress = facts.get("progress")
    if progress is None or progress.get("finished", True):
        return ""
    done = len(progress["history"])
    if done == 0:
        return "Training stopped before the end of its first epoch"
    epochs = facts.get("settings", {}).get("epochs")
    # Where the number of epochs follows from the data, it may not stand in the settings.
    of = f" of {epochs}" if isinstance(epochs, int) and epochs > done else ""
    return f"Training stopped after epoch {done}{of}"


def unfinished_note(facts: Mapping[str, Any], command: str) -> str:
    """Return a sentence for whoever looks at the model of an unfinished training, else "".

    command  that goes on with the training
    """
    stopped = unfinished(facts)
    return f"{stopped}; go on with: {command}" if stopped else ""


def expect_finished(facts: Mapping[str, Any], command: str) -> None:
    """Raise where the training of a version stopped half-way: its model is not what was wanted."""
    stopped = unfinished(facts)
    if stopped:
        raise ForgetError(
            f"{stopped}; finish it with `{command}`, or add --allow-unfinished to forget in this "
            f"model."
        )
