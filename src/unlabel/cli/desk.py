"""`unlabel desk` and `unlabel account`: the erasure desk, and who may sign in to it."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unlabel.cli.noting import operator
from unlabel.cli.output import Json, print_json, print_result, print_table, say
from unlabel.cli.serve import Certificate, Host, Key, Port, Quiet, log_requests
from unlabel.cli.target import Kit, Run
from unlabel.errors import RunError, SettingsError, UsageError

if TYPE_CHECKING:
    from unlabel.desk.office import Desk

account = typer.Typer(help="Accounts of the erasure desk.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the account.", show_default=False)]
Folder = Annotated[Path, typer.Argument(help="Folder of the run, or a kit.", show_default=False)]
PasswordFile = Annotated[
    Path | None,
    typer.Option(help="File whose first line is the password; else it is asked for."),
]


def desk(
    run: Run = None,
    federation: Kit = None,
    host: Host = "127.0.0.1",
    port: Port = 8088,
    certificate: Certificate = None,
    key: Key = None,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Make a run with three requests in RUN first, and accounts."),
    ] = False,
    letters: Annotated[
        bool,
        typer.Option("--letters", help="Write the letters' templates, to be edited, and end."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Open the erasure desk: requests to erase in a browser, from the demand to the letter.

    Example: unlabel desk runs/loans
    """
    if (run is None) == (federation is None):
        raise UsageError("Name the run: its folder, or --federation KIT, and not both.")
    if demo and run is None:
        raise UsageError("A demo is a run of its own: name a folder for it, without --federation.")
    _expect_installed()
    from unlabel.desk.app import app
    from unlabel.serve.listening import Address
    from unlabel.serve.listening import run as listen

    address = Address(host, port, certificate, key)
    if letters:
        from unlabel.desk.letter import FOLDER, export
        from unlabel.desk.place import Place

        for path in export(Place.of(run, federation).desk / FOLDER):
            say(f"Wrote '{path}'.")
        return
    if demo:
        from unlabel.cli.desk_demo import prepare

        assert run is not None
        prepare(run)
    if not quiet:
        log_requests("unlabel.desk")
    opened = _open(run, federation)
    try:
        if not opened.accounts.all():
            say(f"Nobody has an account yet: unlabel account add {run or federation} NAME")
        with opened.place.held():
            pass  # a second desk says so before it listens
        web = app(opened, hosts=address.hosts, tls=certificate is not None)
        listen(web, address, say, ending=web.state.worker.end)
    finally:
        opened.close()


@account.command()
def add(
    run: Folder,
    name: Name,
    role: Annotated[
        str, typer.Option(help="caseworker, approver, or auditor, who only reads.")
    ] = "caseworker",
    password_file: PasswordFile = None,
    json: Json = False,
) -> None:
    """Make an account."""
    with _opened(run, new=True) as desk:
        added = desk.accounts.add(name, role, _password(password_file))
        note = {"account": added.name, "role": added.role}
        desk.trail.add("account added", None, at_terminal(), **note)
    print_result(note, f"{added.name} may sign in as {added.role}.", json=json)


@account.command("list")
def list_(run: Folder, json: Json = False) -> None:
    """List the accounts."""
    with _opened(run) as desk:
        accounts = desk.accounts.all()
    if json:
        print_json({"accounts": [{"account": a.name, "role": a.role} for a in accounts]})
        return
    print_table("Accounts", [["account", "role"], *([a.name, a.role] for a in accounts)])


@account.command()
def password(
    run: Folder, name: Name, password_file: PasswordFile = None, json: Json = False
) -> None:
    """Change a password, which ends the account's sessions."""
    with _opened(run) as desk:
        changed = desk.accounts.get(name)
        desk.accounts.set_password(changed.name, _password(password_file))
        desk.trail.add("password changed", None, at_terminal(), account=changed.name)
    facts = {"account": changed.name}
    print_result(facts, f"The password of {changed.name} was changed.", json=json)


@account.command()
def remove(run: Folder, name: Name, json: Json = False) -> None:
    """Remove an account, which ends its sessions."""
    with _opened(run) as desk:
        removed = desk.accounts.get(name)
        desk.accounts.remove(removed.name)
        desk.trail.add("account removed", None, at_terminal(), account=removed.name)
    print_result({"account": removed.name}, f"{removed.name} was removed.", json=json)


@contextlib.contextmanager
def _opened(folder: Path, *, new: bool = False) -> Iterator[Desk]:
    """Give the desk of a run's folder or of a kit, whichever it is.

    new  make the desk where there is none; where that comes to nothing, nothing stays of it
    """
    from unlabel.desk.place import STORE, Place

    is_kit = (folder / "party.yaml").is_file()
    run, kit = (None, folder) if is_kit else (folder, None)
    home = Place.of(run, kit).desk
    is_there = (home / STORE).is_file()
    if not is_there and not new:
        raise RunError(
            f"Nobody has an account at the desk of '{folder}' yet; `unlabel account add` makes one."
        )
    was_made = not home.exists()
    desk = _open(run, kit)
    try:
        yield desk
    except BaseException:
        if was_made:
            shutil.rmtree(home, ignore_errors=True)
        raise
    finally:
        desk.close()


def _open(run: Path | None, kit: Path | None) -> Desk:
    _expect_installed()
    from unlabel.desk.office import Desk

    return Desk.open(run, kit=kit)


def _expect_installed() -> None:
    try:
        import argon2  # noqa: F401
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise RunError(
            "The desk needs FastAPI, uvicorn, argon2 and python-multipart; run: "
            "pip install 'unlabel[desk]'."
        ) from error


def _password(file: Path | None) -> str:
    """Return a password from a file, or as somebody types it twice."""
    if file is not None:
        try:
            return (file.read_text(encoding="utf-8").splitlines() or [""])[0]
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"Cannot read the password in '{file}'.") from error
    if not sys.stdin.isatty():
        raise UsageError("Nobody is there to type a password; give it by --password-file FILE.")
    typed: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return typed


def at_terminal() -> str:
    """Return what the trail calls whoever gives commands at a terminal."""
    return f"terminal: {operator()}"
