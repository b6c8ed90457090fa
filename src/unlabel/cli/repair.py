"""`unlabel party repair`: for a party that keeps a version which nobody else has."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from unlabel.cli.noting import note_done
from unlabel.cli.output import Json, print_result
from unlabel.errors import SettingsError
from unlabel.events import note

log = logging.getLogger("unlabel.party")


def repair(
    kit: Annotated[Path, typer.Argument(help="Folder of the party's kit.")],
    newest: Annotated[
        int | None,
        typer.Option(help="The version the label holder is on: drop all that are newer."),
    ] = None,
    json: Json = False,
) -> None:
    """Drop versions that only this party has, where they keep it from going on.

    The party must be stopped. Without --newest nothing is changed, and what lies here is shown.
    """
    from unlabel.party.repair import drop_newer, kept_in
    from unlabel.remote.kit import Kit
    from unlabel.remote.noting import log_of

    opened = Kit.open(kit)
    if opened.is_active:
        raise SettingsError(f"'{kit}' is the kit of the label holder; name that of another party.")
    with opened.lock(), log_of(kit):
        if newest is None:
            kept = kept_in(opened.home)
            facts = {"versions": kept.versions, "staged": kept.staged, "dropped": []}
            print_result(
                facts,
                f"Nothing was changed. Versions here: {_listed(kept.versions)}; staged: "
                f"{_listed(kept.staged)}. Ask the label holder which version `unlabel status` "
                f"shows for it, and run: unlabel party repair {kit} --newest VERSION",
                json=json,
            )
            return
        dropped = drop_newer(opened.home, newest)
        summary = f"versions {_listed(dropped.versions)}, staged {_listed(dropped.staged)}"
        note("repaired", opened.name, count=len(dropped.versions) + len(dropped.staged))
        log.warning("%s was repaired by its operator: dropped %s", opened.name, summary)
    note_done(kit)
    done = {"newest": newest, "dropped": dropped.versions, "dropped_staged": dropped.staged}
    print_result(
        done,
        f"Dropped for good: {summary}. Version {newest} is the newest here now. Start the party "
        f"again, and have the label holder run `unlabel recover`.",
        json=json,
    )


def _listed(versions: Sequence[int]) -> str:
    return ", ".join(map(str, versions)) or "none"
