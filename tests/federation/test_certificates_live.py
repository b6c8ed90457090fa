"""Certificates that are revoked or renewed while parties are connected, and clocks that differ."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cli.command_line import unlabel
from federation.met_parties import Echo, hub_of, joined, line_of
from small_parties import make_kits

from unlabel.remote import frames, party_line, registration
from unlabel.remote.certificates import read_certificate
from unlabel.remote.frames import Kind, stating
from unlabel.remote.hub import Hub
from unlabel.remote.kit import Kit
from unlabel.remote.local_cluster import free_port
from unlabel.remote.party_line import PartyLine
from unlabel.remote.renew import install, renew, request
from unlabel.remote.responder import Responder
from unlabel.remote.revocation import numbers

TEXT = """\
server: {port: PORT}
active: {label: y}
passive: [{name: shop}, {name: bank}]
"""
#: Seconds for something to be seen; far less than the minute that is promised.
SOON = 15.0


@dataclass
class Meeting:
    """A hub and two parties that are connected to it, and what their operators were told."""

    kits: Path
    hub: Hub
    lines: dict[str, PartyLine]
    words: dict[str, list[str]] = field(default_factory=dict)

    def said(self, party: str) -> str:
        return "\n".join(self.words[party])


def until(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def heard(gathering: Meeting, party: str, words: str) -> None:
    until(lambda: words in gathering.said(party))


@pytest.fixture
def gathering(tmp_path: Path) -> Iterator[Meeting]:
    make_kits(tmp_path, TEXT.replace("PORT", str(free_port())))
    opened = {name: Kit.open(tmp_path / name) for name in ("active", "shop", "bank")}
    words: dict[str, list[str]] = {name: [] for name in opened}
    for kit in opened.values():
        kit.prepare()
    with (
        hub_of(opened["active"], words["active"]) as hub,
        joined(Echo(), opened["shop"], words["shop"]) as shop,
        joined(Echo(), opened["bank"], words["bank"]) as bank,
    ):
        until(lambda: hub.members.keys() == {"shop", "bank"})
        yield Meeting(tmp_path, hub, {"shop": shop, "bank": bank}, words)


def revoke(gathering: Meeting, party: str) -> None:
    """Revoke a party's certificates, and install the list at the active party, which runs."""
    kits, file = gathering.kits, gathering.kits / f"{party}-revoked.pem"
    words = ("federation", "revoke", kits / "authority", "--party", party, "--out", file)
    assert unlabel(*words).code == 0
    assert unlabel("federation", "install", kits / "active", file).code == 0


def test_a_certificate_that_is_revoked_ends_its_connection_and_opens_no_other(
    gathering: Meeting,
) -> None:
    before = gathering.hub.members["bank"]
    revoke(gathering, "shop")
    until(lambda: "shop" not in gathering.hub.members)
    until(lambda: "the certificate of 'shop' was revoked" in gathering.said("shop"))
    assert "Party shop is gone: the certificate of 'shop' was revoked." in gathering.said("active")
    # Nobody else is disturbed, and everybody has the list.
    until(lambda: numbers(Kit.read(gathering.kits / "bank")) == [1])
    assert gathering.hub.members == {"bank": before}
    # With a new certificate it is back, while it runs.
    renew(gathering.kits / "authority", "shop", gathering.kits / "shop.pem")
    install(Kit.read(gathering.kits / "shop"), gathering.kits / "shop.pem")
    until(lambda: "shop" in gathering.hub.members)


def test_a_hub_whose_certificate_is_revoked_is_left(gathering: Meeting) -> None:
    revoke(gathering, "active")
    for party in ("shop", "bank"):
        heard(gathering, party, "the certificate of 'localhost' was revoked")
        assert numbers(Kit.read(gathering.kits / party)) == [1]
    until(lambda: not gathering.hub.members)


def test_a_list_that_is_installed_by_hand_ends_the_connection_to_a_stolen_hub(
    gathering: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thief of the active party's kit hands no list on; each party's operator installs it."""
    monkeypatch.setattr(party_line, "RECHECK", 0.5)
    kits, file = gathering.kits, gathering.kits / "active-revoked.pem"
    words = (kits / "authority", "--party", "active", "--out", file)
    assert unlabel("federation", "revoke", *words).code == 0
    assert unlabel("federation", "install", kits / "shop", file).code == 0
    heard(gathering, "shop", "the certificate of 'localhost' was revoked")
    assert "bank" in gathering.hub.members


def test_a_party_that_comes_later_is_handed_the_list(gathering: Meeting) -> None:
    gathering.lines["bank"].close()
    until(lambda: "bank" not in gathering.hub.members)
    revoke(gathering, "shop")
    kit = Kit.open(gathering.kits / "bank")
    with joined(Echo(), kit):
        until(lambda: numbers(kit) == [1])


def test_a_renewed_certificate_is_used_without_stopping(gathering: Meeting) -> None:
    kits, shop = gathering.kits, Kit.read(gathering.kits / "shop")
    member = gathering.hub.members["shop"]
    request(shop, kits / "shop.csr")
    renew(kits / "authority", "shop", kits / "shop.pem", request_file=kits / "shop.csr")
    install(shop, kits / "shop.pem")
    serial = read_certificate(shop.certificate).serial_number
    # The connection that is open goes on; the next one shows the new certificate.
    assert gathering.hub.members["shop"] is member
    assert serial_of(gathering.hub, "shop") != serial
    gathering.hub.drop(member, "for a test")
    until(lambda: "shop" in gathering.hub.members)
    assert serial_of(gathering.hub, "shop") == serial
    # And so does the hub's own.
    active = Kit.read(kits / "active")
    renew(kits / "authority", "active", kits / "active.pem")
    install(active, kits / "active.pem")
    gathering.hub.drop(gathering.hub.members["shop"], "for a test")
    until(lambda: "shop" in gathering.hub.members)
    line = gathering.lines["shop"]._line
    assert line is not None
    shown = line.sealed.certificate
    assert shown is not None
    assert int(str(shown["serialNumber"]), 16) == read_certificate(active.certificate).serial_number


def serial_of(hub: Hub, party: str) -> int:
    shown = hub.members[party].line.sealed.certificate
    assert shown is not None
    return int(str(shown["serialNumber"]), 16)


def test_clocks_that_differ_are_told_of_at_both_ends(
    gathering: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "apart" not in gathering.said("active") + gathering.said("shop")
    hello = Responder.hello

    def late(self: Responder) -> object:
        return stating(Kind.HELLO, **{**hello(self).facts(), "time": time.time() - 300})

    monkeypatch.setattr(Responder, "hello", late)
    ahead = stating(Kind.WELCOME, time=time.time() + 300)
    monkeypatch.setattr("unlabel.remote.hub.welcome", lambda: ahead)
    gathering.hub.drop(gathering.hub.members["shop"], "for a test")
    for party, other in (("active", "shop"), ("shop", "the label holder")):
        heard(gathering, party, "seconds apart")
        sentence = next(words for words in gathering.words[party] if "seconds apart" in words)
        assert sentence.startswith(f"The clock of {other} says ")
        assert sentence.count(" UTC") == 2


@pytest.mark.parametrize("time_told", [None, "noon", float("nan"), True, 1e300, -1e300, 10**400])
def test_a_clock_that_says_anything_does_no_harm(time_told: object) -> None:
    sentence = registration.clocks_apart({"time": time_told}, "shop")
    assert sentence is None or "seconds apart" in sentence


@pytest.mark.parametrize("revoked", [True, False])
def test_who_takes_nothing_of_what_is_sent_holds_up_nobody(
    gathering: Meeting, monkeypatch: pytest.MonkeyPatch, revoked: bool
) -> None:
    """A thief with a party's certificate registers, and reads nothing that the hub sends."""
    hub = gathering.hub
    gathering.lines["shop"].close()
    until(lambda: "shop" not in hub.members)
    # Where it was revoked nobody waits for the thief at all.
    monkeypatch.setattr(frames, "STUCK", 600.0 if revoked else 1.0)
    line = line_of(Kit.open(gathering.kits / "shop"))
    until(lambda: "shop" in hub.present())
    epoch, there, _ = hub.begin()
    request = (there["shop"], epoch, 1, bytes(32 * 2**20), 600.0)
    threading.Thread(target=hub.ask, args=request, daemon=True).start()
    until(lambda: there["shop"].pending is not None)
    if revoked:
        time.sleep(1.0)  # now what is sent fills every buffer on the way
        revoke(gathering, "shop")
        until(lambda: numbers(Kit.read(gathering.kits / "bank")) == [1])
    until(lambda: "shop" not in hub.members)
    heard(gathering, "active", "was revoked" if revoked else "it takes nothing")
    line.close()
