"""The papers of a request: report, certificate, the demand itself, and the letter to the person."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from unlabel.desk.answering import is_outdated, issued, letter_facts, recorded
from unlabel.desk.answering import keep_letter as keep
from unlabel.desk.failures import status_of
from unlabel.desk.letter import FOLDER, draft, extension_notice, gaps, left_out
from unlabel.desk.letter_words import LANGUAGES, Language, language_of
from unlabel.desk.office import Desk
from unlabel.desk.requests import Request
from unlabel.desk.verbs import REPORT
from unlabel.desk.views import page
from unlabel.desk.visits import Number, Reader, Visit, Writer
from unlabel.errors import SettingsError, UnlabelError

router = APIRouter()
#: States in which there is something to tell the person.
TOLD = ("committed", "purged", "certified", "rolled-back", "withdrawn")
#: Characters of a letter.
LONGEST = 50_000


@router.get("/requests/{number}/report")
def report(visit: Reader, number: Number) -> Response:
    """Show the report, a page of its own: its one style sheet is let through by its hash."""
    content = _content(visit, number, REPORT)
    style = re.search(r"<style>(.*?)</style>", content.decode(), re.DOTALL)
    hashed = hashlib.sha256((style.group(1) if style else "").encode()).digest()
    policy = (
        f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashed).decode()}'; "
        f"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {"content-security-policy": policy}
    return Response(content, media_type="text/html", headers=headers)


@router.get("/requests/{number}/certificate")
def certificate(visit: Reader, number: Number) -> Response:
    """Give the certificate out."""
    path = issued(visit.desk, visit.desk.requests.get(number))
    if path is None:
        raise HTTPException(404)
    return _file(path.read_bytes(), f"certificate-{number}.json", "application/json")


@router.get("/requests/{number}/demand")
def demand(visit: Reader, number: Number) -> Response:
    """Give the demand's file out as it came in; no browser is to show or run it."""
    attached = visit.desk.requests.get(number).fact("demand")
    if not attached:  # whatever a transaction that came to nothing may have left
        raise HTTPException(404)
    return _file(_content(visit, number, "demand"), attached["name"])


@router.get("/requests/{number}/letter")
def letter(visit: Reader, number: Number, language: str = "") -> Response:
    """Show the letter, to be edited."""
    return _letter_page(visit, number, language if language in LANGUAGES else "")


@router.post("/requests/{number}/letter")
def keep_letter(visit: Writer, number: Number) -> Response:
    """Keep the letter, or draw it up anew."""
    form = visit.form
    language, text = form.text("language"), form.text("text").replace("\r\n", "\n")
    try:
        _told(visit.desk.requests.get(number))
        if language not in LANGUAGES or len(text) > LONGEST:
            raise SettingsError(f"Expected a letter of at most {LONGEST:,} characters.")
        kept = "" if form.text("action") == "fresh" else text
        record = form.text("record")  # of when it was shown: it may have changed meanwhile
        keep(visit.desk, number, language_of(language), kept, visit.account, record)
    except UnlabelError as error:
        if error.code == "no-such-request":
            raise
        return _letter_page(visit, number, "", str(error), status_of(error))
    return RedirectResponse(f"/requests/{number}/letter?language={language}", 303)


@router.get("/requests/{number}/letter.txt")
def letter_text(visit: Reader, number: Number, language: str = "") -> Response:
    """Give the letter out."""
    request = _told(visit.desk.requests.get(number))
    text = _letter_of(visit, request, language if language in LANGUAGES else "")[1]
    return _file(text.encode(), f"letter-{number}.txt", "text/plain; charset=utf-8")


@router.get("/requests/{number}/extension.txt")
def extension_text(visit: Reader, number: Number) -> Response:
    """Give out the notice to the person that the term was extended."""
    request = visit.desk.requests.get(number)
    if not request.fact("extension"):
        raise HTTPException(404)
    language, facts = language_of(request.fact("language", "en")), letter_facts(visit.desk, request)
    text = extension_notice(facts, language, _templates(visit.desk))
    return _file(text.encode(), f"extension-{number}.txt", "text/plain; charset=utf-8")


def _letter_of(visit: Visit, request: Request, language: str) -> tuple[Language, str]:
    """Return the letter in a language: the kept one, else one drawn up now; as sent if it was."""
    kept = request.fact("letter")
    if request.fact("sent"):
        return language_of(kept["language"]), kept["text"]
    facts = letter_facts(visit.desk, request)  # first: none is given out beside a wrong certificate
    if kept and language in ("", kept["language"]):
        return language_of(kept["language"]), kept["text"]
    chosen = language_of(language or request.fact("language", "en"))
    return chosen, draft(facts, chosen, _templates(visit.desk))


def _templates(desk: Desk) -> Path | None:
    """Return the folder of templates of one's own, where there is one."""
    folder = desk.place.desk / FOLDER
    return folder if folder.is_dir() else None


def _letter_page(
    visit: Visit, number: int, language: str, trouble: str = "", status: int = 200
) -> Response:
    request = _told(visit.desk.requests.get(number))
    chosen, drawn = _letter_of(visit, request, language)
    kept, lacks, record = request.fact("letter"), tuple[str, ...](), ""
    if not request.fact("sent"):
        facts = letter_facts(visit.desk, request)
        lacks = (*left_out(facts, chosen, drawn), *gaps(chosen, drawn))
        record = recorded(facts, chosen)
    return page(
        visit,
        "letter.html",
        status=status,
        request=request,
        language=chosen,
        languages=LANGUAGES,
        text=drawn,
        kept=kept if kept and kept["language"] == chosen else None,
        outdated=bool(record) and is_outdated(visit.desk, request),
        record=record,
        lacks=lacks,
        trouble=trouble,
        organisation=visit.desk.settings.organisation,
    )


def _told(request: Request) -> Request:
    if request.state not in TOLD:
        raise HTTPException(409, "There is a letter once the request was decided on.")
    return request


def _content(visit: Visit, number: int, name: str) -> bytes:
    """Return a file of a request; its name is one of ours, never one that somebody sent."""
    visit.desk.requests.get(number)
    path = visit.desk.place.files(number) / name
    try:
        return path.read_bytes()
    except OSError as error:
        raise HTTPException(404) from error


def _file(content: bytes, name: str, kind: str = "application/octet-stream") -> Response:
    disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    policy = "default-src 'none'; sandbox"
    headers = {"content-disposition": disposition, "content-security-policy": policy}
    return Response(content, media_type=kind, headers=headers)
