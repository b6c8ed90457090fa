"""Every party's own part of a certificate, asked for over the wire and checked.

A party that refuses, cannot be reached, or sends something that does not hold is named as not
having signed; the others' parts stand all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from unlabel.config.loader import parse_form
from unlabel.data import ACTIVE
from unlabel.errors import CheckpointError, DataError, ForgetError, PartyLost, UnlabelError
from unlabel.forget import Run
from unlabel.party import ActiveParty, LedgerEntry
from unlabel.party.attesting import CLOCKS, attestation
from unlabel.report.blinding import blinded
from unlabel.report.certificate_form import BasePart, Part, read_json
from unlabel.report.disclosure import is_secret, opening
from unlabel.signing import Signer, canonical, is_signed
from unlabel.wire import Attest, Attestation, Refused

#: Characters of a party's own words that a certificate repeats.
MOST_WORDS = 200


def gather(
    active: ActiveParty, line: LedgerEntry
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the signed parts by party, the active one's first, and why others are missing."""
    store = active.versions.store
    try:
        ours = attestation(store, active.versions.ledger, line.request)
        if is_secret(line.note):
            key = opening(store.home, line)[1]
            digests = ours["weights"].items()  # one that is unknown stays so
            ours["weights"] = {name: each and blinded(each, key) for name, each in digests}
    except CheckpointError as error:
        reason = f"The active party cannot attest request {line.request}: {error}"
        raise ForgetError(reason) from error
    signer, text = Signer(store.home), canonical(ours)
    parts = {ACTIVE: _signed(read_json(text, ACTIVE), signer.public, signer.sign(text))}
    staged = {}
    if ours["version"] in store.versions():
        staged = store.facts(ours["version"]).get("parties", {})
    missing = {}
    for party in active.parties:
        try:
            # One by one: a party that cannot be reached must not silence the others.
            answer = active.transport.exchange({party: Attest(0, line.request)})[party]
        except PartyLost:
            raise  # the way to all of them broke, and they are asked again over another
        except (UnlabelError, OSError, KeyError) as error:
            missing[party] = f"It could not be reached ({_words(str(error))})."
            continue
        if isinstance(answer, Refused):
            missing[party] = f"It refused: {_words(answer.reason)}"
        elif not isinstance(answer, Attestation):
            missing[party] = "It answered with something else than an attestation."
        elif wrong := _wrong(party, answer, line, staged.get(party)):
            missing[party] = f"What it sent does not hold: {wrong}."
        else:
            part = read_json(answer.part.encode(), party)
            parts[party] = _signed(part, answer.key, answer.signature)
    return parts, missing


def gather_bases(run: Run) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return what parties signed of the bottoms they made without labels, and why others did not.

    They sign once, after their training; who has signed is not asked again.
    """
    if run.bottoms is None or run.bottoms.base is None:
        return {}, {}
    base, reason = run.bottoms.base, "It did not sign for its bottom."
    try:
        base = run.bottoms.attest()
    except PartyLost:
        raise
    except (UnlabelError, OSError) as error:
        reason = f"It did not sign for its bottom ({_words(str(error))})."
    parts, missing = {}, {}
    for party, weights in base.weights.items():
        signed = base.attestations.get(party)
        if party == ACTIVE:
            continue
        if signed is None:
            missing[party] = reason
        elif wrong := _wrong_base(party, signed, weights, base.objective):
            missing[party] = f"What it signed of its bottom does not hold: {wrong}."
        else:
            part = read_json(signed["part"].encode(), party)
            parts[party] = _signed(part, signed["key"], signed["signature"])
    return parts, missing


def _wrong_base(party: str, signed: Mapping[str, str], weights: str, objective: str) -> str:
    """Return what is wrong with an attestation of a bottom, nothing if all holds."""
    try:
        raw = read_json(signed["part"].encode(), party)
        part, plain = parse_form(BasePart, raw), canonical(raw)
    except (DataError, ValueError, KeyError, AttributeError):
        return "its part is not of the form of an attestation"
    if plain != signed["part"].encode() or not is_signed(signed["key"], plain, signed["signature"]):
        return "its signature is not one of its part"
    if (part.party, part.objective) != (party, objective):
        return "it speaks of another party or another objective"
    if part.weights != weights:
        return "its weights are not those that it told when its bottom was frozen"
    return ""


def _wrong(party: str, answer: Attestation, line: LedgerEntry, staged: str | None) -> str:
    """Return what is wrong with an attestation, nothing if all holds that can be checked here."""
    try:
        raw = read_json(answer.part.encode(), party)
        part, plain = parse_form(Part, raw), canonical(raw)
    except (DataError, ValueError):
        return "its part is not of the form of an attestation"
    if plain != answer.part.encode():
        return "its part is not written in the canonical form"
    if not is_signed(answer.key, plain, answer.signature):
        return "its signature is not one of its part"
    if (part.party, part.request) != (party, line.request):
        return "it speaks of another party or another request"
    if part.commitment != line.note["commitment"]:
        return "it holds another commitment to the request than the active party"
    if staged is not None and part.weights.after != staged:
        return "its weights after the request are not those that it staged"
    if part.purge is not None and part.purge.attested_by != party:
        return "its purge is attested by another party"
    return _wrong_dates(part)


def _wrong_dates(part: Part) -> str:
    """Return what is wrong with the dates of an attestation that was signed just now."""
    purge = [] if part.purge is None else [part.purge.at]
    moments = [datetime.fromisoformat(at) for at in (part.committed, *purge, part.signed)]
    now = datetime.now(UTC)
    if abs((moments[-1] - now).total_seconds()) > CLOCKS:
        return (
            f"its clock says {part.signed} and this machine's {now.isoformat(timespec='seconds')}; "
            f"set the one that is wrong and certify again"
        )
    if moments != sorted(moments):
        return (
            f"its dates are out of order ({part.committed} for the commit, {part.signed} now), as "
            f"where a clock was set back; certify again once they are not"
        )
    return ""


def _signed(part: dict[str, Any], key: str, signature: str) -> dict[str, Any]:
    return {"part": part, "key": key, "signature": signature}


def _words(text: str) -> str:
    """Return another party's words, not too many of them and on one line."""
    line = " ".join(text.split())
    return line if len(line) <= MOST_WORDS else line[:MOST_WORDS] + ".."
