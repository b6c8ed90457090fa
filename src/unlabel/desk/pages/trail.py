"""The trail: who did what when, on pages and as a file."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from unlabel.desk.views import page
from unlabel.desk.visits import Reader

router = APIRouter()
ON_PAGE = 100


@router.get("/trail")
def trail(visit: Reader, before: str = "") -> Response:
    """Show the trail, the last line first."""
    line = int(before) if before.isdecimal() and len(before) < 15 else None
    entries = visit.desk.trail.page(ON_PAGE, line)
    return page(visit, "trail.html", entries=entries, whole=None, newest=line is None)


@router.get("/trail/check")
def check(visit: Reader) -> Response:
    """Look whether the whole chain is as it was written."""
    trail = visit.desk.trail
    return page(visit, "trail.html", entries=trail.page(ON_PAGE), whole=trail.check(), newest=True)


@router.get("/trail.jsonl")
def export(visit: Reader) -> Response:
    """Give the trail out as a ledger's file."""
    headers = {"content-disposition": "attachment; filename=trail.jsonl"}
    pieces = ("".join(lines) for lines in visit.desk.trail.pieces())
    return StreamingResponse(pieces, media_type="application/jsonl", headers=headers)
