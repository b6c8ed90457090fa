"""A person at the desk in a real browser: who sees a page, types, and clicks what can be seen."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from report.browser import Browser

from desk.browsers import PASSWORD, PATIENCE
from unlabel.desk.app import app
from unlabel.desk.office import Desk
from unlabel.serve.listening import Address, server_of

SCHEMES = ("light", "dark")
#: Sentences about what is wrong with a page, whatever is on it.
FAULTS = """(() => {
  const found = [], seen = e => e.getClientRects().length > 0;
  if (document.documentElement.scrollWidth > innerWidth + 1)
    found.push('wider than the window: ' + document.documentElement.scrollWidth);
  for (const e of document.querySelectorAll('input:not([type=hidden]), textarea, select'))
    if (seen(e) && !e.labels?.length) found.push('no label: ' + e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll('button, .button, nav a'))
    if (seen(e) && e.getBoundingClientRect().height < 24)
      found.push('too small to hit: ' + e.textContent);
  if (document.querySelectorAll('h1').length !== 1) found.push('not one h1');
  if (!document.title || !document.documentElement.lang) found.push('no title or no language');
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  if (new Set(ids).size < ids.length) found.push('an id stands twice: ' + ids.sort());
  return found;
})()"""
#: The middle of an element once it is in view, or why it cannot be clicked.
MIDDLE = """(() => {
  const e = document.querySelector(%s);
  if (!e) return 'not there';
  if (e.disabled) return 'disabled';
  e.scrollIntoView({block: 'center', behavior: 'instant'});
  const at = e.getClientRects()[0];
  if (!at || at.width < 1) return 'not shown';
  const x = at.left + at.width / 2, y = at.top + at.height / 2;
  const hit = document.elementFromPoint(x, y);
  if (hit !== e && !e.contains(hit) && ![...(e.labels ?? [])].includes(hit))
    return 'covered by ' + hit?.outerHTML.slice(0, 80);
  return [x, y];
})()"""


@contextlib.contextmanager
def served(desk: Desk) -> Iterator[str]:
    """Serve a desk as `unlabel desk` does; give its address."""
    address = Address(port=0)
    server = server_of(app(desk, hosts=address.hosts), address)
    with address.listen() as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


class Person:
    """Somebody with a browser window of some width, who also looks at pages in others."""

    def __init__(
        self, browser: Browser, at: str, *widths: int, pictures: Path | None = None
    ) -> None:
        self.browser, self.at, self.widths, self.pictures = browser, at, widths, pictures
        self.pages: list[str] = []
        self.trouble: list[str] = []
        browser.call("Network.clearBrowserCookies")
        self.resize(widths[0])
        browser.events.clear()

    def resize(self, width: int) -> None:
        """Make the window as wide."""
        self.browser.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=844,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def go(self, path: str) -> None:
        """Type an address."""
        self.browser.call("Page.navigate", url=f"{self.at}{path}")
        self.wait("document.readyState === 'complete'")

    def see(self, selector: str) -> None:
        """Wait until something is shown."""
        self.wait(f"!!document.querySelector({json.dumps(selector)})?.getClientRects().length")

    def wait(self, condition: str) -> None:
        """Wait until a condition of the page holds."""
        deadline = time.monotonic() + PATIENCE
        while not self._holds(condition):
            assert time.monotonic() < deadline, (condition, self.text())
            time.sleep(0.05)

    def _holds(self, condition: str) -> bool:
        try:
            return bool(self.browser.ask(condition))
        except AssertionError:  # the page is being replaced
            return False

    def text(self) -> str:
        """Return what the page says."""
        return str(self.browser.ask("document.body.innerText"))

    def click(self, selector: str) -> None:
        """Click something where it is; it must be seen and not covered."""
        deadline = time.monotonic() + 10
        while isinstance(point := self.browser.ask(MIDDLE % json.dumps(selector)), str):
            assert time.monotonic() < deadline, (selector, point, self.text())
            time.sleep(0.05)
        for kind in ("mousePressed", "mouseReleased"):
            self.browser.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=point[0],
                y=point[1],
                button="left",
                clickCount=1,
            )

    def type(self, selector: str, words: str) -> None:
        """Click into a field and type."""
        self.click(selector)
        self.browser.call("Input.insertText", text=words)

    def attach(self, selector: str, path: Path) -> None:
        """Choose a file."""
        root = self.browser.call("DOM.getDocument")["root"]["nodeId"]
        node = self.browser.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.browser.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def look(self, name: str) -> None:
        """Look at a page in each width, in light and in dark; keep what is wrong, and pictures."""
        self.pages.append(name)
        for width in reversed(self.widths):  # it stays in the first
            self.resize(width)
            self._look(name, width)

    def _look(self, name: str, width: int) -> None:
        for scheme in SCHEMES:
            feature = {"name": "prefers-color-scheme", "value": scheme}
            self.browser.call("Emulation.setEmulatedMedia", media="", features=[feature])
            dark = self.browser.ask("matchMedia('(prefers-color-scheme: dark)').matches")
            assert dark == (scheme == "dark")
            self.wait("document.getAnimations().length === 0")
            faults = self.browser.ask(FAULTS)
            self.trouble += [f"{name}, {width}, {scheme}: {fault}" for fault in faults]
            if self.pictures is not None:
                self.browser.screenshot(self.pictures / f"{name}-{width}-{scheme}.png")

    def sign_in(self, name: str) -> None:
        """Sign in."""
        self.go("/sign-in")
        self.wait("document.activeElement?.id === 'name'")  # else the browser complains
        self.type("#name", name)
        self.type("#password", PASSWORD)
        self.click("#sign-in button")
        self.see("#search")

    def elsewhere(self) -> list[str]:
        """Return the addresses outside the desk that were asked for; icons of fields are data."""
        return [each for each in self.browser.requests() if not each.startswith((self.at, "data:"))]
