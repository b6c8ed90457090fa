"""`unlabel verify`: whether a certificate holds, and what does not match if it does not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from unlabel.cli.certificate import ANNEX
from unlabel.cli.exits import NOT_PASSED
from unlabel.cli.output import Json, messages, print_json, print_table
from unlabel.configfile import read_config, read_run_config, read_yaml
from unlabel.errors import CertificateError, DataError, SettingsError
from unlabel.report.annex import read_annex_key
from unlabel.report.verify import verify as check
from unlabel.train.config import check_trust


def verify(
    certificate: Annotated[Path, typer.Argument(help="The certificate.json to check.")],
    run: Annotated[
        Path | None, typer.Option(help="Folder of the run, to look at ledgers and weights.")
    ] = None,
    annex: Annotated[
        Path | None, typer.Option(help="The sealed annex; the one beside the certificate if any.")
    ] = None,
    annex_key: Annotated[
        Path | None, typer.Option(help="The auditor's private key, to open the annex.")
    ] = None,
    trust: Annotated[
        Path | None,
        typer.Option(help="YAML file with the parties' public keys; the run's config by default."),
    ] = None,
    json: Json = False,
) -> None:
    """Check a certificate offline; every fault is named, and what was not checked.

    Exit status 0 where it holds as far as it was checked, 3 where it does not.
    """
    text = _read(certificate)
    beside = certificate.with_name(ANNEX) if annex is None else annex
    sealed = _read(beside) if annex is not None or beside.exists() else None
    checks = check(
        text,
        certificate.name,
        trust=_anchors(trust, run),
        parties=_parties(trust, run),
        annex=sealed,
        annex_key=None if annex_key is None else read_annex_key(annex_key),
        run=run,
    )
    if json:
        print_json(
            {
                "holds": not checks.faults,
                "faults": checks.faults,
                "held": checks.held,
                "not_checked": checks.unchecked,
                "annex": checks.annex,
                "certificate": str(certificate),
            }
        )
        if checks.faults:
            raise typer.Exit(NOT_PASSED)
        return
    for sentence in checks.held:
        messages.print(_shown(sentence), soft_wrap=True)
    for sentence in checks.unchecked:
        messages.print(f"Not checked: {_shown(sentence)}", soft_wrap=True)
    for sentence in checks.faults:
        messages.print(f"Fault: {_shown(sentence)}", soft_wrap=True)
    if checks.faults:
        count = len(checks.faults)
        raise CertificateError(
            f"'{certificate}' does not hold: {count} {'thing does' if count == 1 else 'things do'} "
            f"not match."
        )
    if checks.annex is not None:
        rows = [[_shown(cell) for cell in row] for row in _rows(checks.annex)]
        print_table("What the annex says", rows)
    messages.print(f"'{certificate}' holds, as far as it was checked.", soft_wrap=True)


def _anchors(file: Path | None, run: Path | None) -> Mapping[str, str] | None:
    """Return the trusted keys: of a file, or of the run's configuration if it has any."""
    if file is None:
        return (read_run_config(run).trust or None) if run is not None else None
    found = read_yaml(file)
    if isinstance(found, dict) and isinstance(found.get("trust"), dict):
        found = found["trust"]
    elif not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        found = None  # a whole configuration without keys, or something else altogether
    if not found:
        raise SettingsError(f"'{file}' has no `trust` with a public key a party.")
    anchors = {str(party): str(key) for party, key in found.items()}
    check_trust(anchors)
    return anchors


def _parties(file: Path | None, run: Path | None) -> set[str]:
    """Return all parties that the given configurations name; a file of keys alone names none."""
    found: set[str] = set()
    if run is not None:
        found |= set(read_run_config(run).party_names())
    raw = read_yaml(file) if file is not None else None
    if file is not None and isinstance(raw, dict) and "trust" in raw and len(raw) > 1:
        found |= set(read_config(file).party_names())
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"Cannot read '{path}': {error.strerror}.") from error


def _shown(text: str) -> str:
    """Return words with what would steer a terminal spelt out: whoever signed chose them.

    >>> _shown("It refused: \\x1b[8m")
    'It refused: \\\\x1b[8m'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _rows(annex: Mapping[str, Any]) -> list[list[str]]:
    told = [p for p, each in (annex.get("recipients") or {}).items() if each.get("informed")]
    asked = annex.get("asked") or {}
    what = [f"{kind}: {', '.join(map(str, names))}" for kind, names in asked.items()]
    forced = annex.get("forced")
    return [
        ["what", "value"],
        ["asked", "; ".join(what)],
        ["method", str(annex.get("method"))],
        ["legal basis", str(annex.get("legal_basis") or "not stated")],
        ["informed", ", ".join(told) or "nobody"],
        ["level", str(annex.get("level") or "not audited")],
        ["forced", "not recorded" if forced is None else "yes" if forced else "no"],
        ["not tested", " ".join(map(str, annex.get("not_tested") or ()))],
    ]
