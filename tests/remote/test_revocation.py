"""A certificate that was revoked is taken nowhere, and no older list brings it back."""

from __future__ import annotations

import datetime
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from cli.command_line import nothing_written, unlabel
from cryptography import x509
from small_parties import NOW

from unlabel.errors import RunError, SettingsError, WireError
from unlabel.remote.authority_folder import AuthorityFolder
from unlabel.remote.certificates import read_certificate
from unlabel.remote.kit import Kit
from unlabel.remote.renew import install, install_list, renew
from unlabel.remote.revocation import expect_not_revoked, is_revoked, number_of, numbers, take
from unlabel.remote.tls import caller

LATER = NOW + datetime.timedelta(minutes=30)


def revoke(kits: Path, party: str, out: Path) -> Path:
    """Revoke a party's certificates as its operator would; return the list."""
    words = (kits / "authority", "--party", party, "--out", out, "--json")
    assert unlabel("federation", "revoke", *words).json["file"] == str(out)
    return out


def shown(kit: Kit) -> dict[str, str]:
    """Return of a party's certificate what `ssl` tells the other end."""
    return dict(ssl._ssl._test_decode_cert(str(kit.certificate)))  # type: ignore[attr-defined]


def test_a_revoked_certificate_is_refused_once_the_list_is_there(
    kits: Path, tmp_path: Path
) -> None:
    hub, shop, bank = (Kit.open(kits / party, NOW) for party in ("active", "shop", "bank"))
    assert caller(hub, shown(shop)) == "shop"
    file = revoke(kits, "shop", tmp_path / "revoked.pem")
    assert unlabel("federation", "install", kits / "active", file, "--json").json["lists"] == [1]
    with pytest.raises(WireError, match="revoked"):
        caller(hub, shown(shop))
    assert caller(hub, shown(bank)) == "bank"
    assert numbers(hub) == [1]
    assert hub.revoked.stat().st_mode & 0o077 == 0


def test_another_implementation_reads_the_list(kits: Path, tmp_path: Path) -> None:
    file = revoke(kits, "shop", tmp_path / "revoked.pem")
    openssl = ("openssl", "verify", "-crl_check", "-CAfile", kits / "shop/certificates/root.pem")
    for party, held in (("bank", True), ("shop", False)):
        certificate = kits / party / "certificates" / "party.crt"
        done = subprocess.run(
            [*openssl, "-CRLfile", file, certificate], capture_output=True, text=True, check=False
        )
        assert (done.returncode == 0) is held
        assert ("certificate revoked" in done.stderr + done.stdout) is not held


def test_a_party_whose_certificate_was_revoked_does_not_start(kits: Path, tmp_path: Path) -> None:
    file = revoke(kits, "shop", tmp_path / "revoked.pem")
    install_list(Kit.open(kits / "shop", NOW), file)
    with pytest.raises(RunError) as error:
        Kit.open(kits / "shop", NOW)
    assert error.value.code == "revoked"
    assert "revoked" in unlabel("federation", "show", kits / "shop", "--json").json["problem"]
    # Certified anew it takes part again, and the old certificate stays out.
    renew(kits / "authority", "shop", tmp_path / "shop.pem")
    old = read_certificate(kits / "shop/certificates/party.crt").serial_number
    install(Kit.read(kits / "shop"), tmp_path / "shop.pem")
    shop = Kit.open(kits / "shop", LATER)
    assert is_revoked(shop, old)
    assert caller(shop, shown(shop)) == "shop"


def test_numbers_only_grow(kits: Path, tmp_path: Path) -> None:
    hub = Kit.open(kits / "active", NOW)
    first = revoke(kits, "shop", tmp_path / "first.pem").read_bytes()
    second = revoke(kits, "bank", tmp_path / "second.pem").read_bytes()
    assert [len(x509.load_pem_x509_crl(each)) for each in (first, second)] == [1, 2]
    assert take(hub, second, "a frame") == [2]
    with nothing_written(kits / "active"):
        assert take(hub, first, "a frame") == []
        assert take(hub, second, "a frame") == []
    assert numbers(hub) == [2]
    bank = Kit.open(kits / "bank", NOW)
    with pytest.raises(WireError, match="revoked"):
        expect_not_revoked(hub, shown(bank))


def test_a_list_that_is_not_the_authoritys_changes_nothing(
    kits: Path, other_kits: Path, tmp_path: Path
) -> None:
    hub = Kit.open(kits / "active", NOW)
    copied = Path(shutil.copytree(other_kits, tmp_path / "other"))
    foreign = revoke(copied, "shop", tmp_path / "foreign.pem").read_bytes()
    ours = revoke(kits, "shop", tmp_path / "ours.pem").read_bytes()
    at = len(ours) // 2
    changed = ours[:at] + (b"A" if ours[at : at + 1] != b"A" else b"B") + ours[at + 1 :]
    late = AuthorityFolder.open(kits / "authority")
    late_list = late.authority.revoke([5], 9, NOW + datetime.timedelta(days=1))
    from cryptography.hazmat.primitives.serialization import Encoding

    for data, code in (
        (foreign, "untrusted"),
        (changed, None),
        (late_list.public_bytes(Encoding.PEM), "not-valid-now"),
        (b"", "run"),
        (b"-----BEGIN X509 CRL-----\nAA\n-----END X509 CRL-----\n", "run"),
        (b"-----BEGIN X509 CRL-----\n" * 2**18, "run"),
    ):
        with nothing_written(kits / "active"), pytest.raises(RunError) as error:
            take(hub, data, "a frame", NOW)
        assert code is None or error.value.code == code
    assert numbers(hub) == []


def test_a_damaged_list_lets_nobody_in(kits: Path, tmp_path: Path) -> None:
    hub, bank = Kit.open(kits / "active", NOW), Kit.open(kits / "bank", NOW)
    install_list(hub, revoke(kits, "shop", tmp_path / "revoked.pem"))
    hub.revoked.write_bytes(hub.revoked.read_bytes()[:200])
    with pytest.raises(RunError, match=r"revoked\.pem"):
        caller(hub, shown(bank))


def test_one_certificate_is_revoked_by_its_number(kits: Path, tmp_path: Path) -> None:
    serial = unlabel("federation", "show", kits / "bank", "--json").json["certificates"]["bank"][
        "serial"
    ]
    (kits / "authority" / "issued.pem").unlink()  # as in authorities of 0.10
    folder = AuthorityFolder.open(kits / "authority")
    with pytest.raises(RunError, match="serial"):
        folder.revoke("bank")
    with pytest.raises(SettingsError):
        folder.revoke()
    with pytest.raises(SettingsError, match="shop"):
        folder.revoke("shp")
    words = ("federation", "revoke", kits / "authority", "--out", tmp_path / "revoked.pem")
    assert "hexadecimal" in unlabel(*words, "--serial", "x").sentence
    assert unlabel(*words, "--serial", serial, "--json").json["revoked"] == 1
    (revoked,) = [x509.load_pem_x509_crl((tmp_path / "revoked.pem").read_bytes())]
    assert number_of(revoked) == 1
    assert f"{next(iter(revoked)).serial_number:x}" == serial
