"""What stands in for a party that is down, where the parties agreed that prediction goes on.

After each training and each commit the active party keeps, for every passive party k, the mean of
its embeddings over the rows that are trained on and were not forgotten:

    m_k = mean of H_k[i] over those rows i

A party that is down answers every row with m_k. Nothing else can be had of it: training,
forgetting and decisions need all parties. The file names the weights it stems from, by their
digests, and goes as soon as there are others.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from unlabel._version import __version__
from unlabel.errors import PartyLost, PartyRefused, WireError
from unlabel.federation import Federation
from unlabel.files import OWNER_ONLY, write_atomically, writing
from unlabel.party.active import PREDICTED_ROWS
from unlabel.wire import (
    Describe,
    Description,
    Done,
    Embed,
    Embeddings,
    Message,
    Restore,
    Transport,
)

log = logging.getLogger("unlabel.federation")

#: Where the means lie in the active party's own folder.
FILE = "secrets/stand-ins.safetensors"


@dataclass(frozen=True)
class StandIns:
    """The means of one version.

    version  of the weights they stem from
    parties  the digest of each party's weights of that version
    rows     that all parties share
    most     rows that every party serves at a time
    aligned  digest of the ids of those rows
    agreed   digest of the agreement
    means    a party's mean embedding, one row, by name
    """

    version: int
    parties: dict[str, str]
    rows: int
    most: int
    aligned: str
    agreed: str
    means: dict[str, Tensor]

    @classmethod
    def take(cls, federation: Federation, aligned: str, agreed: str) -> StandIns:
        """Ask every party for the embeddings of all training rows, and keep their means.

        All training rows are asked for, also those that were forgotten: who sees the request
        learns nothing from it. The latter are left out here.
        """
        active, version = federation.active, federation.version
        assert version is not None
        rows = federation.holdings.rows.train
        wanted = torch.isin(rows, federation.holdings.rows_without(federation.forgotten).train)
        total: list[Tensor] = []
        size = min(PREDICTED_ROWS, active.most_rows)
        for piece, some in zip(rows.split(size), wanted.split(size), strict=True):
            found = active.embeddings(piece.to(active.device))[-len(active.parties) :]
            sums = [values.cpu()[some].double().sum(0, keepdim=True) for values in found]
            total = [a + b for a, b in zip(total, sums, strict=True)] if total else sums
        means = [(one / int(wanted.sum())).float() for one in total]
        return cls(
            version=version,
            parties=dict(active.versions.facts(version)["parties"]),
            rows=len(federation.holdings.ids),
            most=active.most_rows,
            aligned=aligned,
            agreed=agreed,
            means=dict(zip(active.parties, means, strict=True)),
        )

    def write(self, home: Path) -> None:
        """Keep the means in the active party's own folder, for its owner alone."""
        facts = {k: v for k, v in vars(self).items() if k != "means"}
        data = save({k: v.contiguous() for k, v in self.means.items()}, {"of": json.dumps(facts)})
        write_atomically(home / FILE, data, mode=OWNER_ONLY)

    def fit(self, version: int, facts: Mapping[str, Any]) -> bool:
        """Return whether they stem from this version."""
        return (self.version, self.parties) == (version, facts.get("parties"))


def read(home: Path, agreed: str = "") -> StandIns | None:
    """Return the means that were kept, if they can be read and are of this agreement."""
    try:
        with safe_open(str(home / FILE), framework="pt") as file:
            facts = json.loads(file.metadata()["of"])
            means = {name: file.get_tensor(name) for name in facts["parties"]}
        found = StandIns(**facts, means=means)
        return found if agreed in ("", found.agreed) else None
    except FileNotFoundError:
        return None
    except (OSError, SafetensorError, ValueError, TypeError, KeyError) as error:
        log.warning("the means of the parties' embeddings cannot be read (%s)", error)
        return None


def remove(home: Path) -> None:
    """Remove the means."""
    path = home / FILE
    with writing(path):
        path.unlink(missing_ok=True)


def drop_old(federation: Federation, home: Path) -> bool:
    """Remove means that stem from other weights than the newest; return whether any are left."""
    kept, versions = read(home), federation.active.versions.store.versions()
    if (
        kept is not None
        and versions
        and kept.fit(versions[-1], federation.active.versions.facts(versions[-1]))
    ):
        return True
    remove(home)
    return False


def expect_fit(federation: Federation, home: Path, absent: Sequence[str]) -> None:
    """Raise where nothing of the newest weights stands in for those who are down."""
    if not drop_old(federation, home):
        names = " and ".join(f"'{party}'" for party in absent)
        raise PartyLost(
            f"Party {names} is down, and no mean of its newest embeddings is kept; wait until it "
            f"is back.",
            absent,
        )


def renew(
    federation: Federation, home: Path, aligned: str, agreed: str, said: Callable[[str], None]
) -> None:
    """Keep the means of the newest version; the command before it is done, whatever comes of it."""
    try:
        federation.refresh(afresh=True)
        if federation.version is not None:
            StandIns.take(federation, aligned, agreed).write(home)
    except (PartyLost, PartyRefused, WireError) as error:
        said(f"{error} Until the next command, `predict` needs every party.")
        log.warning("%s", error)


class StandInTransport(Transport):
    """Asks the parties that are there, and answers for the others from their means.

    absent  returns the names of the parties that are down now
    """

    def __init__(
        self, inner: Transport, kept: StandIns, absent: Callable[[], Sequence[str]]
    ) -> None:
        self._inner = inner
        self._kept = kept
        self._absent = absent

    @property
    def parties(self) -> Sequence[str]:
        """The names of all passive parties, whether they are there or not."""
        return self._inner.parties

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Deliver what can be delivered, and answer the rest."""
        away = [party for party in requests if party in self._absent()]
        # Before anybody is asked: either all of it can be done or nothing is.
        answers = {party: self._answer(party, requests[party]) for party in away}
        there = {party: request for party, request in requests.items() if party not in away}
        return {**answers, **(self._inner.exchange(there) if there else {})}

    def _answer(self, party: str, message: Message) -> Message:
        kept, mean = self._kept, self._kept.means[party]
        if isinstance(message, Embed) and message.mode == "predict":
            return Embeddings(message.step, mean.expand(len(message.rows), -1).clone())
        if isinstance(message, Restore) and (message.version, message.digest) == (
            kept.version,
            kept.parties[party],
        ):
            return Done(message.step)
        if isinstance(message, Describe):
            return Description(
                message.step,
                rows=kept.rows,
                width=mean.shape[1],
                versions=(kept.version,),
                max_rows=kept.most,
                software=f"unlabel {__version__}",
                agreed=kept.agreed,
                aligned=kept.aligned,
            )
        raise PartyLost(f"Party '{party}' is down, and this needs it.", (party,))
