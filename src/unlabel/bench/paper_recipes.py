"""Words that several entries share: recipes of training, methods, and reasons."""

from __future__ import annotations

#: How CIFAR-10 and what is like it is trained for the records.
CIFAR = (
    *("data=cifar10", "epochs=16", "batch=256", "lr=0.1", "warmup=0.2", "nesterov=true"),
    "validation=0.1",
)
#: Where there is a GPU.
GPU = ("precision=bf16", "graphs=true")
#: Images that scikit-learn brings along, for two cores.
DIGITS = ("data=digits", "model=convnet", "epochs=6")
#: A model of texts, for two cores.
TEXTS = (
    *("columns=label=label,text=text", "model=words", "text=length=12,vocabulary=5000"),
    *("epochs=12", "lr=0.2"),
)
#: Two views of each digit, a view a party.
VIEWED = ("model=convnet", "split=views", "epochs=6")

#: The preset of the paper for CIFAR-10 with ResNet18, by which its ablations are named as well.
PRESET = "mixup-ascent@resnet18-cifar10"
#: At the paper's rate next to nothing is learned, so ablations have others at which ascent acts; at
#: the largest all that is left of a label after 20 steps is forgotten. On digits less is enough.
ACTING, ACTING_SMALL = (1e-4, 3e-4, 1e-3), 2e-4


def few_methods(preset: str) -> str:
    """Return the setting for what every record has: retrained, the paper's preset, ours."""
    return f"methods=retrain,mixup-ascent@{preset},renormalise,hidden,mask"


def table_methods(preset: str) -> str:
    """Return the setting for every method, the paper's own with a preset."""
    others = "retrain,finetune,fisher,amnesiac,unsir,boundary,ssd,delete,scrub,ascent:samples=all"
    return f"methods={others},mixup-ascent@{preset},deep,renormalise,hidden,mask"


def modules(lr: float | None = None) -> str:
    """Return the four variants of the module ablation at a rate: GA-A, GA-S, with mixup, whole.

    >>> modules().split(",")[2]
    'mixup-ascent@resnet18-cifar10:recovery=false'
    """
    rate = f":lr={lr:g}" if lr else ""
    names = ("ascent:samples=all", "ascent", f"{PRESET}:recovery=false", PRESET)
    return ",".join(f"{name}{rate}" for name in names)


def lambdas(lr: float | None = None) -> str:
    """Return the paper's three pairs of shares, at a rate."""
    rate = f":lr={lr:g}" if lr else ""
    return ",".join(f"{PRESET}:lambdas={first}/0.5{rate}" for first in ("0.2", "0.25", "0.33"))


#: Why fewer rows than in a retrained model may look like members after a hidden request.
FLAT = (
    "`hidden` leaves the bottoms as they are and draws a top that never sees the label; such a top "
    "is less sure of the label's rows than a retrained model is, so that fewer look like members."
)
#: What else the same records show of it.
MOVED = "Where the bottoms move, as in `deep`, ASR is nearer to the retrained model's."
MASKED = "`mask`, which changes no weights, has about the same ASR."
