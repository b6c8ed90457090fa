"""What a failed request is answered with: a status, a code and one sentence, and no traceback."""

from __future__ import annotations

import json
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from unlabel.errors import DataError, PartyRefused, SettingsError, UnlabelError

#: Nothing can be answered for a while.
PAUSED = 503
#: Seconds after which to ask again.
RETRY = {"Retry-After": "1"}
#: Codes for what the HTTP of a request, and not its content, has wrong.
HTTP_CODES = {
    400: "malformed",
    401: "unauthorised",
    404: "no-such-route",
    405: "no-such-route",
    408: "too-slow",
    413: "too-large",
    421: "other-host",
}
INTERNAL = "The request failed; the server's log says where."


def response_of(
    status: int, content: dict[str, Any], headers: dict[str, str] | None = None
) -> Response:
    """Return a JSON object as a response."""
    body = json.dumps(content, allow_nan=False).encode()
    return Response(body, status, headers, media_type="application/json")


def error_response(status: int, code: str, sentence: str) -> Response:
    """Return an error as a response."""
    more = RETRY if status == PAUSED else None
    return response_of(status, {"error": {"code": code, "message": sentence}}, more)


def failure(error: Exception) -> Response:
    """Return what a failed request is answered with."""
    if isinstance(error, UnlabelError):
        return error_response(status_of(error), error.code, str(error))
    if isinstance(error, RequestValidationError):
        return error_response(422, "malformed", _first_fault(error))
    if isinstance(error, HTTPException):
        code = HTTP_CODES.get(error.status_code, "malformed")
        return error_response(error.status_code, code, f"{str(error.detail).rstrip('.')}.")
    return error_response(500, "internal", INTERNAL)


def status_of(error: UnlabelError) -> int:
    """Return the status of an error: 4xx where the request is at fault, else 503 or 502."""
    if error.code == "unknown-ids":
        return 404
    if isinstance(error, DataError | SettingsError):
        return 422
    return 502 if isinstance(error, PartyRefused) else PAUSED


def _first_fault(error: RequestValidationError) -> str:
    """Say where the first fault of a request is; values are not repeated.

    >>> fault = {"loc": ("body", "ids", 0, "str"), "msg": "Input should be text", "type": ""}
    >>> _first_fault(RequestValidationError([fault]))
    'The request is malformed at ids.0: input should be text.'
    """
    fault = error.errors()[0]
    if fault["type"] == "json_invalid":
        return "Expected a request in JSON but got something else."
    where = fault["loc"][1:]
    # What follows is which of the kinds of a value did not fit.
    place = ".".join(str(each)[:40] for each in where[: 2 if where[:1] == ("ids",) else 4])
    says = str(fault["msg"]).removeprefix("Value error, ").rstrip(".")[:200]
    return (
        f"The request is malformed{f' at {place}' if place else ''}: {says[:1].lower()}{says[1:]}."
    )
