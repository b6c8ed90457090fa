"""What is recorded of a request, and the sentences that follow from it and from nothing else.

How far the models have forgotten is stated where a certificate states it, and as deep as that.
That something was removed is stated where a party attests it. What is not recorded is named among
what remains.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal

from unlabel.data import ACTIVE
from unlabel.desk import deadline
from unlabel.desk.letter_words import LANGUAGES, Language, Words
from unlabel.errors import SettingsError, unknown
from unlabel.forget.copies import Copy
from unlabel.report.certificate_form import Body, day_of

#: States of a request in which no model was changed, for now or for good.
PENDING = ("received", "planned", "running", "staged", "audited")
ENDED = ("rolled-back", "withdrawn")
#: What `copies` calls the places that have sentences of their own.
TABLES = ("labels in the label holder's own table", "labels in the dataset itself")
WEIGHTS = "weights from before"
#: The other things that it finds left, by the keys of their words, and what exports begin with.
LEFT = {
    "commitments to labels of rows": "commitments",
    "digest of all labels": "digest",
    "what retrained models answered, with labels": "retrained",
    "weights of an open request": "staged",
    "curves of training": "curves",
    "messages that it received and sent": "messages",
}
EXPORT = "exported top of version "


@dataclass(frozen=True)
class LetterFacts:
    """What is recorded of a request, as far as a letter needs it.

    number, reference  the desk's own, and the person's
    received, today    the day on which the demand came in, and the day of the letter
    labels, people     names of whole labels, or how many people it is about
    organisation, contact  who writes; may be empty
    state              of the request at the desk
    request            its id in the ledgers, empty where it was never carried out
    certificate        what was signed, None where nothing was (`letter.certified` reads it)
    purged             party -> when its ledger attests a purge since, or None
    committed          the day or moment of the commit, empty where there was none
    copies             `Federation.copies()` at the end, None where nobody looked
    extension          why the term was extended, empty where it was not
    reason             why the request was closed, for the person
    """

    number: int
    received: date
    today: date
    state: str
    people: int = 0
    labels: tuple[str, ...] = ()
    reference: str = ""
    organisation: str = ""
    contact: str = ""
    request: str = ""
    certificate: Body | None = None
    purged: tuple[tuple[str, str | None], ...] = ()
    committed: str = ""
    copies: tuple[Copy, ...] | None = None
    extension: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Sentences:
    """The sentences of a letter, by where they stand.

    what     the request is about
    answer   what came of it
    done     what was done, and how it is `known`
    remains  what was not done, and what stays
    dates    what there is to say of the term
    """

    subject: str
    what: str
    answer: str
    dates: tuple[str, ...]
    done: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    remains: tuple[str, ...] = ()


def sentences(facts: LetterFacts, language: Language) -> Sentences:
    """Return what is to be said of a request."""
    if language not in LANGUAGES:
        raise SettingsError(unknown("language", language, LANGUAGES))
    words = Words(language)
    say = words.say
    labels = words.listed([say("quoted", label=one_line(label)) for label in facts.labels])
    subject = say("subject", day=words.day(facts.received))
    # Of people whose request was never carried out nobody knows that anything was learnt of them.
    people = "what-people" if facts.request else "what-people-asked"
    what = say(people if facts.people else "what-labels", labels=labels)
    dates = tuple(_dates(facts, words))
    if facts.state in PENDING:
        return Sentences(subject, what, say("pending"), dates)
    if facts.state in ENDED:
        reason = say("reason-missing")
        if facts.reason:
            reason = say("reason", reason=one_line(facts.reason))
        answer = f"{say('ended')} {reason}"
        return Sentences(subject, what, answer, dates, remains=(say("unchanged"),))
    failed = facts.certificate is not None and facts.certificate.depth == "none"
    return Sentences(
        subject,
        what,
        say("failed" if failed else "done"),
        dates,
        done=tuple(_done(facts, words)),
        known=tuple(_known(facts, words)),
        remains=tuple(_remains(facts, words)),
    )


def one_line(text: str) -> str:
    """Return somebody's words in one line."""
    return " ".join(text.split())


def _done(facts: LetterFacts, words: Words) -> list[str]:
    """Return what was done: what a certificate or a ledger has, and no more."""
    done, removed = [], _purges(facts)[0]
    if facts.certificate is not None:
        done.append(words.say(_change(facts.certificate)))
    if facts.committed:
        done.append(words.say("in-use", day=words.day(day_of(facts.committed))))
    if ACTIVE in removed:
        done.append(words.say("purged-own"))
    partners = [party for party in removed if party != ACTIVE]
    if partners:
        done.append(words.say("purged-partners", parties=words.listed(partners)))
    if _table(facts) == "cleared":
        done.append(words.say("table-cleared"))
    return done


def _known(facts: LetterFacts, words: Words) -> list[str]:
    """Return how it is known: what the certificate guarantees, and where that is written."""
    body, known = facts.certificate, []
    if body is None:
        return []
    if _is_exact(body):
        known.append(words.say("exact"))
    elif body.depth not in (None, "none") and not _is_made_exactly(body):
        # Tests look at all people of a request together.
        whom = words.say("you" if facts.people == 1 else "people")
        known.append(words.say(f"{_subject(facts)}-{body.depth}", whom=whom))
    return [*known, words.say("certificate", request=body.request)]


def _remains(facts: LetterFacts, words: Words) -> list[str]:
    """Return what was not done, and what stays."""
    say, body = words.say, facts.certificate
    remains = [say(key) for key in _limits(facts)]
    if body is not None and body.not_signed:
        remains.append(say("unsigned", parties=words.listed(list(body.not_signed))))
    removed, kept = _purges(facts)
    if ACTIVE not in removed:
        remains.append(say("unpurged-own"))
    partners = [party for party in kept if party != ACTIVE]
    if partners:
        remains.append(say("unpurged-partners", parties=words.listed(partners)))
    elif not {*removed} - {ACTIVE} and not (body is not None and _is_refit(body)):
        remains.append(say("unpurged-unknown"))
    table = _table(facts)
    if table != "cleared":
        remains.append(say(f"table-{table}"))
    places = [
        f"{one_line(copy.place)} ({_what(copy, words)})"
        for copy in facts.copies or ()
        if copy.state == "left" and copy.what not in (*TABLES, WEIGHTS)
    ]
    if places:
        remains.append(say("copies-left", places=words.listed(places)))
    return [*remains, *(say(key) for key in ("evidence", "features", "out-of-reach"))]


def _what(copy: Copy, words: Words) -> str:
    """Return what may lie at a place, in the letter's language."""
    if copy.what.startswith(EXPORT):
        return words.say("exported", version=copy.what.removeprefix(EXPORT))
    return words.say(LEFT[copy.what]) if copy.what in LEFT else copy.what


def _limits(facts: LetterFacts) -> list[str]:
    """Return the keys of what a certificate does not say of the models."""
    body = facts.certificate
    if body is None:
        return ["not-certified"]
    limits = []
    if body.depth == "none":
        limits.append("not-none")
    elif _is_made_exactly(body):
        needed = set(body.replay.bases) - {ACTIVE} if body.replay is not None else set()
        why = "not-stated" if needed <= body.bases.keys() else "not-attested"
        limits += [] if _is_exact(body) else [why]
    elif body.depth is None:
        limits.append("not-stated")
    else:
        limits += [f"not-{_subject(facts)}-{body.depth}"] if body.depth != "bottoms" else []
        limits.append("tests-end")
    if any(base.part.gradients for base in body.bases.values()):
        limits.append("by-word")
    return [*limits, *(["partners-know"] if body.visibility == "open" else [])]


def _dates(facts: LetterFacts, words: Words) -> list[str]:
    """Return what there is to say of the term."""
    last = deadline.due(facts.received, facts.extension)
    dates = []
    if facts.extension:
        reason = one_line(facts.extension)
        dates.append(words.say("extended", day=words.day(last), reason=reason))
    if facts.today > last:
        dates.append(words.say("late", day=words.day(last)))
    elif not facts.extension:
        dates.append(words.say("due", day=words.day(last)))
    return dates


def _is_made_exactly(body: Body) -> bool:
    """Return whether the method was to be exact, be that signed for by all or not."""
    return bool(body.bases) or body.replay is not None


def _is_exact(body: Body) -> bool:
    """Return whether it is certified to be exact."""
    return (body.guarantee, body.depth) == ("exact", "bottoms") and _is_made_exactly(body)


def _is_refit(body: Body) -> bool:
    """Return whether no partner's model was changed, since none ever had anything to forget."""
    return _is_exact(body) and body.visibility == "hidden"


def _change(body: Body) -> str:
    """Return the key of the sentence on what was changed."""
    if _is_exact(body):
        return "refit" if body.visibility == "hidden" else "restart"
    return "retrain" if body.method == "retrain" else f"changed-{body.visibility}"


def _purges(facts: LetterFacts) -> tuple[list[str], list[str]]:
    """Return the parties that attest a purge after the commit, and those that do not."""
    body, times = facts.certificate, dict(facts.purged)
    if body is not None:
        times = {**dict.fromkeys((*body.parties, *body.not_signed)), **times}
        for party, signed in body.parties.items():
            if signed.part.purge is not None:
                times[party] = signed.part.purge.at
        if _is_refit(body):  # partners have no versions from before it
            times = {party: at for party, at in times.items() if party == ACTIVE}
    removed = sorted(party for party, at in times.items() if at)
    return removed, sorted(times.keys() - set(removed))


def _table(facts: LetterFacts) -> Literal["cleared", "left", "unknown"]:
    """Return how the label holder's own table stands, by the list of copies."""
    states = {copy.state for copy in facts.copies or () if copy.what in TABLES}
    return "unknown" if not states else "cleared" if states == {"cleared"} else "left"


def _subject(facts: LetterFacts) -> str:
    return "people" if facts.people else "labels"
