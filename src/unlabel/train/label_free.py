"""Bottoms made without labels, seen from the label holder: made once, frozen, embeddings kept.

    make    the objective, at every party; then all freeze their bottoms
    embed   every row once, and views of the training rows where they are asked for
    attest  what each party signs of its bottom, once

What is kept of it stands in `train/kept_base.py`.

Whoever talks to the partners here is the carrier, an active party without labels: nothing that a
partner sees can depend on one.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from unlabel.config import RunConfig
from unlabel.data import ACTIVE, Rows
from unlabel.errors import CheckpointError, PartyRefused, SettingsError, WireError
from unlabel.files import OWNER_ONLY, sha256, write_atomically, writing
from unlabel.models.contrast import agreement
from unlabel.party import ActiveParty, own_randomness
from unlabel.party.label_free import keep_base
from unlabel.party.objective import plan_of
from unlabel.progress import Watch, watch_nothing
from unlabel.train.assembly import Heads, label_free_part
from unlabel.train.kept_base import BASE, EMBEDDINGS, VIEWS, Base, read_kept
from unlabel.train.loop import batch_count, batches
from unlabel.wire import (
    Attestation,
    AttestBase,
    BeginLabelFree,
    ContrastAlone,
    Freeze,
    Message,
    Saved,
)

__all__ = ["BASE", "EMBEDDINGS", "VIEWS", "Base", "LabelFreeBottoms", "read_kept"]

#: Share of the memory that is free which kept embeddings may take.
MOST_MEMORY = 0.5
#: Rows of one request to learn by own views: a party answers within the time that calls may take,
#: and one that is lost is missed soon.
ONE_REQUEST = 4096


class LabelFreeBottoms:
    """The bottoms of all parties, as the label holder has them made, keeps and asks them.

    carrier  reaches the partners; it has no labels
    rows     the parts of the rows, which follow from ids alone
    home     folder of what is kept here
    """

    def __init__(self, carrier: ActiveParty, rows: Rows, config: RunConfig, home: Path) -> None:
        self.carrier = carrier
        self.rows = rows
        self.config = config
        self.home = home
        self.plan = plan_of(config)

    @property
    def base(self) -> Base | None:
        """What was frozen, None before that."""
        return Base.read(self.home)

    # Making

    def make(self, watch: Watch = watch_nothing) -> Base:
        """Have all bottoms made and frozen; what was done already is not done again."""
        known = self.base
        if known is not None:
            return known
        settings, carrier = self.config.label_free, self.carrier
        self._expect_room()
        # All rows but those to test on, labelled or not.
        rows = torch.cat((self.rows.train, self.rows.validation)).sort().values
        rows = rows.to(carrier.device)
        size = min(settings.batch, len(rows))
        if self._is_together:
            size = min(size, carrier.most_rows)
        steps = settings.epochs * batch_count(rows, size) if self.plan.learns else 0
        # Its own bottom is kept after all others: then there is nothing to be learned any more.
        if carrier.bottom is None or not carrier.bottom.is_frozen:
            with own_randomness(carrier.device):
                self._begin(rows, steps)
                if self.plan.learns:
                    self._learn(rows, size, watch)
        carrier.versions.base = -1  # bottoms that are kept for good are of no version
        answers = carrier.transport.ask(
            Freeze(0, "yes" if self.config.bottoms == "blind" else "no")
        )
        weights = {p: answer.digest for p, answer in answers.items() if isinstance(answer, Saved)}
        if weights.keys() != answers.keys():
            raise WireError("Not every party told the digest of its bottom.")
        if carrier.bottom is not None:
            if not carrier.bottom.is_frozen:
                keep_base(carrier.bottom, carrier.versions.store, {})
            weights[ACTIVE] = carrier.versions.store.base.digest(1)
        base = Base(settings.objective, vars(settings), weights)
        base.write(self.home)
        return base

    @property
    def _is_together(self) -> bool:
        """Whether the parties learn to agree, step by step, or each alone."""
        return self.plan.gradients and len(self.carrier.embedded) > 1

    def _begin(self, rows: Tensor, steps: int) -> None:
        """Have all begin; what an interrupted making has moved is undone by it."""
        carrier, part = self.carrier, label_free_part(self.config)
        assert part is not None
        carrier.versions.base = -1
        carrier.top.transform_weights("begin")
        carrier.top.use_optimiser(part.optimiser(len(rows)), steps)
        carrier.top.is_label_free = True
        if carrier.bottom is not None:
            part.begin(ACTIVE, carrier.bottom, self._widths()[0], rows, steps)
        with _explained():
            carrier.transport.ask(BeginLabelFree(0, rows, steps))
        carrier.monitor.restart()

    def _learn(self, rows: Tensor, size: int, watch: Watch) -> None:
        """Pass over the rows, from the newest version that all parties have of it."""
        carrier, settings = self.carrier, self.config.label_free
        versions, an_epoch = carrier.versions, batch_count(rows, size)
        done = version = 0
        if versions.kept is not None:
            common = versions.common()
            if common:
                version = common[-1]
                done = int(versions.restore(common[-1])["label_free_epochs"])
        for epoch in range(done, settings.epochs):
            planned = list(batches(rows, size, seed=self.config.train.seed, epoch=-1 - epoch))
            note = ""
            if self._is_together:
                loss = torch.zeros((), device=carrier.device)
                for step, batch in enumerate(planned, epoch * an_epoch):
                    loss = carrier.move(batch, step, self._agreement, mode="pair")
                note = f"agreement {loss.item():.3f}"
            else:
                order, first = torch.cat(planned), epoch * an_epoch
                several = max(1, ONE_REQUEST // size)
                for number, piece in enumerate(order.split(several * size)):
                    carrier.transport.ask(ContrastAlone(first + number * several, piece))
                if carrier.bottom is not None:
                    carrier.bottom.contrast_alone(order, size, first)
            watch(epoch + 1, settings.epochs, f"bottoms without labels {note}".rstrip())
            due = (epoch + 1) % self.config.train.save_every == 0
            if versions.kept is not None and (due or epoch + 1 == settings.epochs):
                version += 1
                versions.save(version, {"label_free_epochs": epoch + 1})

    def _widths(self) -> list[int]:
        """Return the widths of all embeddings, the label holder's own first."""
        heads = self.carrier.top.module
        assert isinstance(heads, Heads)
        return heads.widths

    def _agreement(self, embeddings: list[Tensor]) -> Tensor:
        """Return how badly the parties agree, on the first views and on the second.

        The sum, and not the mean: on halves of CIFAR-10 that is worth a point of accuracy.
        """
        carrier = self.carrier
        with carrier.top.place.autocast():
            views = [values.chunk(2) for values in carrier.top.module(embeddings)]
        warmth = self.config.label_free.temperature
        first, second = ([view[k] for view in views] for k in (0, 1))
        return agreement(first, warmth) + agreement(second, warmth)

    # Embeddings that are kept

    def _expect_room(self) -> None:
        """Raise where kept embeddings would not fit into memory."""
        if self.config.bottoms != "blind":
            return
        count, views = len(self.carrier.labels), self.config.label_free.views
        width = sum(self._widths())
        needed = 4 * width * (count + views * len(self.rows.train))
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if needed > MOST_MEMORY * free:
            raise SettingsError(
                f"Kept embeddings of {count} rows, {width} wide, with {views} views, take "
                f"{needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB of memory are free; lower "
                f"`label_free.views` or `label_free.width`, or take a narrower bottom."
            )

    def embed(self, watch: Watch = watch_nothing) -> Base:
        """Ask for the embeddings of every row, and keep them; what is kept is not asked again."""
        base = self.base
        assert base is not None
        if EMBEDDINGS in base.files:
            return base
        if base.withdrawn:  # which its policy may have changed since; it refuses where it has not
            self.carrier.transport.ask(Freeze(0, "yes"))
        carrier, views = self.carrier, self.config.label_free.views
        every = torch.arange(len(carrier.labels), device=carrier.device)
        watch(0, views + 1, "embedding all rows")
        parts = carrier.embeddings(every)
        widths = {p: e.shape[1] for p, e in zip(carrier.embedded, parts, strict=True)}
        files = {EMBEDDINGS: self._keep(EMBEDDINGS, parts)}
        if views:
            rows = self.rows.train.to(carrier.device)
            sets = []
            for number in range(views):
                first = 1 + number * len(rows)  # a number of its own for every request
                sets.append(carrier.embeddings(rows, mode="view", first=first))
                watch(number + 2, views + 1, "embedding views")
            files[VIEWS] = self._keep(VIEWS, [torch.stack(e) for e in zip(*sets, strict=True)])
        kept = replace(base, files=files, widths=widths, withdrawn=())
        kept.write(self.home)
        return kept

    def drop(self, parties: Sequence[str]) -> None:
        """Delete kept embeddings, since parties do not allow them any more.

        Nothing can be done with those of the others alone, so all go; `embed` asks for all again.
        """
        base = self.base
        assert base is not None
        left = sorted({*base.withdrawn, *parties})
        replace(base, files={}, withdrawn=left).write(self.home)
        for name in (EMBEDDINGS, VIEWS):
            with writing(self.home / name):
                (self.home / name).unlink(missing_ok=True)

    def meet(self, parties: Sequence[str]) -> tuple[str, ...]:
        """Hold the bottoms that parties have now against those that were frozen.

        Return who does not allow embeddings to be kept any more.
        """
        base = self.base
        assert base is not None
        withdrawn = []
        answers = self.carrier.transport.tell({party: AttestBase(0) for party in parties})
        for party, answer in answers.items():
            stated = _statement(party, answer)
            if stated.get("weights") != base.weights.get(party):
                raise CheckpointError(
                    f"Party '{party}' has another bottom than the one that this run was made with; "
                    f"have its folder restored from a backup, or train anew."
                )
            if not stated.get("kept_embeddings"):
                withdrawn.append(party)
        return tuple(withdrawn)

    def _keep(self, name: str, parts: Sequence[Tensor]) -> str:
        named = dict(zip(self.carrier.embedded, (p.cpu().contiguous() for p in parts), strict=True))
        data = save(named)
        write_atomically(self.home / name, data, mode=OWNER_ONLY)
        return sha256(data)

    def ask(self, rows: Tensor, table: str) -> list[Tensor]:
        """Return the embeddings of rows of another table, such as new people."""
        return self.carrier.embeddings(rows.to(self.carrier.device), table=table)

    def attest(self) -> Base:
        """Have every party sign what its bottom is, where that was not done yet."""
        base = self.base
        assert base is not None
        if base.attestations or importlib.util.find_spec("cryptography") is None:
            return base
        signed = {}
        for party, answer in self.carrier.transport.ask(AttestBase(0)).items():
            _statement(party, answer)
            assert isinstance(answer, Attestation)
            part, key, signature = answer.part, answer.key, answer.signature
            signed[party] = {"part": part, "key": key, "signature": signature}
        whole = replace(base, attestations=signed)
        whole.write(self.home)
        return whole


def _statement(party: str, answer: Message) -> dict[str, Any]:
    """Return what a party states of its bottom."""
    try:
        if isinstance(answer, Attestation):
            return dict(json.loads(answer.part))
    except (ValueError, TypeError, RecursionError):
        pass
    raise WireError(f"Party '{party}' did not sign for its bottom.")


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Say what to do about a party that does not make its bottom without labels."""
    try:
        yield
    except PartyRefused as error:
        if error.code != "policy":
            raise
        raise PartyRefused(
            f"{error} Without it no bottom can be made without labels, and none was; ask its "
            f"operator for another policy, or agree on `bottoms: supervised`.",
            error.code,
        ) from error
