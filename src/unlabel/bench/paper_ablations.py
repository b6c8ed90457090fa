"""The paper's ablations: modules, shares of mixing, numbers of parties, noise and compression."""

from __future__ import annotations

from unlabel.bench.paper_entry import Entry, Part, Run, add
from unlabel.bench.paper_recipes import (
    ACTING,
    ACTING_SMALL,
    CIFAR,
    DIGITS,
    FLAT,
    MASKED,
    few_methods,
    lambdas,
    modules,
)

TWO_RATES = (
    "At the paper's rate of 2e-7 ascent learns next to nothing and what is forgotten is drift of "
    "the normalisation, so variants also stand there at rates at "
    "which it acts. GA-A takes 18 steps an epoch where the others take one, so it acts sooner."
)
RESNET = ("model=resnet18", "labels=0", "seeds=3")


def _parties(count: int, record: str, reason: str = "") -> Part:
    few = few_methods("resnet18-cifar10")
    return Part(
        Run(f"{count}", "single-label", (*CIFAR, *RESNET, few, f"parties={count}")),
        "ResNet18",
        "CIFAR-10" if count > 1 else "none: the paper begins with two parties",
        "CIFAR-10",
        "reproduced",
        record,
        reason=reason,
    )


add(
    Entry(
        "lambda",
        "Table 5",
        ("tab:lambda",),
        "Shares of the two samples in a mixed one",
        (
            Part(
                Run(
                    "cifar10",
                    "single-label",
                    (*CIFAR, *RESNET, f"methods={lambdas()},{lambdas(ACTING[-1])}"),
                ),
                "ResNet18",
                "CIFAR-10",
                "CIFAR-10",
                "reproduced",
                "results/cifar10_lambda.json",
            ),
        ),
        (
            Run(
                "digits",
                "single-label",
                (*DIGITS, f"methods={lambdas()},{lambdas(ACTING_SMALL)}", "labels=0", "seeds=1"),
            ),
        ),
        "D_r is 88.91 to 89.29 % and y_u at most 0.21 % for [0.2, 0.5], [0.25, 0.5], [0.33, 0.5].",
        TWO_RATES,
    )
)

add(
    Entry(
        "modules",
        "Figure 3",
        ("fig:compare_GA",),
        "What each module is worth: GA-A, GA-S, GA-S with mixup, the whole method",
        (
            Part(
                Run(
                    "cifar10",
                    "single-label",
                    (
                        *(*CIFAR, *RESNET),
                        f"methods={','.join(modules(lr) for lr in (None, *ACTING))}",
                    ),
                ),
                "ResNet18",
                "CIFAR-10",
                "CIFAR-10",
                "reproduced",
                "results/cifar10_modules.json",
            ),
        ),
        (
            Run(
                "digits",
                "single-label",
                (
                    *(*DIGITS, "labels=0", "seeds=1"),
                    f"methods=retrain,{modules()},{modules(ACTING_SMALL)}",
                ),
            ),
        ),
        "GA-A forgets and costs D_r; GA-S keeps D_r and does not forget; mixup helps to forget, "
        "and recovery brings D_r back.",
        TWO_RATES,
    )
)

add(
    Entry(
        "parties",
        "Figure 4",
        ("fig:numberofpp", "2pp", "4pp", "8pp"),
        "Two, four and eight passive parties, and one",
        (
            _parties(1, "results/cifar10_resnet18_parties_1.json", f"{FLAT} {MASKED}"),
            _parties(2, "results/cifar10_resnet18_single.json"),
            _parties(4, "results/cifar10_resnet18_parties_4.json"),
            _parties(8, "results/cifar10_resnet18_parties_8.json"),
        ),
        tuple(
            Run(
                f"{count}",
                "single-label",
                (
                    *(*DIGITS, few_methods("resnet18-cifar10"), f"parties={count}"),
                    *("labels=0", "seeds=1"),
                ),
            )
            for count in (1, 2, 4, 8)
        ),
        "Figures do not depend on the number of parties.",
        "The figure is a picture without numbers, so ours stand alone.",
    )
)

add(
    Entry(
        "defences",
        "Figure 6",
        ("fig:DP", "ET_Dr", "ET_Df", "ET_Dr_gc", "ET_Df_gc"),
        "Noise and compression of gradients, in training and forgetting",
        (
            Part(
                Run(
                    "cifar10",
                    "training-defences",
                    (
                        *(*CIFAR, "model=resnet18", "seeds=1"),
                        *("noises=0,1e-8,1e-7,1e-6,1e-5,1e-4", "keeps=1,0.25,0.1,0.05,0.01"),
                    ),
                ),
                "ResNet18",
                "CIFAR-10",
                "CIFAR-10",
                "reproduced",
                "results/cifar10_training_defences.json",
            ),
        ),
        (
            Run(
                "digits",
                "training-defences",
                (*DIGITS, "noises=0,1e-6,1e-4", "keeps=1,0.1,0.01", "seeds=1"),
            ),
        ),
        "Even under much noise and compression the label is forgotten, while training suffers.",
        "The figure is a picture without numbers, so ours stand alone; rows are not clipped before "
        "the noise, as in the paper, so nothing is proved by it.",
    )
)
