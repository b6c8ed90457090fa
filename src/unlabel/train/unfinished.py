"""A training that stopped before its end, and what is to be said of its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unlabel.errors import ForgetError


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


def unfinished_note(facts: Mapping[str, Any], again: str) -> str:
    """Return a sentence for whoever looks at the model of an unfinished training, else "".

    again  the command that goes on with the training
    """
    found = unfinished(facts)
    return f"{found}; go on with: {again}" if found else ""


def expect_finished(facts: Mapping[str, Any], again: str) -> None:
    """Raise where the training of a version stopped half-way: its model is not what was wanted.

    again  the command that goes on with the training
    """
    found = unfinished(facts)
    if found:
        raise ForgetError(
            f"{found}; finish it with `{again}`, or add --allow-unfinished to forget in this model."
        )
