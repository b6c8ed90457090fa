"""Handshakes between the certificates of kits: who is let in, and what is said to the others."""

from __future__ import annotations

import datetime
import shutil
import ssl
from pathlib import Path

import pytest
from small_parties import DAYS, NOW, secret

from unlabel.errors import RunError, WireError
from unlabel.remote.certificates import Authority, Identity, certificate_bytes, key_bytes, make_key
from unlabel.remote.kit import Kit
from unlabel.remote.tls import (
    caller,
    client_context,
    expect_server,
    expect_valid,
    server_context,
    why,
)


def shake(hub: Kit, party: Kit, host: str = "localhost") -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Have two kits shake hands in memory; return the hub's end and the party's."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context(hub).wrap_bio(up, down, server_side=True)
    client = client_context(party).wrap_bio(down, up, server_hostname=host)
    talk(client, server)
    return server, client


def talk(client: ssl.SSLObject, server: ssl.SSLObject) -> None:
    for end in (client, server, client, server):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue


def test_two_kits_of_one_federation_know_each_other(kits: Path) -> None:
    hub, shop = Kit.open(kits / "active"), Kit.open(kits / "shop")
    server, client = shake(hub, shop)
    assert server.version() == client.version() == "TLSv1.3"
    assert caller(hub, server.getpeercert()) == "shop"
    expect_server(shop, client.getpeercert())


def test_another_authority_is_refused_at_both_ends(kits: Path, other_kits: Path) -> None:
    ours, theirs = Kit.open(kits / "active"), Kit.open(other_kits / "shop")
    with pytest.raises(ssl.SSLCertVerificationError) as error:
        shake(ours, theirs)
    assert why(error.value) == "its certificate is not of this federation's authority"
    # Also where the other trusts ours.
    mixed = Path(shutil.copytree(other_kits / "shop", kits / "mixed"))
    shutil.copy(kits / "shop/certificates/root.pem", mixed / "certificates/root.pem")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(ours, Kit.read(mixed))


def test_a_passive_party_cannot_pose_as_the_server(kits: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(Kit.open(kits / "bank"), Kit.open(kits / "shop"), host="bank")


def test_the_servers_certificate_must_be_for_the_agreed_host(kits: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError) as error:
        shake(Kit.open(kits / "active"), Kit.open(kits / "shop"), host="elsewhere")
    assert why(error.value) == "its certificate is for another host"


def test_who_shows_no_certificate_is_refused(kits: Path) -> None:
    hub = Kit.open(kits / "active")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context(hub).wrap_bio(up, down, server_side=True)
    root = str(kits / "active/certificates/root.pem")
    client = ssl.create_default_context(cafile=root).wrap_bio(down, up, server_hostname="localhost")
    with pytest.raises(ssl.SSLError, match="certificate") as error:
        talk(client, server)
    assert why(error.value) == "it shows no certificate"


@pytest.mark.parametrize(
    ("identity", "begins"),
    [
        (Identity("shop", "shop"), NOW - datetime.timedelta(days=2 * DAYS)),
        (Identity("shop", "shop"), NOW + datetime.timedelta(days=1)),
        (Identity("nobody", "nobody"), NOW),
        (Identity("shop", "bank"), NOW),
        (Identity("lead@active.unlabel", "active", role="lead"), NOW),
    ],
    ids=["expired", "not-yet", "stranger", "mixed", "user"],
)
def test_certificates_of_the_authority_that_are_of_no_party_now(
    kits: Path, authority: Authority, identity: Identity, begins: datetime.datetime
) -> None:
    key = make_key()
    certificate = authority.certify(identity, key.public_key(), DAYS, begins)
    held = kits / "shop/certificates"
    (held / "party.crt").write_bytes(certificate_bytes(certificate))
    secret(held / "party.key", key_bytes(key))
    hub = Kit.open(kits / "active")
    with pytest.raises((ssl.SSLError, WireError)):
        caller(hub, shake(hub, Kit.read(kits / "shop"))[0].getpeercert())


@pytest.mark.parametrize(
    ("begins", "ours", "theirs"),
    [
        (-2, "its certificate has expired; see `unlabel federation renew`", "our certificate has"),
        (1, "its certificate is not valid yet; compare the clocks", "our certificate was refused"),
    ],
    ids=["expired", "not-yet"],
)
def test_both_ends_say_why_a_certificate_does_not_hold(
    kits: Path, authority: Authority, begins: int, ours: str, theirs: str
) -> None:
    key, start = make_key(), NOW + datetime.timedelta(days=begins * DAYS)
    certificate = authority.certify(Identity("shop", "shop"), key.public_key(), DAYS, start)
    held = kits / "shop/certificates"
    (held / "party.crt").write_bytes(certificate_bytes(certificate))
    secret(held / "party.key", key_bytes(key))
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context(Kit.open(kits / "active")).wrap_bio(up, down, server_side=True)
    client = client_context(Kit.read(kits / "shop")).wrap_bio(down, up, server_hostname="localhost")
    with pytest.raises(ssl.SSLError) as error:
        talk(client, server)
    assert why(error.value) == ours
    with pytest.raises(ssl.SSLError) as error:
        client.read()
    assert why(error.value).startswith(theirs)


@pytest.mark.parametrize(
    ("begin", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "it does not speak TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "it does not speak TLS"),
        (None, "it does not speak TLS 1.3"),
    ],
    ids=["http", "ssh", "tls-1.2"],
)
def test_who_speaks_something_else_is_told_apart(
    kits: Path, begin: bytes | None, reason: str
) -> None:
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context(Kit.open(kits / "active")).wrap_bio(up, down, server_side=True)
    if begin is None:
        context = ssl.create_default_context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLWantReadError):
            context.wrap_bio(down, up, server_hostname="localhost").do_handshake()
    else:
        up.write(begin)
    with pytest.raises(ssl.SSLError) as error:
        server.do_handshake()
    assert why(error.value) == reason


def test_older_versions_of_tls_are_not_spoken(kits: Path) -> None:
    for context in (
        server_context(Kit.open(kits / "active")),
        client_context(Kit.open(kits / "shop")),
    ):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_3
        assert context.verify_mode == ssl.CERT_REQUIRED


def test_a_kit_without_its_key_says_so(kits: Path) -> None:
    kit = Kit.open(kits / "shop")
    (kits / "shop/certificates/party.key").unlink()
    with pytest.raises(RunError, match="cannot be used"):
        client_context(kit)


def test_a_server_of_the_right_host_but_another_organisation_is_left(
    kits: Path, authority: Authority
) -> None:
    """As an authority that signs for other programs on the same machine too may have made it."""
    key = make_key()
    other = Identity("localhost", "elsewhere", host="localhost")
    certificate = authority.certify(other, key.public_key(), DAYS, NOW)
    held = kits / "active/certificates"
    (held / "party.crt").write_bytes(certificate_bytes(certificate))
    secret(held / "party.key", key_bytes(key))
    shop = Kit.open(kits / "shop")
    shown = shake(Kit.read(kits / "active"), shop)[1].getpeercert()
    with pytest.raises(WireError, match="a certificate of 'elsewhere'"):
        expect_server(shop, shown)


def test_a_certificate_that_ends_while_it_is_connected_holds_no_longer(kits: Path) -> None:
    hub = Kit.open(kits / "active")
    shown = shake(hub, Kit.open(kits / "shop"))[0].getpeercert()
    expect_valid(hub, shown)
    assert shown is not None
    shown["notAfter"] = "Nov 18 12:00:00 2024 GMT"
    with pytest.raises(WireError, match="has expired"):
        expect_valid(hub, shown)


def test_no_connection_goes_on_where_another_ended(kits: Path) -> None:
    server, client = shake(Kit.open(kits / "active"), Kit.open(kits / "shop"))
    server.write(b"anything")
    assert client.read(8) == b"anything"  # tickets would have come before it
    assert client.session is not None
    assert not client.session.has_ticket
