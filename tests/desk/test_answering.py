"""The answer to the person: a request ends, and its clock stands, once the letter was sent."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import Any

import pytest
from cli.command_line import one_thread
from forget.crashing import in_child

from desk.asking import stored
from desk.browsers import Browser, Page
from desk.conftest import MakeBrowser, MakeDesk
from unlabel.desk.accounts import Account
from unlabel.desk.answering import digest, keep_letter, note_sent
from unlabel.desk.demands import Demand
from unlabel.desk.letter_words import LANGUAGES, SENTENCES, Language
from unlabel.desk.office import Desk
from unlabel.desk.place import Place
from unlabel.desk.trail import Trail
from unlabel.errors import UnlabelError
from unlabel.files import sha256

__all__ = ["one_thread"]  # a fixture for every test here

ADA = Account("ada", "caseworker")
LETTER = "Dear Jane,\nyou took your request back.\n"


@pytest.fixture
def desk(make_desk: MakeDesk) -> Desk:
    """Return a desk whose one request came in 40 days ago and was withdrawn."""
    desk = make_desk()
    desk.receive(Demand(ids=("P005",), received=desk.today() - timedelta(days=40)), ADA)
    desk.withdraw(1, "The person took it back.", ADA)
    return desk


def keep(browser: Browser, text: str = LETTER, **fields: Any) -> Page:
    return browser.post("/requests/1/letter", language="en", text=text, action="save", **fields)


def note(browser: Browser, **fields: Any) -> Page:
    return browser.post("/requests/1/sent", **{"letter": digest(LETTER), **fields})


def reopened(desk: Desk) -> Desk:
    """Return the desk as the next process opens it."""
    return Desk(Place.of(desk.place.run), desk.settings)


def test_the_clock_goes_on_until_the_letter_was_sent(desk: Desk, make_browser: MakeBrowser) -> None:
    ada = make_browser(desk, "ada")
    assert ada.get("/requests").has(r"days late, due.*left to do: write and send the letter")
    assert ada.get("/requests/1").has("Next: write the letter and send it")
    assert note(ada).trouble.startswith("That letter is not kept")
    keep(ada)
    assert ada.get("/requests").has("left to do: send the letter")
    page = ada.get("/requests/1")
    assert page.find(r'name="day" value="([\d-]+)"') == f"{desk.today()}"
    sent = note(ada, letter=page.find(r'name="letter" value="(\w+)"'))
    assert (sent.status, sent.trouble) == (200, "")
    assert sent.has(r"ended \d+ days late")
    assert sent.has(f"Ended: the letter was sent on {desk.today()}")
    assert not sent.has("It was sent</button>")
    assert not ada.get("/requests").has("left to do")
    last = desk.trail.of(1)[-1]
    noted = {"by": "ada", "sha256": sha256(LETTER.encode()), "day": f"{desk.today()}"}
    assert (last.event, last.note) == ("letter sent", noted)
    assert make_browser(desk, "eve").get("/requests/1").has("Nothing: this request has ended")


def test_a_letter_sent_on_an_earlier_day_was_in_time(desk: Desk, make_browser: MakeBrowser) -> None:
    ada = make_browser(desk, "ada")
    keep(ada)
    kept = desk.today() - timedelta(days=20)
    letter = desk.requests.get(1).fact("letter")
    desk.requests.note(1, letter={**letter, "at": f"{kept}T09:00:00+00:00"})
    before = stored(desk)
    for day in (kept - timedelta(days=1), desk.today() + timedelta(days=1), "soon"):
        assert note(ada, day=f"{day}").status == 422
    assert stored(desk) == before
    assert ada.get("/requests/1").has(f'name="day"[^>]*min="{kept}"')
    assert note(ada, day=f"{kept}").has("ended in time, on")


def test_a_letter_is_noted_as_sent_once_and_stays_as_it_was_sent(
    desk: Desk, make_browser: MakeBrowser
) -> None:
    ada, bert = make_browser(desk, "ada"), make_browser(desk, "bert")
    keep(ada, "Dear John,")
    assert note(bert).trouble.startswith("That letter is not kept, or was edited meanwhile")
    keep(ada)
    assert [note(each, day=f"{desk.today()}").status for each in (bert, bert, ada)] == [200] * 3
    assert [entry.event for entry in desk.trail.of(1)].count("letter sent") == 1
    before = stored(desk)
    for refused in (
        note(ada, day=desk.requests.get(1).received),
        keep(ada, "Dear Jane, we erased all of it."),
        ada.post("/requests/1/letter", language="de", text="", action="fresh"),
        ada.post("/requests/1/extend", reason="Many came in."),
    ):
        assert (refused.status, bool(refused.trouble)) == (409, True)
    assert stored(desk) == before
    page = ada.get("/requests/1/letter?language=de")
    assert page.has(r"readonly>Dear Jane,")
    assert not page.has('id="save"|id="fresh"|lacks what')
    for language in ("", "?language=de"):
        given = ada.client.get(f"/requests/1/letter.txt{language}").content
        assert sha256(given) == desk.trail.of(1)[-1].note["sha256"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_letter_that_was_kept_before_its_request_was_certified_is_kept_anew(
    language: Language, make_desk: MakeDesk, make_browser: MakeBrowser
) -> None:
    ada, early = make_browser(make_desk(), "ada"), SENTENCES[language]["not-certified"]
    ada.receive(language=language)
    ada.carry_out(1)
    ada.do(1, "decide", decision="commit")
    text = ada.get("/requests/1/letter.txt").text
    assert early in text
    ada.post("/requests/1/letter", language=language, text=text, action="save")
    assert not ada.get("/requests/1/letter").has('id="outdated"')
    ada.do(1, "purge", sure="on")
    page = ada.do(1, "certify")
    assert page.has("Next: read the letter again")
    assert not page.has("It was sent</button>")
    assert ada.get("/requests/1/letter").has('id="outdated"')
    refused = note(ada, letter=digest(text))
    assert (refused.status, ada.desk.requests.get(1).is_ended) == (409, False)
    ada.post("/requests/1/letter", language=language, text="", action="fresh")
    text = ada.get("/requests/1/letter.txt").text
    assert early not in text
    ada.post("/requests/1/letter", language=language, text=text, action="save")
    ada.do(1, "certify")  # of the same, at another time
    assert note(ada, letter=digest(text)).has("Ended: the letter was sent")


def test_what_changes_while_a_letter_is_written_is_noticed(
    make_desk: MakeDesk, make_browser: MakeBrowser
) -> None:
    desk = make_desk()
    desk.receive(Demand(ids=("P005",), received=desk.today()), ADA)
    desk.withdraw(1, "The person took it back.", ADA)
    ada = make_browser(desk, "ada")
    keep(ada)
    record = ada.get("/requests/1/letter").find(r'name="record" value="(\w+)"')
    desk.extend(1, "Many came in.", ADA)
    assert ada.get("/requests/1").has("Next: read the letter again")
    assert note(ada).status == 409
    keep(ada, record=record)  # on a page from before that
    assert note(ada).status == 409
    keep(ada)
    assert note(ada).has("Ended: the letter was sent")


def test_a_kill_while_it_is_noted_leaves_nothing_of_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_letter(desk, 1, "en", LETTER, ADA)
    before = stored(desk)

    desk.close()

    def killed() -> None:
        child = reopened(desk)
        monkeypatch.setattr(Trail, "add", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        note_sent(child, 1, digest(LETTER), child.today(), ADA)

    assert in_child(killed) == -signal.SIGKILL
    after = reopened(desk)
    assert stored(after) == before
    note_sent(after, 1, digest(LETTER), desk.today(), ADA)
    assert after.requests.get(1).is_ended
    after.close()


def test_nothing_is_sent_before_there_is_an_answer_nor_beside_a_certificate_that_does_not_hold(
    desk: Desk,
) -> None:
    keep_letter(desk, 1, "en", LETTER, ADA)
    for state, faults in (("committed", []), ("purged", []), ("certified", ["It is wrong."])):
        desk.requests.note(1, state, certificate={"faults": faults})  # type: ignore[arg-type]
        with pytest.raises(UnlabelError):
            note_sent(desk, 1, digest(LETTER), desk.today(), ADA)
    assert not desk.requests.get(1).is_ended


def test_a_desk_from_before_letters_were_noted_opens_and_its_clocks_go_on(desk: Desk) -> None:
    with desk.store.transaction() as connection:
        connection.execute("UPDATE requests SET ended = '2026-11-10T09:00:00+00:00'")
    desk.close()
    after = reopened(desk)
    assert not after.requests.get(1).is_ended
    after.close()
