"""The three words in which a request is described, the same in Python, on the command line, in
the report, in the certificate and in the docs.

    visibility  can a partner tell what was forgotten?
    depth       which models have lost it?
    guarantee   how do we know?
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Visibility = Literal["hidden", "open"]
Depth = Literal["answers", "top", "bottoms"]
Guarantee = Literal["exact", "measured"]

VISIBILITIES: tuple[Visibility, ...] = get_args(Visibility)
#: From the shallowest to the deepest; each includes those before it.
DEPTHS: tuple[Depth, ...] = get_args(Depth)
GUARANTEES: tuple[Guarantee, ...] = get_args(Guarantee)

VISIBILITY_MEANS: dict[Visibility, str] = {
    "hidden": "nothing a partner sees depends on what was forgotten, beyond a stated bound",
    "open": "partners can tell what was forgotten",
}
DEPTH_MEANS: dict[Depth | Literal["none"], str] = {
    "none": "not forgotten: the answers still show the label or its training rows, or the rest was "
    "damaged",
    "answers": "the model no longer gives the label as an answer; hiding an output gets this far",
    "top": "our tests find it no more in the label holder's own model",
    "bottoms": "our tests find it no more in any partner's model",
}
#: The same of people.
PEOPLE_MEANS: dict[Depth | Literal["none"], str] = {
    "none": "not forgotten: answers about these people are not those of retrained models, or the "
    "rest was damaged",
    "answers": "answers about these people are those of models that never had their labels",
    "top": "our tests find these people no more in the label holder's own model",
    "bottoms": "our tests find these people no more in any partner's model",
}
#: The deepest depth, where it holds by construction.
EXACT_DEPTH = "no party's model has anything from these labels, by construction and not by tests"
GUARANTEE_MEANS: dict[Guarantee, str] = {
    "exact": "the same weights as a training that never had the label, in the same environment bit "
    "for bit, by construction; can be replayed",
    "measured": "judged by an audit, not proved; beside models without the label, if any",
}


def describe(
    visibility: Visibility,
    depth: Depth | Literal["none"] | None,
    guarantee: Guarantee | None,
    *,
    people: bool = False,
) -> tuple[tuple[str, str, str], ...]:
    """Return the three words of a request, each with its value and what that means.

    depth, guarantee  None where there was no audit
    people            whether it is known to be about the labels of people
    """
    unaudited = ("not known", "no audit of this request was made")
    means = "" if depth is None else depth_means(depth, guarantee, people=people)
    return (
        ("visibility", visibility, VISIBILITY_MEANS[visibility]),
        ("depth", *(unaudited if depth is None else (depth, means))),
        ("guarantee", *(unaudited if not guarantee else (guarantee, GUARANTEE_MEANS[guarantee]))),
    )


def depth_means(
    depth: Depth | Literal["none"], guarantee: Guarantee | None, *, people: bool = False
) -> str:
    """Return what a depth means, by how it is known and what it is about."""
    if guarantee == "exact":
        return EXACT_DEPTH
    return (PEOPLE_MEANS if people else DEPTH_MEANS)[depth]


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
    "none": "The request failed: even the answers of the model still show it or the samples it was "
    "learnt from, or the model has lost too much else.",
    "answers": "The model's answers look like those of a model that never learnt it. That is as "
    "far as it goes: hiding an answer achieves the same.",
    "top": "The model no longer gives it as an answer. In the label holder's model our tests find "
    "no more of it than in models fitted, on the same embeddings, to the other labels alone.",
    "bottoms": "In none of our tests did the answers, the label holder's model or the partners' "
    "models know more of it than models that never learnt it, beyond how these differ.",
}
#: MEANINGS where nothing shows a comparison with a model without the label.
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


@dataclass(frozen=True)
class Construction:
    """How a request was made exact: what its words depend on.

    restart   all models were trained anew; else the label holder's top was fitted anew
    by_word   gradients of the label holder made the bottoms: that they had no label is its word
    holds     whether the evidence for it does
    signed    whether every party signed for its bottom
    replaced  whether what it was computed from is gone
    """

    restart: bool = False
    by_word: bool = False
    holds: bool = True
    signed: bool = True
    replaced: bool = False


# The same where a request is exact: what is claimed is equality of weights in one environment.

EXACT_HEADLINE = "Forgotten exactly, by construction"
EXACT_FAILED = "Not shown to be forgotten"
EXACT_MEANING = {
    False: "The label holder's top model was fitted anew, without these labels, to embeddings of "
    "bottom models that were made without any label. In the same environment its weights are, bit "
    "for bit, those of a training that never had these labels; `unlabel verify --replay` computes "
    "them again.",
    True: "All models were trained anew, without these labels, from bottom models that were made "
    "without any label. In the same environment their weights are, bit for bit, those of a "
    "training that never had these labels; `unlabel verify --replay` computes them again.",
}
EXACT_FAILED_MEANING = (
    "The request was to be exact by construction, but the evidence for that does not hold, so "
    "nothing is claimed: the findings say which of it."
)
BY_WORD = (
    "The partners' bottom models are label-free by the label holder's word, replayable: gradients "
    "that the label holder sent helped to make them, each partner attests the digest of those it "
    "received, and cannot tell what they are of."
)
EXACT_NOT_MEANT = (
    "It does not cover labels that people used by hand, such as to choose settings.",
    "It does not cover the features: they stay, and may still predict any label, as features do.",
    "It does not cover copies of predictions that were already given out.",
    "In another environment the same computation may give other bits.",
)
#: Holds at every depth.
NEVER_MEANT = "It says nothing about copies that anybody made outside this federation."

#: How a request was carried out, in a sentence of the report.
CARRIED_OUT: dict[Visibility, str] = {
    "hidden": "The request was carried out hidden, which keeps from the partners what was "
    "forgotten.",
    "open": "The partners took part in the forgetting, and nothing was done to keep what was "
    "forgotten from them.",
}

CARRIED_OUT_ALONE = (
    "The request was carried out by the label holder alone: no message was sent to a partner."
)

# What a request did to what, in three parts. To hide a label, or to change a model, is not to
# delete the label: that word is for files that a party attests it removed.

NOT_AUDITED = "No audit of this request was made, so nothing is stated about how deep it went."
#: Of an exact request that a certificate states no depth of.
NOT_ATTESTED = (
    "The request is exact by its method, but not every party signed for the bottom model that it "
    "made without labels, so nothing is stated about how deep it went."
)
PEOPLE_NOT_AUDITED = (
    "This request was about the labels of people. No audit of it was made, so nothing is stated "
    "about how deep it went."
)
#: Of what was deleted: who attests a purge, and who does not.
PURGE_UNKNOWN = "Whether any party removed its weights from before the request is not known."
UNPURGED = (
    "Nothing, by the request itself. Weights from before it are removed by `unlabel purge` alone, "
    "and none is attested by {kept}."
)
PURGED = (
    "Of the label itself, nothing. Weights from before the request were removed by {removed}: each "
    "attests its own, and nobody else has checked it."
)
KEPT = "No removal is attested by {kept}, who may still have them."
CHANGED: dict[Visibility, str] = {
    "hidden": "The model was changed, not deleted: the label holder's top model alone. No "
    "partner's model was changed, nor what it knows of the label.",
    "open": "The model was changed, not deleted: the label holder's top model, and the bottom "
    "models as far as the method reaches them.",
}
#: CHANGED of a hidden request that was sent with noise, or of which that is not known.
CHANGED_BY_NOISE = (
    "The model was changed, not deleted: the label holder's top model, and where the request was "
    "sent with noise the bottom models too."
)
#: CHANGED and LEFT of an exact request, by whether all models were trained anew.
EXACT_CHANGED = {
    False: "The label holder's top model was replaced by one that was fitted anew without these "
    "labels. No partner's model was changed: each was made without labels{word}, so there was "
    "nothing in it to forget.",
    True: "All models were replaced by ones that were trained anew without these labels, from "
    "bottom models that were made without labels{word}.",
}
EXACT_LEFT = (
    "In the models: nothing that comes from these labels, by construction. The features may still "
    "predict them, as features do."
)
EXACT_UNKNOWN = "In the models: not known, since the evidence for an exact request does not hold."
#: CHANGED and what is left in the models, while a request is not in force.
NOT_CHANGED = {
    "staged": "Nothing yet: the new model is not in use. With a commit:",
    "rolled-back": "Nothing: the new model was dropped.",
}
NOT_CHANGED_LEFT = {
    "staged": "In the models in use: all that they learnt of it. With a commit:",
    "rolled-back": "In the models in use: all that they learnt of it, as before the request.",
}
#: What is left in the models; None where there was no audit.
LEFT: dict[str | None, str] = {
    None: "In the models: how much they still know of it is not known.",
    "none": "In the models: it is still there, or the rest was damaged. The request failed, and "
    "what was asked for was not done.",
    "answers": "In the label holder's top model and in the bottom models at every party with "
    "features: what they learnt of it. Only the answers no longer show it.",
    "top": "In the bottom models at every party with features: what they learnt of it; the tests "
    "do not show that they lost it.",
    "bottoms": "In the models: nothing that our tests found, which does not prove that nothing is "
    "there.",
}
LEFT_OF_PEOPLE: dict[str | None, str] = {
    None: "In the models: whether an attack can still tell that these people were trained on is "
    "not known, as no audit has tried it.",
    "none": LEFT["none"],
    "answers": "In the models: what they learnt of these people, as far as our tests can tell. "
    "Only the answers are shown to be those of models without their labels.",
    "top": "In the bottom models at every party with features: what they learnt of these people, "
    "as far as our tests can tell.",
    "bottoms": LEFT["bottoms"],
}
IN_TABLE = (
    "In the label holder's own table: the labels themselves, until its owner clears them. After a "
    "purge the run works without these cells; `unlabel purge --table-out FILE` writes the table "
    "without them, and `unlabel status --copies` lists copies."
)
ON_PURPOSE = (
    "Kept on purpose, as evidence: the parties' ledgers, the certificate, a sealed annex, and at "
    "the label holder the key of the commitment with what was asked."
)
OUT_OF_REACH = "Out of its knowledge: backups, exports, and answers that were already given."
#: After a commit, at the terminal.
COMMITTED = "The model was changed and nothing was deleted: old weights are still on disk."


def effects(
    depth: str | None,
    visibility: Visibility,
    *,
    people: bool = False,
    noise: bool = False,
    state: str = "committed",
    purges: Mapping[str, str | None] | None = None,
    exact: Construction | None = None,
) -> dict[str, tuple[str, ...]]:
    """Return what a request deleted, changed and left where: sentences, by their heading.

    depth   that an audit found, None where there was none
    people  whether it is known to be about the labels of people
    noise   whether a hidden request was sent with noise, or may have been
    state   staged, committed or rolled-back
    purges  party -> when it attests a purge, or None; empty where that is not known
    exact   how it was made exact, None where it was not
    """
    removed = ", ".join(party for party, at in (purges or {}).items() if at)
    kept = ", ".join(party for party, at in (purges or {}).items() if not at)
    deleted = [(PURGED if removed else UNPURGED).format(removed=removed, kept=kept)]
    if removed and kept:
        deleted.append(KEPT.format(kept=kept))
    changed = CHANGED_BY_NOISE if visibility == "hidden" and noise else CHANGED[visibility]
    before = (NOT_CHANGED[state],) if state in NOT_CHANGED else ()
    before_left = (NOT_CHANGED_LEFT[state],) if state in NOT_CHANGED_LEFT else ()
    left = (LEFT_OF_PEOPLE if people else LEFT)[depth]
    if exact is not None:
        word = ", by the label holder's word" if exact.by_word else ""
        changed = EXACT_CHANGED[exact.restart].format(word=word)
        left = EXACT_LEFT if depth == "bottoms" else LEFT[None] if depth is None else EXACT_UNKNOWN
    after, after_left = ((), ()) if state == "rolled-back" else ((changed,), (left,))
    return {
        "Deleted": tuple(deleted) if purges else (PURGE_UNKNOWN,),
        "Changed": (*before, *after),
        "Remains": (*before_left, *after_left, IN_TABLE, ON_PURPOSE, OUT_OF_REACH),
    }
