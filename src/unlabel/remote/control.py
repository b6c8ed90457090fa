"""The control socket of a running party: what whoever runs it may ask on the same machine.

    {"do": "facts"}   ->  {"party": "shop", "registered": true, ...}
    {"do": "stop"}    ->  {"process": 4711}

One request and one answer of JSON a connection, over the private socket `control` (`link.py`). What
is asked is answered by functions that the party's process hands in; a caller who says nothing, or
too much, is left alone after some seconds, and holds nobody up.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from unlabel.errors import WireError
from unlabel.link import admit, call, close, listen, set_patience, waiting_caller

log = logging.getLogger("unlabel.control")

CONTROL = "control"
#: Seconds between two looks at whether the socket is to be closed, and that a caller may take.
LOOK, CALLER_SECONDS = 0.25, 5.0
#: Bytes of the longest request, callers that are answered at a time, and bytes of an answer.
LONGEST, CALLERS, LONGEST_ANSWER = 4096, 8, 2**20

Answers = Mapping[str, Callable[[], dict[str, Any]]]


class Control:
    """Answers on a party's control socket, for as long as the block lasts.

    links    folder of the party's sockets
    answers  what is answered to which request
    """

    def __init__(self, links: Path, answers: Answers) -> None:
        self._answers = answers
        self._listener = listen(links, CONTROL)
        self._closing = threading.Event()
        self._free = threading.Semaphore(CALLERS)
        self._thread = threading.Thread(target=self._serve, name=CONTROL, daemon=True)

    def __enter__(self) -> Control:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._thread.join(timeout=10)
        close(self._listener)

    def _serve(self) -> None:
        while not self._closing.is_set():
            caller = waiting_caller(self._listener, LOOK)
            if caller is None:
                continue
            if self._free.acquire(blocking=False):
                threading.Thread(target=self._answer, args=(caller,), daemon=True).start()
            else:  # all are busy with callers who say nothing; they are let go soon
                close(caller)

    def _answer(self, caller: Connection[bytes, bytes]) -> None:
        with contextlib.ExitStack() as ending:
            ending.callback(self._free.release)
            ending.callback(close, caller)
            if admit(self._listener, caller) is None:
                return
            with contextlib.suppress(EOFError, OSError):
                set_patience(caller, CALLER_SECONDS)
                caller.send_bytes(json.dumps(self._answer_to(caller.recv_bytes(LONGEST))).encode())

    def _answer_to(self, request: bytes) -> dict[str, Any]:
        try:
            wanted = json.loads(request)["do"]
            return self._answers[wanted]()
        except (ValueError, TypeError, LookupError, RecursionError):
            return {"error": f"Expected one of {', '.join(self._answers)}."}
        except Exception:  # a fact that cannot be had must not end the thread of the others
            log.exception("a request on the control socket failed")
            return {"error": "It could not be answered; the party's log says why."}


def ask(links: Path, what: str, seconds: float = CALLER_SECONDS) -> dict[str, Any]:
    """Ask a party's process something; raise `WireError` where it does not answer in time."""
    connection = call(links, CONTROL, seconds)
    with contextlib.closing(connection):
        try:
            connection.send_bytes(json.dumps({"do": what}).encode())
            answer: dict[str, Any] = json.loads(connection.recv_bytes(LONGEST_ANSWER))
        except (OSError, EOFError, ValueError) as error:
            raise WireError("The process of this kit does not answer.") from error
    if "error" in answer:
        raise WireError(str(answer["error"]))
    return answer
