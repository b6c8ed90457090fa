"""`unlabel certificate` and `unlabel keys`: what the parties sign, and for whom it is sealed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unlabel.cli.output import Json, messages, print_json, print_table
from unlabel.cli.target import Kit, Run, Target

if TYPE_CHECKING:
    from unlabel.report.service import Certified

keys = typer.Typer(help="Keys that seal what only an auditor may read.", no_args_is_help=True)


def certificate(
    run: Run = None,
    federation: Kit = None,
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
    from unlabel.report.service import annex_for, day_in

    day = None if received is None else day_in(received)
    annex_for(auditor_key, legal_basis, informed or ())  # before anybody is asked
    target = Target.of(run, federation)
    with target.open() as opened:
        made = opened.certificate(
            request=request,
            received=day,
            auditor_key=auditor_key,
            legal_basis=legal_basis,
            informed=informed or (),
        )
    _say(target, made, json)


def _say(target: Target, made: Certified, json: bool) -> None:
    body, met = made.body, list(made.newly_trusted)
    if json:
        found = {
            "request": body["request"],
            "certificate": str(made.path),
            "annex": None if made.annex is None else str(made.annex),
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
    messages.print(f"Wrote {made.path}.", soft_wrap=True)
    if made.annex is not None:
        messages.print(f"Wrote {made.annex}, for the auditor alone.", soft_wrap=True)
    else:
        messages.print("There is no annex: no --auditor-key was given.", soft_wrap=True)
    if met:
        messages.print(
            f"Trusted on first use, in {target.folder / 'config.yaml'}: {', '.join(met)}. Compare "
            f"the keys with their owners once.",
            soft_wrap=True,
        )


@keys.command()
def auditor(
    out: Annotated[Path, typer.Option(help="Folder for auditor.key and auditor.pub.")],
    json: Json = False,
) -> None:
    """Make an auditor's key pair; the private key never leaves the auditor."""
    from unlabel.report.annex import make_auditor_keys

    private, public = make_auditor_keys(out)
    if json:
        print_json({"private": str(private), "public": str(public)})
        return
    messages.print(f"Wrote {private}, to keep, and {public}, to give away.", soft_wrap=True)


@keys.callback()
def keys_root() -> None:
    """Keys that seal what only an auditor may read."""
