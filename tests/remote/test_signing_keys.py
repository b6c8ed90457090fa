"""Signing keys come with the kits: each private one in its own, all public ones in every one."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from cli.command_line import unlabel
from compat.places import put
from small_parties import FEDERATION, NOW, make_kits

from unlabel.config.loader import agreement_digest, dump, read_agreement
from unlabel.errors import CheckpointError, RunError, SettingsError
from unlabel.remote.kit import Kit
from unlabel.remote.kit_files import AGREEMENT, PARTY
from unlabel.signing import COMPARE, KEY, Signer, fingerprint

PARTIES = ("active", "shop", "bank")


def as_before(kit: Path) -> None:
    """Make of a kit one of 0.7: no signing key, no manifest, and an agreement that names none."""
    (kit / "manifest.json").unlink()
    shutil.rmtree(kit / "secrets")
    agreement = replace(read_agreement(kit / AGREEMENT)[0], trust={}, authority="")
    old = Kit.read(kit).digest
    (kit / AGREEMENT).write_text(dump(agreement))
    path = kit / PARTY
    path.write_text(path.read_text().replace(old, agreement_digest(agreement)))


def test_every_kit_names_all_public_keys_and_holds_its_own_private_one(kits: Path) -> None:
    trust = Kit.open(kits / "shop", NOW).agreement.trust
    assert trust == {party: Signer(kits / party).public for party in PARTIES}
    assert len(set(trust.values())) == 3
    for party in PARTIES:
        kit = Kit.open(kits / party, NOW)
        assert kit.agreement.trust == trust
        assert stat.S_IMODE((kit.folder / KEY).stat().st_mode) == 0o600
        private = (kit.folder / KEY).read_bytes().splitlines()[1]
        holders = [p for p in kits.rglob("*") if p.is_file() and private in p.read_bytes()]
        assert holders == [kit.folder / KEY]
        # The parties show each other the digest, so that no two trust different keys.
        other = replace(kit.agreement, trust={**trust, party: "ab" * 32})
        assert agreement_digest(other) != kit.digest


def exchange(kit: Path, other: Path) -> None:
    shutil.copy(other / "bank" / KEY, kit / KEY)


def remove(kit: Path, other: Path) -> None:
    (kit / KEY).unlink()


def cut(kit: Path, other: Path) -> None:
    (kit / KEY).write_bytes((kit / KEY).read_bytes()[:40])


def show(kit: Path, other: Path) -> None:
    (kit / KEY).chmod(0o640)


@pytest.mark.parametrize(
    ("change", "code"),
    [(exchange, "wrong-key"), (remove, "wrong-key"), (cut, "checkpoint"), (show, "run")],
)
def test_a_party_does_not_start_with_another_signing_key(
    kits: Path, change: Callable[[Path, Path], None], code: str
) -> None:
    change(kits / "shop", kits)
    before = sorted(kits.rglob("*"))
    with pytest.raises((RunError, CheckpointError)) as error:
        Kit.open(kits / "shop", NOW)
    assert error.value.code == code
    assert str(KEY) in str(error.value)
    assert sorted(kits.rglob("*")) == before  # no key is made in place of one that is missing
    assert Kit.open(kits / "bank", NOW).name == "bank"


@pytest.mark.parametrize("party", ["active", "shop"])
def test_a_party_signs_with_the_key_of_its_kit_wherever_its_state_came_from(
    kits: Path, party: str
) -> None:
    kit = Kit.open(kits / party, NOW)
    earlier = Signer(kit.home).public  # as state that was moved from an older kit has one
    kit.use_signing_key()
    assert Signer(kit.home).public == kit.agreement.trust[party] != earlier
    linked = os.readlink(kit.home / KEY)
    (kits / party).rename(kits / "moved")
    moved = Kit.open(kits / "moved", NOW)
    moved.use_signing_key()
    assert os.readlink(moved.home / KEY) == linked
    assert Signer(moved.home).public == kit.agreement.trust[party]


def test_a_kit_without_keys_opens_and_says_that_first_use_is_trusted(kits: Path) -> None:
    as_before(kits / "shop")
    kit = Kit.open(kits / "shop", NOW)
    kit.use_signing_key()
    assert not (kit.home / KEY).exists()  # it is made when the party first signs
    shown = unlabel("federation", "show", kits / "shop")
    assert "trusted when the first certificate meets it" in shown.err
    assert "fingerprint" not in shown.out
    Signer(kit.home)
    assert Signer(kit.home).public in unlabel("federation", "show", kits / "shop").err


def test_kits_of_0_6_open_and_name_no_keys(tmp_path: Path) -> None:
    kit = Kit.read(put("kits", tmp_path) / "shop")
    assert kit.agreement.trust == {}
    kit.use_signing_key()
    assert not (kit.home / KEY).is_symlink()


def test_show_prints_a_fingerprint_a_party_to_be_compared(kits: Path) -> None:
    trust = Kit.open(kits / "shop", NOW).agreement.trust
    shown = unlabel("federation", "show", kits / "shop")
    text = " ".join(shown.out.split())
    assert COMPARE in text
    for party, key in trust.items():
        assert f"│ {party} │ {fingerprint(key)} │" in text
    found = unlabel("federation", "show", kits / "shop", "--json").json
    assert found["fingerprints"] == {party: fingerprint(key) for party, key in trust.items()}
    assert found["signing_key"] == trust["shop"]


def test_a_party_may_bring_its_own_key_and_nobody_else_ever_has_it(tmp_path: Path) -> None:
    own = Signer(tmp_path / "at-the-shop")
    make_kits(tmp_path, f"{FEDERATION}trust: {{shop: '{own.public}'}}\n")
    assert not (tmp_path / "shop" / KEY).exists()
    with pytest.raises(RunError) as error:
        Kit.open(tmp_path / "shop", NOW)
    assert fingerprint(own.public) in str(error.value)
    shutil.copytree(tmp_path / "at-the-shop" / "secrets", tmp_path / "shop" / "secrets")
    kit = Kit.open(tmp_path / "shop", NOW)
    assert kit.agreement.trust["shop"] == own.public
    assert set(kit.agreement.trust) == set(PARTIES)


@pytest.mark.parametrize("trust", ["{mill: " + "ab" * 32 + "}", "{shop: short}"])
def test_a_key_of_nobody_or_of_another_form_is_refused(tmp_path: Path, trust: str) -> None:
    with pytest.raises(SettingsError, match="trust"):
        make_kits(tmp_path, f"{FEDERATION}trust: {trust}\n")


def test_an_agreement_names_the_keys_of_all_or_of_nobody(kits: Path) -> None:
    raw = yaml.safe_load((kits / "shop" / AGREEMENT).read_text())
    del raw["trust"]["bank"]
    (kits / "shop" / AGREEMENT).write_text(yaml.safe_dump(raw))
    with pytest.raises(SettingsError, match="bank"):
        read_agreement(kits / "shop" / AGREEMENT)
