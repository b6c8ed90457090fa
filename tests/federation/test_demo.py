"""The demonstration works from tables to a verified certificate, and leaves nothing running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from unlabel.data import ACTIVE
from unlabel.signing import Signer

#: What the issue allows, and a share for a machine that does other things too.
SECONDS = 5 * 60 * 2


def start(out: Path) -> subprocess.Popen[bytes]:
    """Start the demonstration as a person does, with its words kept in files."""
    with (out / "said").open("wb") as said, (out / "result").open("wb") as result:
        return subprocess.Popen(
            [sys.executable, "-m", "unlabel", "federation", "demo", "--out", "demo", "--json"],
            cwd=out,
            stdout=result,
            stderr=said,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            # A shell has what it runs in the background ignore Ctrl-C; a person's does not.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def still_running(out: Path) -> list[int]:
    """Return the processes that name something in a folder, or work there."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        words = [*(process.info["cmdline"] or ()), process.info["cwd"] or ""]
        if any(str(out) in word for word in words):
            found.append(int(process.info["pid"]))
    return found


@pytest.mark.long
def test_the_demonstration_ends_in_a_certificate_of_all_three(tmp_path: Path) -> None:
    assert start(tmp_path).wait(timeout=SECONDS) == 0, (tmp_path / "said").read_text()
    found = json.loads((tmp_path / "result").read_bytes())
    assert found["signed"] == [ACTIVE, "left", "right"]
    assert found["depth"] in ("top", "bottoms")
    assert (tmp_path / found["report"]).read_text().startswith("<!doctype html>")
    # The keys that it was checked with are the parties' own, not those in the certificate.
    trust = yaml.safe_load((tmp_path / found["keys"]).read_text())["trust"]
    certificate = json.loads((tmp_path / found["certificate"]).read_bytes())["certificate"]
    kits = tmp_path / "demo" / "kits"
    for name in found["signed"]:
        assert trust[name] == Signer(kits / name).public
        assert certificate["parties"][name]["key"] == trust[name]
    said = (tmp_path / "said").read_text()
    for verb in ("init", "party start", "train", "forget", "audit", "commit", "purge", "verify"):
        assert f"{verb} " in "".join(line for line in said.splitlines(True) if line[:2] == "$ ")
    assert "Every key is the trusted one, by fingerprint: active " in said
    assert sum(found["steps"].values()) < found["seconds"]
    assert still_running(tmp_path) == []


@pytest.mark.long
def test_who_stops_it_stops_the_parties_too(tmp_path: Path) -> None:
    demo = start(tmp_path)
    deadline = time.monotonic() + SECONDS / 4
    while "All serve." not in (tmp_path / "said").read_text():
        assert demo.poll() is None, (tmp_path / "said").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert len(still_running(tmp_path)) > 3
    demo.send_signal(signal.SIGINT)
    assert demo.wait(timeout=60) == 130
    assert still_running(tmp_path) == []
