"""The paper's figures of time and of what partners learn."""

from __future__ import annotations

from unlabel.bench.paper_entry import Entry, Part, Run, add
from unlabel.bench.paper_recipes import CIFAR, DIGITS, PRESET

LEAKED = f"methods={PRESET},renormalise,hidden,retrain"

add(
    Entry(
        "runtime",
        "Figure 2",
        ("fig: time efficiency",),
        "Seconds of every method for more and more parties",
        (
            Part(
                Run(
                    "resnet18",
                    "runtime",
                    (*CIFAR, "model=resnet18", "epochs=5", "quality=true", "counts=2"),
                ),
                "ResNet18",
                "CIFAR-10",
                "CIFAR-10",
                "reproduced",
                "results/cifar10_resnet18_runtime.json",
            ),
            Part(
                Run(
                    "convnet",
                    "runtime",
                    (*CIFAR, "model=convnet", "epochs=8", "quality=true", "counts=1,2,4,8"),
                ),
                "ResNet18",
                "CIFAR-10",
                "CIFAR-10, by a small convolutional network",
                "stand-in data",
                "results/cifar10_convnet_runtime.json",
            ),
        ),
        (
            Run(
                "digits",
                "runtime",
                (
                    *(*DIGITS, "counts=1,2,4,8", "repeats=1"),
                    f"methods=retrain,finetune,boundary,ssd,{PRESET},renormalise,hidden",
                ),
            ),
        ),
        "The paper's method takes 16 to 1200 times less time than the others, and time grows "
        "linearly with the number of parties.",
        "The figure is a picture without numbers. With ResNet18 two parties are recorded; four "
        "numbers of parties with a smaller network, where parties cost launches more than work.",
    )
)

add(
    Entry(
        "membership-leakage",
        "Table 6",
        ("tab:leakage_adversary",),
        "Private rows of the label found by their distance to the public samples",
        (
            Part(
                Run(
                    "cifar10",
                    "process-privacy",
                    (
                        *(*CIFAR, "model=resnet18", LEAKED, "requests=0", "seeds=1"),
                        "labels=0,1,2,3,4,5,6,7,8,9",
                    ),
                ),
                "ResNet18",
                "CIFAR-10",
                "CIFAR-10",
                "reproduced",
                "results/cifar10_membership.json",
                (1, "resnet18", "cifar10"),
            ),
            Part(
                Run(
                    "renormalise",
                    "process-privacy",
                    (
                        *(*CIFAR, "model=resnet18", "methods=renormalise,hidden,retrain"),
                        *("requests=0", "seeds=1", "labels=0,3,8"),
                    ),
                ),
                "ResNet18",
                "CIFAR-10",
                "CIFAR-10, labels 0, 3 and 8, our methods in place of the paper's",
                "stand-in data",
                "results/cifar10_process_privacy.json",
                (1, "resnet18", "cifar10"),
            ),
            Part(
                Run(
                    "cifar100",
                    "process-privacy",
                    (
                        *(*CIFAR, "data=cifar100", "model=resnet18", LEAKED, "requests=0"),
                        *("seeds=1", "labels=0,2,5,7"),
                    ),
                ),
                "ResNet18",
                "CIFAR-100",
                "",
                table=(1, "resnet18", "cifar100"),
                wanted="the folder of CIFAR-100",
            ),
        ),
        (
            Run(
                "digits",
                "process-privacy",
                (*DIGITS, LEAKED, "requests=0", "seeds=1", "labels=0,3,8"),
            ),
        ),
        "14.38 % of the k nearest private rows are of the label on CIFAR-10, 4.04 % on CIFAR-100, "
        "against 100 % when retraining names them.",
        "The paper does not say whose embeddings, which distance and which model its attack takes; "
        "ours takes the best of them.",
    )
)

add(
    Entry(
        "label-leakage",
        "Figure 5",
        ("fig:label_leakage",),
        "Labels read from clusters of the gradients that boundary unlearning sends",
        (
            Part(
                Run(
                    "digits",
                    "label-clusters",
                    ("data=digits", "model=convnet", "seeds=3"),
                ),
                "ResNet18",
                "CIFAR-10",
                "digits, by a small convolutional network, every method that sends gradients",
                "stand-in data",
                "results/digits_label_clusters.json",
            ),
            Part(
                Run(
                    "cifar100",
                    "label-clusters",
                    (*CIFAR, "data=cifar100", "model=resnet18", "methods=boundary", "seeds=1"),
                ),
                "ResNet18",
                "CIFAR-100",
                "",
                wanted="the folder of CIFAR-100",
            ),
        ),
        (
            Run(
                "digits",
                "label-clusters",
                (*DIGITS, "methods=boundary,renormalise", "seeds=1"),
            ),
        ),
        "One label is told by being asked about (100 %); of four labels of CIFAR-100 clusters of "
        "gradients tell 62.45 %.",
    )
)
