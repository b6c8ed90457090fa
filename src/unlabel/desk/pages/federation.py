"""The federation: who takes part, on which version, last seen when, and what each allows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter
from starlette.responses import RedirectResponse, Response

from unlabel.config.loader import read_run_folder
from unlabel.data import ACTIVE
from unlabel.desk.office import Desk
from unlabel.desk.views import page
from unlabel.desk.visits import Reader, Writer
from unlabel.errors import UnlabelError
from unlabel.remote.describe import describe_kit
from unlabel.remote.health import Health, health_of
from unlabel.report.page import flat
from unlabel.train.assembly import served_policy

router = APIRouter()
#: Seconds, days and MiB that `unlabel party health` asks for.
HEALTHY = {"seconds": 30.0, "days": 30.0, "free": 500.0}


@dataclass(frozen=True)
class Member:
    """A party as the desk knows it.

    seen    when it was last heard, empty where that is not known
    policy  what it allows, by name; empty of the label holder, and of parties that keep it
    """

    name: str
    version: str
    older: str
    staged: str
    ledger: str
    seen: str
    policy: list[tuple[str, str]]


@router.get("/federation")
def show(visit: Reader) -> Response:
    """Show who is there, as of the last look."""
    desk, task = visit.desk, visit.desk.tasks.live(None)
    noted, trouble = desk.kept_note("status"), desk.kept_note("trouble")
    status, health = json.loads(noted[0]) if noted else None, _health(desk)
    facts = None if health is None else health.facts
    heard = {} if facts is None else facts.contact.peers
    listed = members(desk, status, noted[1] if noted else "", heard)
    later = trouble is not None and (noted is None or trouble[1] >= noted[1])
    return page(
        visit,
        "federation.html",
        task=task,
        progress=visit.worker.of(task),
        ahead=0 if task is None else desk.tasks.before(task),
        standing=status,
        at=noted[1] if noted else "",
        trouble=trouble[0] if trouble and later else "",
        members=listed,
        unasked=[]
        if status is None
        else [m.name for m in listed if m.name not in status["parties"]],
        health=health.sentence if health is not None else "",
        kit=[] if desk.place.kit is None else flat(describe_kit(desk.place.kit)),
        place=str(desk.place),
        config=read_run_folder(desk.place.run),
    )


@router.post("/federation/look")
def look(visit: Writer) -> Response:
    """Ask all parties where they stand."""
    visit.desk.look(visit.account)
    visit.worker.wake()
    return RedirectResponse("/federation", 303)


@router.post("/federation/cancel")
def cancel(visit: Writer) -> Response:
    """Stop asking them."""
    visit.desk.cancel(None, visit.account)
    visit.worker.wake()
    return RedirectResponse("/federation", 303)


def members(
    desk: Desk, status: Mapping[str, Any] | None, at: str, heard: Mapping[str, float]
) -> list[Member]:
    """Return the parties, the label holder first.

    status, at  where they stood when they were last asked, and when that was
    heard       when the label holder's process last heard each, in seconds since 1970
    """
    config = read_run_folder(desk.place.run)
    known = {} if status is None else status["parties"]
    names = [ACTIVE, *(name for name in config.party_names() if name != ACTIVE)]
    listed = []
    for name in names:
        stands = known.get(name, {})
        versions = stands.get("versions", [])
        policy = None if name == ACTIVE or config.is_remote() else served_policy(config, name)
        listed.append(
            Member(
                name=name,
                version=str(versions[-1]) if versions else "",
                older=", ".join(map(str, versions[:-1])),
                staged=stands.get("staged", ""),
                ledger=stands.get("ledger", ""),
                seen=_moment(heard[name]) if name in heard else at if stands else "",
                policy=[] if policy is None else flat(asdict(policy)),
            )
        )
    return listed


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _health(desk: Desk) -> Health | None:
    """Return how the label holder's process is, and which parties it hears; None of a folder."""
    if desk.place.kit is None:
        return None
    try:
        return health_of(desk.place.kit, **HEALTHY)
    except UnlabelError as error:
        return Health("silent", str(error))
