"""What makes a request exact, as evidence that can be looked at: judged, not measured.

Plain data of it, under `construction` in the facts of an audit:

    {"method": "refit", "outputs": ["a", "c"], "left_out": 40, "kept": 0,
     "replay": "same", "differing": 0, "across": false, "objective": "components",
     "bases": {"bank": {"weights": "..", "signed": "..", "objective": "..", "gradients": 0}, ..}}

outputs    labels that the new top has outputs for
left_out   rows whose labels the request is about; `kept` of them that are not left out
replay     what fitting the top again to what stays gave: same, near, other, or not tried
bases      of every partner: the weights of its bottom as it told them when that was frozen, and
           what it signed of it, null where it has not; of the label holder's own bottom the weights
           in its file stand for what is signed

Findings follow from it and from the request alone, so that whoever has it can judge again. Where
one of them fails, nothing holds by construction: the depth is none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from unlabel.audit.verdict import Finding, Ruling
from unlabel.data import ACTIVE
from unlabel.errors import RunError
from unlabel.signing import canonical, is_signed
from unlabel.terms import Construction, Depth
from unlabel.train.label_free import Base

#: Objectives in which no gradient of anybody else moves a bottom.
ALONE = ("components", "pretrained")
REPLAYED: dict[str, tuple[Ruling, str]] = {
    "same": (
        "pass",
        "Fitted again from the labels that stay, the top comes out with the same weights, bit for "
        "bit.",
    ),
    "other": (
        "fail",
        "Fitted again from the labels that stay, the top comes out with other weights: {differing} "
        "of its tensors differ.",
    ),
    "near": (
        "unknown",
        "Fitted again here, in another environment than the request's, the top has other bits and "
        "nearly the same answers; whether it is the same top can be told in the same environment "
        "alone.",
    ),
    "not tried": (
        "unknown",
        "All models were trained anew from their label-free bottoms; that was not done once more "
        "here, `unlabel verify --replay` does so.",
    ),
}


@dataclass(frozen=True)
class SignedBase:
    """What one party signed of the bottom that it made without labels."""

    weights: str
    objective: str
    gradients: int
    digest: str

    @classmethod
    def of(cls, party: str, attestation: Mapping[str, str] | None) -> SignedBase | None:
        """Return what an attestation says, None where there is none or it does not hold."""
        try:
            if attestation is None:
                return None
            text = attestation["part"]
            raw = json.loads(text)
            signed = is_signed(attestation["key"], text.encode(), attestation["signature"])
            if not signed or canonical(raw) != text.encode() or raw["party"] != party:
                return None
            counts = int(raw["gradients"]), str(raw["gradients_digest"])
            return cls(str(raw["weights"]), str(raw["objective"]), *counts)
        except (KeyError, TypeError, ValueError, RunError):  # the last: no library to check it by
            return None


def base_facts(base: Base, own_weights: str | None) -> dict[str, dict[str, Any]]:
    """Return what is known of every party's bottom, as evidence.

    own_weights  of the file of the label holder's own bottom, None where it has none
    """
    facts: dict[str, dict[str, Any]] = {}
    for party, weights in sorted(base.weights.items()):
        known = None if party == ACTIVE else SignedBase.of(party, base.attestations.get(party))
        signed = known.weights if known else own_weights if party == ACTIVE else None
        facts[party] = {
            "weights": weights,
            "signed": signed,
            "objective": known.objective if known else base.objective,
            "gradients": known.gradients if known else None,
            "digest": known.digest if known else "",
        }
    return facts


def judge_construction(
    evidence: Mapping[str, Any], labels: Sequence[str], people: int
) -> list[Finding]:
    """Return a finding for each piece of evidence.

    labels  names of the forgotten labels, none where the request is about people
    people  how many of them it is about
    """
    findings = [_outputs(evidence, labels, people), _replay(evidence)]
    for party, base in evidence["bases"].items():
        findings.append(Finding("bottoms", "base", *_base(party, base, evidence)))
        if party != ACTIVE:
            findings.append(Finding("bottoms", "gradients", *_gradients(party, base, evidence)))
    if not evidence["bases"]:
        findings.append(Finding("bottoms", "base", "fail", "Nothing shows how bottoms were made."))
    return findings


def _outputs(evidence: Mapping[str, Any], labels: Sequence[str], people: int) -> Finding:
    outputs = evidence["outputs"]
    still = [name for name in labels if name in outputs]
    kept = int(evidence["kept"])
    if still:
        sentence = f"The new model still has an output for {', '.join(still)}."
    elif kept:
        sentence = f"{kept} of the forgotten rows are not left out of what the model learns from."
    elif people:
        noun = "person is" if people == 1 else "people are"
        sentence = f"The labels of {people} {noun} left out of all that the model learns from."
    else:
        sentence = (
            f"The new model has {len(outputs)} outputs and none for {', '.join(labels)}; all "
            f"{evidence['left_out']} rows of it are left out of what the model learns from."
        )
    return Finding("answers", "outputs", "fail" if still or kept else "pass", sentence)


def _replay(evidence: Mapping[str, Any]) -> Finding:
    ruling, sentence = REPLAYED[evidence["replay"]]
    return Finding("top", "replay", ruling, sentence.format(differing=evidence["differing"]))


def _base(party: str, base: Mapping[str, Any], evidence: Mapping[str, Any]) -> tuple[Ruling, str]:
    how = f"made without labels ({evidence['objective']})"
    if base["signed"] is None:
        return "unknown", (
            f"Party '{party}' has not signed for its bottom, {how}, or what it signed does not "
            f"hold; a certificate asks for it."
        )
    if base["signed"] != base["weights"]:
        return "fail", (
            f"The bottom of party '{party}' that embeddings are of is not the one that it "
            f"{'keeps' if party == ACTIVE else 'signed'}."
        )
    if base["objective"] != evidence["objective"]:
        return "fail", (
            f"Party '{party}' signed that its bottom was made by '{base['objective']}', not by "
            f"'{evidence['objective']}'."
        )
    whose = "it keeps" if party == ACTIVE else "it signed for"
    return "pass", f"The bottom of party '{party}' is the one that {whose}, {how}."


def _gradients(
    party: str, base: Mapping[str, Any], evidence: Mapping[str, Any]
) -> tuple[Ruling, str]:
    count = base["gradients"]
    if count is None:
        return "unknown", f"Which gradients reached party '{party}' is not attested."
    if count == 0:
        return "pass", f"Party '{party}' attests that no gradient ever reached its bottom."
    if not gradients_fit(str(base["objective"]), int(count), bool(evidence["across"])):
        return "fail", (
            f"Party '{party}' attests that {count} gradients reached its bottom, and none may: a "
            f"label may have been in them."
        )
    return "pass", (
        f"Party '{party}' attests {count} gradients, digest {base['digest'][:16]}.., from parties "
        f"agreeing with each other: label-free by the label holder's word, replayable."
    )


def gradients_fit(objective: str, count: int, across: bool) -> bool:
    """Return whether so many gradients may have reached a bottom that never saw a label.

    >>> gradients_fit("components", 3, True), gradients_fit("contrast", 3, True)
    (False, True)
    """
    return count == 0 or (across and objective not in ALONE)


def depth_by(findings: Sequence[Finding]) -> Depth | Literal["none"]:
    """Return the depth that holds by construction: the deepest, unless any evidence fails."""
    return "none" if any(each.ruling == "fail" for each in findings) else "bottoms"


def construction_of(evidence: Mapping[str, Any], depth: str) -> Construction | None:
    """Return what the words about a request depend on; None where it is not exact."""
    if not evidence:
        return None
    received = any((base["gradients"] or 0) > 0 for base in evidence["bases"].values())
    return Construction(evidence["method"] == "restart", received, depth == "bottoms")
