"""What an audit cannot know, in sentences."""

from __future__ import annotations

from unlabel.audit.facts import AuditFacts
from unlabel.audit.gate import NO_RETRAINED
from unlabel.train import Conduct

#: What no audit of an exact request can know.
EXACT_UNKNOWN = (
    "Labels that people used by hand, such as to choose settings: no record of that is kept.",
    "What the features say of a label: they were never changed, and may predict it, as features "
    "do.",
    "Copies that a party made of old weights, data or messages outside this software, and "
    "predictions that were already given out.",
)
#: Rows of a label below which a sample says little: a share of 100 rows is known to 10 points.
FEW = 100
OTHER_SEEDS = (
    "How far models from other seeds differ: none were trained (`--retrained 3` trains some)."
)


def unknown_of(conduct: Conduct, purged: bool, compared: bool, facts: AuditFacts) -> list[str]:
    """Return what an audit of a request cannot know.

    purged    whether the model from before is gone
    compared  whether there were retrained models
    facts     of the audit
    """
    hidden = conduct.visibility == "hidden"
    unrecorded, silent = not conduct.messages, (conduct.privacy or {}).get("information") == 0
    if conduct.guarantee == "exact":
        return [*EXACT_UNKNOWN, *(() if compared else (OTHER_SEEDS,))]
    sentences = {
        _sampled(facts): bool(facts.observed),
        f"How far this is from a model that never saw the label: {NO_RETRAINED}.": not compared,
        "What is left of the original's knowledge: it was purged, so there is nothing to look for, "
        "and neither top nor bottoms can be judged.": purged,
        "What crossed the wire: no record of the request's messages was kept.": unrecorded,
        "What the gradients that were sent tell a partner: they are not kept. Attacks here go by "
        "how its own rows moved; `unlabel bench request-privacy` tries the others.": not silent,
        "Copies that a party made of old weights, data or messages outside this software.": True,
        "Attacks that nobody has thought of; each measure here is one attack, not all.": True,
        "What partners' bottoms know of the label: a hidden request leaves it there.": hidden,
    }
    return [sentence for sentence, holds in sentences.items() if holds]


def _sampled(facts: AuditFacts) -> str:
    """Return what was looked at, where that is a sample."""
    rows, seen = facts.rows, facts.observed
    if not seen:
        return ""
    train, test = seen["train of the label"], seen["test of the label"]
    few = ", so few that intervals are wide and some measures cannot be judged"
    return (
        f"What figures of all rows would be: {seen['train']:,} of {rows['train']:,} training rows "
        f"and {seen['test']:,} of {rows['test']:,} test rows were looked at, drawn at random "
        f"whatever their labels, and intervals are those of the sample. It has {train:,} training "
        f"rows and {test:,} test rows of the label{few if min(train, test) < FEW else ''}."
    )
