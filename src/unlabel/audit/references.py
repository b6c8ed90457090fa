"""Models that never had the label, to judge by: retrained ones, and tops refitted alone.

retrained  all models trained without the label, from seeds of their own; it needs all parties' data
           in this process. What was seen of each is kept, and used again
matched    the same with fewer passes, for a request that took fewer than the training: how much
           embeddings give of any label depends on how long they were trained
refitted   tops fitted to the labels that stay, on the embeddings of the model that is judged: these
           the label holder can always train, also between organisations
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unlabel.audit.observation import (
    Observation,
    ObservedRows,
    read_observation,
    write_observation,
)
from unlabel.config import TrainSettings
from unlabel.data import ACTIVE
from unlabel.files import sha256
from unlabel.forget import Run
from unlabel.forget.service import RETRAINED
from unlabel.models.tops import Top
from unlabel.party import ActiveParty
from unlabel.party.bottom import fingerprint
from unlabel.party.learner import Learner
from unlabel.progress import Watch, watch_nothing
from unlabel.train import Conduct, Epoch, Forgotten, VersionFacts, Watcher
from unlabel.train.epochs import epochs_of
from unlabel.train.top_refit import refit_recipe, refit_tops

#: How references are seeded; those of another rule are not used again.
SEEDS = "seeds of their own"
#: Tops that are refitted.
TOPS = 7


@dataclass(frozen=True)
class Trainings:
    """References that are trained as the run was, from seed after seed.

    run, facts  what they are references for
    more        what they are made from beside the run's data and settings
    names       of the labels that they are seen by
    train       returns the active party of a model trained by settings, in a folder for it; a
                watcher is told how far it is
    look        returns what is seen of it
    """

    run: Run
    facts: VersionFacts
    more: list[Any]
    names: tuple[str, ...]
    train: Callable[[TrainSettings, Path, Watcher], ActiveParty]
    look: Callable[[ActiveParty], Observation]
    watch: Watch

    def seen(self, wanted: int, *, epochs: int = 0) -> list[tuple[Observation, str]]:
        """Return what was seen of models, with its hash: of those kept and those wanted.

        Each has a seed of its own, none of them that of the original: what they have in common with
        it is what the data says, not where it began.

        epochs  passes of each; 0 is as many as the run had
        """
        kept = self.run.folder / ACTIVE / RETRAINED
        if not wanted and not kept.exists():
            return []
        settings = self.run.config.train
        settings = replace(settings, epochs=epochs) if epochs else settings
        recipe = self._recipe(epochs)
        folder = kept / recipe[:12]
        work = folder / "work"  # where one is trained; what a killed audit left there goes
        shutil.rmtree(work, ignore_errors=True)
        references = []
        for number in range(max(wanted, len(list(folder.glob("*.safetensors"))))):
            path = folder / f"{number}.safetensors"
            seeded = replace(settings, seed=settings.seed + 1 + number)
            made_from = {"recipe": recipe, "seed": str(seeded.seed)}
            if not path.exists():
                short = f", {epochs} passes" if epochs else ""
                watcher = _Epochs(self.watch, f"retraining {number + 1} of {wanted}{short}")
                try:
                    seen = self.look(self.train(seeded, work, watcher))
                    write_observation(path, seen, made_from)
                finally:
                    shutil.rmtree(work, ignore_errors=True)
            references.append(read_observation(path, self.names, made_from))
        return references

    def _recipe(self, epochs: int) -> str:
        """Return the fingerprint of all that references are made from, but for their seeds."""
        run, facts = self.run, self.facts
        features = {party: fingerprint(each) for party, each in run.holdings.features.items()}
        about = [SEEDS, facts.data, features, dict(facts.settings), asdict(facts.forgotten)]
        about += [asdict(run.config.model), asdict(run.config.defend), *self.more]
        about += [{"epochs": epochs}] if epochs else []
        return sha256(json.dumps(about, sort_keys=True, default=str).encode())


class _Epochs(Watcher):
    """Says how many passes of a training are done."""

    def __init__(self, watch: Watch, note: str) -> None:
        self._watch, self._note, self._epochs = watch, note, 1
        watch(0, 1, note)

    def started(self, history: Sequence[Epoch], epochs: int, rows: int) -> None:  # noqa: ARG002
        """Note how many there are."""
        self._epochs = epochs

    def epoch_ended(self, epoch: Epoch, history: Sequence[Epoch]) -> None:  # noqa: ARG002
        """Say so."""
        self._watch(epoch.epoch, self._epochs, self._note)


def matched_epochs(run: Run, conduct: Conduct, forgotten: Forgotten) -> int:
    """Return how many passes a request took whose models were trained less long than the run.

    0 where it took as many or more, or moved no bottom by training.
    """
    training, rows = run.config.train, len(run.holdings.rows_without(forgotten).train)
    took = math.ceil((conduct.steps or 0) / max(1, math.ceil(rows / training.batch)))
    whole = epochs_of(training, rows)
    return took if conduct.aim == "bottoms" and 0 < took < whole else 0


def refitted(
    training: TrainSettings,
    top: Learner,
    seen: Observation,
    labels: Sequence[int],
    rows: int,
    watch: Watch = watch_nothing,
) -> list[Observation]:
    """Return tops refitted without labels to the embeddings of a model, from seeds of their own.

    training  how the run was trained; `top` is of the layers that its top has
    rows      training rows of the run, those of labels forgotten earlier too: they decide the steps
              of a request's new top, and one that is held against it takes as many. It is taught
              by all rows as well: tops of a sample have its chance in common, and the new top of
              the request would be nearer to the original, which saw all
    """
    embeddings, truth = seen.taught
    stay = [n for n in truth.unique().tolist() if n not in labels]
    if len(stay) < 2:
        return []
    recipes = [refit_recipe(training, rows, number=number) for number in range(1, TOPS + 1)]
    modules = refit_tops(top, embeddings, truth, stay, recipes, watch)
    seen = replace(seen, every=None)
    return [with_answers(seen, module.cpu().eval()) for module in modules]


@torch.no_grad()
def with_answers(seen: Observation, top: nn.Module) -> Observation:
    """Return the same embeddings with the answers of another top."""

    def rows(part: ObservedRows) -> ObservedRows:
        embeddings = list(part.embeddings.values())
        logits = top(embeddings).float()
        scores = top.unmuted(embeddings).float() if isinstance(top, Top) else logits
        return replace(part, logits=logits, scores=scores)

    return replace(seen, train=rows(seen.train), test=rows(seen.test), top=top)
