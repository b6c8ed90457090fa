"""What cannot work between organisations is one sentence, at once, and leaves every file alone."""

from __future__ import annotations

import datetime
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
import small_parties
from cli.command_line import nothing_written, unlabel
from small_parties import DAYS, secret

from unlabel import Federation
from unlabel._version import __version__
from unlabel.config import ServerSettings
from unlabel.errors import PartyLost, RunError
from unlabel.remote import client, job_client
from unlabel.remote.certificates import Authority, certificate_bytes, key_bytes, make_key
from unlabel.remote.connect import keep_table
from unlabel.remote.engine import expect_free
from unlabel.remote.greeting import expect_alike
from unlabel.remote.job_client import JobClient
from unlabel.remote.kit import Kit
from unlabel.remote.kit_files import identities
from unlabel.remote.sealed_link import SealedLink
from unlabel.wire import Description

DAY = datetime.timedelta(days=1)
HELD = Path("certificates")


@pytest.fixture(scope="module")
def today(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Authority]]:
    """Kits that are valid now, and the authority that signed them."""
    folder = tmp_path_factory.mktemp("today")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_parties, "NOW", datetime.datetime.now(datetime.UTC))
        yield folder, small_parties.make_kits(folder)


@pytest.fixture
def current(today: tuple[Path, Authority], tmp_path: Path) -> Path:
    return Path(shutil.copytree(today[0], tmp_path / "kits"))


def refused(folder: Path, *words: object) -> str:
    """Run a command that must fail, quickly and with nothing written; return its sentence."""
    began = time.monotonic()
    with nothing_written(folder):
        sentence = unlabel(*words).sentence
    assert time.monotonic() - began < 10
    return sentence


def none_at_all(held: Path, authority: Authority) -> None:
    (held / "party.crt").unlink()


def from_day(day: int, name: str = "shop") -> Callable[[Path, Authority], None]:
    """Put a certificate in place that was made some days from now, for `DAYS` days."""

    def change(held: Path, authority: Authority) -> None:
        key, when = make_key(), datetime.datetime.now(datetime.UTC) + day * DAY
        made = authority.certify(
            identities(name, ServerSettings())[0], key.public_key(), DAYS, when
        )
        secret(held / "party.key", key_bytes(key))
        (held / "party.crt").write_bytes(certificate_bytes(made))

    return change


def of_another_authority(held: Path, authority: Authority) -> None:
    from_day(0)(held, Authority.make("federation"))


#: What an operator should read where a certificate is at fault.
CERTIFICATES = {
    "none": (none_at_all, "party.crt"),
    "expired": (from_day(-DAYS - 1), "unlabel federation renew"),
    "clocks apart": (from_day(2), "set the clock"),
    "another authority's": (of_another_authority, "authority"),
    "another party's": (from_day(0, "bank"), "'bank'"),
}


@pytest.mark.parametrize("case", CERTIFICATES)
def test_a_party_without_its_own_valid_certificate_does_not_start(
    today: tuple[Path, Authority], current: Path, case: str
) -> None:
    change, words = CERTIFICATES[case]
    change(current / "shop" / HELD, today[1])
    assert words in refused(current, "party", "start", current / "shop", "--data", "shop.csv")


def test_the_same_certificate_made_in_order_is_not_what_is_refused(
    today: tuple[Path, Authority], current: Path
) -> None:
    from_day(0)(current / "shop" / HELD, today[1])
    Kit.open(current / "shop")


VERBS = {
    "train": (),
    "forget": ("--label", "3"),
    "audit": (),
    "commit": (),
    "purge": (),
    "recover": (),
    "certificate": (),
    "report": (),
    "status": (),
    "ledger": (),
}


@pytest.mark.parametrize("verb", VERBS)
def test_commands_are_given_at_the_active_party_alone(current: Path, verb: str) -> None:
    words = (verb, "--federation", current / "shop", *VERBS[verb])
    assert "active party" in refused(current, *words)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "train"])
def test_a_run_is_named_once(current: Path, verb: str) -> None:
    for words in (("runs/digits", "--federation", current / "active"), ()):
        assert "--federation" in refused(current, verb, *words, *VERBS[verb])


@pytest.mark.parametrize("flags", [("--epochs", "3"), ("--overwrite",), ("loans.yaml",)])
def test_a_federation_trains_as_was_agreed(current: Path, flags: tuple[str, ...]) -> None:
    assert "agreed" in refused(current, "train", "--federation", current / "active", *flags)


def test_a_command_before_the_first_start_says_what_to_run(current: Path) -> None:
    sentence = refused(current, "status", "--federation", current / "active")
    assert "unlabel party start" in sentence


def test_a_command_while_the_active_party_does_not_run_says_so_at_once(current: Path) -> None:
    kit = Kit.open(current / "active")
    keep_table(kit, current / "labels.csv")
    kit.seed()
    sentence = refused(current, "status", "--federation", kit.folder)
    assert "unlabel party start" in sentence
    with pytest.raises(RunError) as error:
        Federation.connect(kit.folder)
    assert error.value.code == "not-running"


def test_one_command_at_a_time(current: Path) -> None:
    kit = Kit.open(current / "active")
    keep_table(kit, current / "labels.csv")
    kit.seed()
    with kit.lock(), kit.lock("command"):
        sentence = refused(current, "status", "--federation", kit.folder)
    assert f"process {os.getpid()};" in sentence


def test_a_kit_runs_once(current: Path) -> None:
    kit = Kit.open(current / "shop")
    assert not kit.is_running()
    with kit.lock():
        assert kit.is_running()
        sentence = refused(current, "party", "start", kit.folder, "--data", "shop.csv")
    assert f"process {os.getpid()};" in sentence
    assert not kit.is_running()


SAME = Description(
    step=0,
    rows=0,
    width=4,
    versions=(),
    max_rows=9,
    software=f"unlabel {__version__}",
    agreement="a" * 64,
)


@pytest.mark.parametrize(
    ("other", "code"),
    [
        (replace(SAME, software="unlabel 99.1.0"), "other-software"),
        (replace(SAME, software=""), "other-software"),
        (replace(SAME, agreement="b" * 64), "other-agreement"),
        (replace(SAME, agreement=""), "other-agreement"),
    ],
)
def test_parties_of_other_software_or_another_agreement_are_named(
    other: Description, code: str
) -> None:
    expect_alike({"shop": SAME, "bank": SAME}, SAME.agreement)
    with pytest.raises(RunError) as error:
        expect_alike({"shop": SAME, "bank": other}, SAME.agreement)
    assert error.value.code == code
    assert "'bank'" in str(error.value)


def test_a_repaired_release_works_with_the_one_it_repairs() -> None:
    first, second, _ = __version__.split(".")[:3]
    expect_alike({"shop": replace(SAME, software=f"unlabel {first}.{second}.999")}, SAME.agreement)


@pytest.mark.parametrize("shared", [False, True])
def test_a_port_that_somebody_listens_on_is_not_free(shared: bool) -> None:
    with socket.socket() as taken:
        if shared:  # as the engine does; two of them would then take turns without a word
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("localhost", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RunError, match=f"Port {port} "):
            expect_free(port)
    expect_free(port)


def test_a_port_of_a_process_that_is_being_ended_is_waited_for() -> None:
    taken = socket.create_server(("localhost", 0))
    port = taken.getsockname()[1]
    timer = threading.Timer(0.3, taken.close)
    timer.start()
    expect_free(port, patience=20)
    timer.join()


def test_who_is_waited_for_is_said_before_it_is_given_up(
    kits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "NOTICE", 0.1)
    monkeypatch.setattr(JobClient, "look", 0.01)
    monkeypatch.setattr(JobClient, "_sweep", lambda _: None)
    monkeypatch.setattr(JobClient, "_away", lambda _: ["bank"])
    notices: list[str] = []
    waiting = JobClient(
        Kit.read(kits / "active"), patience=0.5, notify=notices.append, links=tmp_path
    )
    with pytest.raises(PartyLost) as error:
        waiting.connect()
    waiting.close()
    assert error.value.parties == ("bank",)
    assert len(notices) == 1
    assert notices[0].startswith("Party 'bank' is not connected; ask for `unlabel party start`")
    assert notices[0].endswith("seconds more ...")


def test_a_job_that_did_not_start_is_followed_by_one_with_twice_the_time(
    kits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    (own, other) = Pipe()

    def start(_: JobClient, least: int, wait: float) -> Any:
        assert least == 2
        waits.append(wait)
        return own if len(waits) == 3 else None

    monkeypatch.setattr(JobClient, "look", 0.0)
    monkeypatch.setattr(SealedLink, "shake", lambda _: None)
    monkeypatch.setattr(JobClient, "_sweep", lambda _: None)
    monkeypatch.setattr(JobClient, "_away", lambda _: [])
    monkeypatch.setattr(JobClient, "_start", start)
    waiting = JobClient(Kit.read(kits / "active"), links=tmp_path)
    waiting.connect()
    waiting.close()
    other.close()
    assert waits == [job_client.JOB_STARTS * factor for factor in (1, 2, 4)]
