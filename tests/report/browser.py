"""Headless Chromium, driven over a pipe: JSON commands that end in a zero byte, and events back.

The protocol is the browser's own (DevTools); the two pipes are its file descriptors 3 and 4. So no
driver has to be downloaded, and no port is opened.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"),
)
#: Seconds that one answer may take on a busy machine.
PATIENCE = 60


def find_chromium() -> str | None:
    """Return the browser's program, if this machine has one."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


class Browser:
    """One page in a browser."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._buffer = b""
        self._count = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its answer; events that come before it are kept."""
        self._count += 1
        command: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == self._count:
                assert "error" not in found, found
                result = found["result"]
                assert isinstance(result, dict)
                return result
            self.events.append(found)

    def _read(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._answers, 1 << 20)
            assert piece, "the browser has gone"
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    def show(self, path: Path, width: int, height: int, scheme: str = "light") -> None:
        """Open a file in a window of some size, in light or dark, and wait until it is drawn."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", media="", features=[feature])
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())

    def ask(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def complaints(self) -> list[str]:
        """Return what the browser's console said since the page was opened."""
        self.ask("0")  # whatever was said so far has come before this answer
        kinds = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return [json.dumps(e["params"]) for e in self.events if e.get("method") in kinds]

    def requests(self) -> list[str]:
        """Return the addresses that the page asked for since it was opened."""
        wanted = "Network.requestWillBeSent"
        sent = [e["params"]["request"]["url"] for e in self.events if e.get("method") == wanted]
        return [str(url) for url in sent]

    def screenshot(self, path: Path) -> None:
        """Write the whole page as a picture."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def open_browser(program: str) -> Iterator[Browser]:
    """Start a browser with a fresh profile; it ends with the block."""
    ours_in, theirs_out = os.pipe()
    theirs_in, ours_out = os.pipe()
    # Out of the way of 3 and 4, which bash makes of them.
    given = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]
    script = 'in=$1 out=$2; shift 2; exec "$@" 3<&"$in" 4>&"$out"'
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        profile = f"--user-data-dir={home}"
        process = subprocess.Popen(
            ["bash", "-c", script, "bash", *map(str, given), program, *FLAGS, profile],
            pass_fds=given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (theirs_in, theirs_out, *given):
            os.close(end)
        try:
            browser = Browser(ours_out, ours_in)
            yield browser
            os.write(ours_out, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
            process.wait(PATIENCE)
        finally:
            os.close(ours_out)
            os.close(ours_in)
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of a file; skipped where there is none, unless one must be there."""
    program = find_chromium()
    if program is None:
        assert not os.environ.get("UNLABEL_NEED_CHROMIUM"), "No Chromium was found."
        pytest.skip("No Chromium on this machine: install the package `chromium`.")
    with open_browser(program) as opened:
        yield opened
