"""The whole way in a real browser: from a new request of one person to certificate and letter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli.command_line import one_thread
from report.browser import Browser, browser
from report.test_report_browser import CONTRAST

from desk.browsers import DEMAND
from desk.conftest import MakeDesk
from desk.walking import SCHEMES, Person, served
from unlabel import verify
from unlabel.desk.settings import DeskSettings

__all__ = ["browser", "one_thread"]  # fixtures

#: Where to keep pictures of every page, for docs/desk.md; nowhere if it is not set.
PICTURES = "UNLABEL_DESK_PICTURES"
PHONE, SCREEN = 390, 1280


def pictures() -> Path | None:
    folder = os.environ.get(PICTURES)
    return Path(folder) if folder else None


def test_one_person_is_forgotten_with_the_page_alone(
    make_desk: MakeDesk, browser: Browser, tmp_path: Path
) -> None:
    desk = make_desk()
    letter = tmp_path / "demand.pdf"
    letter.write_bytes(DEMAND)
    with served(desk) as address:
        ada = Person(browser, address, PHONE, SCREEN, pictures=pictures())
        ada.go("/")
        ada.see("#sign-in")
        ada.look("sign-in")
        ada.sign_in("ada")
        ada.look("empty")
        ada.click("a[href='/requests/new']")
        ada.see("#new")
        ada.type("#ids", "P005")
        ada.type("#reference", "Letter of 2 November")
        ada.attach("#demand", letter)
        ada.look("new")
        ada.click("#receive")
        ada.see("#previews input[name=choice]:checked")
        assert "Nothing has been changed yet" in ada.text()
        ada.look("planned")
        ada.click("#start")
        ada.see("#decide-commit")
        assert "Forgotten exactly, by construction" in ada.text()
        ada.look("audited")
        ada.click("#decide-commit")
        ada.see("#sure")
        ada.look("committed")
        ada.click("#sure")
        ada.click("#purge")
        ada.see("#certify")
        ada.look("purged")
        ada.click("#certify")
        ada.see("#certificate")
        assert "verified" in ada.text()
        ada.look("certified")
        ada.click("#letter")
        ada.see("#text")
        said = str(browser.ask("document.querySelector('#text').value"))
        assert "The model with which we make predictions was computed anew" in said
        assert "Letter of 2 November" in said
        ada.look("letter")
        browser.ask("document.querySelector('#text').value = 'Dear Jane,'")
        ada.click("#save")
        ada.see("#notice")
        assert "lacks what the person has to be told" in ada.text()
        browser.call("Emulation.setEmulatedMedia", media="print")
        assert ada.text().strip() == "Dear Jane,", "nothing but the letter is printed"
        browser.call("Emulation.setEmulatedMedia", media="")
        ada.go("/requests")
        assert "left to do: send the letter" in ada.text()
        ada.look("to-send")
        ada.click("#requests a")
        ada.see("#sent")
        ada.look("kept")
        ada.click("#sent")
        ada.wait("document.body.innerText.includes('Ended: the letter was sent')")
        assert "ended in time" in ada.text()
        ada.look("answered")
        ada.click("#letter")
        ada.see("#text[readonly]")
        ada.look("letter-sent")
        ada.go("/requests/1/report")
        ada.look("report")
        for path in ("/requests", "/federation", "/trail"):
            ada.go(path)
            ada.look(path.strip("/"))
        ada.go("/requests/1")
        ada.click("#sign-out")
        ada.see("#sign-in")
        complaints, elsewhere = browser.complaints(), ada.elsewhere()
    assert complaints == []
    assert elsewhere == []
    assert ada.trouble == []
    assert (desk.requests.get(1).state, desk.requests.get(1).is_ended) == ("certified", True)
    certificate = desk.place.files(1) / "certificate.json"
    assert verify(certificate, run=desk.place.run, demand=letter).holds


@pytest.mark.long
def test_a_wrong_id_is_mended_and_two_persons_decide(make_desk: MakeDesk, browser: Browser) -> None:
    settings = DeskSettings(two_persons=True, organisation="Bank of Nowhere")
    desk = make_desk("supervised", settings=settings)
    with served(desk) as address:
        one = Person(browser, address, SCREEN, pictures=pictures())
        one.sign_in("ada")
        one.go("/requests/new")
        one.type("#ids", "P005, P999")
        one.click("#receive")
        one.see("#trouble")
        assert "'P999'" in one.text()
        one.look("wrong-id")
        one.click("a[href$='/edit']")
        one.see("#new")
        browser.ask("document.querySelector('#ids').value = ''")
        one.type("#ids", "P005")
        one.click("#receive")
        one.see("#previews input:checked")
        assert "Not possible for people in this run" in one.text()
        one.look("two-ways")
        one.click("#start")
        one.see("#decide-commit")
        one.click("#decide-commit")
        one.wait("document.body.innerText.includes('ada proposed to commit')")
        one.look("proposed")
        one.click("#sign-out")
        one.see("#sign-in")
        one.sign_in("bert")
        one.click("#requests a")
        one.see("#confirm")
        one.look("confirm")
        one.click("#confirm")
        for box, button in (("#sure", "#purge"), ("", "#certify")):
            one.see(button)
            if box:
                one.click(box)
            one.click(button)
        one.see("#letter")
        one.click("#letter")
        one.see("#text")
        letter = str(browser.ask("document.querySelector('#text').value"))
        complaints = browser.complaints()
    assert (complaints, one.trouble) == ([], [])
    assert "gym and shop confirmed" in letter
    assert "last bit" not in letter, "what was measured is not told as exact"


def test_words_can_be_read_in_light_and_in_dark(make_desk: MakeDesk, browser: Browser) -> None:
    desk = make_desk()
    with served(desk) as address:
        ada = Person(browser, address, SCREEN)
        ada.sign_in("ada")
        for path in ("/requests", "/requests/new", "/federation", "/trail", "/nothing"):
            ada.go(path)
            for scheme in SCHEMES:
                feature = {"name": "prefers-color-scheme", "value": scheme}
                browser.call("Emulation.setEmulatedMedia", media="", features=[feature])
                ratio, words = browser.ask(CONTRAST)
                assert ratio >= 4.5, (path, scheme, words)


def test_the_way_can_be_gone_by_keyboard(make_desk: MakeDesk, browser: Browser) -> None:
    desk = make_desk()
    with served(desk) as address:
        ada = Person(browser, address, SCREEN)
        ada.sign_in("ada")
        ada.go("/requests/new")
        reached = []
        for _ in range(25):
            for kind in ("keyDown", "keyUp"):
                browser.call(
                    "Input.dispatchKeyEvent",
                    type=kind,
                    key="Tab",
                    code="Tab",
                    windowsVirtualKeyCode=9,
                )
            focus = browser.ask(
                "(e => [e.id || e.textContent.trim(), getComputedStyle(e).outlineStyle])"
                "(document.activeElement)"
            )
            reached.append(focus[0])
            # The button of a date's calendar has a ring of the browser's own.
            assert focus[1] != "none" or focus[0] == "received", focus
            if focus[0] == "receive":
                break
        assert reached[0] == "To the content"
        for name in (
            "kind-people",
            "ids",
            "file",
            "received",
            "reference",
            "demand",
            "language",
            "receive",
        ):
            assert name in reached, reached
