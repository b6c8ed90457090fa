"""A letter says what is recorded, names what is not, and never claims more than the record."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path
from string import Formatter
from typing import Any, Literal

import pytest

from unlabel.data import ACTIVE
from unlabel.desk.letter import draft, export, extension_notice, gaps, left_out
from unlabel.desk.letter_facts import ENDED, EXPORT, LEFT, PENDING, LetterFacts, sentences
from unlabel.desk.letter_words import LANGUAGES, SENTENCES, Language
from unlabel.errors import RunError, SettingsError
from unlabel.forget.copies import Copy
from unlabel.report.certificate_form import (
    BasePart,
    Body,
    Part,
    Purge,
    Replay,
    SignedBase,
    SignedPart,
    Term,
    Weights,
)
from unlabel.report.wording import FORBIDDEN

REQUEST, HASH, AT = "0123456789abcdef", "0" * 64, "2026-11-10T09:00:00+00:00"
RECEIVED, TODAY = date(2026, 11, 2), date(2026, 11, 19)
PARTNERS = ("bank", "shop")
TABLE = "labels in the label holder's own table"

Kind = Literal["measured", "refit", "restart"]


def part(party: str, *, purged: bool) -> SignedPart:
    purge = Purge(party, 2, AT) if purged else None
    stated = Part(
        *("unlabel attestation 1", party, REQUEST, HASH, AT, 2),
        *(Weights(HASH, HASH), purge, HASH, "unlabel", AT),
    )
    return SignedPart(stated, HASH, HASH)


def base(party: str, gradients: int = 0) -> SignedBase:
    stated = BasePart(
        *("unlabel base attestation 1", party, "components", HASH, HASH, True),
        *(gradients, HASH, HASH, "unlabel", AT),
    )
    return SignedBase(stated, HASH, HASH)


def certificate(
    depth: Any = "top",
    *,
    kind: Kind = "measured",
    visibility: Any = "open",
    method: str | None = "deep",
    purged: tuple[str, ...] = (),
    unsigned: tuple[str, ...] = (),
    gradients: int = 0,
) -> Body:
    """Return what a certificate states."""
    asked = (ACTIVE,) if kind == "refit" else (ACTIVE, *PARTNERS)
    signers = [party for party in asked if party not in unsigned]
    visibility = {"refit": "hidden", "restart": "open"}.get(kind, visibility)
    exact = kind != "measured"
    guarantee = None if depth is None else "exact" if exact and depth == "bottoms" else "measured"
    return Body(
        what="unlabel certificate 2",
        request=REQUEST,
        version=2,
        commitment=HASH,
        demand=None,
        visibility=visibility,
        secret=visibility == "hidden",
        method=method,
        depth=depth,
        guarantee=guarantee,  # type: ignore[arg-type]
        words="",
        figures=None,
        parties={party: part(party, purged=party in purged) for party in signers},
        not_signed=dict.fromkeys(unsigned, "it is down"),
        term=Term("2026-11-02", True, "2026-12-02", AT, None, AT, True),
        annex=None,
        software="unlabel",
        bases={p: base(p, gradients) for p in PARTNERS if p not in unsigned} if exact else {},
        replay=Replay(HASH, {}, {}, dict.fromkeys((ACTIVE, *PARTNERS), HASH), {})
        if exact
        else None,
    )


def facts(body: Body | None = None, **changes: Any) -> LetterFacts:
    """Return the record of a request of one person that was committed."""
    usual = LetterFacts(
        *(7, RECEIVED, TODAY, "certified"),
        people=1,
        organisation="Bank of Nowhere",
        request=REQUEST,
        certificate=body,
        committed=AT,
    )
    return replace(usual, **changes)


def copy(state: Any, what: str = TABLE, place: str = "bank.csv") -> Copy:
    return Copy(ACTIVE, place, what, state, "" if state == "cleared" else "empty it")


def every_record() -> Iterator[LetterFacts]:
    """Yield the record of a change in every combination that letters tell apart."""
    kinds: tuple[Kind, ...] = ("measured", "refit", "restart")
    everybody = (ACTIVE, *PARTNERS)
    bodies: list[Body | None] = [None]
    for kind, depth, purged, unsigned in product(
        kinds,
        (None, "none", "answers", "top", "bottoms"),
        ((), (ACTIVE,), PARTNERS, everybody),
        ((), ("shop",)),
    ):
        bodies.append(certificate(depth, kind=kind, purged=purged, unsigned=unsigned))
    bodies += [certificate(depth, visibility="hidden", method=None) for depth in (None, "top")]
    bodies.append(certificate("bottoms", method="retrain"))
    bodies.append(certificate("bottoms", kind="refit", gradients=3))
    tables = (None, (copy("cleared"),), (copy("left"),), (copy("kept", place="digits"),))
    ledgers: tuple[tuple[tuple[str, str | None], ...], ...] = (
        (),
        ((ACTIVE, None), ("bank", None), ("shop", AT)),
        tuple((party, AT) for party in everybody),
    )
    for body, table, ledger, people in product(bodies, tables, ledgers, (0, 1, 3)):
        labels = () if people else ("fraud",)
        yield facts(body, copies=table, purged=ledger, people=people, labels=labels)


def attests_purge(record: LetterFacts, party: str) -> bool:
    """Return whether a removal of a party is written anywhere."""
    body = record.certificate
    signed = None if body is None else body.parties.get(party)
    noted = any(name == party and at for name, at in record.purged)
    return noted or (signed is not None and signed.part.purge is not None)


#: What a letter says in its own words, by language: of a removal here, of one elsewhere (and
#: that it was not confirmed), of an empty table, of equal bits, of tests in partners' models.
OWN = {"en": "We removed the versions", "de": "aus der Zeit davor haben wir entfernt"}
ELSEWHERE = {"en": "confirmed that", "de": "wurde bestätigt, dass"}
NOT_ELSEWHERE = {"en": "did not confirm", "de": "nicht bestätigt"}
EMPTY = {"en": "is empty now", "de": "jetzt leer"}
BITS = {"en": "last bit", "de": "letzte Bit"}
DEEPEST = {
    "en": r"our own model or (in )?the models of our partners",
    "de": r"eigene[sn] Modell (oder die|noch in den) Modelle",
}
TESTED = {"en": r"\b(tests|an attack)\b.*(look|recognise|know)", "de": r"(Prüfungen|Angriff)"}
#: Words that no record bears out.
NEVER = r"\b(delet|eras(?!ure)|destroy|complete|fully|guarantee|gelöscht|vernichte|vollständig)"


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_letter_claims_more_than_the_record(language: Language) -> None:
    count = 0
    for record in every_record():
        letter, body, count = draft(record, language), record.certificate, count + 1
        parts = sentences(record, language)
        claims = " ".join((*parts.done, *parts.known))
        # A removal is claimed of nobody who attests none.
        assert OWN[language] not in claims or attests_purge(record, ACTIVE)
        for sentence in parts.done:
            if ELSEWHERE[language] in sentence:
                for party in PARTNERS:
                    assert party not in sentence or attests_purge(record, party)
        # That the table is cleared follows from a look at it.
        states = {each.state for each in record.copies or ()}
        assert (EMPTY[language] in claims) == (states == {"cleared"})
        # Equal bits are claimed where they are certified, tests where there were any.
        depth = None if body is None else body.depth
        guarantee = None if body is None else body.guarantee
        assert (BITS[language] in letter) == (guarantee == "exact")
        tested = guarantee == "measured" and depth in ("answers", "top", "bottoms")
        known = " ".join(parts.known)
        if re.search(TESTED[language], known) and guarantee != "exact":
            assert tested
        if re.search(DEEPEST[language], known):
            assert depth == "bottoms"
        if depth == "none":
            assert SENTENCES[language]["failed"] in letter
            assert SENTENCES[language]["not-none"] in letter
        assert not re.search(NEVER, claims, re.IGNORECASE)
        assert not any(word in letter for word in FORBIDDEN)
    assert count > 1000


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_letter_names_what_was_not_removed_and_is_not_known(language: Language) -> None:
    words = SENTENCES[language]
    for record in every_record():
        letter, body = draft(record, language), record.certificate
        if not attests_purge(record, ACTIVE):
            assert words["unpurged-own"] in letter
        named = {name for name, _ in record.purged}
        named |= {*body.parties, *body.not_signed} if body is not None else set()
        exact = body is not None and body.guarantee == "exact"
        refit = exact and body is not None and body.visibility == "hidden"
        for party in PARTNERS:
            if party in named and not attests_purge(record, party) and not refit:
                line = next(each for each in letter.splitlines() if NOT_ELSEWHERE[language] in each)
                assert party in line
        if not named & {*PARTNERS} and not refit:
            assert words["unpurged-unknown"] in letter
        if record.copies is None:
            assert words["table-unknown"] in letter
        elif {each.state for each in record.copies} != {"cleared"}:
            assert words["table-left"] in letter
        if body is None:
            assert words["not-certified"] in letter
        elif body.depth is None:
            missing = body.replay is not None and "shop" in body.not_signed
            assert (words["not-attested"] in letter) == missing
            assert (words["not-stated"] in letter) == (not missing)
        elif body.depth != "none" and not exact and not body.bases:
            assert words["tests-end"] in letter
        if body is not None and body.not_signed:
            assert words["unsigned"].format(parties="shop") in letter
        if body is not None and any(each.part.gradients for each in body.bases.values()):
            assert words["by-word"] in letter
        for key in ("evidence", "features", "out-of-reach"):
            assert words[key] in letter


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("state", [*PENDING, *ENDED])
def test_before_a_commit_nothing_is_said_to_be_done(language: Language, state: str) -> None:
    body = certificate("bottoms", purged=(ACTIVE, *PARTNERS))
    record = facts(body, state=state, copies=(copy("cleared"),), reason="You asked us to stop.")
    parts, letter = sentences(record, language), draft(record, language)
    assert parts.done == parts.known == ()
    assert SENTENCES[language]["pending" if state in PENDING else "ended"] in letter
    assert ("You asked us to stop." in letter) == (state in ENDED)


def test_a_closed_request_without_a_reason_has_a_gap_that_is_seen() -> None:
    letter, gap = draft(facts(state="withdrawn"), "en"), "[Please add the reason here.]"
    assert gaps("en", letter) == (gap,)
    filled = letter.replace(gap, "The reason is: it was about somebody else.")
    assert gaps("en", filled) == left_out(facts(state="withdrawn"), "en", filled) == ()
    assert left_out(facts(state="withdrawn"), "en", letter.replace("did not", "did"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_of_a_request_that_came_to_nothing_no_more_is_said_than_that(language: Language) -> None:
    # Another request may have changed the models since, so they need not be those from before.
    for state in ENDED:
        letter = draft(facts(state=state, reason="You asked us to stop."), language)
        wrong = {"en": "from before your request", "de": "von vor Ihrem Antrag"}
        assert SENTENCES[language]["unchanged"] in letter
        assert wrong[language] not in letter


@pytest.mark.parametrize("language", LANGUAGES)
def test_of_people_whose_request_was_never_carried_out_nothing_is_said_to_be_learnt(
    language: Language,
) -> None:
    for request, key in (("", "what-people-asked"), (REQUEST, "what-people")):
        letter = draft(facts(state="withdrawn", request=request, reason="Doubled."), language)
        assert SENTENCES[language][key] in letter


def test_tests_of_several_people_are_not_told_as_tests_of_one() -> None:
    body = certificate("answers")
    alone = " ".join(sentences(facts(body, people=1), "en").known)
    together = " ".join(sentences(facts(body, people=3), "en").known)
    assert "predictions about you look" in alone
    assert "handled together, you among them" in together


def test_every_place_where_something_is_left_is_named() -> None:
    left = copy("left", "what retrained models answered, with labels", "active/retrained")
    kept = copy("kept", "names and figures of requests", "report.html")
    record = facts(certificate(), copies=(copy("cleared"), left, kept))
    letter = draft(record, "en")
    assert "active/retrained (what retrained models answered, with labels)" in letter
    assert "report.html" not in letter


def test_what_is_left_has_a_name_in_every_language() -> None:
    for what, key in {**LEFT, f"{EXPORT}3": "exported"}.items():
        record = facts(certificate(), copies=(copy("left", what, "active/labels"),))
        for language in LANGUAGES:
            words = SENTENCES[language][key].format(version=3)
            assert f"active/labels ({words})" in draft(record, language)
        assert what not in draft(record, "de")


def test_a_late_letter_says_so_and_one_in_time_says_when_it_is_due() -> None:
    for today, key in ((date(2026, 12, 2), "due"), (date(2026, 12, 3), "late")):
        letter = draft(facts(certificate(), today=today), "en")
        other = {"due": "late", "late": "due"}[key]
        assert SENTENCES["en"][key].format(day="2 December 2026") in letter
        assert SENTENCES["en"][other].format(day="2 December 2026") not in letter
    extended = facts(certificate(), today=date(2026, 12, 3), extension="Many came in.")
    letter = draft(extended, "en")
    assert "2 February 2027" in letter
    assert "Many came in." in letter
    assert "apologise" not in letter


def fields_of(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_both_languages_say_the_same_things() -> None:
    assert SENTENCES["en"].keys() == SENTENCES["de"].keys()
    for key, sentence in SENTENCES["en"].items():
        assert fields_of(sentence) == fields_of(SENTENCES["de"][key]), key
        assert sentence != SENTENCES["de"][key]
    with pytest.raises(SettingsError):
        draft(facts(), "fr")  # type: ignore[arg-type]


# Templates


@pytest.mark.parametrize("language", LANGUAGES)
def test_exported_templates_give_the_same_letter_and_may_be_edited(
    tmp_path: Path, language: Language
) -> None:
    record, folder = facts(certificate()), tmp_path / "letters"
    assert len(export(folder)) == 4
    usual = draft(record, language)
    assert draft(record, language, folder) == usual
    mine = folder / f"letter.{language}.txt"
    mine.write_text(f"ZENTRALE\n\n{mine.read_text(encoding='utf-8')}", encoding="utf-8")
    assert draft(record, language, folder) == f"ZENTRALE\n\n{usual}"
    other = next(each for each in LANGUAGES if each != language)
    assert draft(record, other, folder) == draft(record, other)
    with pytest.raises(RunError):
        export(folder)
    assert mine.read_text(encoding="utf-8").startswith("ZENTRALE"), "nothing is overwritten"


@pytest.mark.parametrize(
    "template",
    [
        "We have deleted everything. {{ answer }}",
        "{{ answer }} {% for each in remains[1:] %}{{ each }} {% endfor %}",
        "{% for each in remains %}{{ each }} {% endfor %}",
        "{{ nothing }}",
        "{% for",
        "{{ ''.__class__.__mro__ }}",
        "{{ 1 / 0 }}",
    ],
)
def test_a_template_that_leaves_limits_out_or_is_broken_is_refused(
    tmp_path: Path, template: str
) -> None:
    (tmp_path / "letter.en.txt").write_text(template)
    with pytest.raises(RunError):
        draft(facts(certificate()), "en", tmp_path)


def test_a_template_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "letter.en.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RunError):
        draft(facts(certificate()), "en", tmp_path)


def test_an_edited_text_is_checked_for_what_it_lacks() -> None:
    record = facts(certificate())
    text = draft(record, "en")
    assert left_out(record, "en", text.replace("\n", "  \n ")) == ()
    lacking = sentences(record, "en").remains[2]
    assert left_out(record, "en", text.replace(lacking, "")) == (lacking,)


def test_what_people_typed_is_no_template() -> None:
    record = facts(
        certificate(), people=0, labels=("{{ 7 * 7 }}", "a\nb"), reference="{% raw %}\n\nX"
    )
    letter = draft(record, "en")
    assert "“{{ 7 * 7 }}” and “a b”" in letter
    assert "{% raw %} X" in letter


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_notice_of_an_extension_has_the_reason_and_the_new_day(
    tmp_path: Path, language: Language
) -> None:
    record = facts(state="received", extension="Many demands came in.")
    text = extension_notice(record, language)
    assert record.extension in text
    assert ("2 February 2027" if language == "en" else "2. Februar 2027") in text
    with pytest.raises(RunError):
        extension_notice(facts(), language)
    (tmp_path / f"extension.{language}.txt").write_text("It takes longer, until {{ due }}.")
    with pytest.raises(RunError):
        extension_notice(record, language, tmp_path)
