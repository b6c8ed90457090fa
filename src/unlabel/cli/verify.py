"""`unlabel verify`: whether a certificate or an exported top holds, and what does not match."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import unlabel as ul
from unlabel.cli.exits import NOT_PASSED
from unlabel.cli.output import Json, print_json, print_table, say
from unlabel.errors import CertificateError


def verify(
    certificate: Annotated[Path, typer.Argument(help="The certificate.json, or an exported top.")],
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
    demand: Annotated[
        Path | None, typer.Option(help="File of the demand, to compare with the hash in it.")
    ] = None,
    rerun: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Do the audit again, on a copy of this run with all data."
        ),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Compute an exact request again, from the label holder's folder of this run.",
        ),
    ] = None,
    revocations: Annotated[
        Path | None,
        typer.Option(help="Of an exported top: the run's exports.json; --run's own by default."),
    ] = None,
    json: Json = False,
) -> None:
    """Check a certificate offline; every fault is named, and what was not checked.

    Exit status 0 where it holds as far as it was checked, 3 where it does not.
    """
    checks = ul.verify(
        certificate,
        run=run,
        annex=annex,
        annex_key=annex_key,
        trust=trust,
        demand=demand,
        rerun=rerun,
        replay=replay,
        revocations=revocations,
    )
    if json:
        facts: dict[str, Any] = {name: value for name, value, _ in checks.terms}
        facts |= {"holds": checks.holds, "faults": checks.faults, "held": checks.held}
        facts |= {"not_checked": checks.unchecked, "annex": checks.annex}
        print_json({**facts, "certificate": str(certificate)})
        if checks.faults:
            raise typer.Exit(NOT_PASSED)
        return
    for name, value, means in checks.terms:
        say(f"{name.capitalize()}: {value} ({means}).")
    for sentence in checks.faults:
        say(f"Fault: {_shown(sentence)}")
    for sentence in checks.held:
        say(_shown(sentence))
    for sentence in checks.unchecked:
        say(f"Not checked: {_shown(sentence)}")
    if checks.faults:
        count = len(checks.faults)
        raise CertificateError(
            f"'{certificate}' does not hold: {count} {'thing does' if count == 1 else 'things do'} "
            f"not match."
        )
    if checks.annex is not None:
        rows = [[_shown(cell) for cell in row] for row in _rows(checks.annex)]
        print_table("What the annex says", rows)
    say(f"'{certificate}' holds, as far as it was checked.")


def _shown(text: str) -> str:
    """Return words with what would steer a terminal spelt out: whoever signed chose them.

    >>> _shown("It refused: \\x1b[8m")
    'It refused: \\\\x1b[8m'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _rows(annex: Mapping[str, Any]) -> list[list[str]]:
    informed = [p for p, each in (annex.get("recipients") or {}).items() if each.get("informed")]
    asked = annex.get("asked") or {}
    what = [f"{kind}: {', '.join(map(str, names))}" for kind, names in asked.items()]
    forced = annex.get("forced")
    return [
        ["what", "value"],
        ["asked", "; ".join(what)],
        ["method", str(annex.get("method"))],
        ["legal basis", str(annex.get("legal_basis") or "not stated")],
        ["informed", ", ".join(informed) or "nobody"],
        ["depth", str(annex.get("depth") or "not audited")],
        ["forced", "not recorded" if forced is None else "yes" if forced else "no"],
        ["not tested", " ".join(map(str, annex.get("not_tested") or ()))],
    ]
