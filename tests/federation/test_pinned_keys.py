"""Certificates are checked against the keys that the kits name, from the first one on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cli.command_line import unlabel
from federation.course import KEY as REQUEST_KEY
from federation.test_predicting import here, train_in
from remote.test_signing_keys import as_before
from small_parties import LABELS, PARTIES, PASSIVE

import unlabel as ul
from unlabel.config.loader import read_run_folder
from unlabel.errors import RunError
from unlabel.remote.kit import Kit
from unlabel.remote.kit_files import AGREEMENT
from unlabel.signing import KEY, Signer, fingerprint


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a federation that has forgotten a label and has no certificate yet."""
    folder = tmp_path_factory.mktemp("committed")
    train_in(folder, "refuse")
    with here(folder) as scene, ul.Federation.connect(scene.kit.folder) as federation:
        federation.forget([LABELS[1]], settings=ul.ForgetSettings(key=REQUEST_KEY))
        federation.commit(force=True)
    return folder


@pytest.fixture
def place(committed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(committed, tmp_path / "copy", symlinks=True))


def certify(place: Path, exchanged: str = "") -> ul.Certified:
    """Certify the request; one party signs with another key than the one it should have."""
    with here(place) as scene, ul.Federation.connect(scene.kit.folder) as federation:
        if exchanged:
            key = scene.parties.kits[exchanged].home / KEY
            key.unlink()
            Signer(key.parents[1])
        return federation.certificate()


def test_the_first_certificate_is_checked_against_the_keys_of_the_kits(place: Path) -> None:
    kit = Kit.read(place / "kits" / "shop")
    issued = certify(place)
    assert issued.newly_trusted == {}
    signed = {party: each["key"] for party, each in issued.body["parties"].items()}
    assert signed == kit.agreement.trust == read_run_folder(issued.path.parent).trust
    # Every party can check it with its own kit, against what all agreed on.
    checks = ul.verify(issued, trust=kit.folder / AGREEMENT)
    assert checks.faults == []
    told = next(sentence for sentence in checks.held if "fingerprint" in sentence)
    assert all(f"{party} {fingerprint(signed[party])}" in told for party in PARTIES)
    shown = unlabel("verify", issued.path, "--trust", kit.folder / AGREEMENT)
    assert (shown.code, fingerprint(signed["shop"]) in shown.err) == (0, True)


@pytest.mark.parametrize("party", PARTIES)
def test_a_party_whose_key_was_exchanged_is_refused_in_the_first_certificate(
    place: Path, party: str
) -> None:
    pinned = Kit.read(place / "kits" / "shop").agreement.trust[party]
    with pytest.raises(RunError) as error:
        certify(place, party)
    assert f"Party '{party}' signed with key " in str(error.value)
    assert fingerprint(pinned) in str(error.value)
    assert not list(place.rglob("certificate.json"))


def test_kits_without_keys_trust_what_they_meet_first_and_nothing_else_later(place: Path) -> None:
    for name in PARTIES:
        as_before(place / "kits" / name)
        (Kit.read(place / "kits" / name).home / KEY).unlink()
    run = Kit.read(place / "kits" / "active").run
    text = (run / "run.yaml").read_text()
    (run / "run.yaml").write_text(text[: text.index("trust:")])
    first = certify(place)
    assert set(first.newly_trusted) == set(PARTIES)
    assert read_run_folder(run).trust == first.newly_trusted
    # In the next command too, which reads the keys from the run's folder.
    assert certify(place).newly_trusted == {}
    with pytest.raises(RunError, match=f"Party '{PASSIVE[0]}' signed with key "):
        certify(place, PASSIVE[0])


def test_state_that_moves_into_new_kits_is_checked_against_their_keys(place: Path) -> None:
    """As after a theft of keys: new kits from the same file, and the state of the old ones."""
    old = certify(place).body["parties"]["shop"]["key"]
    shutil.move(place / "kits", place / "stolen")
    settings = place / "federation.yaml"
    assert unlabel("federation", "init", settings, "--out", place / "kits", "--json").code == 0
    for name in PARTIES:
        shutil.move(place / "stolen" / name / "state", place / "kits" / name / "state")
    issued = certify(place)
    new = Kit.read(place / "kits" / "shop").agreement.trust
    assert issued.body["parties"]["shop"]["key"] == new["shop"] != old
    assert read_run_folder(issued.path.parent).trust == new
    assert ul.verify(issued, run=issued.path.parent).faults == []
