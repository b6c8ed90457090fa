"""People after a hidden request: what is told of it, an approver decides, and says why."""

from __future__ import annotations

from cli.command_line import one_thread

from desk.asking import stored
from desk.browsers import Browser
from desk.conftest import MakeBrowser, MakeDesk
from unlabel.desk.office import Desk
from unlabel.files import sha256

__all__ = ["one_thread"]  # a fixture for every test here

WHY = "The partners agreed to learn it."


def hide(ada: Browser) -> None:
    """Make a hidden request of a label, and drop it: that one was made is what counts."""
    number = ada.receive(kind="labels", labels=["cedar"]).path.rpartition("/")[2]
    ada.at(int(number))
    assert ada.do(int(number), "start", choice="hidden").state() == "audited"
    ada.do(int(number), "decide", decision="rollback")


def test_an_approver_alone_decides_that_what_was_hidden_is_told(
    make_desk: MakeDesk, make_browser: MakeBrowser
) -> None:
    desk: Desk = make_desk("supervised")
    ada, bert = make_browser(desk, "ada"), make_browser(desk, "bert")
    ada.receive()
    assert ada.at(1).has('value="retrain"[^>]*checked')
    assert not ada.at(1).has("hidden request was made|Only an approver")
    hide(ada)
    # What it could be done by before shows what is hidden now.
    page = ada.do(1, "start", choice="retrain")
    assert (page.state(), page.trouble) == (
        "planned",
        "What can be done has changed since; look at it again.",
    )
    page = ada.do(1, "plan")
    assert page.has('value="disclosed"[^>]*disabled.*Only an approver may choose this')
    assert page.has("Partners can tell from this training what that was about")
    assert not page.has('--|allow_disclosure|id="disclosing"')
    before = stored(desk)
    assert ada.post("/requests/1/start", choice="disclosed", reason=WHY).status == 403
    assert bert.post("/requests/1/start", choice="disclosed", reason=" ").status == 422
    assert stored(desk) == before
    page = bert.get("/requests/1")
    assert page.has('id="disclosing"')
    assert not page.has('value="disclosed"[^>]*checked'), "it is to be meant"
    page = bert.do(1, "start", choice="disclosed", reason=WHY)
    assert page.state() == "audited", page.trouble
    assert page.has(f"as bert decided: {WHY}")
    asked = next(e for e in desk.trail.of(1) if e.note.get("choice") == "disclosed")
    assert asked.note == {"by": "bert", "choice": "disclosed", "reason": sha256(WHY.encode())}
