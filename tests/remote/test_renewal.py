"""Certificates are renewed without a private key leaving its kit, and a wrong file does nothing."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

import pytest
from cli.command_line import nothing_written, unlabel
from small_parties import NOW, make_kits

from unlabel.errors import RunError, SettingsError
from unlabel.remote.certificates import read_certificate
from unlabel.remote.kit import Kit
from unlabel.remote.renew import install, renew, request
from unlabel.signing import aloud

LATER = NOW + datetime.timedelta(minutes=30)
OWN_CODE = """\
active: {label: y}
passive: [{name: shop, bottom: "ours:deep"}, {name: bank}]
model: {top: "theirs:wide"}
"""


def keys_in(folder: Path) -> set[bytes]:
    return {
        p.read_bytes() for p in folder.rglob("*") if p.is_file() and b"PRIVATE" in p.read_bytes()
    }


def test_a_request_keeps_the_key_at_home(kits: Path, tmp_path: Path) -> None:
    shop = Kit.open(kits / "shop", NOW)
    old = keys_in(shop.folder)
    request(shop, tmp_path / "shop.csr")
    waiting = keys_in(shop.folder) - old
    assert len(waiting) == 1
    made = renew(
        kits / "authority", "shop", tmp_path / "shop.pem", request_file=tmp_path / "shop.csr"
    )
    assert made.keys == {}
    for sent in ("shop.csr", "shop.pem"):
        assert b"PRIVATE" not in (tmp_path / sent).read_bytes()
    Kit.open(kits / "shop", NOW)  # until the new one is in place, the old one holds
    install(shop, tmp_path / "shop.pem")
    assert keys_in(shop.folder) == waiting | keys_in(shop.folder / "secrets")
    assert keys_in(shop.folder / "secrets") <= old  # what it signs with is kept
    Kit.open(kits / "shop", LATER)
    assert not list(shop.folder.rglob("*.waiting"))


def test_without_a_request_the_keys_are_made_by_the_authority(kits: Path, tmp_path: Path) -> None:
    active = Kit.open(kits / "active", NOW)
    old = keys_in(active.folder)
    made = renew(kits / "authority", "active", tmp_path / "active.pem", days=9)
    assert set(made.keys) == {"localhost"}
    assert (tmp_path / "active.pem").stat().st_mode & 0o077 == 0
    install(active, tmp_path / "active.pem")
    assert keys_in(active.folder) & old == keys_in(active.folder / "secrets") != set()
    Kit.open(kits / "active", LATER)
    with pytest.raises(RunError, match="ended on"):
        Kit.open(kits / "active", LATER + datetime.timedelta(days=9, hours=1))
    assert not list(active.folder.rglob("*.incoming"))


def test_an_install_that_broke_off_is_taken_up_again(kits: Path, tmp_path: Path) -> None:
    active = Kit.open(kits / "active", NOW)
    request(active, tmp_path / "a.csr")
    renew(kits / "authority", "active", tmp_path / "a.pem", request_file=tmp_path / "a.csr")
    # As if the power had failed between the first certificate and the second.
    active.key.with_name("party.key.waiting").replace(active.key)
    install(active, tmp_path / "a.pem")
    Kit.open(kits / "active", LATER)


@pytest.mark.parametrize("fault", ["other party", "other authority", "no key", "cut", "empty"])
def test_a_wrong_file_changes_nothing(
    kits: Path, other_kits: Path, tmp_path: Path, fault: str
) -> None:
    shop = Kit.open(kits / "shop", NOW)
    file = tmp_path / "new.pem"
    request(shop, tmp_path / "shop.csr")
    if fault == "other party":
        renew(kits / "authority", "bank", file)
        code = "other-party"
    elif fault == "other authority":
        renew(other_kits / "authority", "shop", file)
        code = "untrusted"
    elif fault == "no key":
        renew(kits / "authority", "shop", file, request_file=tmp_path / "shop.csr")
        for waiting in shop.folder.rglob("*.waiting"):
            waiting.unlink()
        code = "wrong-key"
    else:
        renew(kits / "authority", "shop", file)
        data = file.read_bytes()
        file.write_bytes(data.replace(b"MII", b"MIX") if fault == "cut" else b"")
        code = "run" if fault == "cut" else "other-party"
    with nothing_written(kits), pytest.raises(RunError) as error:
        install(shop, file)
    assert error.value.code == code


def test_the_authority_certifies_only_what_a_party_asked_for_itself(
    kits: Path, tmp_path: Path
) -> None:
    request(Kit.open(kits / "bank", NOW), tmp_path / "bank.csr")
    folder, out = kits / "authority", tmp_path / "new.pem"
    with nothing_written(tmp_path):
        with pytest.raises(RunError):
            renew(folder, "shop", out, request_file=tmp_path / "bank.csr")
        with pytest.raises(RunError):
            renew(folder, "active", out, request_file=tmp_path / "bank.csr")
        with pytest.raises(SettingsError):
            renew(folder, "mill", out)
        with pytest.raises(SettingsError):
            renew(folder, "shop", out, days=0)
        with pytest.raises(RunError, match=r"authority\.key"):
            renew(kits / "shop" / "certificates", "shop", out)
    shutil.copy(tmp_path / "bank.csr", tmp_path / "bad.csr")
    text = (tmp_path / "bad.csr").read_bytes()
    (tmp_path / "bad.csr").write_bytes(
        text[:600] + (b"A" if text[600:601] != b"A" else b"B") + text[601:]
    )
    with pytest.raises(RunError):
        renew(folder, "bank", out, request_file=tmp_path / "bad.csr")


def test_the_commands_say_what_they_did(kits: Path, tmp_path: Path) -> None:
    shop, out = kits / "shop", tmp_path / "shop.pem"
    asked = tmp_path / "shop.csr"
    assert unlabel("federation", "request", shop, "--out", asked, "--json").json["party"] == "shop"
    found = unlabel(
        *("federation", "renew", kits / "authority", "--party", "shop", "--days", 7),
        *("--request", asked, "--out", out, "--json"),
    ).json
    assert found["holds_keys"] is False
    assert len(unlabel("federation", "install", shop, out, "--json").json["files"]) == 2
    shown = unlabel("federation", "show", shop, "--json").json
    assert shown["problem"] is None
    ends = read_certificate(shop / "certificates" / "party.crt").not_valid_after_utc
    assert shown["certificates"]["shop"]["until"] == ends.strftime("%Y-%m-%d %H:%M UTC")
    assert abs(ends - NOW - datetime.timedelta(days=7)) < datetime.timedelta(minutes=30)
    assert shown["server"] == "localhost:8002"
    assert shown["agreement"] == Kit.open(shop).digest
    assert shown["policy"]["max_rows"] == 16384
    assert shown["rules"] == {}
    table = unlabel("federation", "show", shop)
    assert (table.code, table.err) == (0, "")
    wrong = unlabel("federation", "renew", kits / "authority", "--party", "shp", "--out", out)
    assert "Did you mean 'shop'?" in wrong.sentence


def test_show_tells_whose_code_a_party_would_run(kits: Path, tmp_path: Path) -> None:
    def models(kit: Path) -> object:
        return unlabel("federation", "show", kit, "--json").json["model"]

    assert models(kits / "shop") == {"bottom": "mlp"}
    make_kits(tmp_path, OWN_CODE)
    assert models(tmp_path / "shop") == {"bottom": "ours:deep"}
    assert models(tmp_path / "bank") == {"bottom": "mlp"}
    table = unlabel("federation", "show", tmp_path / "shop").out
    assert "bottom model" in table
    assert "ours:deep (not unlabel's own" in table
    # The top model is built at the active party alone.
    assert "theirs:wide" not in table
    # What is compared over the telephone is so long that nobody makes two of them.
    assert aloud(Kit.read(tmp_path / "shop").digest) in table
    assert models(tmp_path / "active") == {"bottom": "mlp", "top": "theirs:wide"}


def test_show_tells_of_a_kit_that_cannot_be_used(kits: Path) -> None:
    (kits / "shop" / "certificates" / "party.key").chmod(0o644)
    found = unlabel("federation", "show", kits / "shop", "--json").json
    assert "chmod 600" in found["problem"]
    assert "no kit" in unlabel("federation", "show", kits / "nobody").sentence
