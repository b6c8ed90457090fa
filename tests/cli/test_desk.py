"""`unlabel desk` and `unlabel account`: who may sign in, where it listens, and how it ends."""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from cli.command_line import QUICK, address_of, contents, one_thread, unlabel
from cli.test_serve import write_certificate

from unlabel.cli import desk_demo
from unlabel.cli.demo import demo_config
from unlabel.cli.desk_demo import ACCOUNTS
from unlabel.config import BottomsKind, RunConfig
from unlabel.desk.office import Desk
from unlabel.party import Ledger

__all__ = ["one_thread"]

PASSWORD = "seven wet umbrellas"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk") / "run"
    assert unlabel("train", *QUICK, "--out", folder).code == 0
    return folder


@pytest.fixture
def password(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\nnot this\n")
    return path


def test_templates_of_letters_are_written_once_and_never_over_edited_ones(run: Path) -> None:
    folder = run.resolve().with_name(f"{run.name}.desk") / "letters"
    assert unlabel("desk", run, "--letters").code == 0
    names = {"letter.en.txt", "letter.de.txt", "extension.en.txt", "extension.de.txt"}
    assert {path.name for path in folder.iterdir()} == names
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    before = contents(folder)
    assert unlabel("desk", run, "--letters").code == 1
    assert contents(folder) == before
    shutil.rmtree(folder.parent)


def test_accounts_are_made_changed_and_removed_and_the_trail_says_by_whom(
    run: Path, password: Path, tmp_path: Path
) -> None:
    made = unlabel("account", "add", run, "Ada", "--password-file", password, "--json")
    assert made.json == {"account": "ada", "role": "caseworker"}
    more = ("--role", "auditor", "--password-file", password)
    assert unlabel("account", "add", run, "eve", *more).code == 0
    listed = unlabel("account", "list", run, "--json").json["accounts"]
    expected = [{"account": "ada", "role": "caseworker"}, {"account": "eve", "role": "auditor"}]
    assert listed == expected
    other = tmp_path / "other"
    other.write_text("quite another one")
    assert unlabel("account", "password", run, "ada", "--password-file", other).code == 0
    assert unlabel("account", "remove", run, "eve").code == 0
    desk = Desk.open(run)
    assert desk.accounts.sign_in("ada", "quite another one", "here").role == "caseworker"
    assert [entry.event for entry in reversed(desk.trail.page(9))] == [
        *("account added", "account added", "password changed", "account removed")
    ]
    assert all(entry.note["by"].startswith("terminal: ") for entry in desk.trail.page(9))
    assert PASSWORD not in "".join(map("".join, desk.trail.pieces()))
    unlabel("account", "remove", run, "ada")
    desk.close()


def test_what_cannot_be_meant_is_one_sentence_and_leaves_nothing(
    password: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "fresh"
    assert unlabel("train", *QUICK, "--out", folder).code == 0
    weak = tmp_path / "weak"
    weak.write_text("123456789012")
    before = contents(tmp_path)
    for words, part in (
        (("account", "add", folder, "ada", "--role", "boss", "--password-file", password), "role"),
        (("account", "add", folder, "a/b", "--password-file", password), "name"),
        (("account", "add", folder, "ada", "--password-file", weak), "guessed"),
        (("account", "add", folder, "ada", "--password-file", tmp_path / "none"), "password"),
        (("account", "add", folder, "ada"), "--password-file"),
        (("account", "add", tmp_path, "ada", "--password-file", password), "run folder"),
        (("account", "list", folder), "account add"),
        (("account", "remove", folder, "ada"), "account add"),
        (("desk",), "Name the run"),
        (("desk", folder, "--federation", folder), "Name the run"),
        (("desk", tmp_path / "nothing"), "run folder"),
        (("desk", folder, "--host", "0.0.0.0"), "TLS"),
        (("desk", folder, "--port", "70000"), "65535"),
        (("desk", folder, "--demo"), "none of the demo"),
        (("desk", "--federation", folder, "--demo"), "run of its own"),
    ):
        assert part in unlabel(*words).sentence, words
        assert contents(tmp_path) == before, words


def test_it_opens_over_tls_and_ends_when_asked(run: Path, password: Path, tmp_path: Path) -> None:
    unlabel("account", "add", run, "ada", "--password-file", password)
    certificate, key = write_certificate(tmp_path)
    words = ["desk", run, "--port", 0, "--certificate", certificate, "--key", key]
    program = [sys.executable, "-m", "unlabel", *map(str, words)]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True, env=os.environ) as server:
        address = address_of(server)
        context = ssl.create_default_context(cafile=str(certificate))
        with urllib.request.urlopen(f"{address}/", context=context, timeout=60) as reply:
            text, cookie = reply.read().decode(), reply.headers["set-cookie"]
            headers = reply.headers
        second = unlabel("desk", run, "--port", 0)
        server.send_signal(signal.SIGTERM)
        _, rest = server.communicate(timeout=60)
    assert "<h1>Sign in</h1>" in text
    assert cookie.startswith("__Host-desk=")
    for part in ("HttpOnly", "Secure", "SameSite=strict", "Path=/"):
        assert part in cookie
    assert "max-age" in headers["strict-transport-security"]
    assert "runs already" in second.sentence
    assert server.returncode == 0
    assert "GET /sign-in 200" in rest
    assert "Traceback" not in rest


def test_a_demo_touches_no_account_of_a_desk_that_is_none(run: Path, password: Path) -> None:
    unlabel("account", "add", run, "ada", "--password-file", password)
    before = contents(run.with_name(f"{run.name}.desk"))
    assert "none of the demo" in unlabel("desk", run, "--demo").sentence
    assert contents(run.with_name(f"{run.name}.desk")) == before


def test_the_demo_has_three_requests_in_different_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def quick(kind: BottomsKind, seed: int) -> RunConfig:
        config = demo_config(kind, seed)
        label_free = replace(config.label_free, epochs=1)
        return replace(config, label_free=label_free, fit=replace(config.fit, epochs=3))

    monkeypatch.setattr(desk_demo, "demo_config", quick)
    folder = tmp_path / "demo"
    desk_demo.prepare(folder)
    desk = Desk.open(folder)
    requests = desk.requests.list().requests
    assert [each.state for each in requests] == ["planned", "audited", "certified"]
    assert [each.is_ended for each in requests] == [False, False, True]
    assert {each.name: each.role for each in desk.accounts.all()} == ACCOUNTS
    events = [entry.event for entry in Ledger(folder / "active").entries()]
    assert events[-4:] == ["audit", "commit", "purge", "audit"]
    assert desk.settings.two_persons
    (before,) = desk.store.rows("SELECT password FROM accounts WHERE name = 'ada'")
    desk_demo.prepare(folder)  # once more: new passwords, and nothing else
    (after,) = desk.store.rows("SELECT password FROM accounts WHERE name = 'ada'")
    assert before["password"] != after["password"]
    assert desk.requests.list().total == 3
    accounts = [entry.event for entry in desk.trail.page(6)]
    assert accounts == ["password changed"] * 3 + ["account added"] * 3
    desk.close()
