"""The two exact methods: which of them a run has follows from how its bottoms were made.

refit    of a blind run: the top is fitted anew, to embeddings that the label holder keeps. No
         message is sent
restart  of a tuned run: all parties return to the bottoms that were made without labels, and
         are trained together on what stays
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from unlabel.config import RunConfig
from unlabel.data import Rows
from unlabel.data.dataset import Array
from unlabel.defend.accountant import Account
from unlabel.errors import ForgetError
from unlabel.forget.method import Disclosure, Method
from unlabel.forget.work import Work
from unlabel.party import ActiveParty
from unlabel.party.top import TopLearner
from unlabel.progress import Watch, watch_nothing
from unlabel.train.assembly import training_loss
from unlabel.train.epochs import epochs_of
from unlabel.train.parts import known_labels
from unlabel.train.progress import Epoch
from unlabel.train.replay import commitment
from unlabel.train.top_fit import fit_blind
from unlabel.train.watch import Watcher


@dataclass(eq=False, repr=False, kw_only=True)
class ExactWork(Work):
    """The work of an exact request.

    erased  rows whose labels go, be they to train, validate or test on
    rows    the parts of all rows
    config  of the run
    """

    erased: tuple[int, ...]
    rows: Rows
    config: RunConfig

    def replay(self, ids: Array) -> dict[str, Any]:
        """Return what the outcome is a function of: what stays, recipe, bottoms, environment."""
        active = self.active
        labels, names = known_labels(active.labels.cpu(), active.names, self.erased)
        return commitment(active, self.config, ids, labels, names, self.rows)


@dataclass(frozen=True)
class Exact(Method):
    """A method whose outcome is that of a training without the labels, by construction."""

    needs = "retained"
    aim = "bottoms"
    guarantee = "exact"

    def run(self, work: Work) -> None:
        """Begin anew with what stays."""
        assert isinstance(work, ExactWork)
        active = work.active
        assert isinstance(active.top, TopLearner)
        labels, names = known_labels(active.labels.cpu(), active.names, work.erased)
        expect_two(labels[work.rows.train], names)
        active.top.begin_anew(names)
        with relabelled(active, labels, names):
            self.learn(work)

    @abstractmethod
    def learn(self, work: ExactWork) -> None:
        """Train what begins anew, on the labels that stay."""


@dataclass(frozen=True)
class Refit(Exact):
    """Fit the top anew to kept embeddings of the rows whose labels stay; send nothing."""

    about = "exact and hidden: the top is fitted anew, and nobody is asked"
    tells_partners = "nothing: no message is sent"
    disclosure = Disclosure()
    visibility = "hidden"
    draws_samples = False

    @property
    def account(self) -> Account:
        """Nothing is sent, so nothing can be told."""
        return Account.nothing()

    def learn(self, work: ExactWork) -> None:
        """Fit."""
        # Without somebody who watches, a fit on a GPU waits for no pass but the last.
        watched = work.watch is not watch_nothing
        watchers = (_Passes(work.watch),) if watched else ()
        fit_blind(work.active, work.rows, work.config, watchers)


class _Passes(Watcher):
    """Reports the passes of a fit as the steps of a request."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._passes = watch, 0

    def started(self, history: Sequence[Epoch], epochs: int, rows: int) -> None:  # noqa: ARG002
        """Take note of how many there are."""
        self._passes = epochs

    def epoch_ended(self, epoch: Epoch, history: Sequence[Epoch]) -> None:  # noqa: ARG002
        """Report one."""
        self._watch(epoch.epoch, self._passes, f"new top, loss {epoch.loss:.3f}")


@dataclass(frozen=True)
class Restart(Exact):
    """Return all parties to their label-free bottoms, and train them on the rows that stay.

    The rows that are asked for are those that stay, so partners can tell which do not.
    """

    about = "exact: all begin again with the bottoms made without labels"
    tells_partners = "the forgotten rows, all of them, by leaving them out"
    disclosure = Disclosure.of("retained", messages="BeginRequest TransformWeights Prepare")

    def learn(self, work: ExactWork) -> None:
        """Train as the run was trained."""
        active = work.active
        active.training_loss = training_loss(
            work.config, active.labels.cpu(), work.rows, len(active.names), active.top.place
        )
        rows = work.rows.train[active.labels.cpu()[work.rows.train] >= 0].to(active.device)
        work.train_anew(rows, epochs_of(work.training, len(rows)), top=False)


#: The one method of a run, by how its bottoms were made.
EXACT: dict[str, type[Exact]] = {"blind": Refit, "tuned": Restart}
EXACT_NAMES = {"blind": "refit", "tuned": "restart"}


def is_exact(note: Mapping[str, Any]) -> bool:
    """Return whether a line of the active party's ledger is of an exact request."""
    return note.get("method") in EXACT_NAMES.values()


@contextlib.contextmanager
def relabelled(active: ActiveParty, labels: Tensor, names: Sequence[str]) -> Iterator[None]:
    """Let a party know other labels inside the block: those of a run that never had the others."""
    before = active.labels, active.names, active.training_loss
    active.labels, active.names = labels.to(active.device), tuple(names)
    try:
        yield
    finally:
        active.labels, active.names, active.training_loss = before


def expect_two(trained: Tensor, names: Sequence[str]) -> None:
    """Raise where nothing would be left to tell apart."""
    count = len(trained[trained >= 0].unique())
    if count < 2:
        left = f", '{names[0]}'" if len(names) == 1 else ""
        raise ForgetError(
            f"Expected at least two labels to be left among the rows to train on but {count} would "
            f"be{left}: nothing is left to tell apart; retire the model.",
            code="one-label",
        )
