"""Mean embeddings in place of a party that is down, where all agreed that prediction goes on.

After each training and each commit the active party keeps, for every passive party k, the mean of
its embeddings over the training rows that were not forgotten:

    m_k = mean of H_k[i] over those rows i

While party k is down, the embedding of every row is m_k. This serves predictions alone: training,
forgetting and decisions need all parties. The file names the weights it stems from, by their
digests, and is removed as soon as there are others. A blind run needs nobody but for new people; it
has the means of the embeddings that it keeps, and no file of them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from unlabel._version import __version__
from unlabel.align import Alignment
from unlabel.errors import PartyLost, PartyRefused, WireError
from unlabel.files import OWNER_ONLY, write_atomically, writing
from unlabel.party.active import PREDICTED_ROWS
from unlabel.train.kept_base import Base, read_kept
from unlabel.wire import Describe, Description, Done, Embed, Embeddings, Message, Restore, Transport

if TYPE_CHECKING:
    from unlabel.remote.connect import RemoteFederation

log = logging.getLogger("unlabel.federation")

#: Where the means lie in the active party's folder; the name is that of 0.6.
FILE = "secrets/stand-ins.safetensors"


@dataclass(frozen=True)
class Imputations:
    """The means of one version.

    version  of the weights they stem from
    parties  the digest of each party's weights of that version
    rows     that all parties share
    most     rows that every party serves in one request
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
    def take(cls, federation: RemoteFederation) -> Imputations:
        """Request the embeddings of all training rows, and return each party's mean.

        Forgotten rows are requested too and left out here, so that the request tells nothing.
        """
        active, version = federation.active, federation.version
        assert version is not None
        rows = federation.holdings.rows.train
        retained = torch.isin(rows, federation.holdings.rows_without(federation.forgotten).train)
        totals: list[Tensor] = []
        size = min(PREDICTED_ROWS, active.most_rows)
        for piece, counted in zip(rows.split(size), retained.split(size), strict=True):
            embeddings = active.embeddings(piece.to(active.device))[-len(active.parties) :]
            sums = [values.cpu()[counted].double().sum(0, keepdim=True) for values in embeddings]
            totals = [a + b for a, b in zip(totals, sums, strict=True)] if totals else sums
        means = [(total / int(retained.sum())).float() for total in totals]
        return cls(
            version=version,
            parties=dict(active.versions.facts(version)["parties"]),
            rows=len(federation.holdings.ids),
            most=active.most_rows,
            aligned=federation.alignment.digest,
            agreed=federation.kit.digest,
            means=dict(zip(active.parties, means, strict=True)),
        )

    def write(self, home: Path) -> None:
        """Write the means into the active party's folder, for its owner alone."""
        facts = {k: v for k, v in vars(self).items() if k != "means"}
        data = save({k: v.contiguous() for k, v in self.means.items()}, {"of": json.dumps(facts)})
        write_atomically(home / FILE, data, mode=OWNER_ONLY)


def read(home: Path, agreed: str = "") -> Imputations | None:
    """Return the means that were written, where they can be read and are of this agreement."""
    try:
        with safe_open(str(home / FILE), framework="pt") as file:
            facts = json.loads(file.metadata()["of"])
            means = {name: file.get_tensor(name) for name in facts["parties"]}
        imputations = Imputations(**facts, means=means)
        return imputations if agreed in ("", imputations.agreed) else None
    except FileNotFoundError:
        return None
    except (OSError, SafetensorError, ValueError, TypeError, KeyError) as error:
        log.warning("the means of the parties' embeddings cannot be read (%s)", error)
        return None


def of_kept(home: Path, rows: Tensor, alignment: Alignment, agreed: str) -> Imputations | None:
    """Return the means of the embeddings that a blind run keeps, None where it keeps none now.

    Over all training rows: their embeddings do not depend on labels, forgotten ones or others.

    home  folder of what was made without labels
    rows  to train on
    """
    base, kept = Base.read(home), read_kept(home)
    if base is None or not kept:
        return None
    return Imputations(
        version=0,
        parties=dict(base.weights),
        rows=len(alignment),
        most=PREDICTED_ROWS,
        aligned=alignment.digest,
        agreed=agreed,
        means={p: e[rows].double().mean(0, keepdim=True).float() for p, e in kept.items()},
    )


def drop_old(federation: RemoteFederation) -> bool:
    """Remove means that stem from other weights than the newest; return whether any are left.

    A blind run has them of the embeddings that it keeps, and in no file.
    """
    if federation.is_blind:
        return True
    home, versions = federation.kit.home, federation.active.versions
    imputations = read(home)
    newest = versions.store.versions()[-1:]
    if (
        imputations is not None
        and newest == (imputations.version,)
        and imputations.parties == versions.facts(imputations.version).get("parties")
    ):
        return True
    with writing(home / FILE):
        (home / FILE).unlink(missing_ok=True)
    return False


def expect_fit(federation: RemoteFederation) -> None:
    """Raise where there is no mean of the newest weights for those who are down."""
    absent = federation.client.absent
    if absent and not drop_old(federation):
        names = " and ".join(f"'{party}'" for party in absent)
        raise PartyLost(
            f"Party {names} is down, and no mean of its newest embeddings is kept; wait until it "
            f"is back.",
            absent,
        )


def refresh(federation: RemoteFederation) -> None:
    """Write the means of the newest version; a failure does not undo the command before it."""
    try:
        federation.refresh(afresh=True)
        if federation.version is not None:
            Imputations.take(federation).write(federation.kit.home)
    except (PartyLost, PartyRefused, WireError) as error:
        federation.client.notify(f"{error} Until the next command, `predict` needs every party.")
        log.warning("%s", error)


class ImputingTransport(Transport):
    """Asks the parties that are up, and answers for the others from their means.

    absent  returns the names of the parties that are down now
    """

    def __init__(
        self, inner: Transport, means: Imputations, absent: Callable[[], Sequence[str]]
    ) -> None:
        super().__init__(inner.parties)
        self._inner = inner
        self._means = means
        self._absent = absent

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Deliver what can be delivered, and answer the rest."""
        absent = [party for party in requests if party in self._absent()]
        # Before anybody is asked: either all of it can be done or nothing is.
        answers = {party: self._answer(party, requests[party]) for party in absent}
        others = {party: request for party, request in requests.items() if party not in absent}
        return {**answers, **(self._inner.exchange(others) if others else {})}

    def flush(self) -> None:
        """Have sent what is held back."""
        self._inner.flush()

    def _answer(self, party: str, message: Message) -> Message:
        means, mean = self._means, self._means.means[party]
        if isinstance(message, Embed) and message.mode == "predict":
            return Embeddings(message.step, mean.expand(len(message.rows), -1).clone())
        newest = (means.version, means.parties[party])
        if isinstance(message, Restore) and (message.version, message.digest) == newest:
            return Done(message.step)
        if isinstance(message, Describe):
            return Description(
                message.step,
                rows=means.rows,
                width=mean.shape[1],
                versions=(means.version,),
                max_rows=means.most,
                software=f"unlabel {__version__}",
                agreement=means.agreed,
                aligned=means.aligned,
            )
        raise PartyLost(f"Party '{party}' is down, and this needs it.", (party,))
