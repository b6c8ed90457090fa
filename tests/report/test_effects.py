"""What a request deleted, what it changed and what remains: the same words on every paper."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import one_thread, unlabel
from report import verdicts
from report.certified import PARTIES, audit, certify, copy, forget, make_run

from unlabel import Federation, terms
from unlabel.report.certificate import statement
from unlabel.report.page import page
from unlabel.report.wording import FORBIDDEN, with_noise
from unlabel.terms import DEPTHS, VISIBILITIES, effects

__all__ = ["one_thread"]  # a fixture for every test here

REACHABLE = ["none", *DEPTHS]
PURGES = {"active": "2026-11-16T07:21:00+00:00", "left": "2026-11-16T07:21:01+00:00", "right": None}
#: The only thing of which the word may be said, beside the heading.
SAID_OF_OTHERS = ("The model was changed, not deleted", "Deleted:")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("zoo"))


def on_page(text: str) -> list[str]:
    """Return the three parts as they stand on a page, a line each."""
    section = text.split('<section class="effects">')[1].split("</section>")[0]
    parts = re.findall(r"<h3>(.*?)</h3>(.*?)</div>", section, re.DOTALL)
    return [
        f"{heading}: {' '.join(unescape(p) for p in re.findall('<p>(.*?)</p>', body))}"
        for heading, body in parts
    ]


def of_label(text: str) -> str:
    """Return a text without what it says to be deleted, or not, of other things than labels."""
    for phrase in SAID_OF_OTHERS:
        text = text.replace(phrase, "")
    return text.lower()


@pytest.mark.parametrize("visibility", VISIBILITIES)
@pytest.mark.parametrize("depth", REACHABLE)
def test_page_and_certificate_say_the_same_three_things(visibility: Any, depth: Any) -> None:
    for made in (verdicts.full, verdicts.top_only):  # sent with noise, and without
        verdict = replace(made(), visibility=visibility, depth=depth, state="committed")
        noise = with_noise(verdict)
        stated = statement(depth, visibility, verdict.measures, noise=noise, purges=PURGES)
        words = stated["words"]
        parts = on_page(page(verdict, PURGES))
        assert words.splitlines()[1:] == parts
        assert [part.split(": ")[0] for part in parts] == ["Deleted", "Changed", "Remains"]
        assert all(len(part.split(": ", 1)[1]) > 40 for part in parts)
        assert [word for word in FORBIDDEN if word in words.lower()] == []
        assert "delet" not in of_label(words)


def test_the_word_is_found_where_it_is_said_of_a_label() -> None:
    assert "delet" in of_label("Deleted: The label was deleted.")


@pytest.mark.parametrize("visibility", VISIBILITIES)
@pytest.mark.parametrize("depth", [None, *REACHABLE])
def test_what_remains_follows_from_the_depth_and_is_named_with_its_place(
    visibility: Any, depth: Any
) -> None:
    remains = effects(depth, visibility)["Remains"]
    places = ("models", "own table", "ledgers", "backups")
    assert all(
        place in sentence or depth == "answers"
        for place, sentence in zip(places, remains, strict=True)
    )
    in_top, in_bottoms = "top model" in remains[0], "bottom models" in remains[0]
    assert (in_top, in_bottoms) == (depth == "answers", depth in ("answers", "top"))
    assert len({effects(each, visibility)["Remains"] for each in [None, *REACHABLE]}) == 5


def test_a_hidden_request_changed_no_partners_model_unless_there_was_noise() -> None:
    assert "No partner's model was changed" in effects("top", "hidden")["Changed"][0]
    for depth in REACHABLE:
        for changed in (effects(depth, "hidden", noise=True), effects(depth, "open")):
            assert "No partner's model" not in changed["Changed"][0]
            assert "bottom models" in changed["Changed"][0]
    # Where no audit says so, it is not known whether there was noise.
    assert "No partner's model" not in statement("top", "hidden")["words"]
    silent, noisy = verdicts.top_only(), verdicts.full()
    assert (with_noise(silent), with_noise(noisy)) == (False, True)
    assert "No partner's model" in statement("top", "hidden", noise=False)["words"]


def test_weights_are_gone_only_where_their_party_says_so() -> None:
    def deleted(**purges: str | None) -> tuple[str, ...]:
        return effects("top", "hidden", purges=purges)["Deleted"]

    assert deleted() == (terms.PURGE_UNKNOWN,)
    assert deleted(a=None, b=None) == (terms.UNPURGED.format(kept="a, b"),)
    assert deleted(a="now", b="now") == (terms.PURGED.format(removed="a, b"),)
    assert deleted(a="now", b=None) == (
        terms.PURGED.format(removed="a"),
        terms.KEPT.format(kept="b"),
    )
    assert deleted(a="now")[0].startswith("Of the label itself, nothing.")


@pytest.mark.parametrize("demanded", ["none", "top"])
def test_not_forgotten_reads_as_a_failure_whatever_was_demanded(demanded: Any) -> None:
    text = page(replace(verdicts.full(), depth="none", demanded=demanded))
    assert '<section class="verdict missed"' in text
    assert "The request failed" in text
    assert "what was asked for was not done" in text
    assert statement("none", "open")["words"].startswith("Not forgotten. The request failed")
    assert "failed" not in statement("answers", "open")["words"]


def test_a_request_that_is_not_in_force_has_changed_nothing() -> None:
    staged = on_page(page(replace(verdicts.top_only(), state="staged"), dict.fromkeys(PARTIES)))
    assert staged[1].startswith("Changed: Nothing yet: the new model is not in use.")
    assert staged[2].startswith("Remains: In the models in use: all that they learnt of it.")
    dropped = on_page(page(replace(verdicts.top_only(), state="rolled-back"), PURGES))
    assert dropped[1] == "Changed: Nothing: the new model was dropped."
    assert "all that they learnt of it" in dropped[2]


def test_a_real_report_and_its_certificate_agree_before_and_after_a_purge(
    trained: Path, tmp_path: Path
) -> None:
    run = copy(trained, tmp_path / "run")
    audit(run, forget(run, purge=False), "answers")
    parts = []
    for verb in ("status", "purge"):
        assert unlabel(verb, run, "--json").code == 0
        assert unlabel("report", run, "--json").code == 0
        words = unlabel("certificate", run).out
        stated = json.loads((run / "certificate.json").read_text())["certificate"]["words"]
        assert stated in words  # the terminal shows all of it, line by line
        assert stated.splitlines()[1:] == on_page((run / "report.html").read_text())
        parts.append(stated.splitlines()[1])
    assert parts[0] == f"Deleted: {terms.UNPURGED.format(kept=', '.join(PARTIES))}"
    assert parts[1] == f"Deleted: {terms.PURGED.format(removed=', '.join(PARTIES))}"
    # A party that does not sign attests nothing, whatever it did.
    (run / PARTIES[2] / "secrets" / "signing.key").write_text("no key")
    words = certify(run)["certificate"]["words"]
    assert terms.KEPT.format(kept=PARTIES[2]) in words
    assert terms.PURGED.format(removed=", ".join(PARTIES[:2])) in words


def test_of_people_who_were_not_audited_that_is_said(trained: Path, tmp_path: Path) -> None:
    run = copy(trained, tmp_path / "run")
    federation = Federation.open(run)
    someone = str(federation.predict(part="train").ids[0])
    federation.forget(ids=[someone]).commit()
    words = certify(run)["certificate"]["words"]
    assert terms.PEOPLE_NOT_AUDITED in words
    assert terms.LEFT_OF_PEOPLE[None] in words
    assert terms.NOT_AUDITED not in words
    assert len(words.splitlines()) == 4


def test_a_commit_says_at_the_terminal_that_nothing_was_deleted(
    trained: Path, tmp_path: Path
) -> None:
    run = copy(trained, tmp_path / "run")
    assert unlabel("forget", run, "--label", "cat", "--method", "renormalise").code == 0
    assert terms.COMMITTED in unlabel("commit", run, "--force").err
