"""The page: what it says, what it never says, and that nobody's words become part of it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from report import verdicts
from report.verdicts import CAT, NAMES, models

from unlabel import terms
from unlabel.audit import MEASURES, MODELS, Attack, Finding, ModelFigure, Privacy, Verdict
from unlabel.audit.pictures import picture_data
from unlabel.report import page as page_file
from unlabel.report import wording as words
from unlabel.report.certificate import statement
from unlabel.report.page import SECTIONS, page
from unlabel.terms import DEPTHS, VISIBILITIES, Depth

REPORT = Path(page_file.__file__).parent
SOURCES = sorted([*REPORT.glob("*.py"), REPORT.parent / "terms.py"])
VOID = {"meta", "line", "circle", "rect", "polygon", "polyline"}
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7 * 6 }}"


class Reader(HTMLParser):
    """Reads a page as a browser would: its tags, attributes, and text by the tag around it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.append((self.open[-1], data))

    def words(self) -> str:
        """Return all that is read, without the style sheet."""
        return " ".join(" ".join(text.split()) for tag, text in self.texts if tag != "style")


def said(verdict: Verdict, *arguments: Any) -> str:
    return Reader(page(verdict, *arguments)).words()


def hostile() -> Verdict:
    """Return a verdict in which every text that a user may choose is an attack on the page."""
    names = [HOSTILE, *NAMES[1:CAT], HOSTILE + "2", *NAMES[CAT + 1 :]]
    full = verdicts.full()
    return replace(
        full,
        request=HOSTILE,
        labels=(HOSTILE,),
        state=HOSTILE,
        method=HOSTILE,
        settings={HOSTILE: HOSTILE},
        findings=(Finding("top", HOSTILE, "fail", HOSTILE),),
        measures={HOSTILE: full.measures["echo"], **full.measures},
        pictures=picture_data(models(), [CAT], names),
        privacy=replace(full.privacy, sentence=HOSTILE, attacks=(_attack(HOSTILE),)),
        messages={HOSTILE: full.messages["left"]},
        unknown=(HOSTILE,),
        facts=replace(
            full.facts, at=HOSTILE, versions={HOSTILE: HOSTILE}, parties=(HOSTILE,), top=HOSTILE
        ),
    )


def _attack(name: str) -> Attack:
    return Attack(name, 0.5, 0.4, 0.6, chance=0.1)


# --- the verdict ---------------------------------------------------------------------------


def test_the_verdict_comes_first_and_in_plain_words() -> None:
    text = said(verdicts.full())
    order = [
        "Asked to forget the label “cat”",
        "Forgotten in the answers and in the label holder's model",
        "Demanded: forgotten as far as the label holder's model (depth “top”). Reached.",
        "What this does not mean",
        "Findings",
        "Accuracy, label by label",
        "What was not tested",
        "Settings, versions, dates",
    ]
    places = [text.index(words_) for words_ in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("depth", "steps"),
    [
        ("none", ["fail", "fail", "fail"]),
        ("answers", ["pass", "fail", "fail"]),
        ("top", ["pass", "pass", "fail"]),
        ("bottoms", ["pass", "pass", "pass"]),
    ],
)
def test_the_three_places_follow_the_level(depth: Any, steps: list[str]) -> None:
    found = replace(verdicts.full(), depth=depth)
    assert [step.ruling for step in page_file.ladder(found)] == steps
    text = said(found)
    assert terms.HEADLINES[depth] in text
    assert all(sentence in text for sentence in terms.NOT_MEANT[depth])
    assert ("NOT reached." in text) == (depth in ("none", "answers"))


def probed(*parties: str) -> Verdict:
    """Return a verdict whose linear probe looked at the bottoms of some parties."""
    found = verdicts.full()
    probe = found.measures["probe-linear"]
    detail = {"parties": {p: {"value": 0.9} for p in parties}}
    own = replace(probe.values["forgotten"], detail=detail)
    probe = replace(probe, values={**probe.values, "forgotten": own})
    return replace(found, measures={**found.measures, "probe-linear": probe})


def test_the_label_holders_own_bottom_is_no_partners_model() -> None:
    text = said(probed("active", "shop"))
    assert "partners' models" not in text
    assert "Forgotten in the answers and in the label holder's top model" in text
    assert "The models of the features, the label holder's own among them, can still" in text
    places = [step.place for step in page_file.ladder(probed("active", "shop"))]
    assert places == ["The answers", "The label holder's top model", "The models of the features"]
    stated = statement("top", "hidden", probed("active", "shop").measures)["words"]
    assert stated.startswith("Forgotten in the answers and in the label holder's top model.")
    # A label holder without features has one model, and the others are the partners'.
    places = [step.place for step in page_file.ladder(probed("bank", "shop"))]
    assert places == ["The answers", "The label holder's model", "The partners' models"]
    stated = statement("top", "hidden", probed("bank", "shop").measures)["words"]
    assert stated.startswith("Forgotten in the answers and in the label holder's model.")


def test_a_picture_of_bars_has_bars_in_its_legend() -> None:
    chapters = {chapter(verdicts.full()).key: chapter(verdicts.full()) for chapter in SECTIONS}
    for key, tags in (("destination", {"rect"}), ("accuracy", {"circle", "polygon"})):
        signs = [page_file.sign(name) for name, _ in chapters[key].legend]
        assert {re.findall(r"<(\w+) ", str(drawn))[1] for drawn in signs} == tags
        classes = [re.search(r'class="(bar|mark) (m-\w+)"', str(drawn)) for drawn in signs]
        assert [found and found[2] for found in classes] == [
            "m-original",
            "m-forgotten",
            "m-retrained",
        ]


def test_a_place_that_could_not_be_judged_is_not_known() -> None:
    finding = Finding("bottoms", "probe-linear", "unknown", "There is no retrained model.")
    found = replace(verdicts.full(), findings=(finding,))
    step = page_file.ladder(found)[2]
    assert (step.state, step.tests) == ("Not known", "Tests: 1 not known")
    assert page_file.ladder(found)[0].tests == "No test was made"
    doubt = replace(found, findings=(finding, Finding("bottoms", "probe-mlp", "fail", "Found.")))
    assert page_file.ladder(doubt)[2].ruling == "fail"


@pytest.mark.parametrize("state", words.STATES)
def test_whether_the_new_model_is_in_use_is_said(state: str) -> None:
    text = said(replace(verdicts.full(), state=state))
    assert [name for name, sentence in words.STATES.items() if sentence in text] == [state]


def test_a_comparison_is_claimed_only_where_there_was_one() -> None:
    full = verdicts.full()
    alone = verdicts.only(full.measures, "original", "mask", "forgotten")
    claims: dict[Depth, str] = {
        "answers": "look like those of a model that never learnt it",
        "top": "on the same embeddings, to the other labels alone",
        "bottoms": "than models that never learnt it, beyond how these differ",
    }
    for depth, claim in claims.items():
        text = said(replace(full, depth=depth, measures=alone))
        assert ("No model was trained again to compare with." in text) == (depth != "bottoms")
        assert claim not in text
        assert ("Probably forgotten in" in text) == (depth != "answers")
        compared = said(replace(full, depth=depth))
        assert claim in compared
        assert "Probably forgotten in" not in compared
    # An audit of 0.9 had no tops to compare with: its words stay.
    before = verdicts.only(full.measures, "original", "mask", "forgotten", "retrained")
    assert "the scores behind them no longer single out" in said(replace(full, measures=before))


def test_every_measure_has_a_name_and_a_sentence_and_every_model_a_name() -> None:
    assert set(MEASURES.names()) <= set(words.MEASURE_NAMES)
    assert {*MODELS, "refitted"} == set(words.MODEL_NAMES)
    full = verdicts.full()
    text = said(full)
    known = {n: m for n, m in full.measures.items() if m.value("original") is not None}
    for name, measured in known.items():
        about = f"{measured.about[0].upper()}{measured.about[1:]}."
        assert re.search(rf"{words.MEASURE_NAMES[name]}\s+{about}", text), name


def test_what_a_spread_is_is_said_where_findings_go_by_it() -> None:
    full = verdicts.full()
    said_of = (
        "One spread is how far such models lay from others like them, as recorded; more than 3 is"
    )
    assert said_of in said(full)
    assert "One spread is" not in said(replace(full, facts=replace(full.facts, rules=1)))


def test_a_share_below_zero_is_drawn_at_the_edge_and_stands_in_the_table() -> None:
    full = verdicts.full()
    against = verdicts.measure("old", "top", (1.0, 1.0, -0.25, 0.2), unit="number", tops=-0.1)
    text = page(replace(full, measures={**full.measures, "echo": against}))
    assert "-0.25" in said(replace(full, measures={**full.measures, "echo": against}))
    assert text.count("Echo of the old answers") == said(full).count("Echo of the old answers")


def test_an_attack_is_said_to_be_no_evidence_by_itself() -> None:
    text = said(verdicts.full())
    assert "is no evidence by itself" in text
    places = [text.index(f"{words.MEASURE_NAMES[n]} ") for n in ("membership", "divergence")]
    assert places == sorted(places)


def test_how_many_tests_stand_behind_a_place_is_said() -> None:
    assert [step.tests for step in page_file.ladder(verdicts.full())] == [
        "Tests: 2 passed, 1 doubtful",
        "Tests: 1 passed",
        "Tests: 1 failed, 1 not known",
    ]


def test_every_finding_stands_there_with_its_sentence_and_result() -> None:
    full = verdicts.full()
    text = said(full)
    for finding in full.findings:
        assert finding.sentence in text
    assert {words.RULINGS[f.ruling] for f in full.findings} == set(words.RULINGS.values())
    assert all(word in text for word in words.RULINGS.values())


@pytest.mark.parametrize(
    ("change", "there"),
    [
        ({}, True),
        ({"visibility": "open"}, False),
        ({"facts": replace(verdicts.FACTS, top="mlp")}, False),
        ({"facts": replace(verdicts.FACTS, top="linear")}, True),
        ({"privacy": Privacy(rho=2.0, information=0.5)}, False),
        ({"privacy": Privacy(rho=0.0, information=0.69)}, True),  # of a visible commit alone
    ],
)
def test_a_linear_top_in_hidden_mode_is_called_what_it_is(
    change: dict[str, Any], there: bool
) -> None:
    text = said(replace(verdicts.top_only(), **change))
    row = "the label's row of that layer was deleted and the others were refitted, to"
    assert (f"{row} what the old model said of other samples" in text) == there
    assert ("know of the label stays where it is" in text) == there
    by_labels = said(replace(verdicts.top_only(), **change, settings={"samples": "all"}))
    assert (f"{row} the labels that stay" in by_labels) == there


def test_what_the_accountant_proved_is_said_with_its_limits() -> None:
    text = said(verdicts.full())
    assert "at most 0.5 of the 2.3 nats that name a label" in text
    assert "at most 39.0 % of cases, where chance alone gives 10.0 %" in text
    assert "6.9" not in text  # a tail beyond all there is to learn says nothing
    assert "nothing that they received depends on what was forgotten" in said(verdicts.top_only())
    unbound = Privacy(chance=0.1, sentence="Nothing bounds what partners can tell.")
    found = replace(verdicts.full(), privacy=unbound)
    assert page_file.bound(found) == ["Nothing bounds what partners can tell."]
    assert "No attack was tried" in said(found)
    assert "No attack was tried" not in said(verdicts.full())
    useless = replace(verdicts.full().privacy, information=9.0, guarantee="no guarantee")
    text = said(replace(verdicts.full(), privacy=useless))
    assert "no guarantee that they did not learn" in text
    assert "Proven" not in text


def test_a_purge_is_attested_by_a_party_and_missing_ones_are_named() -> None:
    text = said(verdicts.full(), {"left": "2026-11-16T07:21:01+00:00", "right": None})
    assert "is attested by left on 2026-11-16 07:21 UTC; nobody else has checked it" in text
    assert "No removal of older weights is attested by right" in text
    assert "No party's ledger was read" in said(verdicts.full())
    assert "Ledger broken." in said(verdicts.full(), {}, "Ledger broken.")


def test_values_come_with_their_intervals_and_gaps_are_called_gaps() -> None:
    text = said(verdicts.full())
    assert "57.0 % (52.0 to 62.0)" in text
    assert "0.42 times (0.32 to 0.52)" in text
    retrained = verdicts.full().measures["echo"].values["retrained"]
    assert words.interval(retrained) == "0.2 (0.18 to 0.22), 2 models"
    whole = verdicts.full().measures
    without = verdicts.only({"membership": whole["membership"]}, "original", "mask", "forgotten")
    values = whole["likelihood"].values
    undefined = {**values, "retrained": ModelFigure(None, note="too few rows")}
    partly = {**whole, **without, "likelihood": replace(whole["likelihood"], values=undefined)}
    text = said(replace(verdicts.full(), measures=partly))
    assert "not measured" in text
    assert "undefined: too few rows" in text


def test_a_report_on_people_without_figures_says_what_is_missing() -> None:
    text = said(verdicts.bare())
    assert "Asked to forget the labels of 3 people" in text
    assert "Not forgotten" in text
    assert "No transcript was recorded" in text
    assert "Accuracy by label was not measured." in text
    assert "<svg" not in page(verdicts.bare())
    one = said(replace(verdicts.bare(), people=1))
    assert "the labels of 1 person" in one


def test_a_party_that_received_nothing_is_told_from_one_that_was_not_recorded() -> None:
    quiet = said(verdicts.top_only())
    assert "No transcript was recorded" not in quiet
    assert quiet.count("received 0 B, sent 0 B") == 2


def test_a_report_without_the_original_shows_what_there_is() -> None:
    only = {name: seen for name, seen in models().items() if name == "forgotten"}
    alone = verdicts.only(verdicts.full().measures, "forgotten")
    found = replace(
        verdicts.full(), measures=alone, pictures=picture_data(only, [CAT], NAMES), messages={}
    )
    text = said(found)
    assert "A map of the embeddings was not made." in text
    assert "No transcript was recorded" in text
    assert page(found).count('<svg role="img"') == 8


def test_settings_versions_and_dates_are_there() -> None:
    text = said(verdicts.full(), None, "", datetime(2026, 11, 16, 7, 30, tzinfo=UTC))
    for piece in ("steps 400", "versions, torch 2.13.0", "spreads 3.0", "2026-11-16 07:30 UTC"):
        assert piece in text
    assert "at 2026-11-16 07:20 UTC" in text
    assert "forgetting, transcript bytes 7000" in text


@pytest.mark.parametrize("visibility", VISIBILITIES)
@pytest.mark.parametrize("depth", ["none", *DEPTHS])
def test_the_three_words_stand_near_the_top_with_their_meanings(
    visibility: Any, depth: Any
) -> None:
    text = page(replace(verdicts.full(), visibility=visibility, depth=depth))
    rows = re.findall(r"<tr>(.*?)</tr>", text[: text.index("What this does not mean")])
    cells = [re.findall(r">([^<>]+)</t[hd]>", row) for row in rows]
    described = terms.describe(visibility, depth, "measured")
    assert [tuple(map(unescape, row)) for row in cells] == list(described)


# --- what it never says --------------------------------------------------------------------


@pytest.mark.parametrize("depth", ["none", *DEPTHS])
@pytest.mark.parametrize("visibility", VISIBILITIES)
@pytest.mark.parametrize("made", [verdicts.full, verdicts.bare, verdicts.top_only])
def test_the_page_never_says_what_nobody_can_know(depth: Any, visibility: Any, made: Any) -> None:
    verdict = replace(made(), depth=depth, visibility=visibility)
    text = page(verdict, {"left": "2026-11-16T07:21:01+00:00", "right": None}).lower()
    assert [word for word in words.FORBIDDEN if word in " ".join(text.split())] == []


def test_no_template_and_no_text_of_ours_holds_the_words() -> None:
    for name in ("page.html", "page.css"):
        text = (REPORT / name).read_text(encoding="utf-8").lower()
        assert [word for word in words.FORBIDDEN if word in " ".join(text.split())] == []
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        strings = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
        held = [s for s in strings if isinstance(s, str) and s not in words.FORBIDDEN]
        assert held
        for text in held:
            assert not any(word in text.lower() for word in words.FORBIDDEN), text


# --- one file, and only ours ---------------------------------------------------------------


@pytest.mark.parametrize(
    "verdict", [verdicts.full(), verdicts.bare(), hostile()], ids=["full", "bare", "hostile"]
)
def test_the_page_asks_for_nothing_and_runs_nothing(verdict: Verdict) -> None:
    text = page(verdict, {HOSTILE: HOSTILE}, HOSTILE)
    found = Reader(text)
    asking = {"script", "img", "link", "iframe", "object", "embed", "form", "a", "use", "image"}
    assert asking & set(found.tags) == set()
    for tag, name, value in found.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name not in ("src", "href", "style", "action", "xlink:href"), (tag, name, value)
    style = " ".join(text_ for tag, text_ in found.texts if tag == "style")
    assert "url(" not in style
    assert "@import" not in style
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    assert ("meta", "content", policy) in found.attributes


def test_what_a_user_wrote_is_shown_as_it_is() -> None:
    found = Reader(page(hostile(), {HOSTILE: None}, HOSTILE))
    assert HOSTILE in found.words()
    assert "42" not in [text for _, text in found.texts]  # nothing of it was computed
    assert found.words().count(HOSTILE) > 15


def test_every_picture_is_named_described_and_backed_by_a_table() -> None:
    text = page(verdicts.full())
    pictures = re.findall(r'<svg role="img".*?</svg>', text, re.DOTALL)
    assert len(pictures) == 13
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for picture in pictures:
        named = re.search(r'aria-labelledby="(\S+) (\S+)"', picture)
        assert named
        for name in named.groups():
            assert re.search(rf'<(title|desc) id="{name}">[^<]{{8,}}</', picture), name
    sections = re.findall(r'<section class="chapter.*?</section>', text, re.DOTALL)
    assert len(sections) == 7
    for section in sections:
        assert "<svg" in section
        assert "<table>" in section


def test_what_the_page_is_made_of_is_packaged() -> None:
    package = REPORT.parent
    project = tomllib.loads((package.parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
    packaged = project["tool"]["setuptools"]["package-data"]["unlabel"]
    ours = {path.name for path in REPORT.iterdir() if path.suffix in (".html", ".css")}
    assert ours == {"page.html", "page.css"}
    assert {f"report/{name}" for name in ours} <= set(packaged)
    assert any(each.startswith("jinja2") for each in project["project"]["dependencies"])


def test_the_same_verdict_gives_the_same_page() -> None:
    at = datetime(2026, 11, 16, tzinfo=UTC)
    assert page(verdicts.full(), at=at) == page(verdicts.full(), at=at)


def test_a_place_that_rests_on_warnings_alone_is_marked_as_doubtful() -> None:
    findings = (Finding("answers", "m", "pass", ""), Finding("top", "echo", "warn", ""))
    found = replace(verdicts.full(), findings=findings, depth="top")
    answers, top, _ = page_file.ladder(found)
    assert (answers.state, answers.ruling) == ("Forgotten", "pass")
    assert (top.state, top.ruling) == ("Probably forgotten", "warn")
