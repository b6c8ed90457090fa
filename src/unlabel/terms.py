"""The three words in which a request is described, the same in Python, on the command line, in
the report, in the certificate and in the docs.

    visibility  can a partner tell what was forgotten?
    depth       which models have lost it?
    guarantee   how do we know?
"""

from __future__ import annotations

from typing import Literal, get_args

Visibility = Literal["hidden", "open"]
Depth = Literal["answers", "top", "bottoms"]
Guarantee = Literal["measured"]

VISIBILITIES: tuple[Visibility, ...] = get_args(Visibility)
#: From the shallowest to the deepest; each includes those before it.
DEPTHS: tuple[Depth, ...] = get_args(Depth)

VISIBILITY_MEANS: dict[Visibility, str] = {
    "hidden": "nothing a partner sees depends on what was forgotten, beyond a stated bound",
    "open": "partners can tell what was forgotten",
}
DEPTH_MEANS: dict[Depth | Literal["none"], str] = {
    "none": "not forgotten: the answers still show the label or its training rows, or the rest was "
    "damaged",
    "answers": "the model no longer gives the label as an answer; hiding an output gets this far",
    "top": "the label holder's own model has lost it too",
    "bottoms": "every partner's model has lost it too",
}
GUARANTEE_MEANS: dict[Guarantee, str] = {
    "measured": "judged by an audit, beside models retrained without the label where there are any",
}


def describe(
    visibility: Visibility, depth: Depth | Literal["none"] | None, guarantee: Guarantee | None
) -> tuple[tuple[str, str, str], ...]:
    """Return the three words of a request, each with its value and what that means.

    depth, guarantee  None where there was no audit
    """
    unaudited = ("not known", "no audit of this request was made")
    return (
        ("visibility", visibility, VISIBILITY_MEANS[visibility]),
        ("depth", *(unaudited if depth is None else (depth, DEPTH_MEANS[depth]))),
        ("guarantee", *(unaudited if not guarantee else (guarantee, GUARANTEE_MEANS[guarantee]))),
    )


# What the report and the certificate say of a depth, in whole sentences. `none` is where not even
# the answers hold; names that begin with OWN are for a label holder that has features itself, and
# so a bottom model of its own.

#: The three places that knowledge of a label can sit in, from the outermost to the innermost.
PLACES = {
    "answers": "The answers",
    "top": "The label holder's model",
    "bottoms": "The partners' models",
}
OWN_PLACES = {
    **PLACES,
    "top": "The label holder's top model",
    "bottoms": "The models of the features",
}
HEADLINES = {
    "none": "Not forgotten",
    "answers": "Forgotten in the answers only",
    "top": "Forgotten in the answers and in the label holder's model",
    "bottoms": "Forgotten in the answers and in every party's model",
}
OWN_HEADLINES = {
    **HEADLINES,
    "top": "Forgotten in the answers and in the label holder's top model",
}
MEANINGS = {
    "none": "Even the answers of the model still show it or the samples it was learnt from, or the "
    "model has lost too much else.",
    "answers": "The model's answers look like those of a model that never learnt it. That is as "
    "far as it goes: hiding an answer achieves the same.",
    "top": "The answers look like those of a model that never learnt it, and the scores behind "
    "them no longer single out its samples.",
    "bottoms": "In none of our tests did the answers, the label holder's model or the partners' "
    "models know more of it than a model that never learnt it, within the stated intervals.",
}
#: MEANINGS where nothing shows a comparison with a model that was trained again.
UNCOMPARED = {
    "answers": "The model no longer gives it as an answer. That is as far as it goes: hiding an "
    "answer achieves the same.",
    "top": "The model no longer gives it as an answer, and the label's own score no longer ranks "
    "its samples first. Whether an edit of the outputs would bring it back is not known.",
}
NOT_COMPARED = "No model was trained again to compare with."
NOT_AT_HAND = "The figures of the audit are not at hand."
NOT_MEANT = {
    "none": (
        "It does not mean that nothing changed: the figures of the audit show how far it came.",
        "Do not rely on this model where the request has to be honoured.",
    ),
    "answers": (
        "Whoever holds the label holder's model can make the label visible again.",
        "The partners' models can still recognise it.",
    ),
    "top": (
        "The partners' models can still recognise it: whoever holds them and a few labelled "
        "samples can read it out again.",
        "It is not the same model as one that was trained again without it.",
    ),
    "bottoms": (
        "It is not the same model as one that was trained again without it.",
        "An attack that nobody has thought of yet may find more.",
    ),
}
OWN_NOT_MEANT = {
    **NOT_MEANT,
    "answers": (
        NOT_MEANT["answers"][0],
        "The models of the features, the label holder's own among them, can still recognise it.",
    ),
    "top": (
        "The models of the features, the label holder's own among them, can still recognise it: "
        "whoever holds them and a few labelled samples can read it out again.",
        NOT_MEANT["top"][1],
    ),
}
#: Holds at every depth.
NEVER_MEANT = "It says nothing about copies that anybody made outside this federation."

#: How a request was carried out, in a sentence of the report.
CARRIED_OUT: dict[Visibility, str] = {
    "hidden": "The request was carried out hidden, which keeps from the partners what was "
    "forgotten.",
    "open": "The partners took part in the forgetting, and nothing was done to keep what was "
    "forgotten from them.",
}
