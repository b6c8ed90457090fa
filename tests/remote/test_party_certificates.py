"""Certificates, as another implementation sees them: Python's `ssl` on both ends."""

from __future__ import annotations

import datetime
import shutil
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from small_parties import NOW

from unlabel.config import ServerSettings
from unlabel.errors import RunError
from unlabel.remote.certificates import AUTHORITY_DAYS, Authority, make_key
from unlabel.remote.kit_files import identities


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """Have both ends greet each other in memory; raise what either of them objects to."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname=host),
    ]
    waiting = list(ends)
    for _ in range(20):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                continue
    assert not waiting
    ends[1].write(b"hello")
    assert ends[0].read() == b"hello"


def context(kit: Path, *, serves: bool, root: Path | None = None) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if serves else ssl.PROTOCOL_TLS_CLIENT)
    made.verify_mode = ssl.CERT_REQUIRED
    held = kit / "certificates"
    made.load_cert_chain(held / "party.crt", held / "party.key")
    made.load_verify_locations(root or held / "root.pem")
    return made


def test_two_parties_of_one_authority_shake_hands(made_kits: Path) -> None:
    server = context(made_kits / "active", serves=True)
    shake_hands(server, context(made_kits / "shop", serves=False), "localhost")


def test_a_passive_party_cannot_pose_as_the_server(made_kits: Path) -> None:
    posing = context(made_kits / "shop", serves=True)
    client = context(made_kits / "bank", serves=False)
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        shake_hands(posing, client, "shop")


def test_a_party_of_another_authority_is_turned_away(made_kits: Path, other_kits: Path) -> None:
    server = context(made_kits / "active", serves=True)
    ours = made_kits / "shop" / "certificates" / "root.pem"
    client = context(other_kits / "shop", serves=False, root=ours)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate"):
        shake_hands(server, client, "localhost")


def test_a_client_without_a_certificate_is_turned_away(made_kits: Path) -> None:
    server = context(made_kits / "active", serves=True)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(made_kits / "shop" / "certificates" / "root.pem")
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake_hands(server, client, "localhost")


def test_certificates_name_their_owner_as_the_engine_reads_it(made_kits: Path) -> None:
    authority = Authority.make("f", NOW)
    key = make_key().public_key()
    server = ServerSettings(host="10.1.2.3", carrier="flare")
    owners = [*identities("active", server), *identities("my-shop", server)]
    hosts = [x509.IPAddress, x509.DNSName, x509.DNSName]
    for identity, host in zip(owners, hosts, strict=True):
        made = authority.certify(identity, key, 10, NOW)
        names = {a.oid: a.value for a in made.subject}
        assert names[NameOID.COMMON_NAME] == identity.name
        assert names[NameOID.ORGANIZATION_NAME] == identity.organisation
        assert names.get(NameOID.UNSTRUCTURED_NAME) == identity.role
        others = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert [type(name) for name in others] == [host]
        assert made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False


def test_no_certificate_outlives_the_authority() -> None:
    authority = Authority.make("f", NOW)
    key = make_key().public_key()
    (shop,) = identities("shop", ServerSettings())
    late = NOW + datetime.timedelta(days=AUTHORITY_DAYS - 5)
    made = authority.certify(shop, key, 365, late)
    assert made.not_valid_after_utc <= authority.certificate.not_valid_after_utc
    assert made.not_valid_after_utc > late + datetime.timedelta(days=4)
    with pytest.raises(RunError):
        authority.certify(shop, key, 1, late + datetime.timedelta(days=6))


def test_the_authority_is_nobodys_certificate(kits: Path) -> None:
    from unlabel.remote.kit import Kit

    shop = kits / "shop" / "certificates"
    shutil.copy(shop / "root.pem", shop / "party.crt")
    with pytest.raises(RunError, match=r"'federation'"):
        Kit.open(kits / "shop", NOW)
