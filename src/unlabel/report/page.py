"""The page a person reads: one file, verdict first, without a script and without the network."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from unlabel._version import __version__
from unlabel.audit.verdict import Verdict, reaches
from unlabel.report import words
from unlabel.report.chapter import BAR, Chapter, Table
from unlabel.report.drawing import bar_sign, legend_sign
from unlabel.report.knowledge_figures import embeddings, residue, scores
from unlabel.report.label_figures import accuracy, destination
from unlabel.report.partner_figures import leakage, messages

#: The report's figures, in the order in which they are read.
CHAPTERS = (accuracy, destination, scores, residue, embeddings, leakage, messages)


def page(
    verdict: Verdict,
    purged: Mapping[str, str | None] | None = None,
    trouble: str = "",
    made: datetime | None = None,
) -> str:
    """Return the report as one HTML page.

    purged   party -> when its ledger attests a purge, None where it attests none
    trouble  why the ledgers could not be read, where they could not
    made     when the page is written; now by default
    """
    drawn = [chapter(verdict) for chapter in CHAPTERS]
    return (
        _template("page.html")
        .render(
            style=Markup(_text("page.css")),  # ours: no user's word gets into it
            verdict=verdict,
            words=words,
            headline=words.headline(verdict.level, verdict.measures),
            subject=words.subject(verdict),
            ladder=ladder(verdict),
            not_meant=words.not_meant(verdict.level, verdict.measures),
            mode=words.MODES.get(
                verdict.mode, f"The request was carried out in mode {verdict.mode}."
            ),
            deletion=words.row_deletion(verdict),
            bound=bound(verdict),
            findings=findings(verdict),
            chapters=drawn,
            sign=sign,
            untested=untested(verdict, drawn),
            purges=words.purges(purged or {}),
            trouble=trouble,
            blocks=blocks(verdict),
            made=(made or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC"),
            version=__version__,
        )
        .rstrip()
        + "\n"
    )


@dataclass(frozen=True)
class Step:
    """A place that knowledge can sit in, whether it is forgotten there, and how sure that is."""

    place: str
    state: str
    ruling: str
    tests: str


def ladder(verdict: Verdict) -> list[Step]:
    """Return the three places, from the outermost to the innermost."""
    steps = []
    for level, place in words.places(verdict.measures).items():
        rulings: Counter[str] = Counter(f.ruling for f in verdict.findings if f.level == level)
        if reaches(verdict.level, level):
            # Where nothing passed outright, what there is are warnings, and that is to be seen.
            doubtful = rulings["warn"] and not rulings["pass"]
            state, ruling = ("Probably forgotten", "warn") if doubtful else ("Forgotten", "pass")
        elif rulings["unknown"] and not rulings["fail"]:
            state, ruling = "Not known", "unknown"
        else:
            state, ruling = "Not forgotten", "fail"
        told = [f"{rulings[name]} {word}" for name, word in words.RULINGS.items() if rulings[name]]
        tests = f"Tests: {', '.join(told)}" if told else "No test was made"
        steps.append(Step(place, state, ruling, tests))
    return steps


def bound(verdict: Verdict) -> list[str]:
    """Return in sentences what the accountant proved, or that it proved nothing."""
    privacy = verdict.privacy
    information, whole = privacy.information, privacy.ln_labels
    if information is None:
        return [privacy.sentence] if privacy.sentence else []
    if not privacy.holds:
        return ["There is no guarantee that they did not learn which label it was."]
    if information == 0:
        return ["Proven: nothing that they received depends on what was forgotten."]
    of = f" of the {whole:.2g} nats that name a label" if whole is not None else ""
    lines = [f"Proven: on average they could learn at most {information:.2g}{of}."]
    best, chance = privacy.best_guess, privacy.chance
    if best is not None and chance is not None:
        lines.append(
            f"However clever, a guess from what they received is right in at most "
            f"{words.number(best, 'share')} of cases, where chance alone gives "
            f"{words.number(chance, 'share')}."
        )
    tail, delta = privacy.tail, privacy.delta
    if tail is not None and delta is not None and (whole is None or tail < whole):
        lines.append(
            f"In all but {words.number(delta, 'share')} of requests it is {tail:.2g} nats."
        )
    return lines


def findings(verdict: Verdict) -> Table:
    """Return every judgement as a line."""
    places = words.places(verdict.measures)
    lines = tuple(
        (
            places[finding.level],
            words.MEASURE_NAMES.get(finding.measure, finding.measure),
            finding.ruling,
            finding.sentence,
        )
        for finding in verdict.findings
    )
    return Table(("Where", "What was tested", "Result", "Why"), lines)


def untested(verdict: Verdict, drawn: list[Chapter]) -> list[str]:
    """Return what this audit does not know: its own sentences, and what no audit can see."""
    return [
        *verdict.unknown,
        *(chapter.missing for chapter in drawn if chapter.missing),
        *words.NEVER_TESTED,
    ]


def blocks(verdict: Verdict) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return settings, thresholds and facts, each as lines of a name and a value."""
    program = {"unlabel": __version__, "Python": platform.python_version()}
    return [
        ("Request", flat({"request": verdict.request, "state": verdict.state})),
        (f"Method “{verdict.method}”", flat(verdict.settings)),
        ("Thresholds of the audit", flat(asdict(verdict.thresholds))),
        ("Facts recorded by the audit", flat(verdict.facts.to_json())),
        ("This page was written by", flat(program)),
    ]


def flat(found: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Return nested data as lines.

    >>> flat({"rows": {"train": 40}, "labels": ["a", "b"], "gone": None})
    [('rows, train', '40'), ('labels', 'a, b'), ('gone', '-')]
    """
    lines: list[tuple[str, str]] = []
    for name, value in found.items():
        path = f"{before}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            lines += flat(value, f"{path}, ")
        elif isinstance(value, list | tuple):
            lines.append((path, ", ".join(map(str, value)) or "-"))
        else:
            lines.append((path, "-" if value is None else words.moment(str(value))))
    return lines


def sign(name: str) -> Markup:
    """Return the sign of a legend: a model's mark or bar, or a patch in the style of a class."""
    if name.startswith(BAR):
        return bar_sign(name.removeprefix(BAR))
    if name.startswith("m-"):
        return legend_sign(name.removeprefix("m-"))
    return Markup('<span class="patch {}" aria-hidden="true"></span>').format(name)


def _template(name: str) -> Template:
    house = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return house.from_string(_text(name))


def _text(name: str) -> str:
    return resources.files("unlabel.report").joinpath(name).read_text(encoding="utf-8")
