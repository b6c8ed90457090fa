"""What is done with a federation, as records of a log with fields: who, what, when, how it ended.

A record of the logger `unlabel.events` reads as a sentence, and carries its fields as attributes
(`event`, `who` and those below), which a formatter may write as JSON. The fields are a closed set:
no label, no id of a person and no text of another party can be put into one.

    command   a command was given at the label holder     who (account), command
    ended     it has ended                                 who, command, code, seconds
    served    a party carried out what changes its state   who (party), kind, version
    refused   a party declined                             who (party), kind, code, bytes
    repaired  versions were dropped by an operator         who (party), count
    rejected  somebody was not let in at the hub           who (address), code
"""

from __future__ import annotations

import logging
from typing import Literal, get_args

log = logging.getLogger("unlabel.events")

Event = Literal["command", "ended", "served", "refused", "repaired", "rejected"]
#: What somebody should look at.
LOUD = ("refused", "repaired", "rejected")
#: What a record may tell beside the event and who it is of, with the type of each.
FIELDS: dict[str, type] = {
    "command": str,
    "kind": str,
    "code": str,
    "version": int,
    "bytes": int,
    "count": int,
    "seconds": float,
}
#: Letters and digits of a text at most: a name of a command, a kind or a code has no more.
LONGEST = 40


def note(event: Event, who: str, **fields: str | float) -> None:
    """Leave a line in the log."""
    if event not in get_args(Event):
        raise ValueError(f"'{event}' is no event.")
    for name, value in fields.items():
        fits = type(value) is FIELDS.get(name)
        if not fits or (isinstance(value, str) and not _is_word(value)):
            raise ValueError(f"{event} has no field {name} of such a value.")
    level = logging.WARNING if event in LOUD else logging.INFO
    text = " ".join(f"{name}={value}" for name, value in fields.items())
    log.log(level, "%s %s %s", event, who, text, extra={"event": event, "who": who, **fields})


def _is_word(text: str) -> bool:
    return len(text) <= LONGEST and text.replace("-", "").replace(" ", "").isalnum()
