"""`unlabel party health`, `stop`, `backup` and `restore`: for whoever keeps a party running."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from unlabel.cli.noting import note_done
from unlabel.cli.output import Json, print_result, say
from unlabel.errors import RunError, WireError
from unlabel.files import LOCK, is_locked

Kit = Annotated[Path, typer.Argument(help="Folder of the party's kit.")]
#: Seconds between two looks at whether a party has stopped.
LOOK = 0.1


def health(
    kit: Kit,
    seconds: Annotated[
        float, typer.Option("--within", help="Seconds in which it must answer.")
    ] = 5.0,
    days: Annotated[float, typer.Option(help="Days that its certificate must be good for.")] = 14.0,
    free: Annotated[float, typer.Option(help="MiB that must be free on its disk.")] = 256.0,
    serving: Annotated[
        bool,
        typer.Option(
            "--serving", help="Status 0 for a party that serves, whatever it should be warned of."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Tell by the exit status whether a party runs, is registered and answers.

    10 it does not run, 11 it does not answer, 12 it is not registered, 13 another process came
    under its name, 14 its certificate is near its end, 15 its disk is nearly full.
    """
    from unlabel.remote.health import WARNINGS, health_of, to_json

    health = health_of(kit, seconds=seconds, days=days, free=free)
    print_result(to_json(health), health.sentence, json=json)
    if health.status and not (serving and health.code in WARNINGS):
        raise typer.Exit(health.status)


def stop(
    kit: Kit,
    seconds: Annotated[
        float, typer.Option("--within", help="Seconds that it may take to stop.")
    ] = 60.0,
    json: Json = False,
) -> None:
    """Stop a party after the answer under way, as SIGTERM does, and wait until it has ended."""
    from unlabel.config.loader import read_party
    from unlabel.link import links_folder
    from unlabel.remote.control import ask

    name, lock = read_party(kit / "party.yaml").name, kit / "state" / LOCK
    if not is_locked(lock):
        print_result({"party": name, "stopped": False}, f"Party {name} does not run.", json=json)
        return
    deadline = time.monotonic() + seconds
    try:
        process = ask(links_folder(kit / "state", name), "stop", seconds).get("process")
    except WireError as error:
        raise RunError(
            f"Party {name} runs but does not answer; end its process, which `unlabel party start "
            f"{kit}` names.",
            code="in-use",
        ) from error
    if not json:
        say(f"Party {name} (process {process}) stops after the answer under way.")
    while is_locked(lock):
        if time.monotonic() > deadline:
            raise RunError(f"Party {name} has not stopped within {seconds:g} seconds.")
        time.sleep(LOOK)
    note_done(kit)
    print_result({"party": name, "stopped": True}, f"Party {name} has stopped.", json=json)


Passphrase = Annotated[
    Path | None,
    typer.Option("--passphrase-file", help="File whose first line is the backup's passphrase."),
]


def backup(
    kit: Kit,
    file: Annotated[Path, typer.Argument(help="File to write.")],
    passphrase_file: Passphrase = None,
    json: Json = False,
) -> None:
    """Copy a kit and all that its party keeps into one file, whether it runs or not.

    It holds the party's private keys: keep it as you keep the kit.
    """
    from unlabel.remote.backup import back_up
    from unlabel.remote.kit import Kit as PartyKit

    index = back_up(PartyKit.read(kit), file, _passphrase(passphrase_file))
    note_done(kit)
    facts = {"file": str(file), "at": index.at, "version": index.version, "lines": index.lines}
    how = "under a passphrase" if passphrase_file else "not encrypted"
    print_result(
        facts,
        f"'{file}' holds party {index.party} at version {index.version}, its private keys among "
        f"{len(index.files)} files; it is readable by you alone, and {how}. After the next purge "
        f"delete it.",
        json=json,
    )


def restore(
    file: Annotated[Path, typer.Argument(help="A backup.")],
    kit: Annotated[Path, typer.Argument(help="Folder of the kit, there or not.")],
    passphrase_file: Passphrase = None,
    older: Annotated[
        bool,
        typer.Option("--older", help="Also where the kit remembers more than the backup does."),
    ] = False,
    json: Json = False,
) -> None:
    """Put a backup in place of a kit's state; where there is no kit, of the whole kit."""
    from unlabel.remote.restore import restore as put_back

    index = put_back(file, kit, _passphrase(passphrase_file), older=older)
    note_done(kit)
    facts = {"kit": str(kit), "at": index.at, "version": index.version, "lines": index.lines}
    print_result(
        facts,
        f"Party {index.party} is as it was at {index.at}, at version {index.version}. When it is "
        f"started, the other parties' ledgers tell whether something was decided since.",
        json=json,
    )


def _passphrase(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise RunError(f"The passphrase in '{path}' cannot be read.") from error
    if not lines or not lines[0]:
        raise RunError(f"Expected a passphrase in the first line of '{path}' but it is empty.")
    return lines[0]
