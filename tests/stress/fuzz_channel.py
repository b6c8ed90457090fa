"""Hostile frames into the channel between hub and party: no crash, nothing outside the policy.

Three ends are fed, each through a session of TLS in memory where there is one:

    party    by whoever has the label holder's key: what a party's process answers
    hub      by whoever has a party's key: what the hub takes for an answer
    outside  by whoever has no key, before anybody knows who it is, at either end

A frame is mostly a good one with something changed: its kind, length, session or number, the
messages in it (those of `fuzz-party` among them), a piece cut out or put twice. Where the end parts
with the sender, as it should at many, the next frame comes in a new session. Everything but an
error of the channel's own is a violation; so is a message that the party's policy does not allow,
an answer to what was not asked, and a buffer that grows beyond what was agreed.
"""

from __future__ import annotations

import random
import socket
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from unlabel_bench.registry import BENCHES, Bench

from stress.fuzz_findings import Findings
from stress.fuzz_inputs import inputs
from stress.fuzz_judge import Judge
from stress.fuzz_party import GROWTH_MIB, WARM_UP, resident_mib
from stress.fuzz_wire import make_narrow_party, one_thread, quiet
from unlabel.config import expect
from unlabel.errors import WireError
from unlabel.link import join
from unlabel.remote.frames import PIECE, Kind, Line, Sealed
from unlabel.remote.responder import Responder
from unlabel.wire import Describe, Embed, encode

if TYPE_CHECKING:
    from unlabel.remote.hub_members import Member

#: Bytes of the longest frame here, so that there can be longer ones.
MOST = 2**16
#: What an end may raise, and part with the sender.
PARTS = (OSError, EOFError, WireError)
#: Of so many messages to the party the judge looks at one.
JUDGED = 10
#: All that the narrow party ever serves.
ALLOWED = ("Describe", "Embed")
FEDERATION = """\
active: {label: y}
passive: [{name: shop}, {name: bank}]
server: {port: PORT, frame: 1}
"""


@dataclass(frozen=True)
class FuzzChannelSettings:
    """Settings of the bench.

    count  frames
    seed   of their draw
    """

    count: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        expect("count", self.count, self.count >= 1, "at least 1")


class Judged:
    """The narrow party behind its judge, as an endpoint."""

    def __init__(self, findings: Findings) -> None:
        self.party = make_narrow_party()
        self.findings = findings
        self.judge = Judge(self.party, findings)
        self.handle = self.party.handle

    def serve(self, data: bytes) -> bytes:
        """Answer, once the judge has seen what the same message does."""
        self.findings.inputs += 1
        if self.findings.inputs % JUDGED == 0:  # which takes far longer than to answer
            self.judge.feed(data)
        return self.party.serve(data)


@dataclass
class Ends:
    """Both ends of the channel, and what was found."""

    kits: Path
    rng: random.Random
    findings: Findings = field(default_factory=Findings)
    sessions: Counter[str] = field(default_factory=Counter)
    taken: Counter[str] = field(default_factory=Counter)
    calls: int = 0

    def __post_init__(self) -> None:
        # Kits and TLS need YAML and cryptography, and the names of benches neither.
        from unlabel.remote.hub import Hub
        from unlabel.remote.kit import Kit

        self.hub_kit, self.shop_kit = Kit.open(self.kits / "active"), Kit.open(self.kits / "shop")
        self.hub = Hub(self.hub_kit, notify=lambda _: None)
        self.judged = Judged(self.findings)
        self.responder = Responder(self.judged, "", MOST)
        self._party: tuple[Sealed, Sealed] | None = None
        self._member: tuple[Sealed, Member] | None = None

    def shaken(self) -> tuple[Sealed, Sealed]:
        """Return the hub's and the party's end of a new session."""
        from unlabel.remote.tls import caller, client_context, server_context

        server = Sealed(server_context(self.hub_kit))
        client = Sealed(client_context(self.shop_kit), host="localhost")
        client.feed(b"")
        for _ in range(2):
            server.feed(client.drain())
            client.feed(server.drain())
        assert caller(self.hub_kit, server.certificate) == "shop"
        server.most = client.most = MOST
        return server, client

    def feed_party(self, data: bytes) -> None:
        """Give a party bytes that the label holder's key has sealed."""
        if self._party is None:
            self.sessions["party"] += 1
            self._party = self.shaken()
            self.responder.hello()
        hostile, own = self._party
        try:
            for frame in own.feed(sealed(hostile, data)):
                answer = self.responder.answer(frame)
                if answer is None and self.rng.random() < 0.1:
                    self._party = None  # a number far ahead has made all others late
                if answer is not None:
                    self.taken[f"party answered {frame.kind.name}"] += 1
                    self._expect(answer.kind in (Kind.PONG, Kind.ANSWER), "answered oddly", data)
        except PARTS:
            self._party = None
        except Exception as error:
            self.findings.blame("party", f"raised {error!r}"[:200], data)
            self._party = None
        self._expect(len(own._plain) <= MOST + PIECE, "keeps too much", data)

    def feed(self, messages: Iterator[bytes]) -> None:
        """Give one of the ends one frame."""
        self.calls += 1
        target, rng = self.rng.random(), self.rng
        if target < 0.5:
            kind = Kind.REQUEST if rng.random() < 0.7 else Kind.PING
            self.feed_party(drawn(rng, kind, self.calls, messages))
        elif target < 0.95:
            kind = Kind.ANSWER if rng.random() < 0.7 else Kind.PONG
            self.feed_hub(drawn(rng, kind, self.calls, messages))
        else:
            self.feed_outside(drawn(rng, rng.choice(list(Kind)), self.calls, messages))

    def feed_hub(self, data: bytes) -> None:
        """Give the hub bytes that a party's key has sealed, while it waits for an answer or not."""
        from unlabel.remote.hub_members import Member, Pending

        if self._member is None:
            self.sessions["hub"] += 1
            own, hostile = self.shaken()
            now = time.monotonic()
            line = Line(socket.socket(), own)  # which leads nowhere
            self._member = hostile, Member("shop", line, "here", {"instance": "one"}, now, now)
        hostile, member = self._member
        asked, was_pending = (1, self.calls), self.rng.random() < 0.95
        member.pending = Pending(*asked, deadline=0.0) if was_pending else None
        try:
            for frame in member.line.sealed.feed(sealed(hostile, data)):
                self.hub._take(member, frame)
                if frame.kind is Kind.ANSWER:
                    fits = was_pending and (frame.epoch, frame.call) == asked
                    self._expect(fits, "took an answer to what was not asked", data)
                    self.taken["hub took ANSWER"] += 1
                    was_pending = False
        except PARTS:
            self._drop_member()
        except Exception as error:
            self.findings.blame("hub", f"raised {error!r}"[:200], data)
            self._drop_member()
        self._expect(len(member.line.sealed._plain) <= MOST + PIECE, "keeps too much", data)

    def feed_outside(self, data: bytes) -> None:
        """Give either end bytes before it knows anybody."""
        self.sessions["outside"] += 1
        if self.rng.random() < 0.5:
            own = Sealed(self._server)
        else:
            own = Sealed(self._client, host="localhost")
        try:
            own.feed(b"")
            frames = own.feed(data)
            self._expect(not frames and not own.is_open, "let a stranger in", data)
        except PARTS:
            pass
        except Exception as error:
            self.findings.blame("outside", f"raised {error!r}"[:200], data)

    def begin(self) -> None:
        """Make what strangers meet, once: reading keys takes longer than all else."""
        from unlabel.remote.tls import client_context, server_context

        self._server, self._client = server_context(self.hub_kit), client_context(self.shop_kit)

    def close(self) -> None:
        """Let all sockets go."""
        self._drop_member()
        self.hub.stop()
        self.hub._listener.close()

    def _drop_member(self) -> None:
        if self._member is not None:
            self._member[1].line.close()
        self._member = None

    def _expect(self, true: bool, what: str, data: bytes) -> None:
        if not true:
            self.findings.blame("channel", what, data)


def sealed(end: Sealed, data: bytes) -> bytes:
    """Return bytes as they leave one end, whether they are frames or not."""
    end._tls.write(data or b"\x00")
    return end.drain()


#: What is asked where nothing is wrong with the messages.
GOOD = [encode(Describe(1)), encode(Describe(2))]


def drawn(rng: random.Random, kind: Kind, call: int, messages: Iterator[bytes]) -> bytes:
    """Return a frame of a kind, spoilt sometimes."""
    if rng.random() < 0.01:
        kind = rng.choice(list(Kind))
    inner = [rng.choice(GOOD)]
    if rng.random() < 0.15:
        inner = [next(messages) for _ in range(rng.choice((1, 1, 1, 2, 9)))]
    body = join(inner) if kind in (Kind.REQUEST, Kind.ANSWER) else b""
    if rng.random() < 0.02:
        body = rng.randbytes(rng.randrange(64))
    return spoilt(rng, [len(body), int(kind), 1, call], body)


def spoilt(rng: random.Random, head: list[int], body: bytes) -> bytes:
    """Return a frame with something wrong in it, sometimes."""
    way = rng.random()
    if way < 0.01:
        head[0] = rng.choice((0, head[0] + 1, MOST, MOST + 1, 2**30, 2**32 - 1))
    elif way < 0.015:
        head[1] = rng.randrange(256)
    elif way < 0.025:
        head[2], head[3] = rng.getrandbits(64), rng.getrandbits(64)
    frame = struct.pack(">IBQQ", *head) + body
    if way > 0.992:
        at = rng.randrange(len(frame))
        frame = rng.choice((frame[:at], frame[at:], frame + frame[:at], frame[:at] + frame))
    elif way > 0.98:
        at = rng.randrange(len(frame))
        frame = frame[:at] + bytes([frame[at] ^ (1 << rng.randrange(8))]) + frame[at + 1 :]
    elif way > 0.978:
        frame = rng.randbytes(rng.choice((1, 5, 21, 22, 100, 4096)))
    return frame


def measure(settings: FuzzChannelSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Feed the frames and return what was found."""
    from small_parties import make_kits

    from unlabel.remote.local_cluster import free_port

    started, warm = time.perf_counter(), 0.0
    rng = random.Random(f"channel/{settings.seed}")
    with quiet(), one_thread(), tempfile.TemporaryDirectory() as folder:
        make_kits(Path(folder), FEDERATION.replace("PORT", str(free_port())))
        ends = Ends(Path(folder), rng)
        ends.begin()
        messages = inputs(settings.count, settings.seed)
        for number in range(settings.count):
            if number == int(settings.count * WARM_UP):
                warm = resident_mib()
            if number % 10_000 == 0:
                say(f"{number} of {settings.count} frames")
            ends.feed(messages)
        ends.close()
        # What the policy does not allow must not have been served, whoever asked.
        served = {kind for kind in ends.findings.served if kind.split()[0] not in ALLOWED}
        if served:
            ends.findings.blame("party", f"served {', '.join(sorted(served))}", b"")
        untouched = make_narrow_party()
        asked = Embed(0, torch.arange(4), "predict")
        if encode(ends.judged.party.handle(asked)) != encode(untouched.handle(asked)):
            ends.findings.blame("party", "differs from its twin that was never asked", b"")
        grown = resident_mib() - warm
        if grown > GROWTH_MIB:
            ends.findings.blame("all", f"memory grew by {grown:.1f} MiB", b"")
    return {
        "frames": settings.count,
        "sessions": dict(sorted(ends.sessions.items())),
        "taken": dict(sorted(ends.taken.items())),
        "messages": ends.findings.inputs,
        "served": dict(sorted(ends.findings.served.items())),
        "refused": ends.findings.refused,
        "violations": ends.findings.violations,
        "memory_growth_mib": round(grown, 2),
        "seconds": round(time.perf_counter() - started, 1),
    }


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the counts as rows for people."""
    lines = [["what", "count"], ["frames", str(result["frames"])]]
    for name in ("sessions", "taken", "served"):
        lines += [[f"{name}: {what}", str(count)] for what, count in result[name].items()]
    names = ("messages", "refused", "memory_growth_mib", "seconds")
    lines += [[name, str(result[name])] for name in names]
    return [*lines, ["violations", str(len(result["violations"]))]]


BENCHES.add(
    "fuzz-channel",
    Bench(
        "hostile frames into the channel between hub and party",
        FuzzChannelSettings,
        measure,
        table,
    ),
)
