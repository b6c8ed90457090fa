"""The page a person reads: one file, verdict first, without a script and without the network."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from unlabel._version import __version__
from unlabel.audit.construction import construction_of
from unlabel.audit.verdict import Verdict, reaches
from unlabel.data import ACTIVE
from unlabel.forget.exact_methods import EXACT_NAMES
from unlabel.report import wording
from unlabel.report.knowledge_figures import embeddings, residue, scores
from unlabel.report.label_figures import accuracy, destination
from unlabel.report.partner_figures import leakage, messages
from unlabel.report.section import BAR, MARK, Table
from unlabel.report.svg import legend_sign
from unlabel.terms import CARRIED_OUT, CARRIED_OUT_ALONE, describe, effects

REFIT = EXACT_NAMES["blind"]
#: The report's figures, in the order in which they are read.
SECTIONS = (accuracy, destination, scores, residue, embeddings, leakage, messages)
#: Those of a request about people: there is no label of theirs to be drawn apart.
SECTIONS_OF_PEOPLE = (accuracy, scores, residue, leakage, messages)


def page(
    verdict: Verdict,
    purged: Mapping[str, str | None] | None = None,
    trouble: str = "",
    at: datetime | None = None,
) -> str:
    """Return the report as one HTML page.

    purged   party -> when its ledger attests a purge, None where it attests none
    trouble  why the ledgers could not be read, where they could not
    at       when the page is written; now by default
    """
    exact = construction_of(verdict.facts.construction, verdict.depth)
    if exact is not None and not exact.restart:  # partners have no weights from before it
        purged = {party: at for party, at in (purged or {}).items() if party == ACTIVE}
    people = bool(verdict.people)
    sections = SECTIONS_OF_PEOPLE if people else SECTIONS
    drawn = [section(verdict) for section in sections]
    missing = [section.missing for section in drawn if section.missing]
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = environment.from_string(_text("page.html")).render(
        style=Markup(_text("page.css")),  # ours: no user's word gets into it
        verdict=verdict,
        wording=wording,
        exact=exact,
        ladder=ladder(verdict),
        terms=describe(verdict.visibility, verdict.depth, verdict.guarantee, people=people),
        visibility=CARRIED_OUT_ALONE
        if verdict.method == REFIT
        else CARRIED_OUT[verdict.visibility],
        bound=bound(verdict),
        effects=effects(
            verdict.depth,
            verdict.visibility,
            people=people,
            noise=wording.with_noise(verdict),
            state=verdict.state,
            purges=purged,
            exact=exact,
        ),
        findings=findings(verdict),
        sections=drawn,
        sign=sign,
        untested=[*verdict.unknown, *missing, *wording.NEVER_TESTED],
        purges=wording.purges(purged or {}),
        trouble=trouble,
        blocks=blocks(verdict),
        at=(at or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC"),
        version=__version__,
    )
    return text.rstrip() + "\n"


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
    word = "Evidence" if verdict.facts.construction else "Tests"
    for depth, place in wording.places_of(verdict).items():
        rulings: Counter[str] = Counter(f.ruling for f in verdict.findings if f.depth == depth)
        if reaches(verdict.depth, depth):
            # Where nothing passed outright, what there is are warnings, and that is to be seen.
            doubtful = rulings["warn"] and not rulings["pass"]
            state, ruling = ("Probably forgotten", "warn") if doubtful else ("Forgotten", "pass")
        elif rulings["unknown"] and not rulings["fail"]:
            state, ruling = "Not known", "unknown"
        else:
            state, ruling = "Not forgotten", "fail"
        counts = [f"{rulings[key]} {word}" for key, word in wording.RULINGS.items() if rulings[key]]
        tests = f"{word}: {', '.join(counts)}" if counts else "No test was made"
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
            f"{wording.number(best, 'share')} of cases, where chance alone gives "
            f"{wording.number(chance, 'share')}."
        )
    tail, delta = privacy.tail, privacy.delta
    if tail is not None and delta is not None and (whole is None or tail < whole):
        share = wording.number(delta, "share")
        lines.append(f"In all but {share} of requests it is {tail:.2g} nats.")
    return lines


def findings(verdict: Verdict) -> Table:
    """Return every judgement as a line."""
    places, names = wording.places_of(verdict), wording.MEASURE_NAMES
    lines = tuple(
        (places[each.depth], names.get(each.measure, each.measure), each.ruling, each.sentence)
        for each in verdict.findings
    )
    return Table(("Where", "What was tested", "Result", "Why"), lines)


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


def flat(data: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Return nested data as lines.

    >>> flat({"rows": {"train": 40}, "labels": ["a", "b"], "gone": None})
    [('rows, train', '40'), ('labels', 'a, b'), ('gone', '-')]
    """
    lines: list[tuple[str, str]] = []
    for name, value in data.items():
        path = f"{before}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            lines += flat(value, f"{path}, ")
        elif isinstance(value, list | tuple):
            lines.append((path, ", ".join(map(str, value)) or "-"))
        else:
            lines.append((path, "-" if value is None else wording.moment(str(value))))
    return lines


def sign(name: str) -> Markup:
    """Return the sign of a legend: a model's mark or bar, or a patch in the style of a class."""
    for prefix in (BAR, MARK):
        if name.startswith(prefix):
            return legend_sign(name.removeprefix(prefix), as_bar=prefix == BAR)
    return Markup('<span class="patch {}" aria-hidden="true"></span>').format(name)


def _text(name: str) -> str:
    return resources.files("unlabel.report").joinpath(name).read_text(encoding="utf-8")
