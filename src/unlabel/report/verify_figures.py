"""Checks that a certificate says of an audit what follows from its figures, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import product
from typing import Any

from unlabel import compat
from unlabel.audit.binding import digest_of, measures_in
from unlabel.audit.construction import depth_by, judge_construction
from unlabel.audit.facts import RULES
from unlabel.audit.figures import Measurement, Measurements, ModelFigure
from unlabel.audit.gate import depth_of, judge
from unlabel.audit.gate_people import judge_people
from unlabel.audit.verdict import MISREAD, Finding, reaches
from unlabel.config import AuditSettings
from unlabel.data import ACTIVE
from unlabel.forget.exact_methods import EXACT_NAMES
from unlabel.report.blinding import Blinding
from unlabel.report.certificate import construction_in, statement
from unlabel.report.certificate_form import Body
from unlabel.report.checks import Checks
from unlabel.report.wording import REPLACED

ON_TRUST = "The depth is signed by the label holder and was not checked: "
OLD = (
    f"{ON_TRUST}certificates of version 0.6 and 0.7 hold no hash of the audit's figures, and what "
    f"those versions disclose of them is not all that the depth follows from."
)
EARLIER_RULES = (
    f"{ON_TRUST}its figures were judged by the rules of version 0.9 or earlier, which a faked "
    f"model can pass; whether they follow from the figures this version does not check."
)
NO_FIGURES = (
    f"{ON_TRUST}the figures it follows from stand in the annex, if at all, which takes --annex-key."
)
#: By what the words of one depth differ: models to compare with, a bottom of the label holder's.
KINDS_OF_FIGURES = [
    {"": Measurement("", None, None, "number", {"forgotten": bottom, compared: ModelFigure(0.5)})}
    for bottom in (ModelFigure(None), ModelFigure(None, detail={"parties": (ACTIVE,)}))
    for compared in ("original", "retrained", "refitted")
]


def check_words(body: Body, checks: Checks) -> None:
    """Check that the certificate's words do not contradict each other or the parties' parts."""
    active = body.parties.get(ACTIVE)
    audited, constructed = body.depth is not None, bool(body.bases) or body.replay is not None
    for holds, what in (
        (audited == (body.guarantee is not None), "a depth and a guarantee go together"),
        (audited == (body.figures is not None), "a depth and the hash of its figures go together"),
        (body.guarantee != "exact" or body.depth == "bottoms", "what is exact is so in every "
         "party's model"),
        (body.guarantee != "measured" or body.depth == "none" or not constructed, "what follows "
         "from how a model was made is exact"),
        (body.secret or body.visibility == "open", "a hidden request is always secret"),
        (body.secret == (body.method is None), "the method is kept back in a secret request alone"),
        (active is None or active.part.version == body.version, "it is about the version that the "
         "active party's part names"),
    ):  # fmt: skip
        checks.expect(holds, f"The certificate contradicts itself: {what}.")
    if body.depth == "bottoms" and body.guarantee != "exact":
        for party in _unchanged(body):
            checks.faults.append(
                f"The certificate states depth 'bottoms', but by its own part party '{party}' has "
                f"the same weights as before the request."
            )


def _unchanged(body: Body) -> list[str]:
    """Return the passive parties whose parts state the same weights before and after."""
    weights = {p: s.part.weights for p, s in body.parties.items() if p != ACTIVE}
    return [party for party, each in weights.items() if each.before == each.after]


def check_figures(body: Body, blind: Blinding | None, checks: Checks) -> None:
    """Check the depth and its words: with the annex by its figures, else the words alone.

    blind  under which the hash of the figures is stated, None where its key is not at hand
    """
    figures = None if checks.annex is None else checks.annex.get("audit")
    if figures is None:
        kinds = product((None, *KINDS_OF_FIGURES), (True, False), (True, False))
        checks.expect(
            any(body.words == _words(body, each, noise, people) for each, noise, people in kinds),
            "The words of the certificate are not those of the depth it states.",
        )
    if figures is None and checks.annex is not None and body.figures is not None:
        checks.faults.append("The annex lacks the figures whose hash the certificate holds.")
    if figures is None:
        if body.depth is not None:
            checks.unchecked.append(NO_FIGURES)
        return
    before = len(checks.faults)
    checks.expect(
        blind is not None and blind(digest_of(figures)) == body.figures,
        "The figures in the annex are not those whose hash the certificate holds.",
    )
    try:
        _check_follows(body, figures, checks)
    except MISREAD as error:
        checks.faults.append(
            f"The figures in the annex cannot be read ({type(error).__name__}: {error})."
        )
        return
    if len(checks.faults) == before and EARLIER_RULES not in checks.unchecked:
        checks.held.append(
            "The depth, every finding and the words follow from the figures in the annex."
        )


def _words(body: Body, measures: Measurements | None, noise: bool, people: bool) -> str:
    """Return the words that a certificate has to have."""
    attested = {party: signed.part.purge for party, signed in body.parties.items()}
    purges = {party: None if each is None else each.at for party, each in attested.items()}
    bases = {party: asdict(signed) for party, signed in body.bases.items()}
    replay = None if body.replay is None else asdict(body.replay)
    exact = construction_in(bases, replay, body.visibility, body.depth)
    if exact is not None and REPLACED not in body.words:  # as 0.11 said it
        exact = replace(exact, replaced=False)
    purges |= dict.fromkeys(() if exact else body.not_signed)
    stated = statement(
        *(body.depth, body.visibility, measures),
        noise=noise,
        people=people,
        purges=purges,
        exact=exact,
    )
    return str(stated["words"])


def _judged(
    body: Body, figures: Mapping[str, Any], checks: Checks
) -> tuple[list[Finding], str, str]:
    """Judge once more; return findings, depth and guarantee, and name evidence that is not signed.

    An exact request is judged by the evidence of its construction, which must be what parties
    signed; all others by what was measured.
    """
    evidence = figures["facts"].get("construction")
    if not evidence and figures["facts"].get("rules", 1) != RULES:
        checks.unchecked.append(EARLIER_RULES)
        return [Finding(**each) for each in figures["findings"]], figures["depth"], "measured"
    if not evidence:
        limits = _limits(figures)
        unchanged = {*_unchanged(body), *figures["facts"].get("unchanged", ())}
        measures, people = measures_in(figures), figures.get("people", 0)
        findings = judge(measures, limits, sorted(unchanged))
        if people:
            findings = judge_people(measures, limits, people, sorted(unchanged))
        return findings, depth_of(findings), "measured"
    findings = judge_construction(evidence, figures["labels"], figures.get("people", 0))
    depth = depth_by(findings)
    recipe = {} if body.replay is None else body.replay.recipe
    checks.expect(
        (checks.annex or {}).get("method") == evidence["method"]
        and evidence["method"] == EXACT_NAMES.get(str(recipe.get("bottoms"))),
        "The evidence in the annex is of another method than the request's.",
    )
    for party, base in evidence["bases"].items():
        signed = body.bases.get(party)
        part = None if signed is None else signed.part
        stated = (base["signed"], base["gradients"], base["digest"])
        checks.expect(
            party == ACTIVE
            or base["signed"] is None
            or (part and (part.weights, part.gradients, part.gradients_digest)) == stated,
            f"The evidence in the annex says other things of the bottom of party '{party}' than "
            f"the party signed.",
        )
    return findings, depth, "exact" if depth == "bottoms" else "measured"


def _limits(figures: Mapping[str, Any]) -> AuditSettings:
    return AuditSettings(**compat.thresholds(figures["thresholds"]))


def _check_follows(body: Body, figures: Mapping[str, Any], checks: Checks) -> None:
    """Judge the figures once more, and name each statement that does not follow."""
    measures, limits = measures_in(figures), _limits(figures)
    stated = [Finding(**each) for each in figures["findings"]]
    findings, depth, guarantee = _judged(body, figures, checks)
    demanded, asked = figures["demanded"], (checks.annex or {})["asked"]
    wrong = [("does not follow from the figures", each) for each in stated if each not in findings]
    wrong += [("follows, but is not stated", each) for each in findings if each not in stated]
    checks.faults += [
        f"A finding of the audit {how}: {each.measure}, {each.depth}, {each.ruling}: "
        f"{each.sentence}"
        for how, each in wrong
    ]
    about = (figures["request"], figures["labels"], figures.get("people", 0), figures["visibility"])
    subject = (body.request, asked.get("labels", []), len(asked.get("people", ())), body.visibility)
    for holds, fault in (
        (
            depth == body.depth == figures["depth"],
            f"The certificate states depth '{body.depth}', the audit in the annex depth "
            f"'{figures['depth']}', and depth '{depth}' follows from the figures.",
        ),
        (
            body.words
            == _words(body, measures, bool(figures["privacy"].get("rho")), bool(about[2])),
            "The words of the certificate are not those of the depth and the figures.",
        ),
        (
            figures["passed"] == reaches(depth, demanded),
            f"Whether the demanded depth '{demanded}' was reached is not as it follows.",
        ),
        (
            about == subject,
            "The figures in the annex are of another request, label or visibility.",
        ),
        (
            body.guarantee in (None, guarantee)
            and guarantee == figures.get("guarantee", "measured"),
            f"The certificate states guarantee '{body.guarantee}', and '{guarantee}' follows from "
            f"the evidence.",
        ),
    ):
        checks.expect(holds, fault)
    usual = asdict(replace(AuditSettings(), demand=limits.demand))
    odd = [f"{name} {each:g}" for name, each in asdict(limits).items() if each != usual[name]]
    if odd:
        checks.unchecked.append(
            f"The audit judged by thresholds that are not the usual ones ({', '.join(odd)}); "
            f"whether they are fit is for you to say."
        )
