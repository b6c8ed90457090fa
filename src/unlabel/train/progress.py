"""How far a training has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from unlabel.train.watch import Epoch


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

    def continued(self, version: int) -> Progress:
        """Return the progress at a version that training did not make, but a request.

        The count of versions goes on from here; what was best before may know the label, or be
        purged.
        """
        return replace(
            self,
            version=version,
            best_version=None,
            best_accuracy=-1.0,
            best_epoch=len(self.history),
        )
