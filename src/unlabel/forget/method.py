"""What a method of forgetting is, and what it works with."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal

import torch
from torch import Tensor

from unlabel.errors import ForgetError
from unlabel.forget.public import PublicSet, Shots
from unlabel.party import ActiveParty, OptimiserSettings
from unlabel.registry import Registry
from unlabel.wire import Mode, Tune

#: Which data a method must be given: a few public samples, training rows of the forgotten labels,
#: those of the others, both, or none.
Data = Literal["few-shot", "forgotten", "retained", "all", "nothing"]

#: Settings that the comparison may try for a method, its published ones among them.
SWEEP = 4

#: Retained few-shot samples that may change their label before a run counts as collapsed.
COLLAPSE = 0.5


@dataclass(frozen=True)
class Tells:
    """What a method tells every passive party: exactly what its transcript holds.

    rows       whose samples are asked for: `forgotten` and `retained` training rows, `public` ones,
               and `drafts` that the party made itself
    gradients  for whose samples gradients come
    alone      whether some message asks for samples of the forgotten labels and for no others
    messages   kinds of message, beyond those that ask for embeddings and send gradients
    """

    rows: frozenset[str] = frozenset()
    gradients: frozenset[str] = frozenset()
    alone: bool = False
    messages: frozenset[str] = frozenset()

    @classmethod
    def of(cls, rows: str, gradients: str, messages: str = "Tune", *, alone: bool = False) -> Tells:
        """Return what words say.

        >>> sorted(Tells.of("forgotten retained", "retained").rows)
        ['forgotten', 'retained']
        """
        words = (frozenset(text.split()) for text in (rows, gradients, messages))
        asked, moved, kinds = words
        return cls(asked, moved, alone, kinds)

    def names_rows(self) -> bool:
        """Return whether the forgotten rows can be told by what is asked for, or is not."""
        return self.alone or ("retained" in self.rows and "forgotten" not in self.rows)


class Method(ABC):
    """One way to forget: a frozen dataclass of settings with the algorithm in `run`.

    about      one line for people
    discloses  what it tells the passive parties beyond what training tells them
    people     whether it forgets the labels of people; else it forgets whole labels
    """

    about: ClassVar[str]
    discloses: ClassVar[str]
    people: ClassVar[bool] = False

    @abstractmethod
    def needs(self) -> Data:
        """Return which data it needs."""

    @abstractmethod
    def tells(self) -> Tells:
        """Return what its messages tell every passive party."""

    def sweep(self) -> tuple[Method, ...]:
        """Return the settings that a comparison tries, the present ones first, `SWEEP` at most."""
        return ()

    def is_control(self) -> bool:
        """Return whether nothing is learned on purpose; a control cannot be committed."""
        return False

    def names_rows(self) -> bool:
        """Return whether what is asked for, or is not, tells the label's rows from the others."""
        return self.tells().names_rows()

    def presets(self) -> dict[str, Preset]:
        """Return named settings, where there are any."""
        return {}

    @abstractmethod
    def run(self, work: Work) -> None:
        """Forget, by moving the parties' models."""

    def control(self) -> Method | None:
        """Return the same method with nothing learned, where side effects alone also forget."""
        return None


@dataclass(frozen=True)
class Preset:
    """Named settings of a method, and how many samples go with them."""

    method: Method
    few_shot: int
    retained: int


METHODS: Registry[type[Method]] = Registry("method", package="unlabel.forget")


def watch_nothing(step: int, steps: int, note: str) -> None:
    """Watch nothing."""


@dataclass
class Work:
    """One request being worked on by the active party, with all others behind the transport.

    active     the active party
    request    id of the request
    labels     numbers of the labels to forget now (or, for people, none)
    gone       numbers of all labels that must have no say afterwards, those forgotten earlier too
    shots      the few-shot samples
    public     all public samples
    rows       training rows of what is forgotten; only methods that disclose them ask for them
    retained   training rows of everything else
    among      for people: a random cover with their rows among it, all that is ever asked for
    apart      for people: another cover, of the same size and without them
    count      how many labels there are
    batch      rows a step in training
    watch      told the step, the most steps and a figure, at every look
    steps      taken since the last `tune`; `total` counts all
    """

    active: ActiveParty
    request: str
    labels: tuple[int, ...]
    gone: tuple[int, ...]
    shots: Shots
    public: PublicSet
    rows: Tensor
    retained: Tensor
    among: Tensor
    apart: Tensor
    count: int
    batch: int = 64
    seed: int = 0
    watch: Callable[[int, int, str], None] = watch_nothing
    steps: int = field(default=0, init=False)
    total: int = field(default=0, init=False)

    def tune(
        self,
        top: OptimiserSettings,
        bottoms: OptimiserSettings,
        *,
        steps: int = 0,
        renew: float = 0.0,
    ) -> None:
        """Have all models move with a fresh optimiser, after renewing the ends of the bottoms."""
        self.steps = 0
        for half, learner in self.active.learners().items():
            learner.tune(top if half == "top" else bottoms, steps)
            if renew and half == "bottom":
                learner.renew(renew)
        self.active.transport.ask(
            Tune(
                0,
                request=self.request,
                steps=steps,
                lr=float(bottoms.lr),
                schedule=bottoms.schedule,
                warmup=float(bottoms.warmup),
                momentum=float(bottoms.momentum),
                nesterov="yes" if bottoms.nesterov else "no",
                weight_decay=float(bottoms.weight_decay),
                renew=float(renew),
            )
        )

    def move_shots(self, objective: Callable[[list[Tensor]], Tensor]) -> Tensor:
        """Take one joint step on all few-shot samples, normalisation frozen."""
        rows, places = self.shots.sent()
        return self.move(
            rows,
            lambda embeddings: objective([values[places] for values in embeddings]),
            mode="frozen",
            table=self.shots.table,
        )

    def move(
        self,
        rows: Tensor,
        objective: Callable[[list[Tensor]], Tensor],
        *,
        mode: Mode,
        table: str,
    ) -> Tensor:
        """Take one joint step."""
        loss = self.active.move(rows, self.steps, objective, mode=mode, table=table)
        self.steps += 1
        self.total += 1
        return loss

    def expect_alive(
        self, agreement: float = 1.0, loss: float = 0.0, *, least: float = COLLAPSE
    ) -> None:
        """Raise where the loss is no number or too few retained samples keep their label."""
        if math.isnan(loss) or agreement < least:
            raise ForgetError(
                f"Forgetting destroys the rest: after step {self.steps} only {agreement:.0%} of "
                f"the retained public samples keep their label; it was rolled back. Lower the "
                f"rates (`lr`, `top_lr` or `bottom_lr`) or take fewer steps."
            )

    def without(self, logits: Tensor) -> Tensor:
        """Return the distribution with the forgotten labels masked and the rest renormalised."""
        masked = logits.clone()
        masked[:, list(self.gone)] = -torch.inf
        return masked.softmax(1)


def settings_of(method: Method) -> dict[str, object]:
    """Return a method's settings as plain data."""
    return {f.name: getattr(method, f.name) for f in fields(method)}  # type: ignore[arg-type]


def steady(lr: float, momentum: float, weight_decay: float = 0.0) -> OptimiserSettings:
    """Return SGD at one rate over all steps."""
    return OptimiserSettings(
        lr=lr, momentum=momentum, weight_decay=weight_decay, schedule="constant"
    )
