"""What a passive party answers over its session with the label holder, whatever carries it."""

from __future__ import annotations

import logging
import secrets
import time

from unlabel._version import __version__
from unlabel.errors import WireError
from unlabel.link import join, split
from unlabel.remote.frames import PROTOCOL, Frame, Kind, stating
from unlabel.wire import Endpoint, Refused, encode, serve_in_turn

log = logging.getLogger("unlabel.responder")


class Responder:
    """Answers requests one at a time, and none of a session that is over.

    party      who answers
    agreement  digest of what it takes part in
    most       bytes of the longest body that may be sent
    instance   a number by which this process is known from any other with the same certificate
    jobs       sessions of commands that have asked something
    """

    def __init__(self, party: Endpoint, agreement: str, most: int) -> None:
        self.party = party
        self.most = most
        self.instance = secrets.token_hex(16)
        self.jobs = 0
        self._agreement = agreement
        self._last = (0, 0)

    def hello(self) -> Frame:
        """Begin a connection, whose sessions are counted anew; return the greeting."""
        self._last = (0, 0)
        facts = {"instance": self.instance, "release": __version__, "agreement": self._agreement}
        return stating(Kind.HELLO, protocol=PROTOCOL, time=time.time(), **facts)

    def answer(self, frame: Frame) -> Frame | None:
        """Answer one frame, where it wants an answer; raise `WireError` where it means nothing."""
        if frame.kind is Kind.PING:
            return Frame(Kind.PONG)
        if frame.kind is not Kind.REQUEST:
            raise WireError(f"the hub sent a frame {frame.kind.name}")
        now = (frame.epoch, frame.call)
        if now <= self._last:
            log.warning("dropped a request of a job that was given up")
            return None
        self.jobs += frame.epoch > self._last[0]
        self._last = now
        body = join(serve_in_turn(self.party, split(frame.body)))
        if len(body) > self.most:
            reason = f"its answer of {len(body):,} bytes is over the limit of {self.most:,}."
            body = join([encode(Refused(0, reason, "policy"))])
        return Frame(Kind.ANSWER, body, *now)
