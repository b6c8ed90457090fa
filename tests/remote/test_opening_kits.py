"""A kit opens where it is whole and its party's own; otherwise a sentence says what is wrong."""

from __future__ import annotations

import datetime
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from small_parties import DAYS, FEDERATION, NOW, make_kits

from unlabel.config import Policy, RunConfig
from unlabel.config.loader import agreement_digest
from unlabel.defend.defence import defences_of
from unlabel.defend.gaussian import Gaussian
from unlabel.errors import RunError, SettingsError
from unlabel.remote.kit import Kit

PARTIES = ("active", "shop", "bank")
MINUTE = datetime.timedelta(minutes=1)
HOUR = datetime.timedelta(hours=1)
DAY = datetime.timedelta(days=1)


@pytest.mark.parametrize("party", PARTIES)
def test_a_whole_kit_opens(made_kits: Path, party: str) -> None:
    kit = Kit.open(made_kits / party, NOW)
    assert (kit.name, kit.is_active) == (party, party == "active")
    assert kit.agreement.parties == list(PARTIES)
    assert kit.digest == kit.party.agreement == agreement_digest(kit.agreement)
    assert kit.home == kit.folder / "state" / ("run/active" if party == "active" else party)


def remove(name: str) -> Callable[[Path, Path], None]:
    def change(kits: Path, other: Path) -> None:
        (kits / "shop" / name).unlink()

    return change


def take(name: str, party: str) -> Callable[[Path, Path], None]:
    """Put the file of another party of the same federation into the kit of shop."""

    def change(kits: Path, other: Path) -> None:
        shutil.copy(kits / party / name, kits / "shop" / name)

    return change


def take_foreign(*names: str) -> Callable[[Path, Path], None]:
    """Put files of the party of the same name under another authority into the kit of shop."""

    def change(kits: Path, other: Path) -> None:
        for name in names:
            shutil.copy(other / "shop" / name, kits / "shop" / name)

    return change


def write(name: str, text: str) -> Callable[[Path, Path], None]:
    def change(kits: Path, other: Path) -> None:
        path = kits / "shop" / name
        path.write_text(path.read_text() + text if text.startswith("\n") else text)

    return change


def edit_agreement(kits: Path, other: Path) -> None:
    path = kits / "shop" / "agreement.yaml"
    path.write_text(path.read_text().replace("epochs: auto", "epochs: 21"))


def rename_party(kits: Path, other: Path) -> None:
    path = kits / "shop" / "party.yaml"
    path.write_text(path.read_text().replace("name: shop", "name: bank"))


def stranger(kits: Path, other: Path) -> None:
    path = kits / "shop" / "party.yaml"
    path.write_text(path.read_text().replace("name: shop", "name: mill"))


def readable_key(kits: Path, other: Path) -> None:
    (kits / "shop" / KEY).chmod(0o640)


CRT, KEY = "certificates/party.crt", "certificates/party.key"
ROOT = "certificates/root.pem"
#: What is wrong with a kit, the error's code, and the file that it names.
BREAKS = {
    "no party.yaml": (remove("party.yaml"), "no-kit", "party.yaml"),
    "no agreement": (remove("agreement.yaml"), "no-kit", "agreement.yaml"),
    "agreement is no YAML": (write("agreement.yaml", "a: [1"), "settings", "agreement.yaml"),
    "agreement is empty": (write("agreement.yaml", ""), "settings", "agreement.yaml"),
    "agreement has changed": (edit_agreement, "kit-changed", "agreement.yaml"),
    "party is none": (stranger, "other-party", "party.yaml"),
    "party is another": (rename_party, "other-party", "manifest.json"),
    "no certificate": (remove(CRT), "run", CRT),
    "no key": (remove(KEY), "run", KEY),
    "no root": (remove(ROOT), "kit-changed", ROOT),
    "certificate is cut": (write(CRT, "-----BEGIN CERTIFICATE-----\nAA"), "run", CRT),
    "key is cut": (write(KEY, "-----BEGIN RSA"), "run", KEY),
    "another party's": (take(CRT, "bank"), "other-party", CRT),
    "another party's key": (take(KEY, "bank"), "wrong-key", CRT),
    "another authority's": (take_foreign(CRT, KEY), "untrusted", CRT),
    "another authority's root": (take_foreign(ROOT), "kit-changed", ROOT),
    "key open to others": (readable_key, "run", f"chmod 600 {KEY}"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_kit_that_cannot_be_used_says_why(kits: Path, other_kits: Path, name: str) -> None:
    change, code, file = BREAKS[name]
    change(kits, other_kits)
    with pytest.raises((RunError, SettingsError)) as error:
        Kit.open(kits / "shop", NOW)
    assert error.value.code == code
    assert file in str(error.value).replace(f"{kits / 'shop'}/", "")
    assert str(error.value).endswith(".")
    assert not (kits / "shop" / "state").exists()


def test_the_active_partys_second_certificate_is_looked_at_too(tmp_path: Path) -> None:
    make_kits(tmp_path, f"server: {{carrier: flare}}\n{FEDERATION}")
    kits = tmp_path
    shutil.copy(kits / "shop" / CRT, kits / "active" / "certificates" / "admin.crt")
    with pytest.raises(RunError) as error:
        Kit.open(kits / "active", NOW)
    assert error.value.code == "other-party"


@pytest.mark.parametrize("folder", ["nothing", "federation.yaml", "."])
def test_what_is_no_kit_is_called_so(made_kits: Path, folder: str) -> None:
    with pytest.raises(RunError) as error:
        Kit.open(made_kits / folder, NOW)
    assert error.value.code == "no-kit"


@pytest.mark.parametrize("moment", [-HOUR + MINUTE, DAYS * DAY - MINUTE])
def test_a_certificate_holds_between_two_times(tmp_path: Path, moment: datetime.timedelta) -> None:
    make_kits(tmp_path)
    Kit.open(tmp_path / "shop", NOW + moment)


@pytest.mark.parametrize(("moment", "limit"), [(-2 * HOUR, -HOUR), (DAYS * DAY + HOUR, DAYS * DAY)])
def test_a_certificate_does_not_hold_before_or_after(
    tmp_path: Path, moment: datetime.timedelta, limit: datetime.timedelta
) -> None:
    make_kits(tmp_path)
    with pytest.raises(RunError) as error:
        Kit.open(tmp_path / "shop", NOW + moment)
    assert error.value.code == "not-valid-now"
    # Both times are named: either may be the one that is wrong.
    for when in (NOW + limit, NOW + moment):
        assert f"{when:%Y-%m-%d %H:%M} UTC" in str(error.value)


def test_a_kit_is_open_once(kits: Path) -> None:
    kit = Kit.open(kits / "shop", NOW)
    with kit.lock():
        pass  # the file is there
    program = (
        "import fcntl, os, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print(os.getpid(), file=file, flush=True); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", program, str(kit.state / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RunError, match=f"already open in process {holder.pid};"), kit.lock():
            pass
        holder.kill()  # a process that dies lets go
    with kit.lock(), pytest.raises(RunError, match=f"process {os.getpid()};"), kit.lock():
        pass


@pytest.mark.parametrize("party", PARTIES)
def test_state_is_for_its_owner_only(kits: Path, party: str) -> None:
    kit = Kit.open(kits / party, NOW)
    before = os.umask(0)
    try:
        with kit.lock():
            kit.seed()
    finally:
        os.umask(before)
    made = [kit.state, *kit.state.rglob("*")]
    modes = {str(path): stat.S_IMODE(path.stat().st_mode) for path in made}
    assert len(modes) >= 5
    assert {m for p, m in modes.items() if Path(p).is_dir()} == {0o700}
    assert {m for p, m in modes.items() if Path(p).is_file()} == {0o600}


def test_every_party_draws_a_seed_of_its_own_and_keeps_it(kits: Path) -> None:
    seeds = [Kit.open(kits / party, NOW).seed() for party in PARTIES]
    assert len(set(seeds)) == 3
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert [Kit.open(kits / party, NOW).seed() for party in PARTIES] == seeds
    (kits / "shop" / "state" / "secrets" / "seed").write_text("none")
    with pytest.raises(RunError):
        Kit.open(kits / "shop", NOW).seed()


def test_a_seed_that_the_operator_names_is_taken(kits: Path) -> None:
    write("party.yaml", "\nseed: 5\n")(kits, kits)
    assert Kit.open(kits / "shop", NOW).seed() == 5
    assert not (kits / "shop" / "state").exists()


def test_each_side_of_a_run_knows_its_own_table_only(kits: Path, tmp_path: Path) -> None:
    path = kits / "shop" / "party.yaml"
    own = yaml.safe_load(path.read_text())
    own |= {"policy": {"max_rows": 99}, "defend": ["gaussian:clip=1:sigma=0.5"], "code": "mine"}
    path.write_text(yaml.safe_dump(own | {"id": "person", "features": ["a"]}))
    table = tmp_path / "rows.csv"
    configs: dict[str, RunConfig] = {}
    for party in PARTIES:
        configs[party] = Kit.open(kits / party, NOW).run_config(table)
    active, shop = configs["active"], configs["shop"]
    assert active.party_names() == PARTIES
    assert active.active is not None
    assert (active.active.table, active.active.label) == (table, "y")
    assert [party.table for party in active.passive] == [None, None]
    assert [(p.name, p.table, p.id, p.features) for p in shop.passive] == [
        ("shop", table, "person", ["a"])
    ]
    assert shop.policy_of("shop") == Policy(max_rows=99)
    assert defences_of(shop, "shop") == (Gaussian(clip=1, sigma=0.5),)
    assert defences_of(active, "shop") == ()
    assert shop.code == kits / "shop" / "mine"
    assert active.monitor is not None
    # All train alike, and each draws its own numbers.
    assert replace(active.train, seed=0) == replace(shop.train, seed=0)
    assert len({config.train.seed for config in configs.values()}) == 3
    assert active.model == shop.model
    assert active.align == shop.align
