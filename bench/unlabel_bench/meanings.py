"""What each setting of a bench means, from the docstrings that say it once."""

from __future__ import annotations

from dataclasses import fields
from inspect import cleandoc
from typing import Any

from unlabel.config import TrainSettings
from unlabel_bench.recipe import Recipe

#: Settings of a recipe that are no settings of its training.
RECIPE = {
    "data": "a built-in dataset or an .npz file",
    "model": "the bottom model of every party",
    "parties": "how many passive parties",
    "defend_gradients": "what the active party does to gradients, like top-k:keep=0.1",
    "defend_embeddings": "what passive parties do to embeddings, like quantise:bits=8",
}


def meanings(settings: type[Any]) -> dict[str, str]:
    """Return the meaning of each setting that some docstring explains.

    >>> from unlabel_bench.speed.forget_speed import ForgetSpeedSettings
    >>> meanings(ForgetSpeedSettings)["repeats"]
    'warm requests; each is rolled back before the next'
    """
    known = [field.name for field in fields(settings)]
    texts = [kind.__doc__ or "" for kind in reversed(settings.__mro__) if kind is not object]
    texts_by_name: dict[str, str] = {}
    if issubclass(settings, Recipe):
        # The others are those of a run, and are explained there.
        run = [kind.__doc__ or "" for kind in reversed(TrainSettings.__mro__) if kind is not object]
        texts, texts_by_name = [*run, *texts], dict(RECIPE)
    for text in texts:
        texts_by_name |= _entries(cleandoc(text), known)
    return texts_by_name


def _entries(text: str, known: list[str]) -> dict[str, str]:
    """Return the lines that begin with a known name, each with the indented ones below it."""
    entries: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        first, _, rest = line.partition(" ")
        if line.startswith(" ") and name:
            entries[name] += f" {line.strip()}"
        else:
            name = first if first in known and rest.strip() else ""
            if name:
                entries[name] = rest.strip()
    return entries
