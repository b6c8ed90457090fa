"""Checks a certificate offline and names everything that does not match."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlabel import compat
from unlabel.data import ACTIVE
from unlabel.errors import DataError
from unlabel.files import sha256
from unlabel.forget.request import commit_to
from unlabel.party.attesting import CLOCKS, DIGEST
from unlabel.report.annex import unseal
from unlabel.report.blinding import Blinding
from unlabel.report.certificate import last_purge
from unlabel.report.certificate_form import (
    Body,
    Certificate,
    SignedBase,
    SignedPart,
    day_of,
    due_day,
    read_certificate,
)
from unlabel.report.checks import Checks
from unlabel.report.disclosure import DISCLOSURE
from unlabel.report.verify_bases import check_bases
from unlabel.report.verify_figures import OLD, check_figures, check_words
from unlabel.report.verify_run import blinding, check_run
from unlabel.signing import canonical, fingerprints, is_hex, is_signed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

#: How far the clock of whoever signed may be ahead of ours.
AHEAD = timedelta(days=1)
#: How far the clocks of two parties may be apart.
APART = timedelta(seconds=CLOCKS)


def verify(
    text: bytes,
    name: str,
    *,
    trust: Mapping[str, str] | None = None,
    parties: Collection[str] = (),
    annex: bytes | None = None,
    annex_key: X25519PrivateKey | None = None,
    run: Path | None = None,
    demand: bytes | None = None,
) -> Checks:
    """Check the bytes of a certificate against all that is given.

    trust      public keys by party; None leaves open whose signatures they are
    parties    all parties of the federation, as its configuration names them
    annex      the bytes of the sealed annex
    annex_key  the auditor's private key
    run        the folder of the run, to look at ledgers and weights
    demand     the bytes of the demand's file
    """
    checks = Checks()
    try:
        document, raw = read_certificate(text, name)
    except DataError as error:
        checks.faults.append(str(error))
        return checks
    body = checks.body = document.certificate
    check_signatures(document, raw["certificate"], checks)
    check_keys(document, trust, checks)
    check_all_named(body, parties, trust or {}, checks)
    check_parts(body, checks)
    check_bases(body, checks)
    check_term(body, checks)
    check_annex(body, annex, annex_key, checks)
    blind = checks.blind = blinding(body, run, checks)
    if raw["certificate"]["what"] == compat.CERTIFICATE:
        if body.depth is not None:
            checks.unchecked.append(OLD)
        for party, signed in body.parties.items():
            checks.expect(
                signed.part.software.startswith(compat.CERTIFIERS),
                f"The certificate has the form of version 0.6 and 0.7, but party '{party}' signed "
                f"with {signed.part.software}.",
            )
    else:
        check_words(body, checks)
        check_figures(body, blind, checks)
    check_demand(body, demand, blind, checks)
    if run is None:
        checks.unchecked.append("No run was given, so ledgers and weights were not looked at.")
    else:
        check_run(body, run, blind, checks)
    return checks


def check_signatures(document: Certificate, raw: Mapping[str, Any], checks: Checks) -> None:
    """Check every party's signature over its part, and the active party's over the whole."""
    good = checks.expect(
        is_signed(document.key, canonical(raw), document.signature),
        "The active party's signature over the whole does not hold: the certificate was changed "
        "after it was signed.",
    )
    for party, signed in document.certificate.parties.items():
        part = canonical(raw["parties"][party]["part"])
        good &= checks.expect(
            is_signed(signed.key, part, signed.signature),
            f"The signature of party '{party}' does not hold: its part, key or signature was "
            f"changed.",
        )
    for party, base in document.certificate.bases.items():
        part = canonical(raw["bases"][party]["part"])
        good &= checks.expect(
            is_signed(base.key, part, base.signature),
            f"The signature of party '{party}' for its bottom does not hold: its part, key or "
            f"signature was changed.",
        )
    if good:
        signers = ", ".join(named_parts(document.certificate))
        checks.held.append(f"Signatures hold: {signers}, and the active party's over the whole.")


def named_parts(body: Body) -> dict[str, SignedPart | SignedBase]:
    """Return who signed something, by name: a part of the request, or else one of its bottom."""
    return {**body.bases, **body.parties}


def check_keys(document: Certificate, trust: Mapping[str, str] | None, checks: Checks) -> None:
    """Check that the keys are those that are trusted, and that nobody was left out."""
    body = document.certificate
    active = body.parties.get(ACTIVE)
    checks.expect(
        active is not None and active.key == document.key,
        "The certificate as a whole is not signed with the key of the active party's own part.",
    )
    for party in sorted(named_parts(body).keys() & body.not_signed.keys()):
        checks.faults.append(f"Party '{party}' stands both as having signed and as not having.")
    for party, why in body.not_signed.items():
        checks.unchecked.append(f"Party '{party}' did not sign, so it states nothing: {why}")
    if body.keys == "temporary":
        checks.unchecked.append(
            "The keys are temporary: one process made them for all parties, kept them in no "
            "folder, and they are gone; nobody can tell later whose signatures these are."
        )
    if trust is None:
        checks.unchecked.append(
            "No trusted keys were given, so it is not known whose signatures these are."
        )
        return
    good = True
    for party, signed in named_parts(body).items():
        if party not in trust:
            good = checks.expect(False, f"Party '{party}' signed, but no key of it is trusted.")
            continue
        good &= checks.expect(
            signed.key == trust[party],
            f"Party '{party}' signed with key {signed.key[:16]}.., which is not its trusted key "
            f"{trust[party][:16]}..",
        )
    for party in sorted(trust.keys() - named_parts(body).keys() - body.not_signed.keys()):
        good = checks.expect(False, f"Party '{party}' is trusted but not named in the certificate.")
    if good:
        signers = fingerprints({party: each.key for party, each in named_parts(body).items()})
        checks.held.append(f"Every key is the trusted one, by fingerprint: {signers}.")


def check_all_named(
    body: Body, parties: Collection[str], trust: Mapping[str, str], checks: Checks
) -> None:
    """Check that every party of the federation signed, or is named as not having signed."""
    named = named_parts(body).keys() | body.not_signed.keys()
    for party in sorted(set(parties) - named - trust.keys()):  # one that is trusted is named above
        checks.faults.append(
            f"Party '{party}' is one of the federation, but the certificate neither holds its part "
            f"nor names it as not having signed."
        )
    if parties and named >= set(parties):
        checks.held.append("Every party of the federation signed, or is named as not having.")


def check_parts(body: Body, checks: Checks) -> None:
    """Check that all parts speak of one request, and each of its own party."""
    good = True
    for party, signed in body.parties.items():
        part, purge = signed.part, signed.part.purge
        foreign = purge is not None and purge.attested_by != party
        incomplete = purge is not None and purge.version < part.version
        for holds, what in (
            (part.party == party, f"is of party '{part.party}'"),
            (part.request == body.request, f"is of another request, {part.request}"),
            (part.commitment == body.commitment, "holds another commitment to the request"),
            (not foreign, "holds a purge that is attested by somebody else"),
            (not incomplete, "attests a purge that left older weights"),
        ):
            good &= checks.expect(holds, f"The part of party '{party}' {what}.")
    if good:
        checks.held.append("All parts speak of this request and this commitment.")


def check_term(body: Body, checks: Checks) -> None:
    """Check the dates against each other and against the one-month term."""
    term, parts = body.term, {p: signed.part for p, signed in body.parties.items()}
    before = len(checks.faults)
    received, committed = datetime.fromisoformat(term.received).date(), day_of(term.committed)
    due = due_day(received)
    checks.expect(
        term.due == due.isoformat(),
        f"The due day is {term.due}, but one month after {received} is {due}.",
    )
    checks.expect(received <= committed, "The demand was received after it was committed.")
    checks.expect(
        term.in_time == (committed <= due),
        f"The certificate says that the commit was {'' if term.in_time else 'not '}in time, but "
        f"it came on {committed} and was due on {due}.",
    )
    active = parts.get(ACTIVE)
    checks.expect(
        active is None or active.committed == term.committed,
        "The date of the commit is not that of the active party's part.",
    )
    purges = [None if p.purge is None else asdict(p.purge) for p in parts.values()]
    purged = last_purge(purges, bool(body.not_signed)) if parts else None
    checks.expect(
        term.purged == purged,
        f"The purge is dated {term.purged}, but the parties' parts say {purged}.",
    )
    issued = datetime.fromisoformat(term.issued)
    checks.expect(issued <= datetime.now(UTC) + AHEAD, "The certificate is dated in the future.")
    for party, part in parts.items():
        purge = [part.purge.at] if part.purge is not None else []
        moments = [datetime.fromisoformat(m) for m in (part.committed, *purge, part.signed)]
        # When it was issued, and when it was decided, is by the clock of the active party.
        checks.expect(
            moments == sorted(moments) and moments[-1] <= issued + APART,
            f"The dates of party '{party}' are out of order: commit, purge, signature, issue.",
        )
        if moments[0] + APART < datetime.fromisoformat(term.committed):
            checks.unchecked.append(
                f"When party '{party}' committed is not known: by its own clock it was "
                f"{part.committed}, before the active party decided ({term.committed})."
            )
    if len(checks.faults) == before:
        word = "in time" if term.in_time else "NOT in time"
        checks.held.append(
            f"Dates hold: due on {term.due}, committed on {committed}, {word}."
            if term.stated
            else f"Dates hold: committed on {committed}; nobody stated when the demand came in, so "
            f"whether that was in time is not known."
        )


def check_demand(body: Body, demand: bytes | None, blind: Blinding | None, checks: Checks) -> None:
    """Check that a demand is the one whose hash the certificate holds."""
    if checks.annex is not None:
        noted = checks.annex.get("demand")
        checks.expect(
            (blind(str(noted)) if blind and is_hex(noted, DIGEST) else noted) == body.demand,
            "The demand in the annex is not the one whose hash the certificate holds.",
        )
    if demand is None:
        if body.demand is not None:
            checks.unchecked.append("No demand was given, so its hash was not checked.")
    elif body.demand is None:
        checks.faults.append("A demand was given, but the certificate holds no hash of one.")
    elif blind is None:
        checks.unchecked.append(
            "The demand was not checked: its hash stands under the key of the request, which is "
            "not at hand; give --annex-key."
        )
    elif checks.expect(
        blind(sha256(demand)) == body.demand,
        "The demand is not the one whose hash the certificate holds.",
    ):
        checks.held.append(
            f"The demand is the one that the certificate dates {body.term.received}."
        )


def check_annex(
    body: Body, annex: bytes | None, key: X25519PrivateKey | None, checks: Checks
) -> None:
    """Check that an annex belongs to its certificate, and what it says against it."""
    if body.annex is None:
        checks.expect(annex is None, "There is an annex, but the certificate has none.")
        checks.unchecked.append("The certificate has no annex, so its request stays closed.")
        return
    if annex is None:
        checks.unchecked.append("The annex is not there, so its hash was not checked.")
        return
    if not checks.expect(
        sha256(annex) == body.annex.sha256,
        "The annex is not the one of this certificate: it was changed or exchanged.",
    ):
        return
    checks.held.append("The annex is the one of this certificate.")
    if key is None:
        checks.unchecked.append(
            "No key of the annex was given, so the request was not checked against its commitment."
        )
        return
    try:
        opened = compat.annex(unseal(annex, key))
    except DataError as error:
        checks.faults.append(str(error))
        return
    if checks.expect(
        _is_disclosure(opened), "What the annex holds is not of the form of an annex."
    ):
        checks.annex = opened
        _check_opened(body, opened, checks)


def _is_disclosure(opened: Mapping[str, Any]) -> bool:
    """Tell whether an annex says things in lists and by party, as `disclosure` does."""
    asked, recipients = opened.get("asked"), opened.get("recipients")
    return (
        isinstance(asked, dict)
        and all(isinstance(names, list) for names in asked.values())
        and isinstance(recipients, dict)
        and all(isinstance(each, dict) for each in recipients.values())
        and isinstance(opened.get("not_tested"), list)
    )


def _check_opened(body: Body, opened: Mapping[str, Any], checks: Checks) -> None:
    good = checks.expect(
        (opened.get("what"), opened.get("request")) == (DISCLOSURE, body.request),
        "The annex is of another request.",
    )
    try:
        commitment = commit_to(opened["asked"], str(opened["key"]))
    except (KeyError, ValueError, TypeError):
        commitment = ""
    good &= checks.expect(
        hmac.compare_digest(commitment, body.commitment),
        "The request in the annex, under its key, does not give the commitment of the certificate.",
    )
    depth = opened.get("depth")
    good &= checks.expect(
        depth == body.depth, f"The certificate states depth {body.depth}, the annex {depth}."
    )
    if good:
        checks.held.append("The request in the annex gives the commitment that all parties hold.")
