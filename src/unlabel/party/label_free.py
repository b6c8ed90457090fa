"""How a passive party makes its bottom without labels, keeps it for good, and signs for it.

    BeginLabelFree   fit scaling and model to the rows that are named
    ContrastAlone    one pass by the party's own views
    Embed, Gradients the same together with the others, where parties are to agree
    Freeze           keep the bottom in `base/`: no purge and no later training changes that
    AttestBase       sign what it is, and which gradients ever reached it

A party that makes its bottom alone serves no gradients at all. Where parties agree with each other
gradients come from the label holder, and a party cannot tell what they are of: it keeps a digest of
all of them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor

from unlabel._version import __version__
from unlabel.config import LabelFreeSettings, OptimiserSettings
from unlabel.errors import CheckpointError, PartyRefused
from unlabel.files import sha256
from unlabel.party.bottom import Bottom, OwnContrast
from unlabel.party.checkpoint import CheckpointStore
from unlabel.party.ledger import Ledger
from unlabel.party.passive import PassiveParty
from unlabel.party.policy import DIVERGED, require
from unlabel.party.protocols import handles
from unlabel.party.randomness import Stream
from unlabel.party.serving import refusing_failures
from unlabel.signing import Signer, canonical
from unlabel.wire import (
    Attestation,
    AttestBase,
    BeginLabelFree,
    ContrastAlone,
    Done,
    Freeze,
    Message,
    Saved,
)
from unlabel.wire.messages import MAX_TEXT

ATTESTATION = "unlabel base attestation 1"
#: The number of the one version in `base/`.
ONLY = 1
#: Rows of a batch that `label_free.lr` is for.
WHOLE_BATCH = 1024
#: Share of the steps in which the rate of contrast rises.
WARMUP = 0.1
#: What a ledger and an attestation call the making of a bottom, in place of a request.
BASE_REQUEST = "base"
NOT_KEPT = (
    "the embeddings of its rows may not be kept (`policy.kept_embeddings`); have its operator "
    "allow that, or agree on tuned or supervised bottoms, which keep none."
)
FOR_GOOD = "its bottom is kept for good already, and was made on other rows or in other steps."


@dataclass
class GradientRecord:
    """Which gradients reached a party: how many messages, and a running digest.

    D_0 = 0 and D_n = SHA-256(D_n-1 | bytes of the n-th). On an accelerator, from which every
    message would have to be fetched, two sums in double precision stand for its bytes.
    """

    count: int = 0
    digest: str = ""
    _sums: list[Tensor] = field(default_factory=list, repr=False)

    def add(self, values: Tensor) -> None:
        """Note one message."""
        self.count += 1
        if values.device.type == "cpu":
            self._extend(values.contiguous().numpy().tobytes())
            return
        double = values.double()
        places = torch.arange(1, len(double) + 1, device=double.device, dtype=torch.float64)
        self._sums.append(torch.stack((double.sum(), (double.sum(1) * places).sum())))

    def facts(self) -> dict[str, Any]:
        """Return the record as plain data."""
        for sums in self._sums:
            self._extend(sums.cpu().numpy().tobytes())
        self._sums.clear()
        return {"gradients": self.count, "gradients_digest": self.digest}

    def load(self, facts: dict[str, Any]) -> None:
        """Continue a record."""
        self._sums.clear()
        self.count = int(facts.get("gradients", 0))
        self.digest = str(facts.get("gradients_digest", ""))

    def _extend(self, data: bytes) -> None:
        self.digest = hashlib.sha256(bytes.fromhex(self.digest) + data).hexdigest()


@dataclass
class LabelFreePart:
    """A party's part in making bottoms without labels.

    name       of the objective
    settings   of it
    learns     whether the bottom is trained by pairs of views
    gradients  whether gradients of the label holder may move it
    seed       of the party's own draws
    keeps      whether the label holder is to keep the embeddings of all rows
    received   which gradients reached it
    begun      digest of the rows and steps that were announced, empty before that
    """

    name: str
    settings: LabelFreeSettings
    learns: bool
    gradients: bool
    seed: int
    keeps: bool = False
    received: GradientRecord = field(default_factory=GradientRecord)
    begun: str = ""

    def optimiser(self, rows: int = WHOLE_BATCH) -> OptimiserSettings:
        """Return how a bottom moves that is trained on so many rows."""
        share = min(self.settings.batch, rows) / WHOLE_BATCH
        return OptimiserSettings(lr=self.settings.lr * share, warmup=WARMUP)

    def begin(self, party: str, bottom: Bottom, width: int, rows: Tensor, steps: int) -> None:
        """Make a bottom ready to be made without labels, over rows and in so many steps."""
        views, settings = None, self.optimiser(len(rows))
        if self.learns:
            views = OwnContrast(
                width,
                settings,
                steps,
                self.settings.temperature,
                stream=Stream(self.seed, f"{party}/views"),
                place=bottom.place,
            )
        bottom.begin_label_free(rows, settings, steps, views, flip=self.settings.flip)


def keep_base(bottom: Bottom, store: CheckpointStore, facts: dict[str, Any]) -> str:
    """Keep a bottom as it was made without labels; return the digest of its weights."""
    features = {"features": bottom.features_digest()}
    digest = store.base.save(ONLY, bottom.model_state(), {**facts, **features})
    bottom.freeze()
    return digest


def load_base(bottom: Bottom, store: CheckpointStore | None, *, aligned: bool = True) -> None:
    """Begin with the bottom that is kept for good, where there is one.

    aligned  whether the rows are those that all parties share; else an alignment looks at them
    """
    if store is None or ONLY not in store.base.versions():
        return
    facts = store.base.restore(ONLY, bottom.load_state)
    if aligned and facts["features"] != bottom.features_digest():
        raise CheckpointError(
            f"The features of party '{store.party}' have changed since its bottom was made."
        )
    bottom.freeze()


def _part(party: PassiveParty) -> LabelFreePart:
    if party.label_free is None:
        raise PartyRefused("its bottom learns with labels, as was agreed.", "policy")
    return party.label_free


@handles(BeginLabelFree)
def begin_label_free(party: PassiveParty, message: BeginLabelFree) -> Message:
    """Fit scaling and model to the rows; where that led to a bottom already, nothing happens."""
    part = _part(party)
    require(not part.keeps or party.guard.policy.kept_embeddings, NOT_KEPT, "policy")
    require(message.steps >= 0, "a training cannot have fewer than 0 steps.")
    rows = party.guard.check_rows(message, len(party.bottom.tables["main"]))
    announced = f"{message.steps} ".encode() + rows.cpu().numpy().tobytes()
    part.begun = sha256(announced)
    if party.bottom.is_frozen:
        # The label holder did not learn that it was kept: others were lost while it was.
        known = party.required_store().base.facts(ONLY)
        require(known.get("begun") == part.begun, FOR_GOOD)
        return Done(message.step)
    party.guard.flush_checks()
    with refusing_failures(party, "cannot be made without labels"):
        part.begin(party.name, party.bottom, party.width, rows, message.steps)
    part.received = GradientRecord()
    party.base = -1
    party.guard.forget_norms()
    return Done(message.step)


@handles(ContrastAlone)
def contrast_alone(party: PassiveParty, message: ContrastAlone) -> Message:
    """Pass over the rows once, by the party's own views."""
    part = _part(party)
    learning = part.learns and party.bottom.own_contrast is not None
    require(learning, "it does not learn by views now, or no more.")
    rows = party.guard.check_rows(message, len(party.bottom.tables["main"]))
    with refusing_failures(party, "cannot learn"):
        party.bottom.contrast_alone(rows, part.settings.batch, message.step)
    require(party.bottom.is_finite(), DIVERGED, "not-finite")
    return Done(message.step)


@handles(Freeze)
def freeze(party: PassiveParty, message: Freeze) -> Message:
    """Keep the bottom for good; where that was done already, nothing happens."""
    part, store = _part(party), party.required_store()
    party.guard.flush_checks()
    require(message.kept == "no" or party.guard.policy.kept_embeddings, NOT_KEPT, "policy")
    if not party.bottom.is_frozen:
        require(party.bottom.is_label_free, "it has not begun without labels yet.")
        require(party.bottom.is_finite(), DIVERGED, "not-finite")
        kept = {"kept_embeddings": message.kept == "yes", "begun": part.begun}
        keep_base(party.bottom, store, {"objective": part.name, **kept, **part.received.facts()})
    party.base = -1
    digest = store.base.digest(ONLY)
    if party.ledger is not None:
        # Also where a crash came between the files and this line; a second one is not written.
        facts = store.base.facts(ONLY)
        noted = ("objective", "kept_embeddings", "gradients", "gradients_digest")
        note = {name: facts[name] for name in noted}
        party.ledger.append("freeze", BASE_REQUEST, {**note, "weights": digest})
    party.flush_transcript()
    return Saved(message.step, digest)


@handles(AttestBase)
def attest_base(party: PassiveParty, message: AttestBase) -> Message:
    """Sign what the party's own files say of the bottom that it keeps for good."""
    store = party.required_store()
    allowed = party.guard.policy.kept_embeddings
    part = canonical(base_attestation(store, Ledger(store.home), allowed=allowed))
    require(len(part) <= MAX_TEXT, "its name is too long for an attestation.")
    signer = Signer(store.home)
    return Attestation(message.step, part.decode(), signer.public, signer.sign(part))


def base_attestation(
    store: CheckpointStore, ledger: Ledger, *, allowed: bool = True
) -> dict[str, Any]:
    """Return what a party's files say of the bottom it made without labels.

    allowed  whether its policy lets embeddings of its rows be kept now
    """
    if ONLY not in store.base.versions():
        raise CheckpointError("it keeps no bottom for good.", code="wrong-request")
    facts = store.base.facts(ONLY)
    entries = ledger.entries()
    return {
        "what": ATTESTATION,
        "party": store.party,
        "objective": facts["objective"],
        "weights": store.base.digest(ONLY),
        "features": facts["features"],
        "kept_embeddings": bool(facts["kept_embeddings"]) and allowed,
        "gradients": facts["gradients"],
        "gradients_digest": facts["gradients_digest"],
        "ledger": entries[-1].hash if entries else "",
        "software": f"unlabel {__version__}",
        "signed": datetime.now(UTC).isoformat(timespec="seconds"),
    }
