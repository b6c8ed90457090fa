"""What runs inside the engine's own processes: a bridge, and nothing else.

A job of NVIDIA FLARE starts one process at the server, which is the active party's, and one at
each passive party. Both only pass bytes on: from the process of a command, over the engine, to the
processes of the parties, and back. They open no data, hold no model and know no label, and the job
that starts them is the same whatever the command is.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from nvflare.collab import collab

from unlabel.errors import WireError
from unlabel.link import ACTIVE_SOCKET, LINKS, call, close, pack, unpack

log = logging.getLogger("unlabel.bridge")

# Only bytes are carried. Left alone, the engine would load PyTorch into each of its processes to
# carry tensors too, which takes longer than all else at the start of a job.
sys.modules.setdefault("nvflare.app_opt.pt.decomposers", None)  # type: ignore[arg-type]

#: The name under which the engine knows the caller at the active party.
SERVER = "server"


class ActiveBridge:
    """The end at the active party: takes requests from a command's process, asks the parties."""

    @collab.main  # type: ignore[untyped-decorator]
    def carry(self) -> None:
        """Pass requests on until the command's process closes the connection."""
        proxies = {proxy.name: proxy for proxy in collab.clients}
        command = call(links(), ACTIVE_SOCKET)
        with ThreadPoolExecutor(max_workers=len(proxies)) as pool:
            try:
                hello = pack({}, parties=sorted(proxies), job=collab.fl_ctx.get_job_id())
                command.send_bytes(hello)
                while True:
                    header, requests = unpack(command.recv_bytes())
                    command.send_bytes(self.answer(pool, proxies, header, requests))
            except (EOFError, OSError):
                log.info("the command's process has closed the connection")
            finally:
                close(command)

    def answer(
        self,
        pool: ThreadPoolExecutor,
        proxies: dict[str, Any],
        header: dict[str, Any],
        requests: dict[str, bytes],
    ) -> bytes:
        """Ask all parties at once; return the answers, and why others are missing."""
        pending: dict[str, Future[bytes]] = {}
        lost: dict[str, str] = {}
        for party, request in requests.items():
            if party in proxies:
                timeout = float(header["timeout"])
                pending[party] = pool.submit(_ask, proxies[party], request, timeout)
            else:
                lost[party] = "it has not joined this job"
        answers = {}
        for party, future in pending.items():
            try:
                answers[party] = future.result()
            except Exception as error:  # the engine raises what it likes
                lost[party] = str(error).splitlines()[0] if str(error) else type(error).__name__
        return pack(answers, lost=lost, call=header.get("call"))


def _ask(proxy: Any, request: bytes, timeout: float) -> bytes:
    answer = proxy(timeout=timeout).serve(request)
    if not isinstance(answer, bytes):
        raise WireError(f"it answered with {type(answer).__name__} in place of bytes")
    return answer


class PassiveBridge:
    """The end at a passive party: hands the active party's requests to the party's own process."""

    def __init__(self) -> None:
        self._party: Connection[bytes, bytes] | None = None
        self._ended = False
        self._one_at_a_time = threading.Lock()

    @collab.publish  # type: ignore[untyped-decorator]
    def serve(self, request: bytes) -> bytes:
        """Answer the active party, and nobody else: other parties can reach this function too."""
        caller = collab.caller
        if caller != SERVER:
            log.warning("refused a call of '%s'", caller)
            raise WireError("only the active party may ask")
        if not isinstance(request, bytes):
            raise WireError("requests are bytes")
        with self._one_at_a_time:
            if self._ended:
                # A party that was started anew holds other weights than the one this job began
                # with; only another job begins with a version that all share.
                raise WireError("the party's own process has ended")
            if self._party is None:
                self._party = call(links(), collab.site_name)
            try:
                self._party.send_bytes(request)
                return self._party.recv_bytes()
            except (EOFError, OSError) as error:
                close(self._party)
                self._ended = True
                raise WireError("the party's own process has ended") from error


def links() -> Path:
    """Return the folder of this party's sockets."""
    if LINKS not in os.environ:
        raise WireError(f"{LINKS} is not set; start the party with `unlabel party start`")
    return Path(os.environ[LINKS])
