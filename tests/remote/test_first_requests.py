"""Parties that make their keys themselves, and authorities whose key we never see."""

from __future__ import annotations

import base64
import datetime
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import nothing_written, unlabel
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from remote.test_tls import shake
from small_parties import settings_of

from unlabel.errors import RunError
from unlabel.remote.kit import Kit
from unlabel.remote.renew import install, install_list, request
from unlabel.remote.tls import caller, expect_server
from unlabel.signing import KEY, Signer

PARTIES = ("active", "shop")
TEXT = """\
server: {host: bank.example}
active: {label: y}
passive: [{name: shop}]
"""


def ask(folder: Path, parties: Sequence[str] = PARTIES) -> list[object]:
    """Have parties make their keys; return the options that hand in their requests."""
    options: list[object] = []
    for party in parties:
        host = ("--host", "bank.example") if party == "active" else ()
        out = folder / f"{party}.csr"
        words = (folder / party, "--party", party, "--out", out, *host, "--json")
        assert unlabel("federation", "request", *words).json["party"] == party
        options += ["--request", out]
    return options


def init(folder: Path, *options: object) -> Any:
    settings_of(folder, TEXT)
    file, out = folder / "federation.yaml", folder / "kits"
    return unlabel("federation", "init", file, "--out", out, *options)


def private(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and b"PRIVATE" in p.read_bytes()]


def test_no_private_key_is_made_by_anybody_else(tmp_path: Path) -> None:
    options = ask(tmp_path)
    for party in PARTIES:
        assert b"PRIVATE" not in (tmp_path / f"{party}.csr").read_bytes()
    shown = init(tmp_path, *options)
    assert (shown.code, shown.err) == (0, "")
    assert {
        path.relative_to(tmp_path / "kits").parts[0] for path in private(tmp_path / "kits")
    } == {"authority"}
    keys = {party: {path.read_bytes() for path in private(tmp_path / party)} for party in PARTIES}
    for party in PARTIES:
        handed = tmp_path / "kits" / party
        words = unlabel("federation", "install", tmp_path / party, handed, "--json").json
        assert words["party"] == party
        kit = Kit.open(tmp_path / party)
        assert kit.agreement.trust[party] == Signer(kit.folder).public
        assert {path.read_bytes() for path in private(kit.folder)} == keys[party]
        assert len(keys[party]) == 2
    hub, shop = (Kit.open(tmp_path / party) for party in PARTIES)
    server, client = shake(hub, shop, "bank.example")
    assert caller(hub, server.getpeercert()) == "shop"
    expect_server(shop, client.getpeercert())


def test_whose_keys_were_made_by_another_is_said(tmp_path: Path) -> None:
    options = ask(tmp_path, ["shop"])
    shown = init(tmp_path, *options, "--zip")
    assert "private keys of active were made here" in " ".join(shown.err.split())
    # The zip of shop holds none, and is what shop puts beside its own.
    unlabel("federation", "install", tmp_path / "shop", tmp_path / "kits" / "shop.zip", "--json")
    assert Kit.open(tmp_path / "shop").name == "shop"


def test_a_kit_that_does_not_fit_the_keys_changes_nothing(tmp_path: Path) -> None:
    ask(tmp_path, ["shop"])
    other = tmp_path / "other"
    other.mkdir()
    options = ask(other, ["shop"])
    init(other, *options)
    handed = other / "kits" / "shop"
    with_key = Path(shutil.copytree(handed, other / "with-key"))
    (with_key / "certificates" / "party.key").write_text("a key")
    changed = Path(shutil.copytree(handed, other / "changed"))
    (changed / "ours.py").write_text("x = 1")
    started = Path(shutil.copytree(handed, other / "started"))
    (started / "state" / "secrets").mkdir(parents=True)
    (started / "state" / "secrets" / "seed").write_text("7")
    # The first was made for other keys than those in its way; all others for the right ones.
    for place, wrong, words in (
        (tmp_path, handed, "party.key"),
        (other, with_key, "holds private keys"),
        (other, changed, "ours.py"),
        (other, started, "comes with a state/"),
        (other, other / "nothing", "is no kit"),
        (other, tmp_path / "shop.csr", "is no kit"),
    ):
        with nothing_written(place / "shop"):
            refused = unlabel("federation", "install", place / "shop", wrong)
        assert refused.code == 1
        assert words in refused.sentence
    os.utime(other, (0, 0))
    assert unlabel("federation", "install", other / "shop", handed).code == 0
    # Nothing was written beside the folder, which may be a mount of its own.
    assert other.stat().st_mtime == 0


def with_another_signature(requests: bytes) -> bytes:
    """Return requests of which the first is signed by nobody: the last bit of it is another."""
    first = x509.load_pem_x509_csr(requests)
    raw = bytearray(first.public_bytes(Encoding.DER))
    raw[-1] ^= 1
    text = base64.encodebytes(bytes(raw)).decode()
    end = b"-----END CERTIFICATE REQUEST-----\n"
    changed = f"-----BEGIN CERTIFICATE REQUEST-----\n{text}".encode() + end
    assert not x509.load_pem_x509_csr(changed).is_signature_valid
    return changed + requests.split(end, 1)[1]


def test_requests_that_cannot_be_meant_are_refused(tmp_path: Path) -> None:
    options = ask(tmp_path, ["shop"])
    words = (tmp_path / "shop", "--party", "shop", "--out", tmp_path / "again.csr")
    assert "not empty" in unlabel("federation", "request", *words).sentence
    words = (tmp_path / "x", "--party", "authority", "--out", tmp_path / "x.csr")
    assert unlabel("federation", "request", *words).code != 0
    (tmp_path / "cut.csr").write_bytes((tmp_path / "shop.csr").read_bytes()[:900])
    data = (tmp_path / "shop.csr").read_bytes()
    (tmp_path / "changed.csr").write_bytes(data.replace(b"MII", b"MIJ", 1))
    (tmp_path / "unproved.csr").write_bytes(with_another_signature(data))
    for wrong in (
        [*options, *options],
        ["--request", tmp_path / "cut.csr"],
        ["--request", tmp_path / "changed.csr"],
        ["--request", tmp_path / "unproved.csr"],
        ["--request", tmp_path / "none.csr"],
        [*options, "--root", tmp_path / "shop.csr"],
    ):
        assert init(tmp_path, *wrong).code != 0
        assert not (tmp_path / "kits").exists()


@dataclass
class Corporate:
    """An organisation's own authority: a root, and one under it that signs."""

    root: x509.Certificate
    between: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls) -> Corporate:
        keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
        names = [common(name) for name in ("Corporate Root", "Corporate Issuing")]
        root = signed(names[0], names[0], keys[0].public_key(), keys[0], ca=True)
        between = signed(names[1], names[0], keys[1].public_key(), keys[0], ca=True)
        return cls(root, between, keys[1])

    def certify(self, file: Path, *, server: bool) -> bytes:
        """Sign what the first request in a file asks for, as it stands there."""
        asked = x509.load_pem_x509_csr(file.read_bytes())
        assert asked.is_signature_valid
        uses = [ExtendedKeyUsageOID.SERVER_AUTH] * server + [ExtendedKeyUsageOID.CLIENT_AUTH]
        names = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        made = signed(
            *(asked.subject, self.between.subject, asked.public_key(), self.key),
            ca=False,
            more=[x509.ExtendedKeyUsage(uses), names],
        )
        return made.public_bytes(Encoding.PEM) + self.between.public_bytes(Encoding.PEM)

    def revoke(self, number: int, *serials: int) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        made = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.between.subject)
            .last_update(now)
            .next_update(now + datetime.timedelta(days=7))
            .add_extension(x509.CRLNumber(number), critical=False)
        )
        for serial in serials:
            revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
            made = made.add_revoked_certificate(revoked.build())
        return made.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM)


def common(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def signed(
    subject: x509.Name,
    issuer: x509.Name,
    public: Any,
    key: ec.EllipticCurvePrivateKey,
    *,
    ca: bool,
    more: Sequence[x509.ExtensionType] = (),
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    for extension in more:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(key, hashes.SHA256())


def test_an_organisations_own_authority_certifies_and_we_never_see_its_key(tmp_path: Path) -> None:
    theirs, options = Corporate.make(), ask(tmp_path)
    (tmp_path / "root.pem").write_bytes(theirs.root.public_bytes(Encoding.PEM))
    for party in PARTIES:
        made = theirs.certify(tmp_path / f"{party}.csr", server=party == "active")
        (tmp_path / f"{party}.pem").write_bytes(made)
    options += ["--root", tmp_path / "root.pem"]
    for party in PARTIES:
        options += ["--certificate", tmp_path / f"{party}.pem"]
    shown = init(tmp_path, *options)
    assert (shown.code, shown.err) == (0, "")
    kept = private(tmp_path / "kits")
    assert kept == [tmp_path / "kits" / "authority" / KEY]  # which signs the files of kits
    for party in PARTIES:
        unlabel("federation", "install", tmp_path / party, tmp_path / "kits" / party, "--json")
    hub, shop = (Kit.open(tmp_path / party) for party in PARTIES)
    server, _ = shake(hub, shop, "bank.example")
    assert caller(hub, server.getpeercert()) == "shop"
    # Renewed and revoked there, too.
    words = ("federation", "renew", tmp_path / "kits" / "authority", "--party", "shop")
    assert "organisation's own" in unlabel(*words, "--out", tmp_path / "no.pem").sentence
    old = x509.load_pem_x509_certificate(shop.certificate.read_bytes()).serial_number
    request(shop, tmp_path / "renewed.csr")
    renewed = theirs.certify(tmp_path / "renewed.csr", server=False)
    (tmp_path / "renewed.pem").write_bytes(
        renewed.split(b"-----END CERTIFICATE-----")[0] + b"-----END CERTIFICATE-----\n"
    )
    install(shop, tmp_path / "renewed.pem")  # without the one in between, which is kept
    (tmp_path / "revoked.pem").write_bytes(theirs.revoke(7, old))
    assert install_list(hub, tmp_path / "revoked.pem") == [7]
    server, _ = shake(hub, Kit.open(tmp_path / "shop"), "bank.example")
    assert caller(hub, server.getpeercert()) == "shop"
    (tmp_path / "older.pem").write_bytes(theirs.revoke(6))
    assert install_list(hub, tmp_path / "older.pem") == []
    (tmp_path / "foreign.pem").write_bytes(Corporate.make().revoke(9))
    with pytest.raises(RunError, match="not signed by the authority"):
        install_list(hub, tmp_path / "foreign.pem")


@pytest.mark.parametrize("fault", ["another key", "no server", "another root", "none for shop"])
def test_certificates_that_do_not_fit_make_no_kits(tmp_path: Path, fault: str) -> None:
    theirs, options = Corporate.make(), ask(tmp_path)
    (tmp_path / "root.pem").write_bytes(theirs.root.public_bytes(Encoding.PEM))
    if fault == "another root":
        (tmp_path / "root.pem").write_bytes(Corporate.make().root.public_bytes(Encoding.PEM))
    options += ["--root", tmp_path / "root.pem"]
    for party in PARTIES:
        made = theirs.certify(
            tmp_path / f"{party}.csr", server=party == "active" and fault != "no server"
        )
        if fault == "another key" and party == "shop":
            shutil.copy(tmp_path / "active.csr", tmp_path / "shop.csr")
            made = theirs.certify(tmp_path / "active.csr", server=True)
        (tmp_path / f"{party}.pem").write_bytes(made)
        if not (fault == "none for shop" and party == "shop"):
            options += ["--certificate", tmp_path / f"{party}.pem"]
    assert init(tmp_path, *options).code == 1
    assert not (tmp_path / "kits").exists()
