"""A request against the run it is made in: its samples, rows and covers, and how to measure it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from unlabel.errors import ForgetError
from unlabel.forget.method import Method
from unlabel.forget.public import PublicSet, Robust, Shots, draw_shots
from unlabel.forget.request import Forgotten, Request
from unlabel.forget.work import Work
from unlabel.party import ActiveParty, keyed_order
from unlabel.train import Evaluation, TrainSettings, evaluate

#: Rows of a cover for each person that a request names, and in all.
COVER, LEAST = 10, 1000

Watch = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Task:
    """Everything a request needs to know of the run it is made in.

    train, test  rows of the training table
    names        of the labels
    gone         what was forgotten earlier
    again        the labels were forgotten before
    training     how the model was trained
    wreck        carry on where a method destroys the rest
    drift        measure what the same run at rate 0 forgets, where a method has one
    any_public   take a public set too whose labels the model does not share
    cover        rows of the covers in which people are asked for, ten a person at least; 0 is
                 `LEAST`, or half of the training rows where there are fewer
    """

    active: ActiveParty
    train: Tensor
    test: Tensor
    names: tuple[str, ...]
    gone: Forgotten
    public: PublicSet
    few_shot: int = 40
    retained: int = 3
    robust: Robust = "none"
    cover: int = 0
    again: bool = False
    training: TrainSettings = field(default_factory=TrainSettings)
    wreck: bool = False
    drift: bool = True
    any_public: bool = False

    def shots(self, request: Request, method: Method) -> Shots:
        """Choose the few-shot samples of a request; none where the method looks at none."""
        if not method.draws():
            none = torch.empty(0, dtype=torch.int64, device=self.active.device)
            return Shots(self.public.table, none, none, none.float(), 0)
        return draw_shots(
            self.active,
            self.public,
            request.labels,
            self.gone.labels,
            self.names,
            few_shot=self.few_shot,
            retained=self.retained,
            robust=self.robust,
            key=request.key,
            again=self.again,
        )

    def expect_public(self, method: Method) -> None:
        """Raise where the public set lacks a label, and the method is to learn all it knows there.

        The labels of the request count too: a refusal must not depend on which they are.
        """
        if method.needs() != "public":
            return
        there = {*self.public.labels.tolist(), *self.gone.labels}
        missing = [name for number, name in enumerate(self.names) if number not in there]
        if missing:
            raise ForgetError(
                f"The public set has no sample of label '{missing[0]}'; give more with --public, "
                f"or none at all to use training rows."
            )

    def work(self, request: Request, shots: Shots, watch: Watch) -> Work:
        """Return the request as work for a method."""
        active, device = self.active, self.active.device
        labels = active.labels
        train = self.train.to(device)
        if request.rows:
            chosen = torch.isin(train, torch.tensor(request.rows, device=device))
        else:
            chosen = torch.isin(labels[train], torch.tensor(request.labels, device=device))
        past = torch.isin(labels[train], torch.tensor(self.gone.labels, device=device))
        past |= torch.isin(train, torch.tensor(self.gone.rows, device=device))
        among, apart = self.covers(request)
        return Work(
            active=active,
            request=request.id,
            labels=request.labels,
            gone=tuple(sorted({*request.labels, *self.gone.labels})),
            shots=shots,
            public=self.public,
            rows=train[chosen & ~past],
            retained=train[~chosen & ~past],
            among=among.to(device),
            apart=apart.to(device),
            count=len(self.names),
            key=request.key,
            watch=watch,
            training=self.training,
            wreck=self.wreck,
            first=not self.gone.labels and not self.gone.rows,
        )

    def covers(self, request: Request) -> tuple[Tensor, Tensor]:
        """Return the people's rows among a random cover, and another cover without them.

        Every message about people asks for rows of these two and of no others, the same from the
        first to the last, so that no comparison of messages singles the people out.
        """
        if not request.rows:
            none = torch.empty(0, dtype=torch.int64)
            return none, none
        rows = torch.tensor(request.rows)
        past = torch.isin(self.active.labels.cpu()[self.train], torch.tensor(self.gone.labels))
        free = self.train[~past & ~torch.isin(self.train, rows)]
        size = self._cover_size(len(rows), len(free))
        # Over all training rows and under a secret key: positions tell nothing about people, and
        # the same people always hide in the same cover, a larger one around a smaller.
        order = self.train[keyed_order(self.train, request.cover or request.key)]
        order = order[torch.isin(order, free)]
        others = order[: size - len(rows)]
        rest = order[size - len(rows) :]
        # The helper learns labels, and those of people of earlier requests are gone.
        taught = rest[~torch.isin(rest, torch.tensor(self.gone.rows))][:size]
        return torch.cat([rows, others]).sort().values, taught.sort().values

    def _cover_size(self, people: int, free: int) -> int:
        """Return how many rows each cover has: enough to hide in, or an error that says so."""
        least = max(COVER * people, self.training.batch)
        if self.cover and self.cover < least:
            raise ForgetError(
                f"Expected a cover of at least {least} rows for {people} people but got "
                f"{self.cover}."
            )
        most = (free + people) // 2
        # Unless told a size, a small dataset gives what it has, ten rows a person at least.
        wanted = self.cover or max(least, min(LEAST, most))
        if wanted > most:
            raise ForgetError(
                f"Two covers of {wanted} rows to hide {people} people in do not fit into "
                f"{free + people} training rows; ask for fewer people at a time, or a smaller "
                f"--cover."
            )
        return wanted

    def evaluate(self) -> Evaluation:
        """Return how the model predicts the test rows."""
        return evaluate(self.active, self.test, len(self.names))

    def measure(
        self, request: Request, found: Evaluation | None = None
    ) -> tuple[float | None, float | None, float | None]:
        """Return D_r, y_u and, for people, the confidence in their old labels.

        found  how the test rows are predicted, where that was asked already
        """
        found = found or self.evaluate()
        retained = [n for n in range(len(self.names)) if n not in request.labels]
        stay = found.accuracy_on(n for n in retained if n not in self.gone.labels)
        if not request.rows:
            return stay, found.accuracy_on(request.labels), None
        among = self.covers(request)[0].to(self.active.device)
        listed = torch.isin(among, torch.tensor(request.rows, device=among.device))
        old = self.active.labels[among[listed]]
        p = self.active.logits(among)[listed].softmax(1)
        sure = p.gather(1, old[:, None]).mean().item()
        return stay, (p.argmax(1) == old).float().mean().item(), sure
