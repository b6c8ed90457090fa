"""The letter to the person, and the notice that it takes longer: sentences in a template.

Templates may be replaced by one's own. What has to be said may not be left out: such a template is
refused, and of a text that somebody edited it is said what it lacks.
"""

from __future__ import annotations

import functools
import re
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from unlabel.desk import deadline
from unlabel.desk.letter_facts import LetterFacts, one_line, sentences
from unlabel.desk.letter_words import LANGUAGES, Language, Words
from unlabel.desk.store import FOLDER_MODE
from unlabel.errors import CertificateError, RunError
from unlabel.files import write_atomically
from unlabel.report.certificate_form import Body
from unlabel.verification import verify

FOLDER = "letters"
Kind = Literal["letter", "extension"]
KINDS: tuple[Kind, ...] = get_args(Kind)
#: What goes wrong in a template that somebody wrote.
MISTAKES = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError)


def certified(path: Path, request: str, run: Path | None = None) -> Body:
    """Return what a certificate states of a request; raise where it does not hold.

    run  folder of the run, to look at ledgers and weights too
    """
    checks = verify(path, run=run)
    if checks.body is None or not checks.holds:
        raise CertificateError(f"No letter is written from '{path}': {checks.faults[0]}")
    if checks.body.request != request:
        raise CertificateError(
            f"'{path}' is about request {checks.body.request}, and not about {request}."
        )
    return checks.body


def draft(facts: LetterFacts, language: Language, templates: Path | None = None) -> str:
    """Return the letter on what came of a request as plain text.

    templates  a folder with templates of one's own; those that it lacks are the package's
    """
    text = _rendered("letter", facts, language, templates, vars(sentences(facts, language)))
    missing = left_out(facts, language, text)
    if missing:
        raise RunError(
            f"Template 'letter.{language}.txt' leaves out what has to be said: \"{missing[0]}\""
        )
    return text


def left_out(facts: LetterFacts, language: Language, text: str) -> tuple[str, ...]:
    """Return what a text lacks of what came of a request, was not done and remains."""
    parts, words = sentences(facts, language), one_line(text)
    answer = parts.answer.removesuffix(Words(language).say("reason-missing")).strip()
    return tuple(each for each in (answer, *parts.remains) if each not in words)


def gaps(language: Language, text: str) -> tuple[str, ...]:
    """Return what a text still asks its writer for."""
    asked = Words(language).say("reason-missing")
    return (asked,) if asked in one_line(text) else ()


def extension_notice(facts: LetterFacts, language: Language, templates: Path | None = None) -> str:
    """Return the notice that the term is extended, with the reason."""
    if not facts.extension:
        raise RunError("The term was not extended, so there is no notice of that.")
    subject = Words(language).say("extension-subject", day=Words(language).day(facts.received))
    values = {"subject": subject, "reason": one_line(facts.extension)}
    text = _rendered("extension", facts, language, templates, values)
    if values["reason"] not in one_line(text):
        raise RunError(f"Template 'extension.{language}.txt' leaves out the reason.")
    return text


def export(folder: Path) -> list[Path]:
    """Copy the package's templates into a folder, to be edited; return their paths."""
    names = [f"{kind}.{language}.txt" for kind in KINDS for language in LANGUAGES]
    present = [name for name in names if (folder / name).exists()]
    if present:
        raise RunError(f"There is '{folder / present[0]}' already; nothing was changed.")
    folder.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True)
    for name in names:
        write_atomically(folder / name, _packaged(name).encode())
    return [folder / name for name in names]


def _rendered(
    kind: Kind, facts: LetterFacts, language: Language, folder: Path | None, values: dict[str, Any]
) -> str:
    """Return the text that a template makes of what there is to say."""
    name, words = f"{kind}.{language}.txt", Words(language)
    try:
        text = _compiled(_template(name, folder)).render(
            **values,
            number=facts.number,
            reference=one_line(facts.reference),
            organisation=one_line(facts.organisation),
            contact=facts.contact.strip(),
            received=words.day(facts.received),
            today=words.day(facts.today),
            due=words.day(deadline.due(facts.received, facts.extension)),
        )
    except MISTAKES as error:
        raise RunError(f"Template '{name}' cannot be filled in ({error}); mend it.") from error
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


@functools.lru_cache(maxsize=16)
def _compiled(source: str) -> Template:
    """Return a template ready to be filled in; it reaches nothing but what it is given."""
    environment = SandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source)


def _template(name: str, folder: Path | None) -> str:
    """Return a template: of a folder where it has one, else the package's."""
    if folder is None or not (folder / name).is_file():
        return _packaged(name)
    try:
        return (folder / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"Cannot read template '{folder / name}' ({error}); mend it.") from error


def _packaged(name: str) -> str:
    return resources.files("unlabel.desk").joinpath(FOLDER, name).read_text(encoding="utf-8")
