"""A kit is as it was handed out, file by file, or it does not open."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.command_line import nothing_written, unlabel
from small_parties import NOW, make_kits

from unlabel.config import Policy
from unlabel.errors import RunError
from unlabel.remote.cautions import is_wider
from unlabel.remote.kit import Kit
from unlabel.remote.manifest import ACCEPTED, MANIFEST, write_manifest
from unlabel.signing import KEY, Signer

#: Changes that nobody but the kit's maker could make, and the file that the refusal names.
Change = Callable[[Path, Path], None]


def add(name: str) -> Change:
    def change(kit: Path, other: Path) -> None:
        (kit / name).parent.mkdir(exist_ok=True)
        (kit / name).write_text("x = 1")

    return change


def link(name: str) -> Change:
    def change(kit: Path, other: Path) -> None:
        (kit / name).symlink_to(other)

    return change


def edit_manifest(kit: Path, other: Path) -> None:
    content = json.loads((kit / MANIFEST).read_text())
    content["files"]["ours.py"] = "0" * 64
    (kit / MANIFEST).write_text(json.dumps(content))


def sign_anew(kit: Path, other: Path) -> None:
    """By a key of one's own: the agreement names another."""
    opened = Kit.read(kit)
    write_manifest(kit, "federation", "shop", opened.digest, Signer(other))


def take_anothers(kit: Path, other: Path) -> None:
    shutil.copy(kit.parent / "bank" / MANIFEST, kit / MANIFEST)


def cut(kit: Path, other: Path) -> None:
    (kit / MANIFEST).write_bytes((kit / MANIFEST).read_bytes()[:90])


def nest(kit: Path, other: Path) -> None:
    (kit / MANIFEST).write_text("[" * 100_000)


def as_of_old(kit: Path, other: Path) -> None:
    """Lay the kit out as up to 0.10, where nothing was signed."""
    startup = kit / "engine" / "startup"
    startup.mkdir(parents=True)
    for old, new in (("client.crt", "party.crt"), ("client.key", "party.key")):
        (kit / "certificates" / new).rename(startup / old)
    (kit / "certificates" / "root.pem").rename(startup / "rootCA.pem")
    (kit / "certificates").rmdir()
    (kit / MANIFEST).unlink()


CHANGES: dict[str, tuple[Change, str]] = {
    "a module": (add("numpy.py"), "numpy.py"),
    "compiled code": (add("__pycache__/ours.cpython-311.pyc"), "__pycache__/ours.cpython-311.pyc"),
    "the engine's file": (add("engine/resources.json"), "engine/resources.json"),
    "a file among certificates": (add("certificates/more.pem"), "certificates/more.pem"),
    "a link to a file": (link("ours.py"), "ours.py"),
    "a link to a folder": (link("ours"), "ours"),
    "another root": (add("certificates/root.pem"), "root.pem"),
    "no root": (
        lambda kit, _: (kit / "certificates/root.pem").unlink(),
        "root.pem' of this kit is",
    ),
    "no manifest": (lambda kit, _: (kit / MANIFEST).unlink(), MANIFEST),
    "the manifest": (edit_manifest, MANIFEST),
    "another signature": (sign_anew, MANIFEST),
    "another party's": (take_anothers, MANIFEST),
    "a cut manifest": (cut, MANIFEST),
    "a deep manifest": (nest, MANIFEST),
    "the layout of 0.10": (as_of_old, MANIFEST),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_kit_is_refused_with_the_files_name(
    kits: Path, tmp_path: Path, name: str
) -> None:
    change, file = CHANGES[name]
    shop, other = kits / "shop", tmp_path / "other"
    other.mkdir()
    Kit.open(shop, NOW)
    change(shop, other)
    with nothing_written(kits):
        with pytest.raises(RunError) as error:
            Kit.open(shop, NOW)
        assert error.value.code in ("kit-changed", "other-party")
        assert file in str(error.value)
        shown = unlabel("federation", "show", shop, "--json").json
        assert file in shown["problem"]
        assert file in unlabel("party", "start", shop, "--data", "shop.csv").sentence


def test_what_a_party_may_change_is_no_reason_to_refuse(kits: Path) -> None:
    shop = kits / "shop"
    text = (shop / "party.yaml").read_text()
    (shop / "party.yaml").write_text(f"{text}policy: {{max_rows: 50}}\nseed: 5\n")
    (shop / "certificates" / "party.key.waiting").write_bytes(b"a new key")
    (shop / "state").mkdir()
    (shop / "state" / "anything").write_text("")
    Kit.open(shop, NOW)
    (sentence,) = unlabel("federation", "show", shop, "--json").json["cautions"]
    assert sentence.startswith("party.yaml was changed")
    assert "policy.max_rows 50 (none)" in sentence
    assert "seed 5 (none)" in sentence
    assert "WARNING: party.yaml was changed" in unlabel("federation", "show", shop).err


def test_a_file_of_the_operators_is_accepted_by_its_digest(kits: Path) -> None:
    shop = kits / "shop"
    (shop / "ours.py").write_text("x = 1")
    with pytest.raises(RunError, match=r"federation accept .* ours\.py"):
        Kit.open(shop, NOW)
    assert len(unlabel("federation", "accept", shop, "ours.py", "--json").json["sha256"]) == 64
    Kit.open(shop, NOW)
    (shop / "ours.py").write_text("x = 2")
    with pytest.raises(RunError, match=r"ours\.py"):
        Kit.open(shop, NOW)


@pytest.mark.parametrize("signer", ["nobody", "bank"])
def test_who_had_the_kit_on_the_way_accepts_nothing_in_its_name(kits: Path, signer: str) -> None:
    """The list of accepted files lies in state/, which the maker's signature does not cover."""
    shop, bank = kits / "shop", kits / "bank"
    for kit in (shop, bank):
        (kit / "ours.py").write_text("x = 1")
    assert unlabel("federation", "accept", bank, "ours.py").code == 0
    content = json.loads((bank / "state" / ACCEPTED).read_text())
    content["party"] = "shop"
    if signer == "nobody":
        content = content["files"]
    (shop / "state").mkdir()
    (shop / "state" / ACCEPTED).write_text(json.dumps(content))
    with nothing_written(kits), pytest.raises(RunError, match=r"accepted\.json") as error:
        Kit.open(shop, NOW)
    assert error.value.code == "kit-changed"
    assert Kit.open(bank, NOW).name == "bank"


@pytest.mark.parametrize(
    "name", ["agreement.yaml", "party.yaml", "nothing", "../bank/party.yaml", "state/seed", "."]
)
def test_nothing_else_is_accepted(kits: Path, name: str) -> None:
    (kits / "shop" / "state").mkdir()
    (kits / "shop" / "state" / "seed").write_text("5")
    with nothing_written(kits):
        assert unlabel("federation", "accept", kits / "shop", name).code == 1


WIDE = """\
active: {label: y}
passive:
  - name: shop
    bottom: "ours:deep"
    policy: {max_rows: 1000000, max_gradient_norm: .inf, min_common: 1}
  - {name: bank, policy: {max_rows: 50}}
"""


def test_wide_rules_and_code_are_warned_of(tmp_path: Path) -> None:
    make_kits(tmp_path, WIDE)
    wide, narrow = (
        unlabel("federation", "show", tmp_path / name, "--json").json["cautions"]
        for name in ("shop", "bank")
    )
    assert narrow == []
    assert len(wide) == 2
    assert "'ours:deep' is code" in wide[0]
    for words in (
        "max_rows 1,000,000 (16,384)",
        "max_gradient_norm inf (100.0)",
        "min_common 1 (100)",
    ):
        assert words in wide[1]
    assert unlabel("federation", "show", tmp_path / "shop").err.count("WARNING: ") == 2


def test_every_limit_of_a_policy_has_a_direction() -> None:
    default = Policy()
    for name, value in vars(default).items():
        if name == "serves" or isinstance(value, bool):
            continue
        if value == 0 and name != "max_new":  # which is no limit
            assert not is_wider(name, 5, 0), name
            assert is_wider(name, 0, 5), name
            value = 5
        higher, lower = is_wider(name, value + 1, value), is_wider(name, value - 1, value)
        assert higher is not lower, name


def test_the_key_of_manifests_stays_with_the_authority(kits: Path) -> None:
    public = Signer(kits / "authority").public
    for party in ("active", "shop", "bank"):
        assert Kit.open(kits / party, NOW).agreement.authority == public
    private = (kits / "authority" / KEY).read_bytes()
    assert [p for p in kits.rglob("*") if p.is_file() and p.read_bytes() == private] == [
        kits / "authority" / KEY
    ]
