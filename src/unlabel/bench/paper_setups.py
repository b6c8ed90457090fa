"""The paper's tables of settings and words, and its illustrations."""

from __future__ import annotations

from unlabel.bench.paper_entry import Entry, Part, Run, add
from unlabel.bench.paper_made import CALLED, SENTENCES, VIEWS

ALL = "every model of the paper"


def _facts(run: Run, record: str, ours: str = "the presets of this package") -> Part:
    return Part(run, ALL, "no data", ours, "reproduced", record)


PRESETS = Run("presets", "paper-presets", ("which=single",))
MORE = Run("presets", "paper-presets", ("which=more",))
LAYERS = Run("layers", "paper-layers")
NOTATION, OVERVIEW, RELATED = (
    Run("words", "paper-words", (f"which={which}",))
    for which in ("notation", "overview", "related-work")
)

add(
    Entry(
        "notation",
        "Table 7",
        ("tab:notations",),
        "The paper's symbols, and what they are called here",
        (_facts(NOTATION, "docs/architecture.md", "names in this package"),),
        (NOTATION,),
        "Symbols, not a measurement.",
    )
)
add(
    Entry(
        "related-work",
        "Table 8",
        ("tab:summary",),
        "Methods of federated unlearning side by side",
        (_facts(RELATED, "docs/related-work.md", "the same methods, kept as data"),),
        (RELATED,),
        "Only the paper's method protects the request while it is carried out.",
    )
)
add(
    Entry(
        "settings-single",
        "Table 9",
        ("tab:hyperparameters_singleclass",),
        "Hyper-parameters for one label",
        (_facts(PRESETS, "results/paper_settings_single.json"),),
        (PRESETS,),
        "Rates of 1e-7 to 6e-6, at most 30 epochs and 40 samples.",
        "Ours takes all pairs of samples at once, as the paper's algorithm does; batches of 32 "
        "stand in its table only.",
    )
)
add(
    Entry(
        "settings-more",
        "Table 10",
        ("tab:hyperparameters_other",),
        "Hyper-parameters for two and four labels",
        (_facts(MORE, "results/paper_settings_more.json"),),
        (MORE,),
        "Rates of 9e-7 to 3e-6, at most 25 epochs and 40 samples.",
        "Ours takes all pairs of samples at once, as the paper's algorithm does.",
    )
)
add(
    Entry(
        "models",
        "Table 11",
        ("tab:model_dataset_setup",),
        "Models of the parties, datasets and labels",
        (_facts(LAYERS, "results/paper_models.json", "layers counted in our models"),),
        (LAYERS,),
        "20 convolutions and one layer on top, 13 and three, 12 layers of BERT and four.",
    )
)
add(
    Entry(
        "overview",
        "Figure 1",
        ("fig:2",),
        "How a request goes: an illustration",
        (_facts(OVERVIEW, "docs/architecture.md", "an illustration, told in words"),),
        (OVERVIEW,),
        "An illustration, not a measurement.",
    )
)


def _split(name: str, where: str, label: str, theirs: str, title: str, run: Run) -> None:
    ours = CALLED.get(run.made, "digits, 8 x 8 pixels")
    part = Part(
        run, ALL, theirs, ours, "stand-in data", f"results/paper_{name.replace('-', '_')}.json"
    )
    claim = "An illustration: no party sees the whole."
    add(Entry(name, where, (label,), title, (part,), (run,), claim))


_split(
    "split-image",
    "Figure 7",
    "fig:cifar10",
    "CIFAR-10",
    "How an image is split between two parties",
    Run("digits", "paper-split", ("data=digits", "row=17")),
)
_split(
    "split-views",
    "Figure 8",
    "fig:modelnet",
    "ModelNet",
    "How an object is split between two parties",
    Run("views", "paper-split", ("split=views", "row=17"), VIEWS),
)
_split(
    "split-text",
    "Figure 9",
    "fig:yahoo_answer",
    "Yahoo Answers",
    "How a text is split between two parties",
    Run("sentences", "paper-split", ("columns=label=label,text=text", "row=250"), SENTENCES),
)
