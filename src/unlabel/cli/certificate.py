"""`unlabel certificate` and `unlabel keys`: what the parties sign, and for whom it is sealed."""

from __future__ import annotations

import json as plain_json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from unlabel.cli.output import Json, messages, print_json, print_table
from unlabel.cli.target import Far, Run, Target
from unlabel.configfile import read_run_config
from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.files import write_atomically, writing
from unlabel.report.annex import make_auditor_keys, read_auditor_key
from unlabel.report.certificate import AnnexWish, Issued, issue
from unlabel.runfolder import write_config

CERTIFICATE, ANNEX = "certificate.json", "certificate.annex"

keys = typer.Typer(help="Keys that seal what only an auditor may read.", no_args_is_help=True)


def certificate(
    run: Run = None,
    federation: Far = None,
    request: Annotated[
        str | None, typer.Option(help="Which request; the last one that was committed by default.")
    ] = None,
    received: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="Day on which the demand came in, like 2026-11-02; the commit's by default.",
        ),
    ] = None,
    auditor_key: Annotated[
        Path | None, typer.Option(help="The auditor's public key: adds a sealed annex.")
    ] = None,
    legal_basis: Annotated[
        str | None, typer.Option(help="Why the demand had to be met; for the annex.")
    ] = None,
    informed: Annotated[
        list[str] | None,
        typer.Option(metavar="PARTY", help="Was told what it is about; for the annex. Repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Have every party sign what it did for a request, and write certificate.json."""
    day = _day(received)
    wish = None
    if auditor_key is not None:
        wish = AnnexWish(read_auditor_key(auditor_key), legal_basis, tuple(informed or ()))
    elif legal_basis or informed:
        raise SettingsError(
            "--legal-basis and --informed stand in the annex, which needs --auditor-key."
        )
    target = Target.of(run, federation)
    with target.open() as opened:
        issued, met = opened.lasting(lambda: certify(opened, target.folder, request, day, wish))
    _say(target, issued, met, json)


def certify(
    federation: Federation,
    run: Path,
    request: str | None = None,
    received: date | None = None,
    wish: AnnexWish | None = None,
) -> tuple[Issued, list[str]]:
    """Write a certificate into a run's folder; return it, and the parties newly trusted."""
    trust = federation.config.trust
    issued = issue(federation.active, request=request, received=received, trust=trust, annex=wish)
    _write(run, issued)
    met = {party: key for party, key in issued.keys.items() if party not in trust}
    if met:
        kept = read_run_config(run)
        write_config(run, replace(kept, trust={**kept.trust, **met}))
    return issued, list(met)


def _write(run: Path, issued: Issued) -> None:
    """Write the annex first: a certificate never names one that is not there."""
    if issued.annex is not None:
        write_atomically(run / ANNEX, issued.annex, mode=0o600)
    else:
        with writing(run / ANNEX):
            (run / ANNEX).unlink(missing_ok=True)  # of an earlier certificate
    text = plain_json.dumps(issued.certificate, indent=1) + "\n"
    write_atomically(run / CERTIFICATE, text.encode())


def _say(target: Target, issued: Issued, met: list[str], json: bool) -> None:
    run = target.folder
    body = issued.certificate["certificate"]
    if json:
        found = {
            "request": body["request"],
            "certificate": str(run / CERTIFICATE),
            "annex": str(run / ANNEX) if issued.annex is not None else None,
            "signed": list(body["parties"]),
            "not_signed": body["not_signed"],
            "level": body["depth"]["level"],
            "due": body["term"]["due"],
            "stated": body["term"]["stated"],
            "in_time": body["term"]["in_time"],
            "newly_trusted": met,
            **target.json(),
        }
        print_json(found)
        return
    rows = [["party", "signed", "weights after", "purge"]]
    for party, signed in body["parties"].items():
        purge = signed["part"]["purge"]
        attested = f"attested at {purge['at']}" if purge else "-"
        rows.append([party, "yes", signed["part"]["weights"]["after"][:12], attested])
    rows += [[party, f"no: {why}", "-", "-"] for party, why in body["not_signed"].items()]
    print_table(f"Certificate of request {body['request']}", rows, body["depth"]["words"])
    messages.print(f"Wrote {run / CERTIFICATE}.", soft_wrap=True)
    if issued.annex is not None:
        messages.print(f"Wrote {run / ANNEX}, for the auditor alone.", soft_wrap=True)
    else:
        messages.print("There is no annex: no --auditor-key was given.", soft_wrap=True)
    if met:
        messages.print(
            f"Trusted on first use, in {run / 'config.yaml'}: {', '.join(met)}. Compare the keys "
            f"with their owners once.",
            soft_wrap=True,
        )


def _day(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise SettingsError(
            f"Expected --received to be a day like 2026-11-02 but got '{text}'."
        ) from error


@keys.command()
def auditor(
    out: Annotated[Path, typer.Option(help="Folder for auditor.key and auditor.pub.")],
    json: Json = False,
) -> None:
    """Make an auditor's key pair; the private key never leaves the auditor."""
    private, public = make_auditor_keys(out)
    if json:
        print_json({"private": str(private), "public": str(public)})
        return
    messages.print(f"Wrote {private}, to keep, and {public}, to give away.", soft_wrap=True)


@keys.callback()
def keys_root() -> None:
    """Keys that seal what only an auditor may read."""
