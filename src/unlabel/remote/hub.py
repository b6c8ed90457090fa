"""The label holder's long-running process, where the passive parties' connections arrive.

Each passive party opens one connection outwards and registers: its certificate says who it is, its
greeting which process. A second process with the same certificate is refused while the first is
connected, and both sides are told. Commands reach the hub over a private socket (`link`); one at a
time has the session, which a new epoch begins: all parties that are there and have nothing left to
answer. A request goes out on the very connections that the session began with. A party that comes
back meanwhile holds other weights, perhaps, and takes part in the next.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from unlabel.errors import RunError, WireError
from unlabel.events import note
from unlabel.remote import revocation
from unlabel.remote.frames import PROTOCOL, Frame, Kind, Line, Sealed, expect, stating
from unlabel.remote.hub_members import Member, Pending
from unlabel.remote.kit import Kit
from unlabel.remote.registration import clocks_apart, revoked_frame, welcome
from unlabel.remote.tls import RECHECK, caller, expect_valid, server_context, why

log = logging.getLogger("unlabel.hub")

#: Seconds within which somebody who connects has shown who it is, and how many may be about it.
SHAKE, MOST_SHAKING = 10.0, 64
#: Seconds between two looks at who is there, between two questions, of silence that is too much.
TICK, PING, SILENT = 0.5, 2.0, 12.0
#: Seconds in which a second process with a party's certificate is told of once.
ALARM = 60.0
#: Seconds for which a hub that is stopped waits for those who serve its connections.
ENDS = 5.0


class Hub:
    """Takes the parties' connections.

    kit      of the active party
    notify   is given what its operator should know
    members  the parties that are connected, by name, also those not welcomed yet
    alarm    what was said when a second process last came with a party's certificate
    refused  how many connections were
    """

    def __init__(self, kit: Kit, *, notify: Callable[[str], None] = log.warning) -> None:
        self.kit = kit
        self.notify = notify
        self.members: dict[str, Member] = {}
        self.refused = 0
        self.alarm = ""
        self.epoch = 0
        self._lock = threading.Lock()
        self._shaking: dict[socket.socket, float] = {}
        self._threads: set[threading.Thread] = set()
        self._warned: dict[str, float] = {}
        self._closing = threading.Event()
        self._listener = _listen(kit.port)
        self._accepting = threading.Thread(target=self._accept, name="hub-accepts", daemon=True)

    def start(self) -> None:
        """Take connections from now on."""
        self._accepting.start()
        threading.Thread(target=self._look_after, name="hub-looks", daemon=True).start()

    def stop(self) -> None:
        """End all connections, and wait for those who serve them."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        deadline = time.monotonic() + ENDS
        if self._accepting.ident is not None:  # it was started
            self._accepting.join(ENDS)
        with self._lock:
            shaking, threads = list(self._shaking), list(self._threads)
        for plain in shaking:
            _shut(plain)
        for member in list(self.members.values()):
            self.drop(member, "the hub was stopped")
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def is_listening(self) -> bool:
        """Return whether parties can come in."""
        return self._accepting.is_alive()

    def present(self) -> dict[str, Member]:
        """Return the parties that were welcomed, and can be asked."""
        with self._lock:
            return {name: each for name, each in self.members.items() if each.welcome}

    def drop(self, member: Member, reason: str) -> None:
        """End a party's connection; it may come back."""
        with self._lock:
            if member.lost:
                return
            member.lost = reason
            if self.members.get(member.name) is member:
                del self.members[member.name]
            pending, member.pending = member.pending, None
        if pending is not None:
            pending.answer.put(None)
        member.line.close()
        if not self._closing.is_set():
            log.info("%s is gone: %s", member.name, reason)
            self.notify(f"Party {member.name} is gone: {reason}.")

    def begin(self) -> tuple[int, dict[str, Member], list[str]]:
        """Begin an epoch; return its number, who takes part, and who is still busy."""
        present = self.present()
        with self._lock:
            self.epoch += 1
            there = {name: each for name, each in present.items() if each.pending is None}
            return self.epoch, there, sorted(present.keys() - there.keys())

    def ask(self, member: Member, epoch: int, call: int, body: bytes, seconds: float) -> Pending:
        """Send a party messages, to be answered within so many seconds."""
        pending = Pending(epoch, call, time.monotonic() + seconds)
        with self._lock:
            if member.lost or member.pending is not None or epoch != self.epoch:
                pending.answer.put(None)
                return pending
            member.pending = pending
        try:
            member.line.send(Frame(Kind.REQUEST, body, epoch, call))
        except OSError as error:
            self.drop(member, f"its connection broke ({why(error)})")
        return pending

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                plain, address = self._listener.accept()
            except OSError:
                if not self._closing.wait(0.1):  # too many open files, perhaps: not for ever
                    continue
                return
            with self._lock:
                if len(self._shaking) >= MOST_SHAKING:  # the one that takes longest makes room
                    oldest = min(self._shaking, key=self._shaking.__getitem__)
                    del self._shaking[oldest]
                    _shut(oldest)
                self._shaking[plain] = time.monotonic()
            where = f"{str(address[0]).removeprefix('::ffff:')}:{address[1]}"
            thread = threading.Thread(target=self._serve, args=(plain, where), daemon=True)
            with self._lock:
                self._threads.add(thread)
            try:
                thread.start()
            except RuntimeError as error:  # no room for one more now; the next may have it
                log.warning("refused a connection from %s: %s", where, error)
                self._forget(plain, thread)
                plain.close()

    def _forget(self, plain: socket.socket, thread: threading.Thread) -> None:
        with self._lock:
            self._shaking.pop(plain, None)
            self._threads.discard(thread)

    def _serve(self, plain: socket.socket, address: str) -> None:
        """Let a party in, then take what it sends until its connection ends."""
        member: Member | None = None
        try:
            try:
                member = self._admit(plain, address)
                self._welcome(member)
            finally:
                with self._lock:
                    self._shaking.pop(plain, None)
            while True:
                self._take(member, member.line.receive())
        except (OSError, EOFError, WireError, RunError) as error:
            if member is None:
                note("rejected", address, code=_code(error))
                log.warning("refused a connection from %s: %s", address, why(error))
                self.refused += 1
            else:
                self.drop(member, why(error))
        finally:
            plain.close()
            self._forget(plain, threading.current_thread())

    def _admit(self, plain: socket.socket, address: str) -> Member:
        """Register who calls, or raise."""
        line = Line(plain, Sealed(server_context(self.kit)))
        line.shake()
        hello = expect([line.receive()], Kind.HELLO).facts()
        try:
            name = caller(self.kit, line.sealed.certificate)
        except WireError as error:
            self._refuse(line, str(error))
        if hello.get("protocol") != PROTOCOL:
            self._refuse(line, f"the hub speaks version {PROTOCOL} of the channel; upgrade")
        if not isinstance(hello.get("instance"), str):
            raise WireError("its greeting names no instance")
        now = time.monotonic()
        member = Member(name, line, address, hello, since=now, heard=now, checked=now)
        with self._lock:
            first = self.members.get(name)
            is_second = first is not None and first.instance != member.instance
            if not is_second:
                self.members[name] = member
        if first is not None and is_second:
            self._alarm(first, member)
        if first is not None:
            self.drop(first, "it has connected again")
        return member

    def _welcome(self, member: Member) -> None:
        """Tell a party that it is registered; only then can sessions begin with it."""
        member.line.sealed.most = self.kit.agreement.server.largest
        member.line.send(welcome())
        self._hand_revoked(member)
        member.welcome = True
        if (sentence := clocks_apart(member.hello, member.name)) is not None:
            self.notify(sentence)
        log.info("%s has joined from %s", member.name, member.address)
        self.notify(f"Party {member.name} has joined from {member.address}.")

    def _alarm(self, first: Member, second: Member) -> None:
        """Refuse a second process with a party's certificate, and tell all of it."""
        name = first.name
        with self._lock:
            is_new = time.monotonic() > self._warned.get(name, 0.0) + ALARM
            self._warned[name] = time.monotonic() if is_new else self._warned[name]
        if is_new:
            self.alarm = (
                f"ALARM: a second process came with the certificate of {name}, from "
                f"{second.address}, while one from {first.address} is connected. It was refused; "
                f"ask the party whether it is theirs, or its kit was stolen."
            )
            self.notify(self.alarm)
            with contextlib.suppress(OSError):
                if first.welcome:
                    first.line.send(stating(Kind.ALARM, address=second.address))
        log.warning("refused a second process of %s from %s", name, second.address)
        self._refuse(second.line, f"another process of '{name}' is connected, from {first.address}")

    def _refuse(self, line: Line, reason: str) -> NoReturn:
        with contextlib.suppress(OSError):
            line.send(stating(Kind.REFUSED, reason=reason))
        raise WireError(reason)

    def _take(self, member: Member, frame: Frame) -> None:
        """Take a frame of a party."""
        member.heard = time.monotonic()
        if frame.kind is Kind.PONG:
            return
        if frame.kind is not Kind.ANSWER:
            raise WireError(f"it sent a frame {frame.kind.name}")
        with self._lock:
            pending = member.pending
            if pending is None or (pending.epoch, pending.call) != (frame.epoch, frame.call):
                raise WireError("it answered what was not asked")
            member.pending = None
        pending.answer.put(frame.body)

    def _look_after(self) -> None:
        """Ask who is there, and part with those who are not."""
        while not self._closing.wait(TICK):
            now = time.monotonic()
            with self._lock:
                late = [plain for plain, since in self._shaking.items() if now > since + SHAKE]
            for plain in late:
                _shut(plain)
            for member in self.present().values():
                try:
                    self._look_at(member, now)
                except (OSError, WireError, RunError) as error:
                    self.drop(member, why(error))

    def _hand_revoked(self, member: Member) -> None:
        """Hand a party the lists of revoked certificates, where they are others than it has."""
        # A list that comes between the two is handed out at the next look.
        numbers, frame = revocation.numbers(self.kit), revoked_frame(self.kit)
        if frame is not None and member.lists != numbers:
            member.line.send(frame)
        member.lists = numbers

    def _look_at(self, member: Member, now: float) -> None:
        pending = member.pending
        if now > member.checked + RECHECK or member.lists != revocation.numbers(self.kit):
            member.checked = now
            # First, since who is parted with may take nothing of what is sent.
            expect_valid(self.kit, member.line.sealed.certificate)
            self._hand_revoked(member)
        if pending is not None:
            if now > pending.deadline:
                self.drop(member, "it did not answer in time")
            member.heard = now  # while it works it has nothing else to say
        elif now > member.heard + SILENT:
            self.drop(member, f"nothing was heard of it for {SILENT:g} seconds")
        elif now > max(member.asked, member.heard) + PING:
            member.asked = now
            member.line.send(Frame(Kind.PING))


def _listen(port: int) -> socket.socket:
    dual = socket.has_dualstack_ipv6()
    try:
        family = socket.AF_INET6 if dual else socket.AF_INET
        return socket.create_server(("", port), family=family, backlog=64, dualstack_ipv6=dual)
    except OSError as error:
        raise RunError(
            f"Port {port} cannot be listened on ({error.strerror}); end the program that uses it, "
            f"or set the federation up with another `server.port`.",
            code="in-use",
        ) from error


def _code(error: Exception) -> str:
    """Return in a word why somebody was not let in."""
    if isinstance(error, ssl.SSLError):
        return "tls"
    return "greeting" if isinstance(error, WireError) else "broken"


def _shut(plain: socket.socket) -> None:
    with contextlib.suppress(OSError):
        plain.shutdown(socket.SHUT_RDWR)
