"""A certificate of one committed request: what every party states and signs, brought together.

The active party gathers the parts of all parties, adds the dates, how deep an audit found it
and the mark of a sealed annex, and signs the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from unlabel._version import __version__
from unlabel.audit.binding import verdict_of
from unlabel.audit.figures import Measurements
from unlabel.data import ACTIVE
from unlabel.errors import ForgetError, RunError, SettingsError
from unlabel.files import sha256
from unlabel.forget.exact_methods import is_exact
from unlabel.forget.privacy_loss import PrivacyLoss, TotalLoss
from unlabel.party import ActiveParty, LedgerEntry
from unlabel.report.annex import seal
from unlabel.report.attestations import gather
from unlabel.report.blinding import blinded, plain
from unlabel.report.certificate_form import CERTIFICATE, day_of, due_day
from unlabel.report.disclosure import disclosure, is_secret, noted_depth, opening, visibility_of
from unlabel.report.wording import REPLACED, headline, meaning, not_meant, of_people, with_noise
from unlabel.signing import Signer, canonical, fingerprint
from unlabel.terms import (
    NOT_ATTESTED,
    NOT_AUDITED,
    PEOPLE_NOT_AUDITED,
    Construction,
    Visibility,
    effects,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey


@dataclass(frozen=True)
class Issued:
    """A certificate, its sealed annex if an auditor was named, and the keys that signed.

    loss  of all hidden requests, where it shows partners that a silent one was kept
    """

    certificate: dict[str, Any]
    annex: bytes | None
    keys: dict[str, str]
    loss: TotalLoss | None = None


@dataclass(frozen=True)
class AnnexRequest:
    """For whom an annex is sealed, and what people add to it.

    legal_basis  why the demand had to be met, in the words of whoever answers for it
    informed     passive parties that know what the request is about
    """

    auditor: X25519PublicKey
    legal_basis: str | None = None
    informed: tuple[str, ...] = ()


def issue(
    active: ActiveParty,
    *,
    request: str | None = None,
    received: date | None = None,
    trust: Mapping[str, str] | None = None,
    annex: AnnexRequest | None = None,
    demand: str | None = None,
    temporary: bool = False,
    privacy_loss: PrivacyLoss | None = None,
    bases: Mapping[str, Mapping[str, Any]] | None = None,
    unsigned: Mapping[str, str] | None = None,
) -> Issued:
    """Gather and sign everything there is to say about a committed request.

    request       id; the last one that was committed if None
    received      day on which the demand came in; the day of the commit if None
    trust         public keys by party; a party that signs with another one is an error
    demand        SHA-256 of the file with which the request was demanded
    temporary     whether the keys go with the process, because the run is kept in no folder
    privacy_loss  where it is counted that a silent request shows as kept
    bases         what parties signed of bottoms made without labels, and why others are `unsigned`
    """
    store = active.versions.store
    entries = active.versions.ledger.entries()
    line = committed(entries, request)
    # What people gave is looked at before any party is asked, and makes a key.
    start = first_day(line.at, received)
    audit = verdict_of(store.home, line.request)
    depth, figures = noted_depth(entries, line)
    # A depth is certified with its figures alone: those of version 0.7 are bound to nothing, and
    # where another request was audited since they are not at hand any more.
    if audit is None or figures is None:
        audit = depth = figures = None
    bases = bases if bases is not None and is_exact(line.note) else {}
    replay = _replay(active, line) if is_exact(line.note) else None
    exact = construction_in(bases, replay, visibility_of(line.note), depth)
    if exact is not None and depth == "bottoms" and not exact.signed:
        audit = depth = figures = None  # what is exact by signatures is not, while one is missing
        exact = construction_in(bases, replay, visibility_of(line.note), depth)
    secret = is_secret(line.note)
    blind = partial(blinded, key=opening(store.home, line)[1]) if secret else plain
    sealed = mark = None
    if annex is not None:
        opened = disclosure(
            *(store.home, line, audit, depth, _partners(active)),
            *(annex.legal_basis, annex.informed, demand),
        )
        sealed = seal(opened, annex.auditor)
        mark = {"sha256": sha256(sealed), "auditor": annex.auditor.public_bytes_raw().hex()}
    # A line of version 0.7 does not say whether the request was silent; most hidden ones are.
    silent = line.note.get("silent", line.note.get("hidden"))
    loss = privacy_loss.certify(line.request) if privacy_loss is not None and silent else None
    parts, missing = gather(active, line)
    if is_exact(line.note) and not active.parties:  # nobody is asked about a request
        missing |= unsigned or {}
    keys = {party: signed["key"] for party, signed in {**bases, **parts}.items()}
    for party, signed in bases.items():
        expect_trusted({party: signed["key"]}, keys)
    expect_trusted(keys, trust or {})
    purges = {party: (each["part"]["purge"] or {}).get("at") for party, each in parts.items()}
    purges |= dict.fromkeys(() if is_exact(line.note) else missing)
    body = {
        "what": CERTIFICATE,
        "request": line.request,
        "version": parts[ACTIVE]["part"]["version"],
        "commitment": line.note["commitment"],
        "demand": demand and blind(demand),
        "visibility": visibility_of(line.note),
        "secret": secret,
        "method": None if secret else str(line.note["method"]),
        **statement(
            depth,
            visibility_of(line.note),
            None if audit is None else audit.measures,
            noise=audit is None or with_noise(audit),
            # Of a secret request the partners are not told whether it is about people.
            people="people" in line.note and not secret,
            purges=purges,
            exact=exact,
        ),
        "figures": figures and blind(figures),
        "parties": parts,
        "not_signed": missing,
        "term": {"stated": received is not None, **term(line.at, start, parts, missing)},
        "annex": mark,
        "software": f"unlabel {__version__}",
        # Left out where keys are kept, so that version 0.6 reads such certificates too.
        **({"keys": "temporary"} if temporary else {}),
        # Left out of all others, which have the form they had.
        **({"bases": bases, "replay": replay} if exact is not None else {}),
    }
    signer = Signer(store.home)
    signature = signer.sign(canonical(body))
    whole = {"certificate": body, "key": signer.public, "signature": signature}
    return Issued(whole, sealed, keys, loss)


def _partners(active: ActiveParty) -> list[str]:
    """Return the passive parties, also those that are not asked any more."""
    return [party for party in active.embedded if party != ACTIVE]


def _replay(active: ActiveParty, line: LedgerEntry) -> dict[str, Any] | None:
    """Return what an exact request was computed from, None where its version was replaced."""
    store, version = active.versions.store, line.note.get("version")
    if version not in store.versions():
        return None
    noted = store.facts(int(version)).get("about", {}).get("replay")
    if not noted:
        return None
    return {**noted, "rows": blinded(noted["rows"], opening(store.home, line)[1])}


def construction_in(
    bases: Mapping[str, Mapping[str, Any]],
    replay: Mapping[str, Any] | None,
    visibility: Visibility,
    depth: str | None,
) -> Construction | None:
    """Return what the words of a certificate depend on, None where it is of no exact request.

    A request is exact by what parties signed: where one of them has not, or what it was computed
    from is not known, nothing is stated.
    """
    if not bases and replay is None:
        return None
    needed = set() if replay is None else set(replay["bases"]) - {ACTIVE}
    return Construction(
        restart=visibility == "open",
        by_word=any(signed["part"]["gradients"] > 0 for signed in bases.values()),
        holds=depth != "none",
        signed=replay is not None and needed <= bases.keys(),
        replaced=replay is None,
    )


def committed(entries: Sequence[LedgerEntry], request: str | None) -> LedgerEntry:
    """Return the line of a commit: of the request that is named, or of the last one."""
    lines = [e for e in entries if e.event == "commit" and request in (None, e.request)]
    if lines:
        return lines[-1]
    if request is None:
        raise ForgetError(
            "No request was committed in this run, so there is nothing to certify; "
            "commit one with `unlabel commit` first."
        )
    dropped = any((e.event, e.request) == ("rollback", request) for e in entries)
    how = "was rolled back" if dropped else "is not one that was committed in this run"
    raise ForgetError(f"Request {request} {how}, so there is nothing to certify.")


def expect_trusted(keys: Mapping[str, str], trust: Mapping[str, str]) -> None:
    """Raise where a party signed with another key than the one that is trusted."""
    for party, key in keys.items():
        if party in trust and trust[party] != key:
            raise RunError(
                f"Party '{party}' signed with key {fingerprint(key)}, but the one that is trusted "
                f"is {fingerprint(trust[party])}; ask its owner by another way. Only where that "
                f"key was renewed change `trust.{party}` in run.yaml, or make new kits."
            )


def statement(
    depth: str | None,
    visibility: Visibility,
    measures: Measurements | None = None,
    *,
    noise: bool = True,
    people: bool = False,
    purges: Mapping[str, str | None] | None = None,
    exact: Construction | None = None,
) -> dict[str, Any]:
    """Return how deep an audit found a request, and in plain words, a line each, what that means
    and does not, what was deleted, what was changed, and what remains.

    measures  of that audit, None where only the depth is at hand
    noise   whether a hidden request was sent with noise, or may have been
    people  whether it is about the labels of people, and may be said to be
    purges  party -> when it attests a purge, or None
    exact   how it was made exact, None where it was not
    """
    words = [PEOPLE_NOT_AUDITED if people and exact is None else NOT_AUDITED]
    if exact is not None and not exact.signed:
        words = [REPLACED if exact.replaced else NOT_ATTESTED]
    if depth is not None:
        if people and exact is None:  # also where the figures are not at hand
            measures = of_people(measures)
        words = [f"{headline(depth, measures, exact)}.", meaning(depth, measures, exact)]
        words += not_meant(depth, measures, exact)
    parts = effects(depth, visibility, people=people, noise=noise, purges=purges, exact=exact)
    lines = [" ".join(words), *(f"{name}: {' '.join(parts[name])}" for name in parts)]
    guarantee = None if depth is None else "exact" if exact and exact.holds else "measured"
    return {"depth": depth, "guarantee": guarantee, "words": "\n".join(lines)}


def first_day(at: str, received: date | None) -> date:
    """Return the day from which the term counts: of the demand, or else of the commit."""
    day = day_of(at)
    if received is not None and received > day:
        raise SettingsError(
            f"Expected --received to be the day of the commit, {day}, or one before it, "
            f"but got {received}."
        )
    return received or day


def term(
    at: str, start: date, parts: Mapping[str, Mapping[str, Any]], missing: Mapping[str, str]
) -> dict[str, Any]:
    """Return the dates of a request against the one-month term."""
    due = due_day(start)
    return {
        "received": start.isoformat(),
        "due": due.isoformat(),
        "committed": at,
        "purged": last_purge([signed["part"]["purge"] for signed in parts.values()], bool(missing)),
        "issued": datetime.now(UTC).isoformat(timespec="seconds"),
        "in_time": day_of(at) <= due,
    }


def last_purge(purges: Sequence[Mapping[str, Any] | None], missing: bool) -> str | None:
    """Return when the last party attests its purge, None while any party has not."""
    if missing or any(purge is None for purge in purges):
        return None
    return max((str(purge["at"]) for purge in purges if purge), key=datetime.fromisoformat)
