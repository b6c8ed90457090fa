"""The versions that all parties of a federation share, as the active party keeps and restores them.

The active party asks the others to save first, writes its own manifest last, and notes the digest
of what each of them wrote: no party can return to another version than the one that was kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from unlabel.errors import CheckpointError, WireError
from unlabel.files import OWNER_ONLY
from unlabel.party.checkpoint import CheckpointStore
from unlabel.party.ledger import Ledger
from unlabel.wire import (
    CompareLayers,
    Describe,
    Description,
    LayersCompared,
    Restore,
    RetainVersions,
    Save,
    Saved,
    Transport,
)

if TYPE_CHECKING:
    from unlabel.party.active import ActiveParty

#: Copies of the active party's own models, by half (top, bottom) and name.
Snapshot = dict[str, dict[str, Tensor]]


class Versions:
    """The versions of a federation, and copies of the active party's own models.

    active  the party whose models these are; the others are reached through its transport
    kept    where the active party keeps its own part, None where nothing is to be kept
    base    the version that all parties' weights stem from, -1 where that is not known
    """

    def __init__(self, active: ActiveParty, kept: CheckpointStore | None) -> None:
        self._active = active
        self.kept = kept
        self.base = -1

    @property
    def store(self) -> CheckpointStore:
        """The active party's own store, or an error that says there is none."""
        if self.kept is None:
            raise CheckpointError("These parties keep no versions; build them with a folder.")
        return self.kept

    @property
    def ledger(self) -> Ledger:
        """The active party's own ledger; its lines name what was forgotten."""
        return Ledger(self.store.home, mode=OWNER_ONLY)

    def save(self, version: int, facts: dict[str, Any], *, also: Sequence[int] = ()) -> None:
        """Keep the state of all parties as one version, and drop the others but `also`."""
        active, store = self._active, self.store
        active.monitor.flush_checks()
        self.base = -1  # where one party alone saves, which is known of none
        answers = active.transport.ask(Save(0, version))
        digests = {p: answer.digest for p, answer in answers.items() if isinstance(answer, Saved)}
        if digests.keys() != answers.keys():
            raise WireError(f"Not every party told the digest of version {version}.")
        features = {"features": active.bottom.features_digest()} if active.bottom else {}
        noted = {**facts, **features, **active.monitor.facts(), "parties": digests}
        states = {half: learner.state() for half, learner in active.learners().items()}
        store.save(version, _joined(states), noted)
        self.base = version
        self.retain((version, *also))

    def restore(self, version: int) -> dict[str, Any]:
        """Bring all parties to one version, or to one that is staged; return its facts."""
        active = self._active
        store = self.store.store_with(version)
        facts = store.facts(version)
        if active.bottom is not None and facts.get("features") != active.bottom.features_digest():
            raise CheckpointError(
                f"The active party's features have changed since version {version} was saved."
            )
        digests = facts.get("parties", {})
        if set(digests) != set(active.parties):
            raise CheckpointError(
                f"Version {version} was saved with the parties {sorted(digests)}, "
                f"not with {sorted(active.parties)}."
            )
        self.base = -1
        store.restore(version, self._load)
        active.transport.tell({p: Restore(0, version, digests[p]) for p in active.parties})
        self.base = version
        active.monitor.restore(facts)
        return facts

    def compare_layers(self, version: int) -> dict[str, tuple[float, ...]]:
        """Return how alike each party's inner layers are to those of a version, as it says itself.

        A party whose policy does not allow that is left out.
        """
        digests = self.store.facts(version).get("parties", {})
        asked = {p: CompareLayers(0, version, digests[p]) for p in self._active.parties}
        answers = self._active.transport.exchange(asked)
        return {
            party: tuple(round(value, 3) for value in answer.values.tolist())
            for party, answer in answers.items()
            if isinstance(answer, LayersCompared)
        }

    def facts(self, version: int) -> dict[str, Any]:
        """Return what was noted with a version, without going back to it."""
        return self.store.facts(version)

    def retain(self, versions: Sequence[int]) -> None:
        """Have all parties drop every version but these."""
        wanted = tuple(sorted(set(versions)))
        self._active.transport.ask(RetainVersions(0, wanted))
        self.store.retain(wanted)

    def common(self) -> tuple[int, ...]:
        """Return the versions that every party has, oldest first."""
        common = set(self.store.versions())
        for description in self.describe().values():
            common &= set(description.versions)
        return tuple(sorted(common))

    def describe(self, known: Mapping[str, str] | None = None) -> dict[str, Description]:
        """Ask all parties what they have to offer; see `describe`."""
        return describe(self._active.transport, known)

    def expect_newest(self, versions: Sequence[int]) -> None:
        """Raise where a party lost the newest version: the active party wrote it last."""
        newest = max(self.store.versions(), default=None)
        if newest is not None and newest not in versions:
            raise CheckpointError(
                f"A party lost version {newest}; restore its folder from a backup."
            )

    def model_state(self) -> dict[str, Tensor]:
        """Return the active party's models, without their optimisers."""
        return _joined({k: v.model_state() for k, v in self._active.learners().items()})

    def snapshot(self) -> Snapshot:
        """Return copies of the states of the active party's own models."""
        return {
            half: {name: tensor.detach().clone() for name, tensor in learner.state().items()}
            for half, learner in self._active.learners().items()
        }

    def load_snapshot(self, saved: Snapshot) -> None:
        """Return the active party's own models to a snapshot."""
        self._active.monitor.reset()
        self._load(_joined(saved))

    def _load(self, tensors: dict[str, Tensor]) -> None:
        for half, learner in self._active.learners().items():
            prefix = f"{half}/"
            if not learner.is_label_free:
                learner.end_request()
            learner.load_state(
                {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            )


def _joined(states: Snapshot) -> dict[str, Tensor]:
    return {f"{half}/{name}": t for half, state in states.items() for name, t in state.items()}


def describe(
    transport: Transport, known: Mapping[str, str] | None = None
) -> dict[str, Description]:
    """Ask all parties behind a transport what they have to offer.

    known  the last line of each one's ledger that was seen, by its hash
    """
    heads = known or {}
    answers = transport.tell({p: Describe(0, heads.get(p, "")) for p in transport.parties})
    for party, answer in answers.items():
        if not isinstance(answer, Description):
            raise WireError(f"Party '{party}' did not describe itself.")
    return cast(dict[str, Description], answers)
