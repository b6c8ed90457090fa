"""Forgetting in the bottoms: what it computes, and that its defaults suit small tables too."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from cli.command_line import one_thread
from coded import coded
from forget.one_piece import NAMES, SEED, TRAIN, OnePiece, descend, federation, orders
from torch import Tensor, nn

from unlabel.errors import ForgetError, SettingsError
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings, Method, Outcome
from unlabel.forget.methods.deep import Deep, contrasted
from unlabel.forget.methods.retrain import Retrain
from unlabel.party import Stream

__all__ = ["one_thread"]  # a fixture for every test here

LABELS = len(NAMES)
GONE = (1,)


def forget(fed: Federation, labels: Sequence[int], method: Method, **options: Any) -> Outcome:
    settings = ForgetSettings(method=method, allow_disclosure=True, **options)
    return fed.forget(list(labels), settings=settings)


def masked(logits: Tensor) -> Tensor:
    hidden = logits.clone()
    hidden[:, list(GONE)] = -torch.inf
    return hidden.softmax(1)


@pytest.mark.parametrize(
    ("teacher", "heads", "contrast"), [(0.0, 0.5, 0.0), (1.0, 0.5, 0.0), (0.3, 0.0, 0.2)]
)
@pytest.mark.parametrize(("parties", "active_part"), [(3, False), (2, True)])
def test_it_is_a_training_from_the_beginning_in_one_piece(
    parties: int, active_part: bool, teacher: float, heads: float, contrast: float
) -> None:
    recipe: dict[str, Any] = {"nesterov": True, "epochs": 12}
    fed = federation("table", parties, active_part, **recipe)
    net = OnePiece(fed, "table")  # with the weights of the beginning
    fed.train()
    old = OnePiece(fed, "table").eval()
    every, y = torch.arange(TRAIN), torch.arange(TRAIN) % LABELS
    kept = every[y != GONE[0]]
    with torch.no_grad():
        targets = masked(old(old.scale(every)[0][:TRAIN]))
    method = Deep(1.0, teacher, heads=heads, contrast=contrast, warmup=0.25, epochs=3)
    forget(fed, GONE, method, allow_collapse=True)

    x, _ = net.scale(kept)
    Stream(SEED, "heads").start("init", torch.device("cpu"))
    linear = nn.ModuleList(nn.Linear(4, LABELS) for _ in net.names)
    optimiser = torch.optim.SGD(
        [*net.parameters(), *linear.parameters()], 0, 0.9, weight_decay=5e-4, nesterov=True
    )
    order = list(orders(kept, 16, epochs=3))
    for step, batch in enumerate(order):
        now, rise = step + 0.5, 0.25 * len(order)
        part = now / rise if now < rise else 1 - (now - rise) / (len(order) - rise)
        optimiser.param_groups[0]["lr"] = 0.05 * part
        pieces = x[batch].split(net.widths, -1)
        embeddings = [bottom(piece) for bottom, piece in zip(net.bottoms, pieces, strict=True)]
        weighed = [(1.0, net.head(torch.cat(embeddings, 1)))]
        weighed += [(heads, h(e)) for h, e in zip(linear, embeddings, strict=True)]
        loss = sum(contrast * plain_contrast(e, y[batch]) for e in embeddings) * torch.tensor(1.0)
        for weight, logits in weighed:
            distilled = -(targets[batch] * logits.log_softmax(1)).sum(1).mean()
            plain = F.cross_entropy(logits, y[batch])
            loss = loss + weight * ((1 - teacher) * plain + teacher * distilled)
        descend(optimiser, loss)
    net.expect_equal(fed, rtol=2e-4, atol=2e-5)


def plain_contrast(values: Tensor, labels: Tensor) -> Tensor:
    """Return the contrast of a batch, row by row."""
    z = values / values.norm(dim=1, keepdim=True)
    total = torch.zeros(())
    for i in range(len(z)):
        others = [k for k in range(len(z)) if k != i]
        same = [j for j in others if labels[j] == labels[i]]
        whole = sum((z[i] @ z[k] / 0.1).exp() for k in others)
        for j in same:
            total = total - ((z[i] @ z[j] / 0.1).exp() / whole).log() / len(same)
    return total / len(z)


def test_contrast_without_a_pair_is_nothing() -> None:
    assert contrasted(torch.randn(3, 4), torch.arange(3)).item() == 0.0


def test_nothing_of_the_old_model_is_left_where_all_is_drawn_anew() -> None:
    """Other weights before the request end in the same weights, unless some stay or teach.

    Layers that hold more than the share that may stay are drawn anew, here all of them by default.
    """
    ends = {}
    fresh, taught = Deep(1.0, epochs=2), Deep(1.0, teacher=0.5, epochs=2)
    for method in (fresh, Deep(epochs=2), taught, Deep(0.5, epochs=2)):
        states = []
        for moved in (0.0, 0.1):
            fed = federation("image", 2, True)
            fed.train()
            for learner in [
                *fed.active.learners().values(),
                *(p.bottom for p in fed.passives.values()),
            ]:
                for weights in learner.module.parameters():
                    weights.data += moved
            forget(fed, GONE, method, allow_collapse=True)
            bottoms = [p.bottom.model_state() for p in fed.passives.values()]
            states.append([*bottoms, fed.active.versions.model_state()])
        ends[method] = all(
            torch.equal(one[key], other[key])
            for one, other in zip(*states, strict=True)
            for key in one
        )
    assert list(ends.values()) == [True, True, False, False]


def test_its_first_form_is_a_preset() -> None:
    chosen = Deep().presets()["distilled"].method
    assert chosen == Deep(0.93, 1.0, epochs=4, lr=0.03, warmup=0.1, contrast=0.0)
    with pytest.raises(SettingsError):
        Deep(teacher=1.5)


@functools.cache
def small_table(folder: Path, seed: int) -> Federation:
    """Return a trained run of 846 rows, 18 columns and 4 labels between two parties."""
    from sklearn.datasets import make_classification

    x, y = make_classification(
        *(846, 18), n_informative=8, n_redundant=6, n_classes=4, class_sep=1.3, random_state=seed
    )
    bent = x + 0.5 * np.sin(2 * x) + 0.2 * x[:, ::-1] ** 2 * np.sign(x)
    np.savez(folder / f"{seed}.npz", x=bent.astype(np.float32), y=y)
    fed = Federation.local(str(folder / f"{seed}.npz"), model="mlp", parties=2, seed=seed)
    fed.train()
    return fed


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


def retained(outcome: Outcome) -> float:
    assert outcome.result.forgotten_accuracy.after == 0.0
    outcome.rollback()
    return outcome.result.retained_accuracy.after or 0.0


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_every_label_of_a_small_table_goes_with_default_settings(tables: Path, seed: int) -> None:
    fed = small_table(tables, seed)
    gaps = []
    for label in range(4):
        shorter, whole = (retained(forget(fed, [label], way)) for way in (Deep(), Retrain()))
        gaps.append(shorter - whole)
    # About 127 test rows are left: one figure alone has a standard error of three points.
    assert min(gaps) > -0.08
    assert sum(gaps) / 4 > -0.02


def test_every_digit_goes_from_the_bottoms_with_default_settings() -> None:
    fed = Federation.local("digits", parties=2, model="convnet", epochs=15, seed=0)
    fed.train()
    for label in (3, 8):
        shorter, whole = (retained(forget(fed, [label], way)) for way in (Deep(), Retrain()))
        assert shorter > whole - 0.02


@pytest.mark.parametrize("poor", [Deep(epochs=1), Deep(lr=1e-6)])
def test_its_advice_helps(tables: Path, poor: Deep) -> None:
    fed = small_table(tables, 0)
    with pytest.raises(ForgetError, check=coded("collapsed")) as refused:
        forget(fed, [2], poor)
    assert "leave `epochs` and `lr` out" in str(refused.value)
    assert "retrain" in str(refused.value)
    assert retained(forget(fed, [2], Deep())) > 0.7
    assert retained(forget(fed, [2], Retrain())) > 0.7
