"""The papers of a run: the page of its last audit, and the certificate of a request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from unlabel.audit import Verdict
from unlabel.audit.binding import expect_unchanged
from unlabel.audit.verdict import AUDIT, MISREAD, read_verdict
from unlabel.data import ACTIVE
from unlabel.errors import RunError, SettingsError, UnlabelError
from unlabel.files import sha256, write_atomically, writing
from unlabel.forget import Run, read_ledgers
from unlabel.party import LedgerEntry
from unlabel.party.deciding import expect_no_update
from unlabel.report.annex import read_auditor_key
from unlabel.report.attestations import gather_bases
from unlabel.report.certificate import AnnexRequest, issue
from unlabel.report.page import page

REPORT, CERTIFICATE = "report.html", "certificate.json"


@dataclass(frozen=True)
class Report:
    """A report that was written.

    path     of the page
    verdict  that it shows
    trouble  what could not be read for it, empty where all could
    """

    path: Path
    verdict: Verdict
    trouble: str


def write_report(
    folder: Path, parties: Sequence[str], target: Path | None = None, trouble: str = ""
) -> Report:
    """Write the page of a run's last audit; no data and no model is opened for it.

    parties  whose ledgers lie in the folder, beside the active party's
    trouble  why they are not known, where that is so
    """
    target, audit = target or folder / REPORT, folder / ACTIVE / AUDIT
    ledgers: Mapping[str, list[LedgerEntry]] = {}
    try:
        ledgers = {} if trouble else read_ledgers(folder, parties)
    except UnlabelError as error:
        trouble = str(error)
    if trouble:
        trouble = (
            f"What became of the request since, and of older weights, is not known, nor whether "
            f"the audit was changed: {trouble}"
        )
    verdict = read_verdict(audit)
    if ACTIVE in ledgers:
        expect_unchanged(audit, verdict, ledgers[ACTIVE])
    # It may have been decided on since it was audited.
    entries = ledgers.get(ACTIVE, [])
    state = state_since(entries, verdict.request, verdict.state)
    later = [each.request for each in entries if each.event in ("commit", "update")]
    if state == "committed" and later and later[-1] != verdict.request:
        state = "replaced"
    verdict, purged = replace(verdict, state=state), purge_times(ledgers, verdict.request)
    try:
        text = page(verdict, purged, trouble)
    except (*MISREAD, TemplateError) as e:
        # Pictures are plain data, which nothing has checked before they are drawn.
        raise RunError(
            f"'{audit}' is not what `unlabel audit` writes ({type(e).__name__}: {e}); run "
            f"`unlabel audit` again."
        ) from e
    # It names what was forgotten, so nobody else is to read it.
    write_atomically(target, text.encode(), mode=0o600)
    return Report(target, verdict, trouble)


def purge_times(
    ledgers: Mapping[str, Sequence[LedgerEntry]], request: str
) -> dict[str, str | None]:
    """Return when each party's ledger attests a purge after it committed a request, or None.

    A purge counts where it goes with this request or with a later one: one that was asked for
    before, and came late, left the weights from before this request where they were.
    """
    times: dict[str, str | None] = {}
    for party, entries in ledgers.items():
        committed = [entry.request for entry in entries if entry.event == "commit"]
        since = committed[committed.index(request) :] if request in committed else []
        purges = [e.at for e in entries if e.event == "purge" and e.request in since]
        times[party] = purges[0] if purges else None
    return times


def state_since(entries: Sequence[LedgerEntry], request: str, audited: str) -> str:
    """Return what became of a request: what a ledger says, else what it was when audited."""
    known = {"commit": "committed", "rollback": "rolled-back"}
    states = [known[e.event] for e in entries if e.request == request and e.event in known]
    return states[-1] if states else audited


@dataclass(frozen=True)
class Certified:
    """A certificate that was written.

    path           of the certificate; `annex` of the sealed annex, None without an auditor
    body           what the active party signed
    newly_trusted  public keys of parties that were met for the first time, by party
    temporary      whether the keys are gone with this process
    privacy        what it tells partners of a hidden request, in words; empty if nothing
    """

    path: Path
    annex: Path | None
    body: Mapping[str, Any]
    newly_trusted: Mapping[str, str]
    temporary: bool
    privacy: str = ""


def annex_for(
    auditor_key: str | Path | None, legal_basis: str | None, informed: Sequence[str]
) -> AnnexRequest | None:
    """Return for whom an annex is sealed and what people add to it, None without an auditor."""
    if auditor_key is not None:
        return AnnexRequest(read_auditor_key(Path(auditor_key)), legal_basis, tuple(informed))
    if legal_basis or informed:
        raise SettingsError(
            "--legal-basis and --informed stand in the annex, which needs --auditor-key."
        )
    return None


def day_in(text: str) -> date:
    """Return the day that a text names."""
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise SettingsError(
            f"Expected --received to be a day like 2026-11-02 but got '{text}'."
        ) from error


def digest_of_demand(demand: str | Path | None, *, dated: bool) -> str | None:
    """Return the SHA-256 of a demand's file, which is bound together with the day it came in."""
    if demand is None:
        return None
    if not dated:
        raise SettingsError("--demand needs --received, the day on which the demand came in.")
    try:
        return sha256(Path(demand).read_bytes())
    except OSError as error:
        raise SettingsError(f"Cannot read the demand '{demand}': {error.strerror}.") from error


def _expect_no_less(target: Path, body: Mapping[str, Any]) -> None:
    """Raise where the file that is there states of the same request a depth, and this does not."""
    try:
        before = json.loads(target.read_text(encoding="utf-8"))["certificate"]
        is_same = all(before[name] == body[name] for name in ("what", "request"))
        states_more = is_same and before["depth"] and not body["depth"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if states_more:
        raise RunError(
            f"'{target}' certifies how deep this request went, and that cannot be stated any more: "
            f"its model was replaced, or another request audited. It stays as it is; move it away "
            f"to write one that states less."
        )


def certify(
    run: Run, target: Path | None = None, *, temporary: bool = False, **options: Any
) -> Certified:
    """Have every party sign what it did for a request, and write that; `options` as of `issue`."""
    expect_no_update(run.folder / ACTIVE)  # which would leave keys and counts behind
    target = target or run.folder / CERTIFICATE
    trust = run.config.trust
    bases, unsigned = gather_bases(run)
    issued = issue(
        run.active,
        bases=bases,
        unsigned=unsigned,
        trust=trust,
        temporary=temporary,
        privacy_loss=run.privacy_loss,
        **options,
    )
    _expect_no_less(target, issued.certificate["certificate"])
    beside = target.with_suffix(".annex")
    # The annex first: a certificate never names one that is not there.
    if issued.annex is not None:
        write_atomically(beside, issued.annex, mode=0o600)
    else:
        with writing(beside):
            beside.unlink(missing_ok=True)  # of an earlier certificate
    text = json.dumps(issued.certificate, indent=1) + "\n"
    write_atomically(target, text.encode())
    met = {party: key for party, key in issued.keys.items() if party not in trust}
    sealed = None if issued.annex is None else beside
    privacy = ""
    if issued.loss is not None:
        left = len(run.labels) - len(run.forgotten.labels)
        privacy = (
            f"Partners who are asked to sign know that the request was kept and not about nothing, "
            f"which counts as one decision. {issued.loss.to_json(left + 1)['sentence']}"
        )
    return Certified(target, sealed, issued.certificate["certificate"], met, temporary, privacy)
