"""Certificates that are revoked while the engine carries a session."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from federation.met_parties import Echo
from small_parties import make_kits

from unlabel.errors import PartyLost, WireError
from unlabel.link import call, pack, unpack
from unlabel.remote import party_server
from unlabel.remote.authority_folder import AuthorityFolder
from unlabel.remote.kit import Kit
from unlabel.remote.party_server import PartyServer
from unlabel.remote.revocation import numbers, take
from unlabel.remote.sealed_link import SealedLink
from unlabel.wire import Describe
from unlabel.wire.linked import LinkedTransport

PARTIES = ("shop", "bank")


class Job:
    """Passes bytes on to the parties' sockets and back, as the engine's two bridges do."""

    def __init__(self, links: Path) -> None:
        self._ends = {party: call(links, party) for party in PARTIES}
        self._reply = b""

    def send_bytes(self, data: bytes) -> None:
        header, parts = unpack(data)
        answers: dict[str, bytes] = {}
        lost = {}
        for party, part in parts.items():
            try:
                self._ends[party].send_bytes(part)
                answers[party] = self._ends[party].recv_bytes()
            except (EOFError, OSError) as error:
                lost[party] = str(error) or "it has ended"
        self._reply = pack(answers, lost=lost, call=header["call"])

    def recv_bytes(self) -> bytes:
        return self._reply

    def poll(self, seconds: float) -> bool:
        return bool(self._reply)

    def close(self) -> None:
        for end in self._ends.values():
            end.close()


@pytest.fixture
def kits(tmp_path: Path) -> dict[str, Kit]:
    make_kits(tmp_path)
    return {name: Kit.open(tmp_path / name) for name in ("active", *PARTIES)}


@pytest.fixture
def job(kits: dict[str, Kit]) -> Iterator[Any]:
    with contextlib.ExitStack() as ending:
        links = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="unlabel-")))
        for party in PARTIES:
            kits[party].prepare()
            server = PartyServer(Echo(), kits[party], links)
            ending.callback(server.close)
            threading.Thread(target=server.serve, daemon=True).start()
        yield ending.enter_context(contextlib.closing(Job(links)))


@pytest.fixture
def transport(kits: dict[str, Kit], job: Any) -> Iterator[LinkedTransport]:
    sealed = SealedLink(kits["active"], job, PARTIES)
    sealed.shake()
    transport = LinkedTransport(PARTIES, timeout=4.0)
    transport.connect(sealed)
    yield transport
    transport.connect(None)


def revoked(kits: dict[str, Kit], party: str) -> bytes:
    authority = AuthorityFolder.open(kits["active"].folder.parent / "authority")
    return authority.revoke(party, []).public_bytes(Encoding.PEM)


def test_a_party_whose_certificate_is_revoked_is_asked_nothing_more(
    kits: dict[str, Kit], transport: LinkedTransport
) -> None:
    transport.ask(Describe(1))
    take(kits["active"], revoked(kits, "shop"), "a test")
    with pytest.raises(PartyLost, match="the certificate of 'shop' was revoked") as lost:
        transport.ask(Describe(2))
    assert lost.value.parties == ("shop",)
    assert numbers(kits["bank"]) == [1]  # who is asked is handed the list


def test_no_session_begins_with_a_label_holder_that_was_revoked(
    kits: dict[str, Kit], job: Any
) -> None:
    take(kits["bank"], revoked(kits, "active"), "a test")
    with pytest.raises(WireError, match="bank"):
        SealedLink(kits["active"], job, PARTIES).shake()


def test_a_label_holder_whose_certificate_is_revoked_is_not_answered(
    kits: dict[str, Kit], transport: LinkedTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport.ask(Describe(1))
    monkeypatch.setattr(party_server, "RECHECK", 0.0)
    take(kits["bank"], revoked(kits, "active"), "a test")  # by hand, as the runbook says
    with pytest.raises(PartyLost) as lost:
        transport.ask(Describe(2))
    assert lost.value.parties == ("bank",)
