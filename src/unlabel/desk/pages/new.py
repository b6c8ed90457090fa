"""Taking a demand up, and changing what it is about before anything is done for it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.responses import RedirectResponse, Response

from unlabel.data.tables import read_ids
from unlabel.desk.demands import Demand, distinct
from unlabel.desk.failures import status_of
from unlabel.desk.letter_words import LANGUAGES
from unlabel.desk.sessions import draw
from unlabel.desk.views import page
from unlabel.desk.visits import MOST_BYTES, Form, Number, Visit, Working, Writer
from unlabel.errors import DataError, SettingsError, UnlabelError

router = APIRouter()
#: Bytes of a list of ids, and of the file of a demand.
MOST_CSV, MOST_DEMAND = 8 * 2**20, 16 * 2**20


@router.get("/requests/new")
def ask(visit: Working) -> Response:
    """Ask what is demanded."""
    settings = visit.desk.settings
    return _page(visit, {"received": f"{visit.desk.today()}", "language": settings.language})


@router.post("/requests")
def receive(visit: Writer) -> Response:
    """Take a demand up."""
    try:
        number = visit.desk.receive(demand_in(visit.form), visit.account)
    except UnlabelError as error:
        return _page(visit, _typed(visit.form), str(error), status_of(error))
    visit.worker.wake()
    return RedirectResponse(f"/requests/{number}", 303)


@router.get("/requests/{number}/edit")
def ask_again(visit: Working, number: Number) -> Response:
    """Show what a request is about, to be changed."""
    request = visit.desk.expect_changeable(number)
    known = {
        "kind": "people" if request.people else "labels",
        "labels": list(request.labels),
        "ids": in_lines(visit.desk.requests.people(number)),
        "received": request.received,
        "reference": request.reference,
        "language": request.fact("language", "en"),
    }
    return _page(visit, known, number=number)


@router.post("/requests/{number}/edit")
def change(visit: Writer, number: Number) -> Response:
    """Change what a request is about."""
    try:
        people = visit.desk.requests.people(number)
        visit.desk.change(number, demand_in(visit.form, people), visit.account)
    except UnlabelError as error:
        return _page(visit, _typed(visit.form), str(error), status_of(error), number)
    visit.worker.wake()
    return RedirectResponse(f"/requests/{number}", 303)


def demand_in(form: Form, before: Sequence[str] | None = None) -> Demand:
    """Return the demand that a form describes.

    before  ids of the request that is changed: they stay, whatever signs are in them, where the
            text that they were shown as does, and one that was changed has one id a line
    """
    people, text = form.text("kind") == "people", form.text("ids").replace("\r\n", "\n")
    typed = ids_in(text) if before is None else text.split("\n")
    if before is not None and text == in_lines(before):
        typed = list(before)
    ids = [*typed, *_ids_of(form)] if people else []
    labels = [] if people else form.all("labels")
    name, content = form.files.get("demand", ("", b""))
    if len(content) > MOST_DEMAND:
        raise DataError(f"Expected a demand of at most {MOST_DEMAND // 2**20} MiB.")
    language = form.text("language") or "en"
    if language not in LANGUAGES:
        raise SettingsError(f"Expected a letter in one of {', '.join(LANGUAGES)}.")
    return Demand(
        labels=distinct(labels),
        ids=distinct(ids),
        received=day_in(form.text("received")),
        reference=form.text("reference").strip(),
        language=language,
        file=(name, content) if content else None,
        once=form.text("once")[:64],
    )


def day_in(text: str, which: str = "the day of receipt") -> date | None:
    """Return the day that a field names, None where it is empty."""
    if not text.strip():
        return None
    try:
        return date.fromisoformat(text.strip())
    except ValueError as error:
        raise SettingsError(
            f"Expected {which} like 2026-11-02 but got '{text.strip()[:20]}'."
        ) from error


def ids_in(text: str) -> list[str]:
    """Return ids that somebody pasted: one a line, or with commas, semicolons or tabs between.

    >>> ids_in("C-1, C-2;C-3\\nVan Dyck 7\\n")
    ['C-1', 'C-2', 'C-3', 'Van Dyck 7']
    """
    return [each.strip() for each in re.split(r"[\n\r,;\t]+", text) if each.strip()]


def in_lines(ids: Sequence[str]) -> str:
    """Return ids as a form shows them; empty where they are more than it brings back."""
    text = "\n".join(ids)
    return text if len(text.encode()) + len(ids) < MOST_BYTES else ""


def _ids_of(form: Form) -> list[str]:
    """Return the ids of a list that was uploaded: the column `id` of a CSV file."""
    content = form.files.get("file", ("", b""))[1]
    if not content:
        return []
    if len(content) > MOST_CSV:
        raise DataError(f"Expected a list of ids of at most {MOST_CSV // 2**20} MiB.")
    # In a folder of its own, under a name of ours: whatever the upload is called.
    with tempfile.TemporaryDirectory(prefix="unlabel-desk-") as folder:
        path = Path(folder) / "ids.csv"
        path.write_bytes(content)
        try:
            return read_ids(path)
        except UnlabelError as error:
            sentence = (
                str(error).replace(f"Table '{path}'", "The list of ids").replace(str(path), "it")
            )
            raise DataError(sentence) from error


def _typed(form: Form) -> dict[str, Any]:
    """Return what somebody typed, so that it need not be typed again; files have to be."""
    names = ("kind", "ids", "received", "reference", "language")
    return {name: form.text(name) for name in names} | {"labels": form.all("labels")}


def _page(
    visit: Visit,
    known: dict[str, Any],
    trouble: str = "",
    status: int = 200,
    number: int | None = None,
) -> Response:
    empty = {"kind": "people", "labels": [], "ids": "", "reference": ""}
    return page(
        visit,
        "new.html",
        status=status,
        known={**empty, **known},
        labels=visit.desk.labels(),
        languages=LANGUAGES,
        trouble=trouble,
        number=number,
        today=visit.desk.today(),
        once=draw(),
    )
