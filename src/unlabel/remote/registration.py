"""What both ends of a connection tell each other beside requests: clocks, and who is revoked."""

from __future__ import annotations

import datetime
import logging
import math
import time
from typing import TYPE_CHECKING, Any

from unlabel.errors import RunError
from unlabel.party.attesting import CLOCKS
from unlabel.remote import revocation
from unlabel.remote.frames import Frame, Kind, stating

if TYPE_CHECKING:
    from unlabel.remote.kit import Kit

log = logging.getLogger("unlabel.registration")


def welcome() -> Frame:
    """Return the hub's answer to a greeting that it accepts, with what its clock says."""
    return stating(Kind.WELCOME, time=time.time())


def clocks_apart(facts: dict[str, Any], whose: str) -> str | None:
    """Return a sentence where the other end's clock is not as ours, with what both of them say.

    >>> clocks_apart({"time": time.time() + 1}, "shop") is None
    True
    """
    theirs, ours = facts.get("time"), time.time()
    if not isinstance(theirs, int | float):
        return None
    try:
        apart = abs(theirs - ours)
    except OverflowError:  # JSON knows numbers of any length
        apart = math.inf
    if not apart > CLOCKS:
        return None
    return (
        f"The clock of {whose} says {_shown(theirs)}, this machine's {_shown(ours)}: "
        f"{apart:,.0f} seconds apart. Set the one that is wrong: certificates and "
        f"ledgers go by them."
    )


def revoked_frame(kit: Kit) -> Frame | None:
    """Return the hub's lists of revoked certificates for a party, None where it has none."""
    if not revocation.lists(kit):
        return None
    return Frame(Kind.REVOKED, kit.revoked.read_bytes())


def take_revoked(kit: Kit, frame: Frame) -> list[int]:
    """Keep lists that the hub handed over, where the authority has signed them; log what is not."""
    try:
        numbers = revocation.take(kit, frame.body, "what the label holder's process sent")
    except RunError as error:
        log.warning("%s", error)
        return []
    if numbers:
        log.info("took list %s of revoked certificates", ", ".join(map(str, numbers)))
    return numbers


def _shown(seconds: float) -> str:
    try:
        when = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return "no time that there is"
    return when.strftime("%Y-%m-%d %H:%M:%S UTC")
