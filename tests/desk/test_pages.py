"""Every page and action of the desk, against a real run: from a demand to the letter."""

from __future__ import annotations

import json
import re
import time
from datetime import timedelta
from pathlib import Path

import pytest
from cli.command_line import one_thread

from desk.asking import wait_idle
from desk.browsers import DEMAND, Browser
from desk.conftest import MakeBrowser, MakeDesk
from unlabel import verify
from unlabel.config.loader import read_run_folder
from unlabel.desk.accounts import Account
from unlabel.desk.demands import Demand
from unlabel.desk.letter_words import LANGUAGES, SENTENCES, Language
from unlabel.desk.settings import DeskSettings
from unlabel.desk.visits import MOST_BYTES
from unlabel.files import sha256
from unlabel.party import Ledger
from unlabel.progress import watch_nothing
from unlabel.train.cleared import LabelTable

__all__ = ["one_thread"]  # a fixture for every test here


def test_a_person_is_forgotten_from_the_demand_to_the_letter(ada: Browser, tmp_path: Path) -> None:
    page = ada.receive(reference="2026/17")
    assert (page.status, page.path) == (200, "/requests/1")
    planned = ada.at(1)
    assert planned.state() == "planned"
    assert planned.has("Nothing has been changed yet")
    assert planned.has("exact")
    audited = ada.carry_out(1)
    assert audited.state() == "audited"
    assert audited.has("Forgotten exactly, by construction")
    assert audited.has(r'<svg[^>]*class="chart')
    assert audited.has(r"<th scope=\"col\">Before</th><th scope=\"col\">After</th>")
    committed = ada.do(1, "decide", decision="commit")
    assert committed.state() == "committed"
    assert committed.has("versions 1; the purge removes it")
    purged = ada.do(1, "purge", sure="on")
    assert purged.state() == "purged"
    assert purged.has("Nothing is left, but what is kept on purpose")
    certified = ada.do(1, "certify")
    assert certified.state() == "certified"
    assert certified.has("verified</span> signed by the label holder")
    path = tmp_path / "certificate.json"
    path.write_bytes(ada.client.get("/requests/1/certificate").content)
    checks = verify(path, run=ada.desk.place.run)
    assert checks.holds
    assert json.loads(path.read_bytes())["certificate"]["demand"] is not None
    assert ada.client.get("/requests/1/demand").content == DEMAND
    letter = ada.get("/requests/1/letter")
    assert letter.has("What was done")
    assert letter.has("2026/17")
    text = ada.get("/requests/1/letter.txt").text
    assert not ada.post("/requests/1/letter", language="en", text=text, action="save").trouble
    report = ada.get("/requests/1/report")
    assert report.has("Forgotten exactly, by construction")
    assert "unsafe-inline" not in report.headers["content-security-policy"]
    events = [entry.event for entry in ada.desk.trail.of(1)]
    assert events == [
        *("received", "planned", "asked for forget", "staged", "audited"),
        *("asked for commit", "committed", "asked for purge", "purged"),
        *("asked for certify", "certified", "letter"),
    ]
    # Another one verifies too, and is not the one that was issued.
    with ada.desk.place.open(watch_nothing) as federation:
        other = federation.certificate(request=ada.desk.requests.get(1).fact("request"))
    assert verify(other.path, run=ada.desk.place.run).holds
    (ada.desk.place.files(1) / "certificate.json").write_bytes(other.path.read_bytes())
    for paper in ("letter", "letter.txt", "certificate"):
        refused = ada.get(f"/requests/1/{paper}")
        assert refused.status == 422
        assert refused.has("is not the certificate that was issued")


def test_a_class_is_forgotten_in_a_supervised_run_and_rolled_back(
    make_desk: MakeDesk, make_browser: MakeBrowser
) -> None:
    ada = make_browser(make_desk("supervised"), "ada")
    form = ada.get("/requests/new")
    assert form.has('name="labels" value="cedar"')
    ada.receive(kind="labels", labels=["cedar"])
    planned = ada.at(1)
    for key in ("hidden", "deep", "open", "retrain"):
        assert planned.has(f'name="choice" value="{key}"')
    page = ada.do(1, "start", choice="deep")
    assert page.state() == "audited", page.trouble
    page = ada.do(1, "decide", decision="rollback", reason="It cost too much.")
    assert page.state() == "rolled-back", page.trouble
    assert page.has("rolled back.*It cost too much.")
    assert ada.get("/requests/1/letter").has("The reason is: It cost too much.")
    ada.desk.requests.note(1, decision=None)  # as where a command rolled it back
    assert ada.get("/requests/1").has("Next: write the letter and send it")
    assert ada.get("/requests/1/letter").has("Please add the reason here")
    (line,) = Ledger(ada.desk.place.home).entries()[-1:]
    assert (line.event, line.request) == ("rollback", ada.desk.requests.get(1).fact("request"))
    assert ada.get("/requests/1/letter").has("textarea")


def test_what_fell_short_is_committed_by_force_alone_with_a_reason(
    make_desk: MakeDesk, make_browser: MakeBrowser
) -> None:
    ada = make_browser(make_desk("supervised"), "ada")
    ada.receive(kind="labels", labels=["cedar"])
    ada.at(1)
    page = ada.do(1, "start", choice="open")
    assert not ada.desk.requests.get(1).fact("audit")["passed"]
    assert page.has("The audit did not reach") or page.has("still predicted")
    page = ada.do(1, "decide", decision="commit")
    assert page.state() == "audited"
    assert page.trouble
    assert ada.post("/requests/1/decide", decision="commit", force="on").status == 422
    page = ada.do(1, "decide", decision="commit", force="on", reason="The person agreed to it.")
    assert page.state() == "committed"
    assert page.has("although the audit fell short: The person agreed to it.")
    assert Ledger(ada.desk.place.home).entries()[-1].note["audit"]["forced"]


def test_two_persons_decide_where_the_settings_say_so(
    make_desk: MakeDesk, make_browser: MakeBrowser
) -> None:
    desk = make_desk(settings=DeskSettings(two_persons=True))
    ada, bert, cleo = (make_browser(desk, name) for name in ("ada", "bert", "cleo"))
    ada.receive()
    ada.carry_out(1)
    page = ada.do(1, "decide", decision="commit")
    assert page.state() == "audited"
    assert page.has("ada proposed to <b>commit</b>")
    proposal = bert.get("/requests/1").find(r'name="proposal" value="(\w+)"')
    for other in (ada, cleo):  # the one who proposed it, and one who is no approver
        page = other.post("/requests/1/confirm", proposal=proposal, answer="confirm")
        assert page.status == 403
    assert bert.post("/requests/1/confirm", proposal="0" * 16, answer="confirm").status == 409
    assert bert.do(1, "confirm", proposal=proposal, answer="decline").has("decide-commit")
    bert.do(1, "decide", decision="commit")
    proposal = desk.requests.get(1).fact("proposal")["id"]
    page = bert.post("/requests/1/confirm", proposal=proposal, answer="confirm")
    assert (page.status, page.trouble) == (
        409,
        "Another person has to confirm what you proposed.",
    )
    taken = ada.post("/requests/1/take-back", proposal=proposal)
    assert (taken.status, taken.trouble) == (409, "Only who proposed it can take it back.")
    # Where nobody else may confirm it, a request would otherwise stand in the way of all others.
    assert bert.get("/requests/1").has('id="take-back"')
    assert bert.do(1, "take-back", proposal=proposal).has("decide-commit")
    assert desk.trail.of(1)[-1].event == "took back commit"
    bert.do(1, "decide", decision="commit")
    bert.do(1, "audit", retrained="0")  # what is proposed of an older audit counts no more
    assert desk.requests.get(1).fact("proposal") is None
    ada.do(1, "decide", decision="commit")
    proposal = desk.requests.get(1).fact("proposal")["id"]
    page = bert.do(1, "confirm", proposal=proposal, answer="confirm")
    assert page.state() == "committed"
    assert page.has("commit by ada, confirmed by bert")


def test_a_demand_that_cannot_be_meant_keeps_what_was_typed(ada: Browser) -> None:
    today = ada.desk.today()
    for wrong, said in (
        ({"ids": ""}, "Say what is to be forgotten"),
        ({"received": f"{today + timedelta(days=1)}"}, "or one before it"),
        ({"received": "soon"}, "Expected the day of receipt like"),
        ({"received": ""}, "Say on which day"),
        ({"kind": "labels"}, "Say what is to be forgotten"),
        ({"reference": "x" * 201}, "at most 200"),
        ({"language": "fr"}, "one of en, de"),
    ):
        page = ada.receive(**{"reference": "Kept &amp; shown", **wrong})
        assert page.status == 422
        assert said in page.trouble
        assert page.has("x{201}" if "reference" in wrong else "Kept &amp;amp; shown")
    assert ada.desk.requests.list().total == 0


def test_ids_that_nobody_has_are_named_and_can_be_changed(ada: Browser) -> None:
    ada.receive(ids="P005, P999")
    page = ada.at(1)
    assert page.state() == "received"
    assert "'P999'" in page.trouble
    assert page.has("withdraw the request below, with that as the reason")
    assert ada.get("/requests/1/edit").has(r">P005\nP999</textarea>")
    page = ada.post("/requests/1/edit", kind="people", ids="P005", received="2026-11-02")
    assert (page.status, page.path) == (200, "/requests/1")
    assert ada.at(1).state() == "planned"
    assert ada.desk.requests.people(1) == ["P005"]


@pytest.mark.parametrize("typed", ["\n", "\r\n"])
def test_whoever_changes_a_request_changes_nobody_by_the_way(ada: Browser, typed: str) -> None:
    ids, received = ["Doe, John", "17;3", "C\t2", "C-1"], f"{ada.desk.today()}"
    table = ("id\n" + "".join(f'"{each}"\n' for each in ids)).encode()
    ada.post("/requests", {"file": ("l.csv", table)}, kind="people", received=received)
    ada.at(1)
    text = ada.get("/requests/1/edit").find(r'id="ids"[^>]*>(.*?)</textarea>')
    assert text == "\n".join(ids)
    known = {"kind": "people", "received": received, "reference": "2026/17"}
    for shown, expected in ((text, ids), (text + "\nC-3", [*ids, "C-3"]), (ids[0], ids[:1])):
        page = ada.do(1, "edit", ids=shown.replace("\n", typed), **known)
        assert page.has("2026/17")
        assert ada.desk.requests.people(1) == expected


def test_people_who_are_too_many_for_a_form_stay_where_it_is_empty(ada: Browser) -> None:
    ids = [f"{number:0200}" for number in range(MOST_BYTES // 200)]
    demand = Demand(ids=tuple(ids), received=ada.desk.today())
    ada.desk.receive(demand, Account("ada", "caseworker"))
    ada.at(1)
    assert ada.get("/requests/1/edit").has(r'id="ids"[^>]*></textarea>')
    known = {"kind": "people", "received": f"{ada.desk.today()}"}
    assert ada.do(1, "edit", ids="", reference="2026/17", **known).has("2026/17")
    assert ada.desk.requests.people(1) == ids
    ada.do(1, "edit", ids="P005", **known)
    assert ada.desk.requests.people(1) == ["P005"]


def test_people_are_read_from_a_list_in_a_file(ada: Browser) -> None:
    table = b"id,name\nP001,Anna\nP002,=cmd()\n"
    page = ada.post(
        "/requests",
        {"file": ("../../list.csv", table)},
        kind="people",
        ids="P003;P002",
        received=f"{ada.desk.today()}",
    )
    assert page.path == "/requests/1"
    assert ada.desk.requests.people(1) == ["P003", "P002", "P001"]
    for wrong in (b"name\nAnna\n", b"id\nP001\nP001\n", b"\xff\xfe\x00", b""):
        page = ada.post("/requests", {"file": ("l.csv", wrong)}, kind="people", received="2026-1-1")
        assert page.status == 422, page.text
        assert "/tmp" not in page.trouble


def test_a_request_can_be_withdrawn_with_a_reason(ada: Browser) -> None:
    ada.receive()
    ada.at(1)
    assert ada.post("/requests/1/withdraw", reason=" ").status == 422
    page = ada.do(1, "withdraw", reason="The person took it back.")
    assert page.state() == "withdrawn"
    assert page.has("The person took it back.")
    assert ada.post("/requests/1/start", choice="refit").status == 409


def test_the_term_can_be_extended_once_with_a_reason(ada: Browser) -> None:
    ada.receive(received=f"{ada.desk.today() - timedelta(days=25)}")
    page = ada.at(1)
    assert page.has('class="clock warning"')
    assert ada.get("/requests/1/extension.txt").status == 404
    assert ada.post("/requests/1/extend", reason="").status == 422
    page = ada.do(1, "extend", reason="Many came in.")
    assert page.has('class="clock calm"')
    assert page.has("Many came in.")
    assert "Many came in." in ada.get("/requests/1/extension.txt").text
    due, received = ada.desk.requests.get(1).due, ada.desk.requests.get(1).received
    # A wrong id is mended: the person was told of the later day all the same.
    ada.do(1, "edit", kind="people", ids="P006", received=received)
    assert (ada.desk.requests.get(1).due, ada.desk.requests.get(1).fact("extension")) == (
        due,
        "Many came in.",
    )
    assert ada.post("/requests/1/extend", reason="Again.").status == 422


def test_a_purge_wants_to_be_meant_and_the_order_of_steps_is_kept(ada: Browser) -> None:
    ada.receive()
    ada.at(1)
    for action in ("decide", "purge", "certify", "audit"):
        page = ada.post(f"/requests/1/{action}", decision="commit", sure="on")
        assert page.status == 409
    for choice in ("hidden", "", "../refit"):
        assert ada.post("/requests/1/start", choice=choice).status == 422
    ada.carry_out(1)
    ada.do(1, "decide", decision="commit")
    assert ada.post("/requests/1/purge").status == 409
    assert ada.get("/requests/1").state() == "committed"


def test_requests_wait_for_the_one_that_is_to_be_decided_on(ada: Browser) -> None:
    ada.receive()
    ada.carry_out(1)
    ada.receive(ids="P006")
    page = ada.at(2)
    assert page.state() == "received"
    assert "Request 1 waits for a decision" in page.trouble
    assert page.has('Decide on <a href="/requests/1">request 1</a> first')
    assert not page.has("withdraw the request below")
    ada.do(1, "decide", decision="rollback")
    assert ada.at(2).state() == "planned"


def test_requests_are_found_by_whatever_is_known_of_them(ada: Browser) -> None:
    ada.receive(reference="AZ 4_711 %")
    ada.receive(ids="P007,P008")
    ada.receive(kind="labels", labels=["cedar"])
    for words, numbers in (
        *(("P008", {"2"}), ("P00", set()), ("cedar", {"3"}), ("4_711", {"1"}), ("4x711", set())),
        *(("%", {"1"}), ("#2", {"2"}), ("3", {"3"}), ("ada", {"1", "2", "3"}), ("' OR 1=1", set())),
    ):
        page = _get_found(ada, words)
        assert page == numbers, words
    about = Demand(labels=('say "hi"',), received=ada.desk.today())
    ada.desk.receive(about, Account("ada", "caseworker"))
    for words, numbers in (
        *(("1", {"1"}), ("people", set()), ("abel", set()), ("[", set()), ("eda", {"3"})),
        (' say "hi"', {"4"}),
    ):
        assert _get_found(ada, words) == numbers, words
    assert ada.get("/requests?state=certified").has("Nothing was found")
    assert ada.get("/requests?state=nonsense&page=x").status == 200


def _get_found(ada: Browser, words: str) -> set[str]:
    response = ada.client.get("/requests", params={"q": words})
    return set(re.findall(r'<tr data-number="(\d+)"', response.text))


def test_letters_are_edited_kept_and_drawn_up_anew(ada: Browser) -> None:
    ada.receive(language="de")
    ada.at(1)
    assert ada.get("/requests/1/letter").status == 409
    ada.do(1, "withdraw", reason="Doppelt.")
    assert ada.get("/requests/1/letter").has("Sehr geehrte")
    page = ada.get("/requests/1/letter?language=en")
    assert page.has("Dear Sir or Madam")
    assert page.has("does not say who answers"), "no organisation is set here"
    page = ada.post("/requests/1/letter", language="de", text="Gr\xfc\xdfe <b>", action="save")
    assert page.has("Gr\xfc\xdfe &lt;b&gt;</textarea>")
    assert page.has("Kept as ada edited it")
    assert page.has("The text lacks what the person has to be told")
    assert ada.get("/requests/1/letter.txt").text == "Gr\xfc\xdfe <b>"
    page = ada.post("/requests/1/letter", language="de", text="", action="fresh")
    assert page.has("Sehr geehrte")
    assert ada.post("/requests/1/letter", language="xx", text="a", action="save").status == 422


def test_the_federation_is_shown_as_of_the_last_look(ada: Browser) -> None:
    ada.post("/federation/look")
    while (page := ada.get("/federation")).has('id="progress"'):
        time.sleep(0.02)
    # Partners of a blind run are asked for nothing, so nothing is said of them.
    assert page.has("gym, shop: not asked|shop, gym: not asked")
    assert not page.has("All parties agree")
    for party in ("active", "shop", "gym"):
        assert page.has(f'data-name="Party">{party}')
    assert page.has("<summary>shop</summary>")
    assert ada.desk.trail.page(1)[0].event == "looked"


def test_all_parties_of_a_supervised_run_are_asked(
    make_desk: MakeDesk, make_browser: MakeBrowser
) -> None:
    ada = make_browser(make_desk("supervised"), "ada")
    ada.post("/federation/look")
    while (page := ada.get("/federation")).has('id="progress"'):
        time.sleep(0.02)
    assert page.has("All parties agree")
    assert not page.has("not asked")


def test_a_form_that_is_sent_twice_makes_one_request(ada: Browser) -> None:
    once = ada.get("/requests/new").find(r'name="once" value="([\w-]+)"')
    assert [ada.receive(once=once).path for _ in range(2)] == ["/requests/1", "/requests/1"]
    other = ada.get("/requests/new").find(r'name="once" value="([\w-]+)"')
    assert ada.receive(once=other).path == "/requests/2", "the same person may write twice"
    assert ada.receive().path == "/requests/3"


def test_a_certificate_that_lacks_signatures_or_does_not_hold_can_be_made_again(
    ada: Browser,
) -> None:
    ada.receive()
    ada.carry_out(1)
    ada.do(1, "decide", decision="commit")
    ada.do(1, "purge", sure="on")
    page = ada.do(1, "certify")
    assert page.has("write the letter and send it")
    assert not page.has('id="certify"')
    known = ada.desk.requests.get(1).fact("certificate")
    ada.desk.requests.note(1, certificate={**known, "not_signed": {"shop": "it is down"}})
    assert ada.get("/requests/1").has("Not every party has signed.*certify")
    ada.desk.requests.note(1, certificate={**known, "faults": ["A signature is wrong."]})
    page = ada.get("/requests/1")
    assert page.has("so no letter is written from it.*certify")
    assert not page.has("write the letter and send it")
    page = ada.do(1, "certify")
    assert page.has("write the letter and send it"), page.trouble


def test_a_request_is_certified_with_its_own_audit_before_the_next_one_is_carried_out(
    ada: Browser,
) -> None:
    ada.receive()
    ada.receive(ids="P006")
    ada.carry_out(1)
    ada.do(1, "decide", decision="commit")
    for state, action in (("committed", "purge"), ("purged", "certify")):
        page = ada.at(2)
        assert page.has(f"request 1</a> is {state} and has to be purged and certified first")
        refused = ada.post("/requests/2/start", choice="refit")
        assert (refused.status, refused.state()) == (409, "planned")
        ada.do(1, action, sure="on")
    known = ada.desk.requests.get(1).fact("certificate")
    assert (known["depth"], known["faults"]) == ("bottoms", [])
    before = ada.client.get("/requests/1/certificate").content
    assert ada.carry_out(2).state() == "audited"
    page = ada.do(1, "certify")
    assert page.state() == "certified"
    assert (
        "certifies how deep this request went, and that cannot be stated any more" in page.trouble
    )
    assert ada.desk.requests.get(1).fact("certificate") == known
    assert ada.client.get("/requests/1/certificate").content == before
    assert ada.get("/requests/1/letter").has("This follows from the way in which the models")


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_was_cleared_after_the_purge_is_told_as_cleared(
    ada: Browser, language: Language
) -> None:
    table = LabelTable.of(read_run_folder(ada.desk.place.run))
    assert table is not None
    ada.receive(language=language)
    ada.carry_out(1)
    ada.do(1, "decide", decision="commit")
    full = table.path.read_bytes()
    ada.do(1, "purge", sure="on")
    cleared = table.path.read_bytes()
    assert cleared != full
    table.path.write_bytes(full)  # as a table that the label holder empties
    ada.do(1, "certify")
    assert SENTENCES[language]["table-left"] in ada.get("/requests/1/letter.txt").text
    table.path.write_bytes(cleared)
    ada.do(1, "certify")
    assert SENTENCES[language]["table-cleared"] in ada.get("/requests/1/letter.txt").text
    table.path.write_bytes(full)
    ada.post("/federation/look")
    wait_idle(ada.desk)
    assert SENTENCES[language]["table-left"] in ada.get("/requests/1/letter.txt").text


def test_the_trail_is_a_ledger_that_can_be_checked_elsewhere(ada: Browser, tmp_path: Path) -> None:
    ada.receive()
    ada.at(1)
    assert ada.get("/trail").has("planned")
    assert ada.get("/trail/check").has("The chain is whole")
    text = ada.get("/trail.jsonl").text
    (tmp_path / "ledger.jsonl").write_text(text)
    entries = Ledger(tmp_path).entries()
    assert [entry.event for entry in entries] == ["signed in", "received", "planned"]
    assert entries[1].note["demand"] == sha256(DEMAND)
    assert "P005" not in text
    with ada.desk.store.transaction() as connection:
        connection.execute("UPDATE trail SET entry = replace(entry, 'ada', 'eve') WHERE line = 1")
    assert ada.get("/trail/check").trouble.startswith("The chain breaks at line 2.")


def test_a_chain_shows_what_was_taken_out_of_it_and_not_that_its_end_was_cut(ada: Browser) -> None:
    ada.receive()
    ada.at(1)
    with ada.desk.store.transaction() as connection:
        connection.execute("DELETE FROM trail WHERE line = 2")
    page = ada.get("/trail/check")
    assert page.has("The chain is whole: 2 lines")
    assert page.has("Lines cut off its end")  # so the page says no more than that
    with ada.desk.store.transaction() as connection:
        connection.execute("DELETE FROM trail WHERE line = 0")
    assert ada.get("/trail/check").trouble.startswith("The chain breaks at line 1.")


def test_progress_is_sent_until_nothing_is_under_way(ada: Browser) -> None:
    ada.receive()
    ada.at(1)
    ada.post("/requests/1/start", choice="refit")
    with ada.client.stream("GET", "/requests/1/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        events = [line for line in stream.iter_lines() if line.startswith("event")]
    assert events[0] == "event: progress"
    assert events[-2:] == ["event: changed", "event: ended"]
    with ada.client.stream("GET", "/requests/1/events") as stream:
        assert [line for line in stream.iter_lines() if line] == [
            *("event: changed", "data: ", "event: ended", "data: ")
        ]


@pytest.mark.parametrize(
    "path", ["/requests/99", "/requests/x", "/requests/1/demand", "/nothing", "/static/desk.py"]
)
def test_what_is_not_there_is_said_in_a_page(ada: Browser, path: str) -> None:
    page = ada.get(path)
    assert page.status == 404
    assert page.trouble


def test_an_auditor_sees_everything_and_changes_nothing(
    ada: Browser, make_browser: MakeBrowser
) -> None:
    ada.receive()
    ada.at(1)
    eve = make_browser(ada.desk, "eve")
    for path in ("/requests", "/requests/1", "/federation", "/trail", "/requests/1/demand"):
        page = eve.get(path)
        assert page.status == 200
        assert not page.has("<form(?![^>]*(sign-out|search))"), path
    assert eve.get("/requests/new").status == 403
    for action in ("start", "withdraw", "plan", "cancel"):
        assert eve.post(f"/requests/1/{action}", choice="refit", reason="x").status == 403
    assert ada.get("/requests/1").state() == "planned"
