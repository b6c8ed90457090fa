"""What an audit cannot know, in sentences."""

from __future__ import annotations

from unlabel.audit.gate import NO_RETRAINED
from unlabel.audit.observation import SAMPLED
from unlabel.train import Conduct

#: What no audit of an exact request can know.
EXACT_UNKNOWN = (
    "Labels that people used by hand, such as to choose settings: no record of that is kept.",
    "What the features say of a label: they were never changed, and may predict it, as features "
    "do.",
    "Copies that a party made of old weights, data or messages outside this software, and "
    "predictions that were already given out.",
)
OTHER_SEEDS = (
    "How far models from other seeds differ: none were trained (`--retrained 3` trains some)."
)


def unknown_of(conduct: Conduct, purged: bool, compared: bool, rows: int) -> list[str]:
    """Return what an audit of a request cannot know.

    purged    whether the model from before is gone
    compared  whether there were retrained models
    rows      of the whole table
    """
    hidden = conduct.visibility == "hidden"
    unrecorded, silent = not conduct.messages, (conduct.privacy or {}).get("information") == 0
    if conduct.guarantee == "exact":
        return [*EXACT_UNKNOWN, *(() if compared else (OTHER_SEEDS,))]
    sentences = {
        f"What figures of all rows would be: of {rows:,} only {SAMPLED:,} were looked at, drawn "
        f"without looking at labels; intervals say how far that moves a figure.": rows > SAMPLED,
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
