"""What an audit found of a request, for its page: the report's own words, figures and pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unlabel.audit import MODELS, Verdict
from unlabel.audit.construction import construction_of
from unlabel.audit.verdict import read_verdict
from unlabel.errors import UnlabelError
from unlabel.report import wording
from unlabel.report.page import SECTIONS, SECTIONS_OF_PEOPLE, Step, findings, ladder
from unlabel.report.section import Section, Table
from unlabel.terms import describe


@dataclass(frozen=True)
class Shown:
    """An audit as the desk shows it.

    headline, meaning  the depth in words
    kind               reached, probable or missed, by which the report is coloured
    steps              the three places that knowledge can sit in
    terms              the three words of the request, each with what it means
    figures            every measure beside the original and the references
    findings           what was judged
    sections           with the pictures
    """

    verdict: Verdict
    headline: str
    meaning: str
    kind: str
    demand: str
    steps: list[Step]
    terms: tuple[tuple[str, str, str], ...]
    figures: Table
    findings: Table
    sections: list[Section]
    rulings: object = None


def shown(path: Path) -> Shown | None:
    """Return what an audit that is kept in a file found, None where there is none."""
    if not path.exists():
        return None
    try:
        verdict = read_verdict(path)
    except UnlabelError:
        return None
    exact = construction_of(verdict.facts.construction, verdict.depth)
    measures, people = verdict.measures, bool(verdict.people)
    probable = wording.is_probable(verdict.depth, measures, exact)
    missed = not verdict.passed or verdict.depth == "none"
    return Shown(
        verdict=verdict,
        headline=wording.headline(verdict.depth, measures, exact),
        meaning=wording.meaning(verdict.depth, measures, exact),
        kind="missed" if missed else "probable" if probable else "reached",
        demand=wording.demand(verdict),
        steps=ladder(verdict),
        terms=describe(verdict.visibility, verdict.depth, verdict.guarantee, people=people),
        figures=figures(verdict),
        findings=findings(verdict),
        sections=[section(verdict) for section in (SECTIONS_OF_PEOPLE if people else SECTIONS)],
        rulings=wording.RULINGS,
    )


def figures(verdict: Verdict) -> Table:
    """Return the measures of all models, a line each; what was not measured has none."""
    models = [m for m in MODELS if any(m in each.values for each in verdict.measures.values())]
    head = ("Measure", *(wording.MODEL_NAMES[model] for model in models))
    rows = [
        (
            wording.MEASURE_NAMES.get(name, name),
            *(wording.number(each.value(model), each.unit) for model in models),
        )
        for name, each in verdict.measures.items()
        if any(each.value(model) is not None for model in models)
    ]
    return Table(head, tuple(rows))
