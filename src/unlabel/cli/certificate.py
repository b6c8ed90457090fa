"""`unlabel certificate` and `unlabel keys`: what the parties sign, and for whom it is sealed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from unlabel.cli.output import Json, print_json, print_result, print_table, results, say
from unlabel.cli.target import Kit, Run, Target
from unlabel.files import RUN_FILE
from unlabel.signing import COMPARE, fingerprints

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
    demand: Annotated[
        Path | None,
        typer.Option(help="File of the demand, whose hash is signed; it needs --received."),
    ] = None,
    json: Json = False,
) -> None:
    """Have every party sign what it did for a request, and write certificate.json."""
    from unlabel.report.service import annex_for, day_in, digest_of_demand

    day = None if received is None else day_in(received)
    annex_for(auditor_key, legal_basis, informed or ())  # before anybody is asked
    digest_of_demand(demand, dated=day is not None)
    target = Target.of(run, federation)
    with target.open() as opened:
        issued = opened.certificate(
            request=request,
            received=day,
            auditor_key=auditor_key,
            legal_basis=legal_basis,
            informed=informed or (),
            demand=demand,
        )
    _show(target, issued, json)


def _show(target: Target, issued: Certified, json: bool) -> None:
    body, met = issued.body, list(issued.newly_trusted)
    if json:
        summary = {
            "request": body["request"],
            "certificate": str(issued.path),
            "annex": None if issued.annex is None else str(issued.annex),
            "signed": list(body["parties"]),
            "signed_bottoms": list(body.get("bases", {})),
            **{name: body[name] for name in ("not_signed", "depth", "guarantee")},
            **{name: body["term"][name] for name in ("due", "stated", "in_time")},
            "newly_trusted": met,
            "privacy": issued.privacy,
            **target.json(),
        }
        print_json(summary)
        return
    rows = [["party", "signed", "weights after", "purge"]]
    for party, signed in body["parties"].items():
        purge = signed["part"]["purge"]
        attested = f"attested at {purge['at']}" if purge else "-"
        rows.append([party, "yes", signed["part"]["weights"]["after"][:12], attested])
    for party, base in body.get("bases", {}).items():
        rows.append([f"{party}, its bottom", "yes", base["part"]["weights"][:12], "-"])
    rows += [[party, f"no: {why}", "-", "-"] for party, why in body["not_signed"].items()]
    print_table(f"Certificate of request {body['request']}", rows)
    results.print(Text(body["words"]), soft_wrap=True)
    say(f"Wrote {issued.path}.")
    annex = f"Wrote {issued.annex}, for the auditor alone."
    say(annex if issued.annex is not None else "There is no annex: no --auditor-key was given.")
    if issued.privacy:
        say(issued.privacy)
    if met:
        say(
            f"Trusted on first use, in {target.folder / RUN_FILE}: "
            f"{fingerprints(issued.newly_trusted)}. {COMPARE}"
        )


@keys.command()
def auditor(
    out: Annotated[Path, typer.Option(help="Folder for auditor.key and auditor.pub.")],
    json: Json = False,
) -> None:
    """Make an auditor's key pair; the private key never leaves the auditor."""
    from unlabel.report.annex import make_auditor_keys

    private, public = make_auditor_keys(out)
    sentence = f"Wrote {private}, to keep, and {public}, to give away."
    print_result({"private": str(private), "public": str(public)}, sentence, json=json)
