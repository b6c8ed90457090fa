"""Whether a party is well: what its process knows of itself, judged by whoever asks.

The process tells its `PartyFacts` over the control socket; `judge` says what is the matter. Neither
needs PyTorch, so that a probe every half minute costs next to nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unlabel.config.loader import parse_form, read_party
from unlabel.errors import DataError, RunError, WireError
from unlabel.files import LOCK, is_locked
from unlabel.link import links_folder
from unlabel.remote.control import ask

#: Exit status of `unlabel party health` by what is the matter, the worst first.
STATUSES = {
    "not-running": 10,
    "silent": 11,
    "not-registered": 12,
    "alarmed": 13,
    "certificate": 14,
    "disk": 15,
    "healthy": 0,
}
#: What is the matter with a party that serves all the same.
WARNINGS = ("alarmed", "certificate", "disk")
DAY = 86_400.0
MIB = 2**20


@dataclass(frozen=True)
class Contact:
    """How a party stands with the others, as the process that carries its messages knows.

    registered  at a passive party: the label holder has it registered; there: it listens
    peers       by party that is registered at the label holder, when it was last heard
    instance    by which this process is told from another one of the same kit
    last        when anybody was last heard, 0 if never; times are seconds since 1970
    alarm       what happened, where another instance came under this party's name, or one of the
                others'
    """

    registered: bool
    peers: Mapping[str, float] = field(default_factory=dict)
    instance: str = ""
    last: float = 0.0
    alarm: str = ""


@dataclass(frozen=True)
class PartyFacts:
    """What a party's process knows of itself.

    is_active         whether it is the label holder's
    turned            when its loop last came round
    expected          the parties that should be registered at the label holder
    certificate_ends  the first that ends
    disk_free         bytes, where its state lies
    versions, ledger_lines, rows   what it keeps; rows that all share
    """

    party: str
    is_active: bool
    process: int
    started: float
    turned: float
    contact: Contact
    expected: tuple[str, ...]
    certificate_ends: float
    disk_free: int
    versions: int
    ledger_lines: int
    rows: int


@dataclass(frozen=True)
class Health:
    """What is the matter with a party, in one word and in one sentence."""

    code: str
    sentence: str
    facts: PartyFacts | None = None

    @property
    def status(self) -> int:
        """The exit status that says it."""
        return STATUSES[self.code]


def health_of(kit: Path, *, seconds: float, days: float, free: float) -> Health:
    """Ask the process of a kit how it is; see `judge`."""
    name = read_party(kit / "party.yaml").name
    if not is_locked(kit / "state" / LOCK):
        return Health(
            "not-running", f"Party {name} does not run; start it with `unlabel party start {kit}`."
        )
    try:
        facts = parse_form(PartyFacts, ask(links_folder(kit / "state", name), "facts", seconds))
    except (WireError, DataError, RunError):
        return Health(
            "silent",
            f"The process of party {name} did not answer within {seconds:g} seconds: it is still "
            f"starting, or it hangs.",
        )
    return judge(facts, seconds=seconds, days=days, free=free)


def judge(facts: PartyFacts, *, seconds: float, days: float, free: float) -> Health:
    """Say what is the matter with a party, the worst first.

    seconds  in which its loop must have come round
    days     that its certificate must be good for
    free     MiB that must be free on its disk
    """
    now, party, contact = time.time(), facts.party, facts.contact
    left = (facts.certificate_ends - now) / DAY

    def health(code: str, sentence: str) -> Health:
        return Health(code, sentence, facts)

    if now - facts.turned > seconds:
        return health(
            "silent", f"Party {party} has hung for {now - facts.turned:.0f} seconds; restart it."
        )
    if not contact.registered:
        if facts.is_active:
            return health("not-registered", f"Party {party} does not listen for the others.")
        return health(
            "not-registered",
            f"Party {party} runs but is not registered with the label holder; it goes on trying. "
            f"Look whether that one runs, and into this party's log.",
        )
    if contact.alarm:
        return health("alarmed", contact.alarm)
    if left < days:
        return health(
            "certificate",
            f"The certificate of party {party} ends in {max(left, 0):.0f} days; renew it with "
            f"`unlabel federation request`.",
        )
    if facts.disk_free < free * MIB:
        return health(
            "disk",
            f"The disk of party {party} has {facts.disk_free / MIB:,.0f} MiB left; make room.",
        )
    return health("healthy", _well(facts, now))


def _well(facts: PartyFacts, now: float) -> str:
    contact = facts.contact
    if not facts.is_active:
        ago = (
            f"last asked {now - contact.last:.0f} seconds ago" if contact.last else "not asked yet"
        )
        return f"Party {facts.party} is registered; {ago}."
    away = [name for name in facts.expected if name not in contact.peers]
    there = ", ".join(contact.peers) or "nobody"
    missing = f"; not registered: {', '.join(away)}" if away else ""
    return f"Party {facts.party} listens; registered: {there}{missing}."


def to_json(health: Health) -> dict[str, Any]:
    """Return a party's health as `unlabel party health --json` prints it."""
    from dataclasses import asdict

    facts = {} if health.facts is None else asdict(health.facts)
    return {"health": health.code, "sentence": health.sentence, **facts}
