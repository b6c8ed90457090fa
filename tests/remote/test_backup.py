"""A backup is whole or refused, and of one moment."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest
from cli.command_line import nothing_written, one_thread, unlabel
from coded import coded
from cryptography.hazmat.primitives.serialization import Encoding

from unlabel.desk.place import Place
from unlabel.errors import RunError
from unlabel.files import LOCK, write_atomically
from unlabel.remote import sealing
from unlabel.remote.authority_folder import AuthorityFolder
from unlabel.remote.backup import INDEX, back_up
from unlabel.remote.kit import Kit
from unlabel.remote.restore import restore
from unlabel.remote.revocation import numbers, take
from unlabel.remote.turns import COMMAND, PREDICTING

__all__ = ["one_thread"]  # a fixture for every test here

PASSPHRASE = "correct horse battery staple"


@pytest.fixture(autouse=True)
def quick_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "SCRYPT_N", 2**10)


@pytest.fixture
def shop(kits: Path) -> Kit:
    """A kit whose party has kept a version, unencrypted secrets and logs."""
    kit = Kit.open(kits / "shop")
    with kit.lock(), kit.lock(COMMAND), kit.lock(PREDICTING):
        kit.seed()
    write_atomically(kit.home / "versions" / "000003.json", b"{}")
    write_atomically(kit.home / "versions" / "000003.safetensors", bytes(3_000_000))
    write_atomically(kit.logs / "party.log", b"of yesterday")
    write_atomically(kit.home / "transcript.jsonl", b"{}\n")
    return kit


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.suffix != ".log"
        and path.name not in ("transcript.jsonl", LOCK, COMMAND, PREDICTING)
    }


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
def test_a_kit_comes_back_as_it_was(shop: Kit, tmp_path: Path, passphrase: str | None) -> None:
    file = tmp_path / "backups" / "shop.tar"
    index = back_up(shop, file, passphrase)
    assert file.stat().st_mode & 0o777 == 0o600
    assert index.version == 3
    restored = tmp_path / "elsewhere" / "shop"
    restore(file, restored, passphrase, older=False)
    assert contents(restored) == contents(shop.folder)
    assert "state/secrets/seed" in contents(restored)
    assert not (restored / "state" / "logs").exists()
    assert Kit.open(restored).seed() == shop.seed()
    assert oct((restored / "secrets" / "signing.key").stat().st_mode)[-3:] == "600"
    key = shop.key.read_bytes()
    assert (key in file.read_bytes()) == (passphrase is None)
    assert not list(tmp_path.glob(".*"))


def test_nothing_is_written_beside_a_folder_that_is_there(shop: Kit, tmp_path: Path) -> None:
    """A kit, or an empty folder, that is a mount of its own: what lies beside it may be closed."""
    expected, empty = contents(shop.folder), tmp_path / "volumes" / "kit"
    empty.mkdir(parents=True)
    back_up(shop, tmp_path / "shop.tar")
    for folder in (shop.folder, empty):
        os.utime(folder.parent, (0, 0))
        restore(tmp_path / "shop.tar", folder, older=False)
        assert folder.parent.stat().st_mtime == 0
        assert contents(folder) == expected
        assert Kit.open(folder).seed() == shop.seed()


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
def test_a_damaged_backup_changes_nothing(
    shop: Kit, tmp_path: Path, passphrase: str | None
) -> None:
    file = tmp_path / "shop.tar"
    back_up(shop, file, passphrase)
    whole = file.read_bytes()
    draw = np.random.default_rng(0)
    padding = 0 if passphrase else 10_240  # a tar archive ends with blocks of zeros
    for place in (0, 9, 600, *draw.integers(0, len(whole) - padding, 12)):
        changed = bytearray(whole)
        changed[place] ^= 1
        file.write_bytes(changed)
        _expect_refused_or_same(file, shop, tmp_path / "new", passphrase)
    for size in (0, 7, 20, 1000, len(whole) // 2, len(whole) - padding - 600):
        file.write_bytes(whole[:size])
        with nothing_written(tmp_path), pytest.raises(RunError):
            restore(file, tmp_path / "new", passphrase, older=False)
        with nothing_written(shop.folder), pytest.raises(RunError):
            restore(file, shop.folder, passphrase, older=True)


def _expect_refused_or_same(file: Path, kit: Kit, target: Path, passphrase: str | None) -> None:
    """A bit that says nothing, as the date in a header, may differ; no file may."""
    try:
        restore(file, target, passphrase, older=False)
    except RunError:
        assert not target.exists()
    else:
        assert passphrase is None
        assert contents(target) == contents(kit.folder)
        shutil.rmtree(target)


def test_another_passphrase_another_party_and_odd_archives_are_refused(
    shop: Kit, kits: Path, other_kits: Path, tmp_path: Path
) -> None:
    file, words = tmp_path / "shop.tar", tmp_path / "words"
    back_up(shop, file, PASSPHRASE)
    with pytest.raises(RunError, check=coded("not-a-backup")):
        restore(file, tmp_path / "new", "another", older=False)
    words.write_text(f"{PASSPHRASE}\n")
    told = unlabel("party", "restore", file, tmp_path / "new").sentence
    assert "--passphrase-file" in told
    for foreign in (kits / "bank", other_kits / "shop"):
        sentence = unlabel(
            *("party", "restore", file, foreign, "--passphrase-file", words, "--older")
        ).sentence
        assert "agreement" in sentence


@pytest.mark.parametrize(
    "name", ["../outside", "OUT/outside", "/OUT/outside", "state/../../outside", "", "."]
)
def test_a_backup_that_somebody_made_up_writes_nothing_outside_of_the_kit(
    shop: Kit, kits: Path, tmp_path: Path, name: str
) -> None:
    """Every digest in it is right; two slashes at the beginning are an absolute path too."""
    name, odd = name.replace("OUT", str(tmp_path)), tmp_path / "odd.tar"
    data = b"x"
    entry = {"sha256": hashlib.sha256(data).hexdigest(), "size": 1, "mode": 0o600}
    about = {"schema": "unlabel backup 1", "party": "shop", "agreement": shop.digest}
    facts = {"software": "", "at": "", "ledger": "", "lines": 0, "version": 0}
    index = json.dumps({**about, **facts, "files": {name: entry}}).encode()
    with tarfile.open(odd, "w") as archive:
        for member, content in ((INDEX, index), (name, data)):
            header = tarfile.TarInfo(member)  # `archive.add` would take slashes away
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    for folder in (shop.folder, tmp_path / "new"):
        with nothing_written(kits), pytest.raises(RunError, check=coded("not-a-backup")):
            restore(odd, folder, older=True)
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("in_the_kit", [None, 1, 2])
def test_no_backup_brings_a_revoked_certificate_back_and_no_kit_forgets_one(
    shop: Kit, kits: Path, tmp_path: Path, in_the_kit: int | None
) -> None:
    """Of the kit's list and the backup's, which has list 1, or list 2, the newer holds."""
    authority, file = AuthorityFolder.open(kits / "authority"), tmp_path / "shop.tar"
    lists = [authority.revoke(party).public_bytes(Encoding.PEM) for party in ("bank", "active")]
    take(shop, lists[0 if in_the_kit == 2 else 1], "a test")
    back_up(shop, file)
    shop.revoked.unlink()
    if in_the_kit is not None:
        take(shop, lists[in_the_kit - 1], "a test")
    restore(file, shop.folder, older=True)
    assert numbers(shop) == [2]


def test_a_version_of_training_is_not_taken_back_unasked(shop: Kit, tmp_path: Path) -> None:
    """No ledger has a line of it."""
    back_up(shop, tmp_path / "shop.tar")
    write_atomically(shop.home / "versions" / "000004.json", b"{}")
    with nothing_written(shop.folder), pytest.raises(RunError, check=coded("older-backup")):
        restore(tmp_path / "shop.tar", shop.folder, older=False)
    restore(tmp_path / "shop.tar", shop.folder, older=True)
    assert not (shop.home / "versions" / "000004.json").exists()


@pytest.mark.parametrize("who", [LOCK, COMMAND, PREDICTING, "desk"])
def test_a_kit_that_anything_works_on_is_not_restored(kits: Path, tmp_path: Path, who: str) -> None:
    kit = Kit.open(kits / "active")
    back_up(kit, tmp_path / "active.tar")
    kit.prepare()
    held = Place.of(None, kit.folder).held() if who == "desk" else kit.lock(who)
    with held, pytest.raises(RunError, check=coded("in-use")):
        restore(tmp_path / "active.tar", kit.folder, older=True)
    restore(tmp_path / "active.tar", kit.folder, older=True)


def test_what_is_sealed_cannot_be_cut_off_between_two_pieces() -> None:
    file = io.BytesIO()
    writer = sealing.SealingWriter(file, PASSPHRASE)
    writer.write(bytes(3 * sealing.PIECE))
    writer.end()
    whole, piece = file.getvalue(), sealing.PIECE + sealing.TAG
    assert sealing.OpeningReader(io.BytesIO(whole), PASSPHRASE).read(2**30) == bytes(
        3 * sealing.PIECE
    )
    for cut in (whole[:-piece], whole[: -2 * piece], whole + whole[-piece:]):
        with pytest.raises(RunError, check=coded("not-a-backup")):
            sealing.OpeningReader(io.BytesIO(cut), PASSPHRASE).read(2**30)


def test_a_file_that_somebody_laid_in_the_way_of_a_backup_is_not_written_to(
    shop: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of many users, who may lay it there in the last moment."""
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"")
    unlink = Path.unlink

    def replaced(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        if path.name == "shop.tar.part":
            path.symlink_to(theirs)

    monkeypatch.setattr(Path, "unlink", replaced)
    with pytest.raises(RunError):
        back_up(shop, tmp_path / "shop.tar")
    assert theirs.read_bytes() == b""


def test_a_copy_of_a_party_that_writes_meanwhile_is_of_one_moment(
    shop: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files are always written with one number, one after the other."""
    monkeypatch.setattr("unlabel.remote.backup.PAUSE", 0.02)
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            for name in ("first", "second"):
                write_atomically(shop.home / name, str(number).encode())
            ended.wait(0.15)

    write_atomically(shop.home / "first", b"0")
    write_atomically(shop.home / "second", b"0")
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for turn in range(5):
            back_up(shop, tmp_path / f"{turn}.tar")
    finally:
        ended.set()
        writer.join()
    for turn in range(5):
        restored = tmp_path / str(turn)
        restore(tmp_path / f"{turn}.tar", restored, older=False)
        first, second = ((restored / "state/shop" / n).read_text() for n in ("first", "second"))
        assert int(first) - int(second) in (0, 1)
