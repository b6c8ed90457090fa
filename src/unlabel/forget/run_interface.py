"""What the services of forgetting and auditing need of a run; `Federation` has all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from unlabel.config import RunConfig
from unlabel.data import Features
from unlabel.forget.outcome import Outcome
from unlabel.forget.privacy_loss import PrivacyLoss
from unlabel.party import ActiveParty
from unlabel.train import Forgotten, Holdings
from unlabel.train.label_free import LabelFreeBottoms

T = TypeVar("T")


class Run(Protocol):
    """A run as the services see it.

    active        the active party, with the others behind its transport
    forgotten     what its model has forgotten
    version       that the parties are on, None before training
    undecided     the outcome of this process that waits for a decision
    privacy_loss  of all hidden requests so far
    bottoms       how bottoms are made without labels, None where they learn with them
    """

    active: ActiveParty
    forgotten: Forgotten
    version: int | None
    undecided: Outcome | None
    privacy_loss: PrivacyLoss
    bottoms: LabelFreeBottoms | None

    @property
    def folder(self) -> Path:
        """Where the run is kept."""

    @property
    def is_remote(self) -> bool:
        """Whether the other parties live elsewhere, with their data."""

    @property
    def is_recovering(self) -> bool:
        """Whether something is under way that is done again where a party gets lost."""

    @property
    def holdings(self) -> Holdings:
        """What the parties of this process hold."""

    @property
    def loaded(self) -> Holdings:
        """The same as it was read, with labels that were forgotten since, until a purge."""

    @property
    def config(self) -> RunConfig:
        """The configuration of the run."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels."""

    def refresh(self, *, afresh: bool = False) -> None:
        """Take up what another process has made of the run since this object looked at it."""

    def hand_over(self, table: str, features: Mapping[str, Features]) -> None:
        """Give each party its part of rows that are no part of training."""

    def with_recovery(self, act: Callable[[], T]) -> T:
        """Do something that parties take part in; where one gets lost, again on its return."""

    def commit(self, request: str | None = None, *, force: bool = False) -> str:
        """Make a staged request every party's model."""

    def why_not_committed(self, request: str) -> str:
        """Return why a commit would be refused before anybody is asked, empty where it is not."""

    def rollback(self, request: str | None = None) -> str:
        """Drop a staged request."""

    def purge(self) -> int:
        """Remove what stems from before the last commit, everywhere."""
