"""The paper's method by the arithmetic of its authors' released code: a control, not a method."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.forget.method import METHODS, Disclosure, Method
from unlabel.forget.work import Objective, Work, sgd
from unlabel.party import Stream

#: Shares of the first sample in a mixed one.
SHARES = (0.25, 0.5, 0.75)
#: With more labels than this the released file mixes in the samples themselves too.
UNMIXED_ABOVE = 2


@METHODS.register("as-released")
@dataclass(frozen=True)
class AsReleased(Method):
    """Do what the released code does where it is not what the paper's equations say.

    An epoch passes over the forgotten samples in random batches of b, then over the retained ones,
    normalisation as in training, so that its statistics drift. Of a batch of forgotten samples all
    pairs i < j of one label are mixed with each share in turn. In chunks of b mixed rows:

        G <- G - d CE(F(chunk), y) / d w_top      never set to 0 between chunks
        w_top <- w_top - lr G                     after every chunk, with momentum and decay

    and the gradients of the mixed embeddings are kept. A passive party's sample m gets the mean of
    the m-th run of consecutive rows among them, not that of the rows it was mixed into. Of several
    labels all rows stand in a random order, and are given back to labels by an order applied twice.
    In the recovery each sample is mixed with a random one of its label, by a uniform share, and the
    gradient of the mixed row is applied to the sample as it was.

    Where the released code would fail, the sample counts for nothing: one that is alone in its
    batch, or alone there of its label.

    lr            rate of all models, in both passes; 0 is drift alone
    epochs        passes
    batch         samples, and mixed rows, at a time; the paper takes 64 for four labels
    momentum      of SGD
    weight_decay  of SGD
    """

    about = "control: the paper's method by its released code's arithmetic"
    tells_partners = "the few-shot samples, and their gradients"
    needs = "few-shot"
    rates = ("lr",)
    drifts = True
    disclosure = Disclosure.of("public", alone=True)

    lr: float = 2e-7
    epochs: int = 20
    batch: int = 32
    momentum: float = 0.9
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        self.expect_at_least(lr=0, epochs=1, batch=2, momentum=0, weight_decay=0)

    def run(self, work: Work) -> None:
        """Ascend in chunks and recover, an epoch at a time."""
        work.use_optimisers(sgd(self.lr, self.momentum, self.weight_decay))
        samples, count = work.samples, work.samples.forgotten
        stream = Stream(work.seed, "as-released")
        for epoch in range(self.epochs):
            draw = stream.generator(epoch)
            passes = ((0, count, self._ascent), (count, len(samples.labels), self._recovery))
            for first, last, objective in passes:
                order = first + torch.randperm(last - first, generator=draw)
                for some in order.split(self.batch):
                    if len(some) < 2:
                        continue
                    labels = samples.labels[some]
                    loss = work.move(
                        samples.rows[some],
                        objective(work, labels, draw),
                        mode="train",
                        table=samples.table,
                    )
            work.expect_alive(loss=loss.item())
            work.watch(epoch + 1, self.epochs, f"loss {loss.item():.4f}")

    def _ascent(self, work: Work, labels: Tensor, draw: torch.Generator) -> Objective:
        """Return an objective whose gradient is what the released code gives the bottoms.

        The top has moved, chunk by chunk, when it returns.
        """
        rows, kinds = mixing(labels, unmixed=len(work.labels) > UNMIXED_ABOVE)
        given_back = kinds
        if len(work.labels) > 1:
            order = torch.randperm(len(kinds), generator=draw).to(kinds.device)
            rows, kinds = rows[order], kinds[order]
            given_back = kinds[order]

        def objective(embeddings: list[Tensor]) -> Tensor:
            received = self._chunks(work, [rows @ values.detach() for values in embeddings], kinds)
            sent = [averages(part, given_back, labels) for part in received]
            pairs = zip(sent, embeddings, strict=True)
            return torch.stack([(part * values).sum() for part, values in pairs]).sum()

        return objective

    def _chunks(self, work: Work, mixed: list[Tensor], kinds: Tensor) -> list[Tensor]:
        """Move the top by every chunk; return the gradients of the mixed embeddings."""
        top = work.active.top
        weights = [values for values in top.module.parameters() if values.requires_grad]
        added = [torch.zeros_like(values) for values in weights]
        received = [[torch.zeros_like(part[:0])] for part in mixed]
        for first in range(0, len(kinds), self.batch):
            some = slice(first, first + self.batch)
            leaves = [part[some].detach().requires_grad_() for part in mixed]
            loss = -F.cross_entropy(work.active.apply_top(leaves), kinds[some])
            gradients = torch.autograd.grad(loss, [*weights, *leaves])
            for total, part, values in zip(added, gradients, weights, strict=False):
                total += part
                values.grad = total.clone()
            top.descend(work.steps)
            for kept, part in zip(received, gradients[len(weights) :], strict=True):
                kept.append(part)
        return [torch.cat(parts) for parts in received]

    def _recovery(self, work: Work, labels: Tensor, draw: torch.Generator) -> Objective:
        """Return the loss on mixed samples, its gradient for the samples as they were."""
        other = torch.arange(len(labels), device=labels.device)
        share = torch.ones(len(labels), 1, device=labels.device)
        for label in labels.unique():
            places = (labels == label).nonzero()[:, 0]
            if len(places) > 1:
                moved = torch.randperm(len(places), generator=draw).to(places.device)
                other[places] = places[moved]
                drawn = torch.rand(len(places), 1, generator=draw)  # Beta(1, 1)
                share[places] = drawn.to(share.device)

        def objective(embeddings: list[Tensor]) -> Tensor:
            # h + (mixed - h), the second term a constant: the mixed row's gradient goes to h.
            mixed = [h + ((share - 1) * (h - h[other])).detach() for h in embeddings]
            return F.cross_entropy(work.active.apply_top(mixed), labels)

        return objective


def mixing(labels: Tensor, *, unmixed: bool = False) -> tuple[Tensor, Tensor]:
    """Return a row a mixed sample, as weights of the samples, and the label of each.

    unmixed  whether each sample of a label stands before its pairs, and the last after them

    >>> mixing(torch.tensor([7, 7]))[0].tolist()
    [[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]]
    """
    eye = torch.eye(len(labels), device=labels.device)
    rows, kinds = [torch.zeros(0, len(labels), device=labels.device)], []
    for label in labels.unique():
        ours = eye[labels == label]
        if len(ours) < 2:
            continue
        for number in range(len(ours) - 1):
            parts = [share * ours[number] + (1 - share) * ours[number + 1 :] for share in SHARES]
            single = [ours[number : number + 1]] if unmixed else []
            rows += [*single, torch.stack(parts, 1).flatten(0, 1)]
        rows += [ours[-1:]] if unmixed else []
        count = 3 * len(ours) * (len(ours) - 1) // 2 + unmixed * len(ours)
        kinds += [int(label)] * count
    return torch.cat(rows), torch.tensor(kinds, device=labels.device, dtype=torch.int64)


def averages(received: Tensor, kinds: Tensor, labels: Tensor) -> Tensor:
    """Return for each sample the mean of its run of consecutive rows among those of its label.

    >>> averages(torch.arange(3.0)[:, None], torch.tensor([7, 7, 7]), torch.tensor([7, 7])).tolist()
    [[0.5], [2.0]]
    """
    sent = received.new_zeros(len(labels), received.shape[1])
    for label in labels.unique():
        rows, places = received[kinds == label], (labels == label).nonzero()[:, 0]
        if len(rows):
            runs = rows.split(math.ceil(len(rows) / len(places)))
            sent[places[: len(runs)]] = torch.stack([run.mean(0) for run in runs])
    return sent
