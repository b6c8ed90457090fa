"""What is refused at the desk, and with which status an error is answered."""

from __future__ import annotations

from unlabel.desk.requests import Request
from unlabel.errors import DataError, RunError, SettingsError, UnlabelError

BY_CODE = {"no-such-request": 404, "wrong-state": 409, "busy": 409}


class WrongState(RunError, code="wrong-state"):
    """A request is in a state that does not allow what is asked for."""


def wrong_state(request: Request, wanted: str) -> WrongState:
    """Return what says that a request is in another state than is wanted."""
    return WrongState(
        f"Request {request.number} is {request.state}, and that needs one that is {wanted}; look "
        f"at it again."
    )


def status_of(error: UnlabelError) -> int:
    """Return the status that goes with an error."""
    if error.code in BY_CODE:
        return BY_CODE[error.code]
    return 422 if isinstance(error, DataError | SettingsError) else 503
