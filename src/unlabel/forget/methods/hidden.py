"""Forgetting that partners cannot tell: a new top that never saw the label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from unlabel.config import expect, one_of
from unlabel.defend.accountant import Account, Release
from unlabel.forget.method import METHODS, Data, Disclosure, Method
from unlabel.forget.noisy_request import CLIP, NoisyRequest
from unlabel.forget.work import STILL, Work, adam, divergence, sgd
from unlabel.models.tops import last_layer
from unlabel.party import Stream
from unlabel.train.top_refit import delete_outputs, drawn_anew, refit_recipe, refit_top
from unlabel.train.watch import Watcher

#: Of SGD, where the bottoms move.
MOMENTUM = 0.8
#: Steps of the new top between two looks at the progress.
LOOK = 50
#: Noise between which the bound and the belief can be computed, and mean something.
LEAST_NOISE, MOST_NOISE = 1e-3, 1e6


@METHODS.register("hidden")
@dataclass(frozen=True)
class Hidden(Method):
    """Draw the whole top anew and teach it on retained samples alone; send nothing about it.

    samples=all, the default: all rows are asked for, and labels teach. Let S be the labels that
    stay, R the training rows whose label is one of them, and H_i the embeddings of row i. A top F
    with fresh weights descends the mean over R of

        -log p(y_i),   p(s) = exp F_s(H_i) / sum over t in S of exp F_t(H_i)

    as the run was trained: by its optimiser, batch, balance and mixup, in as many steps (see
    `refit_top`). The old top is not asked, so the new one is that of a party that never knew the
    label, on bottoms that did.

    samples=public, for few samples: the old top teaches. Let F0 be the top before the request, H
    the embeddings of the public samples, and q(h) = F0(h) with the forgotten labels masked and the
    rest renormalised. A top F with fresh weights descends

        KL(q(h) || F(h)),   h = lambda h_i + (1 - lambda) h_j,   lambda uniform on [0, 1]

    over random pairs of RETAINED samples, the forgotten outputs of F left out: manifold mixup
    carried to distillation. What the old top says of retained samples holds what it learned from
    the label, and so it answers nearly as the masked model does.

    Either way no sample of a forgotten label is used. Then the mean of the outputs that stay is
    taken off each of them, which changes no probability, and a forgotten output becomes the
    constant -`MARGIN`: below that mean, so never the largest, and the same for every row. What the
    partners see does not depend on it: the same samples of all labels in one order, a fixed number
    of messages, no early stop, and an outcome is dropped in the messages in which it is kept. With
    `noise` the bottoms move too (`noisy_request`), and what is seen depends on the label through
    one noisy row alone, which the accountant counts.

    samples    all: labels of training rows teach; public: the old top does, on public samples
    epochs     of the new top that labels teach; 0 makes as many as the training
    steps      of the one that the old top teaches
    batch      its mixed samples a step
    lr         of its Adam, falling to zero along a line
    noise      standard deviation of the noise on the request; 0 sends nothing about it
    moves      joint steps of the bottoms, where there is noise
    bottom_lr  their rate
    hold       how firmly embeddings of samples are held that the noisy request does not mean
    """

    about = "partners cannot tell: a new top that never saw the label"
    draws_samples = False
    visibility = "hidden"

    samples: Literal["all", "public"] = "all"
    epochs: int = 0
    steps: int = 200
    batch: int = 512
    lr: float = 1e-2
    noise: float = 0.0
    moves: int = 20
    bottom_lr: float = 2e-4
    hold: float = 1.0

    def __post_init__(self) -> None:
        one_of("samples", self.samples, ("all", "public"))
        self.expect_at_least(epochs=0, steps=1, batch=2, moves=1, bottom_lr=0, hold=0)
        expect("lr", self.lr, self.lr > 0, "above 0")
        fits = self.noise == 0 or LEAST_NOISE <= self.noise <= MOST_NOISE
        accepted = f"0 or more, and if more from {LEAST_NOISE:g} to {MOST_NOISE:g}"
        expect("noise", self.noise, fits, accepted)

    @property
    def needs(self) -> Data:
        """The samples it asks for."""
        return "public" if self.samples == "public" else "all"

    @property
    def disclosure(self) -> Disclosure:
        """Samples of all labels are asked for; gradients are sent only with noise."""
        rows = "public" if self.samples == "public" else "forgotten retained public"
        return Disclosure.of(rows, "public" if self.noise else "")

    @property
    def is_silent(self) -> bool:
        """Whether the partners' weights stay as they are."""
        return not self.noise

    @property
    def account(self) -> Account | None:
        """Nothing, or one noisy row and whether the outcome was kept."""
        if not self.noise:
            return Account.nothing()
        # The same row moves all parties, so that those who collude hold it once.
        row = Account.of(Release(rows=1, messages=1, clip=CLIP, sigma=self.noise))
        return row + Account.decision()

    @property
    def tells_partners(self) -> str:
        """Nothing, or what the noise leaves of the label."""
        if self.noise:
            return "one noisy row about the label, by how the bottoms move"
        return "nothing: the same messages whatever the label"

    def run(self, work: Work) -> None:
        """Ask for the samples, move the bottoms if there is noise, and build the new top."""
        noisy = NoisyRequest(work, self.noise, self.hold) if self.noise else None
        work.use_optimisers(STILL, sgd(self.bottom_lr, MOMENTUM) if noisy else STILL)
        # Labels need no look from before: the old top alone knows embeddings as they were.
        looks = [self._look(work)] if noisy is None or self.samples == "public" else []
        if noisy is not None:
            noisy.move(self.moves)
            looks.append(self._look(work))
        (before, labels), (after, _) = looks[0], looks[-1]
        stay = [label for label in range(work.label_count) if label not in work.forgotten_labels]
        new = self._taught(work, before, after, labels, stay)
        work.active.top.module.load_state_dict(new.state_dict())

    def _look(self, work: Work) -> tuple[list[Tensor], Tensor]:
        """Return embeddings and labels of the samples, asked for in a fixed order."""
        active = work.active
        if self.samples == "public":
            public = work.public.balanced()
            rows = public.rows.to(active.device)
            return active.embeddings(rows, table=public.table), public.labels.to(active.device)
        every = active.embeddings(torch.arange(len(active.labels), device=active.device))
        trained = work.training_rows
        return [part[trained] for part in every], active.labels[trained]

    def _taught(
        self,
        work: Work,
        before: list[Tensor],
        after: list[Tensor],
        labels: Tensor,
        stay: list[int],
    ) -> nn.Module:
        """Return the new top: nothing is sent any more, and what is computed may depend on labels.

        before  embeddings as the old top knows them, `after` those that it will be given
        """
        recipe = refit_recipe(work.training, len(work.train), epochs=self.epochs)
        if self.samples == "all":
            watcher = _Progress(work, recipe.steps)
            return refit_top(work.active.top, after, labels, stay, recipe, [watcher])
        kept = torch.isin(labels, torch.tensor(stay, device=labels.device))
        before, after = ([part[kept] for part in parts] for parts in (before, after))
        return self._distilled(work, before, after, stay, recipe.seed)

    def _distilled(
        self, work: Work, before: list[Tensor], after: list[Tensor], stay: list[int], seed: int
    ) -> nn.Module:
        """Fit a fresh top to the old one's output on mixed embeddings of retained samples."""
        active, new = work.active, drawn_anew(work.active.top, seed)
        last = last_layer(new.module, [part.shape[1] for part in after])
        new.use_optimiser(replace(adam(self.lr), schedule="linear"), self.steps)
        progress = _Progress(work, self.steps)
        active.top.begin("predict", 0)
        pairs, shares = self._draws(work, len(before[0]))
        for step, ((i, j), share) in enumerate(zip(pairs, shares, strict=True)):
            with torch.no_grad():
                logits = active.apply_top([_mix(part, i, j, share) for part in before])
                target = work.retained_softmax(logits)
            new.begin("train", step)
            with new.place.autocast():
                logits = new.module([_mix(part, i, j, share) for part in after]).float()
            if last is not None:  # a top without one is taught that the forgotten are small
                target, logits = target[:, stay], logits[:, stay]
            loss = divergence(target, logits)
            loss.backward()
            new.descend(step)
            progress.look()
        if last is not None:
            delete_outputs(last, list(work.forgotten_labels), stay)
        return new.module

    def _draws(self, work: Work, count: int) -> tuple[Tensor, Tensor]:
        """Return who is mixed with whom in every step, and how; moved to the device at once."""
        draw = Stream(work.seed, "hidden").generator(0)
        pairs, shares = [], []
        for _ in range(self.steps):
            pairs.append(torch.randint(count, (2, self.batch), generator=draw))
            shares.append(torch.rand(self.batch, 1, generator=draw))
        device = work.active.device
        return torch.stack(pairs).to(device), torch.stack(shares).to(device)


class _Progress(Watcher):
    """Says now and then how many steps of the new top are done."""

    def __init__(self, work: Work, steps: int) -> None:
        self._watch, self._steps, self._done = work.watch, steps, 0

    def stepped(self, rows: int, loss: Tensor, correct: Tensor) -> None:  # noqa: ARG002
        """Count a step."""
        self.look()

    def look(self) -> None:
        """Count a step, and say so where it is time."""
        self._done += 1
        if self._done % LOOK == 0:
            self._watch(self._done, self._steps, "new top")


def _mix(values: Tensor, i: Tensor, j: Tensor, share: Tensor) -> Tensor:
    return share * values[i] + (1 - share) * values[j]
