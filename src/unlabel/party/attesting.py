"""What a party states about a committed request, from its own files and under its own signature.

Of what was forgotten an attestation holds the commitment alone, which tells nobody the label:
questions and answers are alike whatever the request is about (docs/certificate.md).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from unlabel._version import __version__
from unlabel.errors import CheckpointError, PartyRefused
from unlabel.party.checkpoint import CheckpointStore
from unlabel.party.ledger import Ledger, LedgerEntry
from unlabel.party.passive import PassiveParty
from unlabel.party.protocols import handles
from unlabel.signing import Signer, canonical, is_hex
from unlabel.wire import Attest, Attestation, Message
from unlabel.wire.messages import MAX_TEXT

ATTESTATION = "unlabel attestation 1"
#: Seconds by which the clocks of two parties may be apart without a word.
CLOCKS = 60.0
#: Hexadecimal digits of a digest or a commitment.
DIGEST = 64


@handles(Attest)
def attest(party: PassiveParty, message: Attest) -> Message:
    """Sign what the party's own files say of a request."""
    store = party.required_store()
    part = canonical(attestation(store, Ledger(store.home), message.request))
    if len(part) > MAX_TEXT:
        raise PartyRefused("its name is too long for an attestation to fit into a message.")
    signer = Signer(store.home)
    return Attestation(message.step, part.decode(), signer.public, signer.sign(part))


def attestation(store: CheckpointStore, ledger: Ledger, request: str) -> dict[str, Any]:
    """Return what a party's files say of a request, or raise where they know of no commit."""
    entries = ledger.entries()
    line = next((e for e in entries if (e.event, e.request) == ("commit", request)), None)
    if line is None or not is_hex(line.note.get("commitment"), DIGEST):
        raise CheckpointError(
            f"its ledger has no commit of request {request[:40]!r}.", code="wrong-request"
        )
    version, before, after = change_of(store, line)
    if version is None or not is_hex(after, DIGEST):
        raise CheckpointError(f"it no longer knows the weights of request {request[:40]!r}.")
    return {
        "what": ATTESTATION,
        "party": store.party,
        "request": request,
        "commitment": line.note["commitment"],
        "committed": line.at,
        "version": version,
        "weights": {"before": before if is_hex(before, DIGEST) else None, "after": after},
        "purge": _purge_of(store.party, entries, version),
        "ledger": entries[-1].hash,
        "software": f"unlabel {__version__}",
        "signed": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def change_of(store: CheckpointStore, line: LedgerEntry) -> tuple[int | None, object, object]:
    """Return the version a commit made, and the digests of the weights before and after.

    The ledger notes them; where it does not, the version's own manifest does, while it is kept.
    """
    digests, version = line.note.get("weights"), line.note.get("version")
    if isinstance(digests, list) and len(digests) == 2 and isinstance(version, int):
        return version, digests[0], digests[1]
    for number in store.versions():
        if store.facts(number).get("request") == line.request:
            before, after = store.change(number)
            return number, before, after
    return None, None, None


def _purge_of(party: str, entries: list[LedgerEntry], version: int) -> dict[str, Any] | None:
    """Return the first purge that left nothing from before a version."""
    for entry in entries:
        left = entry.note.get("version")
        if entry.event == "purge" and isinstance(left, int) and left >= version:
            return {"attested_by": party, "version": left, "at": entry.at}
    return None
