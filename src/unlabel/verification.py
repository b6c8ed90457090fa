"""Check a certificate or an exported top against files: annex, trusted keys, the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from unlabel.config import check_trust
from unlabel.config.loader import read_agreement, read_run, read_run_folder, read_yaml
from unlabel.errors import DataError, SettingsError
from unlabel.export.check import ExportFiles, check
from unlabel.export.form import is_export
from unlabel.report import verify as checking
from unlabel.report.annex import read_annex_key
from unlabel.report.checks import Checks
from unlabel.report.service import Certified


def verify(
    certificate: str | Path | Certified,
    *,
    run: str | Path | None = None,
    annex: str | Path | None = None,
    annex_key: str | Path | None = None,
    trust: str | Path | Mapping[str, str] | None = None,
    demand: str | Path | None = None,
    rerun: str | Path | None = None,
    replay: str | Path | None = None,
    revocations: str | Path | None = None,
) -> Checks:
    """Check a certificate, or an exported top; every fault is named, and what was not checked.

    run        folder of the run, to look at ledgers and weights
    annex      the sealed annex; the one beside the certificate if there is any
    annex_key  the auditor's private key, to open the annex
    trust      the parties' public keys by name, or a YAML file with them, such as a kit's
               agreement.yaml; the run's own by default
    demand     file of the demand, to compare with the hash in the certificate
    rerun      the same with all parties' data: the audit is done again on a copy of it
    replay     the label holder's folder of the run: an exact request is computed again from what
               stays, and compared bit for bit
    revocations  of an exported top: the revocation note; that of `run` by default
    """
    path = certificate.path if isinstance(certificate, Certified) else Path(certificate)
    given = run or rerun or replay
    folder = None if given is None else Path(given)
    if is_export(path):
        note = None if revocations is None else Path(revocations)
        return check(ExportFiles.of(path, note, folder), _anchors(trust, folder))
    beside = path.with_suffix(".annex") if annex is None else Path(annex)
    text = _read(path)
    sealed = _read(beside) if annex is not None or beside.exists() else None
    checks = checking.verify(
        text,
        path.name,
        trust=_anchors(trust, folder),
        parties=_parties(trust, folder),
        annex=sealed,
        annex_key=None if annex_key is None else read_annex_key(Path(annex_key)),
        run=folder,
        demand=None if demand is None else _read(Path(demand)),
    )
    if rerun is not None:
        from unlabel.federation import Federation
        from unlabel.report.rerun import check_again

        check_again(Federation.open(rerun).copy(), checks)
    if replay is not None:
        from unlabel.federation import Federation
        from unlabel.report.replay import check_replay

        config, copied = read_run_folder(Path(replay)), lambda: Federation.open(replay).copy()
        check_replay(Path(replay), config, copied, checks)
    return checks


def _anchors(
    trust: str | Path | Mapping[str, str] | None, run: Path | None
) -> Mapping[str, str] | None:
    """Return the trusted keys: those given, of a file, or of the run's settings if any."""
    if trust is None:
        return (read_run_folder(run).trust or None) if run is not None else None
    if isinstance(trust, Mapping):
        check_trust(trust)
        return trust
    raw = read_yaml(Path(trust))
    if isinstance(raw, dict) and isinstance(raw.get("trust"), dict):
        raw = raw["trust"]
    elif not isinstance(raw, dict) or not all(isinstance(each, str) for each in raw.values()):
        raw = None  # a whole configuration without keys, or something else altogether
    if not raw:
        raise SettingsError(f"'{trust}' has no `trust` with a public key a party.")
    anchors = {str(party): str(key) for party, key in raw.items()}
    check_trust(anchors)
    return anchors


def _parties(trust: str | Path | Mapping[str, str] | None, run: Path | None) -> set[str]:
    """Return all parties that the given configurations name; keys alone name none."""
    parties: set[str] = set()
    if run is not None:
        parties |= set(read_run_folder(run).party_names())
    if isinstance(trust, str | Path):
        raw = read_yaml(Path(trust))
        if isinstance(raw, dict) and isinstance(raw.get("parties"), list):
            parties |= set(read_agreement(Path(trust))[0].parties)  # of a kit
        elif isinstance(raw, dict) and "trust" in raw and len(raw) > 1:
            parties |= set(read_run(Path(trust)).party_names())
    return parties


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"Cannot read '{path}': {error.strerror}.") from error
