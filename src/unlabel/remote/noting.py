"""What is asked of a kit leaves its line in the log of commands: who, when, how it ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from unlabel.config.loader import read_party
from unlabel.errors import RunError, SettingsError, UnlabelError
from unlabel.events import note
from unlabel.remote.json_log import logging_to

COMMANDS, DONE = "commands.log", "done"


@contextlib.contextmanager
def noted_as(
    kit: Path, who: str, command: str, *, code_of: Callable[[BaseException], str] | None = None
) -> Iterator[None]:
    """Note that something began at a kit, and how it ended, also where it could not begin.

    code_of  how it ended, by what ended it beside an error of ours
    """
    started, code = time.monotonic(), DONE
    with log_of(kit):
        note("command", who, command=command)
    try:
        yield
    except UnlabelError as error:
        code = error.code
        raise
    except BaseException as error:
        code = "stopped" if code_of is None else code_of(error)
        raise
    finally:
        seconds = round(time.monotonic() - started, 3)
        with log_of(kit):
            note("ended", who, command=command, code=code, seconds=seconds)


@contextlib.contextmanager
def log_of(kit: Path) -> Iterator[None]:
    """Write into the kit's log of commands; where nothing was ever started there is none.

    What cannot be written stops no command.
    """
    with contextlib.ExitStack() as stack:
        if (kit / "state").is_dir():
            with contextlib.suppress(RunError, SettingsError):
                name = read_party(kit / "party.yaml").name
                stack.enter_context(logging_to(kit / "state" / "logs" / COMMANDS, "json", name))
        yield
