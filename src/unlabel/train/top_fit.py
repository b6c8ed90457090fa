"""A top model fitted to embeddings that the label holder has: nobody is asked, and no step is seen.

The fit is a function of the embeddings, the labels that are known, the parts of the rows, the
settings and the seed. So fitting without a label gives the weights of a run that never had it.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unlabel.config import AUTO, FitSettings, OptimiserSettings, RunConfig
from unlabel.data import Rows
from unlabel.errors import DataError, TrainingDiverged
from unlabel.models.estimators import EstimatorHead
from unlabel.models.tops import Top
from unlabel.party import ActiveParty, Stream, own_randomness
from unlabel.party.optimisers import AdamW, learning_rate, make_optimiser
from unlabel.party.training_loss import MIXING, TrainingLoss, balanced
from unlabel.train.assembly import LABEL_FREE
from unlabel.train.label_free import VIEWS, read_kept
from unlabel.train.loop import batch_count, batches
from unlabel.train.progress import Epoch
from unlabel.train.watch import Watcher

#: Steps that a fit has at least, unless that takes more than `MOST` epochs.
STEPS = 1000
LEAST, MOST = 10, 300
#: Batches whose embeddings are gathered at a time.
GATHERED = 32


@dataclass(frozen=True)
class Recipe:
    """How a top is fitted: what, beside rows, labels and embeddings, decides its weights.

    balance    weigh every label alike; `mixup` mixes embeddings: see `TrainingLoss`
    optimiser  in place of AdamW along a cosine
    steps      in place of passes over all rows: the last pass ends with them
    """

    settings: FitSettings
    seed: int
    balance: bool = False
    mixup: float = 0.0
    optimiser: OptimiserSettings | None = None
    steps: int = 0


def recipe_of(config: RunConfig) -> Recipe:
    """Return how the top of a blind run is fitted."""
    return Recipe(config.fit, config.train.seed, config.train.balance)


def fit_blind(
    active: ActiveParty, rows: Rows, config: RunConfig, watchers: Sequence[Watcher] = ()
) -> list[Epoch]:
    """Fit the top of a blind run to the labels that its active party knows."""
    views = active.local_embeddings.get(VIEWS, [])
    if config.label_free.views and not views:
        kept = read_kept(active.versions.store.home / LABEL_FREE, VIEWS)
        views = [kept[name].to(active.device) for name in active.embedded]
        # Read once: with many views that takes longer than a fit.
        active.local_embeddings = {**active.local_embeddings, VIEWS: views}
    return fit_top(active, rows, recipe_of(config), views, watchers)


def fit_epochs(settings: FitSettings, rows: int) -> int:
    """Return the number of passes over so many rows.

    >>> [fit_epochs(FitSettings(), rows) for rows in (500, 21_600, 500_000)]
    [300, 12, 10]
    """
    if settings.epochs != AUTO:
        return settings.epochs
    steps = math.ceil(rows / settings.batch)
    return min(MOST, max(LEAST, math.ceil(STEPS / max(1, steps))))


def fit_top(
    active: ActiveParty,
    rows: Rows,
    recipe: Recipe,
    views: Sequence[Tensor] = (),
    watchers: Sequence[Watcher] = (),
) -> list[Epoch]:
    """Fit the top of an active party anew, to what is known of its labels; return the epochs.

    rows   the parts; a row without a known label is left out
    views  [v, n, width] a party, of the rows to train on: pass k takes view k mod (v + 1), and the
           rows themselves are the first of them
    """
    top, device = active.top, active.device
    parts = (rows.train, rows.validation)
    train, held = (part[active.labels[part.to(device)].cpu() >= 0] for part in parts)
    occurring = active.labels[train.to(device)].unique()
    if len(occurring) < 2:
        raise DataError(
            f"Only {len(occurring)} label{'' if len(occurring) == 1 else 's'} would be left among "
            f"the rows to train on; a classifier needs at least two.",
            code="one-label",
        )
    weights = balanced(active.labels[train], len(active.names)) if recipe.balance else None
    started, history = time.perf_counter(), list[Epoch]()
    with own_randomness(device), one_thread(), quick_dropout(top.module, device):
        if isinstance(top.module, Top) and isinstance(top.module.head, EstimatorHead):
            history = [_fit_estimator(active, train, held, recipe, weights, started)]
            _tell(watchers, history, 1, len(train))
            return history
        return _fit_module(active, train, held, recipe, weights, views, rows.train, watchers)


def _tell(watchers: Sequence[Watcher], history: Sequence[Epoch], epochs: int, rows: int) -> None:
    for watcher in watchers:
        watcher.started([], epochs, rows)
        watcher.epoch_ended(history[-1], history)
        watcher.ended()


def _fit_estimator(
    active: ActiveParty,
    train: Tensor,
    held: Tensor,
    recipe: Recipe,
    weights: Tensor | None,
    started: float,
) -> Epoch:
    top = active.top.module
    assert isinstance(top, Top)
    assert isinstance(top.head, EstimatorHead)
    joined = top.joined([part[train.to(part.device)] for part in active.local_embeddings["main"]])
    labels = active.labels[train.to(active.device)]
    by_row = None if weights is None else weights.cpu()[labels.cpu()]
    top.head.fit(joined.cpu(), labels.cpu(), seed=recipe.seed, weights=by_row)
    loss, accuracy = _figures(active, train)
    checked, right = _figures(active, held) if len(held) else (None, None)
    seconds = time.perf_counter() - started
    return Epoch(1, loss, accuracy, checked, right, 0.0, seconds, len(train) / seconds)


def _fit_module(
    active: ActiveParty,
    train: Tensor,
    held: Tensor,
    recipe: Recipe,
    weights: Tensor | None,
    views: Sequence[Tensor],
    viewed: Tensor,
    watchers: Sequence[Watcher],
) -> list[Epoch]:
    """Descend the cross-entropy."""
    top, settings, device = active.top, recipe.settings, active.device
    size = min(settings.batch, len(train))
    a_pass = batch_count(train, size)
    steps = recipe.steps or fit_epochs(settings, len(train)) * a_pass
    epochs = math.ceil(steps / a_pass)
    rate = recipe.optimiser or OptimiserSettings(lr=settings.lr)
    on_gpu = device.type == "cuda"
    optimiser = make_fit_optimiser(recipe, top.module)
    Stream(recipe.seed, "active/fit").start("dropout", device)
    top.module.train()
    # Where each row stands in the views, which are of the training rows alone.
    places = torch.zeros(len(active.labels), dtype=torch.int64)
    places[viewed] = torch.arange(len(viewed))
    places = places.to(device)
    sets = len(views[0]) + 1 if views else 1
    train = train.to(device)
    weights = None if weights is None else weights.to(device)
    descended = TrainingLoss(Stream(recipe.seed, MIXING), recipe.mixup, weights)
    history: list[Epoch] = []
    step = 0
    for watcher in watchers:
        watcher.started([], epochs, len(train))
    for epoch in range(1, epochs + 1):
        began = time.perf_counter()
        total = torch.zeros((), dtype=torch.float64, device=device)
        correct = torch.zeros((), dtype=torch.int64, device=device)
        chosen = (epoch - 1) % sets
        planned = list(batches(train, size, seed=recipe.seed, epoch=epoch))[: steps - step]
        seen = sum(map(len, planned))
        if chosen:
            held_now, at = [part[chosen - 1] for part in views], places
        else:
            held_now, at = active.local_embeddings["main"], None
        for batch, labels, parts in gathered(planned, active.labels, held_now, at):
            loss, right_now = descended.loss(active.apply_top, parts, labels, step)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(rate, step, steps)
            optimiser.step()
            step += 1
            total += loss.detach() * len(batch)
            correct += right_now
            for watcher in watchers:
                watcher.stepped(len(batch), loss.detach(), right_now)
        last = epoch == epochs
        if on_gpu and not watchers and not last:
            continue  # what nobody sees is not waited for
        mean = total.item() / seen
        if not math.isfinite(mean):
            raise TrainingDiverged(
                f"The loss of the top is not finite after pass {epoch}; lower its learning rate "
                f"(now {rate.lr:g}; `fit.lr` in a blind run)."
            )
        checked, right = _figures(active, held) if last and len(held) else (None, None)
        top.module.train()
        seconds = time.perf_counter() - began
        share, speed = correct.item() / seen, seen / seconds
        now = learning_rate(rate, step - 1, steps)
        history.append(Epoch(epoch, mean, share, checked, right, now, seconds, speed))
        for watcher in watchers:
            watcher.epoch_ended(history[-1], history)
    for watcher in watchers:
        watcher.ended()
    top.clear()
    return history


def make_fit_optimiser(recipe: Recipe, top: nn.Module) -> torch.optim.Optimizer:
    """Return the optimiser of a recipe over the weights of a top."""
    settings, weights = recipe.settings, list(top.parameters())
    if recipe.optimiser is not None:
        return make_optimiser(recipe.optimiser, weights)
    return AdamW(weights, lr=settings.lr, weight_decay=settings.weight_decay, fused=True)


Gathered = tuple[Tensor, Tensor, list[Tensor]]


def gathered(
    planned: Iterable[Tensor], labels: Tensor, held: Sequence[Tensor], places: Tensor | None
) -> Iterator[Gathered]:
    """Yield batches with their labels and embeddings, many of them gathered at once.

    places  where each row stands among the embeddings, if not at its number
    """
    coming = iter(planned)
    while some := list(islice(coming, GATHERED)):
        rows, sizes = torch.cat(some), [len(batch) for batch in some]
        at = rows if places is None else places[rows]
        pieces = [part.index_select(0, at).split(sizes) for part in held]
        parts = map(list, zip(*pieces, strict=True))
        yield from zip(some, labels[rows].split(sizes), parts, strict=True)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one core inside the block: how many there are must not decide a last bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def quick_dropout(module: nn.Module, device: torch.device) -> Iterator[None]:
    """Draw the masks of dropouts of 1/2 from random bits inside the block, on a CPU.

    The distribution is that of `nn.Dropout`, which draws a random number of 53 bits for each
    mask: most of the time of a small top.
    """
    changed = [part for part in module.modules() if type(part) is nn.Dropout and part.p == 0.5]
    changed = changed if device.type == "cpu" else []
    for part in changed:
        part.forward = _coins(part)  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        for part in changed:
            del part.forward


def _coins(part: nn.Dropout) -> Callable[[Tensor], Tensor]:
    # The eight masks, each 0 or 2, that a byte stands for.
    masks = 2.0 * ((torch.arange(256)[:, None] >> torch.arange(8)) & 1)

    def forward(x: Tensor) -> Tensor:
        if not part.training:
            return x
        words = torch.empty(math.ceil(x.numel() / 64), dtype=torch.int64)
        drawn = words.random_(-(2**63), None).view(torch.uint8).int()
        kept = masks.index_select(0, drawn).flatten()[: x.numel()].view(x.shape)
        return x * kept.to(x.dtype)

    return forward


@torch.no_grad()
def _figures(active: ActiveParty, rows: Tensor) -> tuple[float, float]:
    """Return mean cross-entropy and accuracy of rows whose labels are known."""
    rows = rows.to(active.device)
    logits, labels = active.logits(rows), active.labels[rows]
    right = (logits.argmax(1) == labels).float().mean().item()
    return F.cross_entropy(logits, labels).item(), right
