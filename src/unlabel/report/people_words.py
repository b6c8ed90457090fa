"""What a depth means, and does not, where a request was about people and was measured.

Of people only what retrained models show is said: their features may predict a label all the same.
"""

from __future__ import annotations

from unlabel.terms import NEVER_MEANT

MEANINGS = {
    "none": "The request failed: the answers about these people are not those of models that were "
    "trained without their labels, or the model has lost too much else.",
    "answers": "The answers about these people look like those of models that were trained without "
    "their labels. What the models behind the answers know of them is not shown: our tests found "
    "a difference there, or cannot tell such models from the one before the request.",
    "top": "The answers about these people look like those of models that were trained without "
    "their labels, and an attack on the scores behind them finds these people no more.",
    "bottoms": "In none of our tests did the answers, the label holder's model or any party's "
    "model know more of these people's labels than models that were trained without them, within "
    "the stated intervals.",
}
_FEATURES = "The features of these people stay, and may predict their labels, as features do."
NOT_MEANT = {
    "none": (
        "It does not mean that nothing changed: the figures of the audit show how far it came.",
        "Do not rely on this model where the request has to be honoured.",
    ),
    "answers": (
        "It does not mean that any model lost what it learnt of these people.",
        "Of one person, or of people whose labels are easily guessed, no test can show more.",
        _FEATURES,
    ),
    "top": ("It does not mean that the partners' models lost what they learnt.", _FEATURES),
    "bottoms": ("An attack that nobody has thought of yet may find more.", _FEATURES),
}


def not_meant(depth: str) -> tuple[str, ...]:
    """Return what a depth does not mean, in sentences."""
    return (*NOT_MEANT[depth], NEVER_MEANT)
