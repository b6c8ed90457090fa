"""`unlabel report`: an audit as one page that a person reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from jinja2 import TemplateError

from unlabel import erasure
from unlabel.audit import Verdict
from unlabel.auditing import NEXT_FOR_PEOPLE, PEOPLE
from unlabel.cli.output import Json, messages, print_json
from unlabel.cli.target import Far, Run, Target
from unlabel.configfile import read_run_config
from unlabel.data import ACTIVE
from unlabel.errors import ForgetError, RunError, UnlabelError
from unlabel.federation import Federation
from unlabel.files import write_atomically
from unlabel.forget import Transaction
from unlabel.party import LedgerEntry
from unlabel.report.page import page
from unlabel.report.reading import purge_times, read_verdict, state_since

AUDIT = Path("active") / "audit.json"
REPORT = "report.html"


def report(
    run: Run = None,
    federation: Far = None,
    out: Annotated[
        Path | None, typer.Option(help=f"Where to write it; RUN/{REPORT} by default.")
    ] = None,
    json: Json = False,
) -> None:
    """Write the last audit as one page: the verdict in plain words, then figures."""
    named = Target.of(run, federation)
    if not named.folder.is_dir():
        raise RunError(
            f"There is no run folder '{named.folder}'; name one that `unlabel train` made."
        )
    target = out or named.folder / REPORT
    verdict, trouble = write_report(named.folder, target)
    if json:
        print_json(
            {
                "report": str(target),
                "request": verdict.request,
                "level": verdict.level,
                "passed": verdict.passed,
                **named.json(),
            }
        )
        return
    if trouble:
        messages.print(trouble)
    messages.print(f"Wrote {target} on request {verdict.request}.")


def write_report(run: Path, target: Path) -> tuple[Verdict, str]:
    """Write the page of a run's last audit; return what it shows, and what could not be read."""
    ledgers, trouble = _ledgers(run)
    if not (run / AUDIT).exists():
        _expect_labels(run, ledgers.get(ACTIVE, []))
    verdict = read_verdict(run / AUDIT)
    # It may have been decided on since it was audited.
    state = state_since(ledgers.get(ACTIVE, []), verdict.request, verdict.state)
    verdict, purged = replace(verdict, state=state), purge_times(ledgers, verdict.request)
    try:
        text = page(verdict, purged, trouble)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        TemplateError,
    ) as e:
        # The outer form was right, something within it was not.
        raise RunError(
            f"'{run / AUDIT}' is not what `unlabel audit` writes ({type(e).__name__}: {e}); run "
            f"`unlabel audit` again."
        ) from e
    # It names what was forgotten, so nobody else is to read it.
    write_atomically(target, text.encode(), mode=0o600)
    return verdict, trouble


def _expect_labels(run: Path, entries: Sequence[LedgerEntry]) -> None:
    """Raise where the last request is about people, of which there will never be an audit."""
    waiting = _waiting(run)
    if waiting is not None:
        about, state = waiting["note"], "staged"
    else:
        about = next((e.note for e in reversed(entries) if e.event == "commit"), {})
        state = "committed"
    if "people" in about:
        raise ForgetError(f"{PEOPLE}: {NEXT_FOR_PEOPLE[state]}")


def _waiting(run: Path) -> Mapping[str, Any] | None:
    """Return the facts of the request that waits to be decided, where the parties are at hand."""
    try:
        if read_run_config(run).is_far():
            return None
        opened = Federation.open(run, recovering=True, resume=True)
        return Transaction(opened.active).staged()
    except UnlabelError:
        return None  # what is wrong with the run is said where it matters


def _ledgers(run: Path) -> tuple[Mapping[str, list[LedgerEntry]], str]:
    """Return every party's ledger, or why they cannot be read."""
    try:
        if read_run_config(run).is_far():  # the others keep their ledgers themselves
            return erasure.books(run), ""
        return erasure.ledgers(Federation.open(run, recovering=True, resume=True)), ""
    except UnlabelError as error:
        return {}, f"What became of the request since, and of older weights, is not known: {error}"
