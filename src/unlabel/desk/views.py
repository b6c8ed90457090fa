"""Pages from templates: what all of them share."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from datetime import date
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from unlabel._version import __version__
from unlabel.data import ACTIVE
from unlabel.desk.deadline import Deadline, deadline
from unlabel.desk.requests import STATES, Request
from unlabel.desk.visits import Visit
from unlabel.party import LedgerEntry
from unlabel.report.page import sign
from unlabel.report.wording import moment, number
from unlabel.signing import is_hex

#: Steps of a request on its way, as people call them; its last two states end it early.
WAY = (*STATES[:8], "answered")
STATE_NAMES = {"rolled-back": "rolled back"}
#: What the trail calls an action, as people read it.
EVENTS = {
    "asked for plan": "asked for another look",
    "asked for forget": "started",
    "asked for audit": "audit asked for",
    "asked for commit": "commit decided on",
    "asked for rollback": "roll-back decided on",
    "asked for purge": "purge started",
    "asked for certify": "certificate asked for",
}


def page(
    visit: Visit | None, template: str, /, *, status: int = 200, **context: Any
) -> HTMLResponse:
    """Return a page; `visit` is who sees it, None where nobody is signed in."""
    text = environment().get_template(template).render(visit=visit, **context)
    return HTMLResponse(text, status)


def plain_page(
    status: int, heading: str, sentence: str, typed: Sequence[tuple[str, str]] = ()
) -> HTMLResponse:
    """Return a page that only says something.

    typed  what somebody typed that was not taken, by name, so that it can be copied
    """
    facts = {"heading": heading, "sentence": sentence, "typed": typed}
    return page(None, "error.html", status=status, **facts)


@functools.cache
def environment() -> Environment:
    """Return the templates and what they call."""
    known = Environment(
        loader=PackageLoader("unlabel.desk"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    known.filters |= {
        "moment": moment,
        "state": state_name,
        "in_words": in_words,
        "party": party_name,
        "value": value_in_words,
        "code": with_code,
    }
    known.globals |= {
        "clock": clock,
        "number": number,
        "sign": sign,
        "way": WAY,
        "version": __version__,
    }
    return known


def state_name(state: str) -> str:
    """Return a state as people call it.

    >>> state_name("rolled-back"), state_name("audited")
    ('rolled back', 'audited')
    """
    return STATE_NAMES.get(state, state)


def in_words(entry: LedgerEntry) -> str:
    """Return a line of the trail in a few words, with who is behind it.

    >>> in_words(LedgerEntry(0, "failed", "3", "", {"by": "ada", "what": "plan"}, "", ""))
    'plan failed, asked for by ada'
    """
    what, by = entry.note.get("what", ""), entry.note.get("by", "")
    if entry.event == "failed":
        return f"{what} failed, asked for by {by}"
    return f"{what} {EVENTS.get(entry.event, entry.event)} by {by}".strip()


def value_in_words(value: object) -> str:
    """Return what a line of the trail notes, as people read it; digests are cut.

    >>> value_in_words(True), value_in_words("0f" * 32), value_in_words("top")
    ('yes', '0f0f0f0f0f0f…', 'top')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    return f"{text[:12]}…" if is_hex(text, 64) else text


def with_code(text: str) -> Markup:
    """Return a sentence in which commands stand as such.

    >>> with_code("`unlabel purge` removes <it>")
    Markup('<code>unlabel purge</code> removes &lt;it&gt;')
    """
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def party_name(party: str) -> str:
    """Return a party as people call it."""
    return "the label holder" if party == ACTIVE else party


def clock(request: Request, today: date) -> Deadline:
    """Return how the legal clock of a request stands."""
    ended = date.fromisoformat(request.ended) if request.ended else None
    received = date.fromisoformat(request.received)
    return deadline(received, today, ended, str(request.fact("extension", "")))
