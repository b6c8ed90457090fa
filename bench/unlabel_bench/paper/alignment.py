"""Whether the gradient of a few samples points where the gradient of the whole label points.

The paper's appendix says that ascent on few mixed samples is ascent on all: with n samples

    P[cos(mixed gradient, gradient over all rows of the label) <= 1 - eps] <= exp(-c n eps^2)

This bench measures the cosine for the top and every bottom, with mixing and without, and looks for
one c that holds at every n. Samples are drawn from the rows of the label without repetition, as a
request draws them; where n is a good part of the rows, that alone brings the cosine nearer to 1.

**The coefficient.** In a linear network of two layers f(x) = W2 W1 x under squared error, let
e = f(x) - y, h = W1 x, g = mean of e h^T over n samples (the gradient of W2; for W1 read
W2^T e x^T) and mu the mean over the lambdas. Over ALL ORDERED pairs (i, j), i = j among them,

    mixed gradient = a g + b mean(e) mean(h)^T
    a = mu[lambda^2 + (1 - lambda)^2],  b = mu[2 lambda (1 - lambda)],  a + b = 1

exactly, not only in expectation. The paper has a = 2 mu[lambda^2] and the same b, which is right
only where mu[lambda] = 1/2. Samples that are all alike show it: mixing them changes nothing, so
a + b must be 1, and the paper's a + b is 2 mu[lambda]. Every ordered pair comes with its reverse,
so over ordered pairs a set of lambdas acts as its symmetric closure: {0.25, 0.5} acts as
{0.25, 0.75, 0.5, 0.5}, whose mean is 1/2, and for the closure both formulas agree. For {0.25, 0.5}
a = 0.5625 and b = 0.4375, where the paper's a is 0.3125. Without the pairs i = j, a becomes
a - b / (n - 1) and b becomes b n / (n - 1).

The cross term b mean(e) mean(h)^T is then dropped, as mean(e) -> 0 where the loss -> 0. But there
g -> 0 too, so what counts is their ratio, which is measured here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.forget.mixing import at_most, mixer, pairs_among
from unlabel.party import Stream, own_randomness
from unlabel_bench.paper.alignment_page import picture, says, table
from unlabel_bench.paper.alignment_theory import (
    EPSILONS,
    KINDS,
    Cosines,
    Figures,
    bound,
    cosine,
    linear_network,
    summarise,
)
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import BENCHES, Bench, Result, Say

#: Rows that go through the bottoms at a time.
PIECE = 512
#: Samples of which all pairs are mixed, however many those are.
FEW = 200

Mixing = tuple[Tensor, Tensor]
#: By model, kind and n: one spread for each seed and label.
Spreads = dict[tuple[str, str, int], list[float]]


@dataclass(frozen=True)
class AlignmentSettings(Recipe):
    """Settings of the bench.

    labels   forgotten, one at a time
    samples  how many few-shot samples are drawn, each n in turn
    draws    random draws for each n, label and seed
    lambdas  shares of the first sample in a mixed one
    picture  PNG file to draw (needs matplotlib); empty draws none
    """

    validation: float = 0.0
    public: int = 0
    seeds: tuple[int, ...] = (0,)
    labels: tuple[int, ...] = (0,)
    samples: tuple[int, ...] = (5, 10, 20, 40, 80)
    draws: int = 50
    lambdas: tuple[float, ...] = (0.25, 0.5)
    picture: str = ""


def measure(settings: AlignmentSettings, say: Say) -> Result:
    """Train, draw, compare; return cosines, fitted c and where theory and measurement part."""
    runs: Figures = []
    cosines: Cosines = {}
    spreads: Spreads = {}
    for seed in settings.seeds:
        say(f"seed {seed}: training")
        federation = settings.federation(seed)
        federation.train()
        for label in settings.labels:
            say(f"seed {seed}: label {label}")
            with own_randomness(federation.active.device):
                runs.append({"seed": seed, "label": label})
                runs[-1] |= _measure(federation, label, settings, cosines, spreads)
    figures = [
        {
            "model": model,
            "kind": kind,
            "samples": n,
            **summarise([x for each in values for x in each]),
        }
        | {"spread": median(spreads[model, kind, n])}
        for (model, kind, n), values in cosines.items()
    ]
    result: Result = {
        "runs": runs,
        "figures": figures,
        "bounds": [
            bound(cosines, model, kind, epsilon)
            for model in dict.fromkeys(line["model"] for line in figures)
            for kind in KINDS
            for epsilon in EPSILONS
        ],
        "coefficient": [
            linear_network(lambdas, label=label)
            for lambdas in dict.fromkeys([settings.lambdas, (0.25, 0.75), (0.1,)])
            for label in settings.labels[:1]
        ],
    }
    return result | {"says": says(result)}


# --- gradients -----------------------------------------------------------------------------


def gradients(
    federation: Federation, rows: Tensor, label: int, mixings: Sequence[Mixing | None]
) -> list[dict[str, Tensor]]:
    """Return, for every way of mixing, the gradient of mean CE(F(M H_1, .., M H_K), label).

    One flat tensor for the top and for each bottom, with normalisation frozen. The embeddings are
    computed once, by the parties' own bottoms.
    """
    active = federation.active
    bottoms = {name: party.bottom for name, party in federation.passives.items()}
    embeddings = [
        bottom.embed(rows, table="main", mode="frozen", step=0) for bottom in bottoms.values()
    ]
    active.top.begin("frozen", 0)
    parts = {"top": active.top, **bottoms}
    weights = {name: list(part.module.parameters()) for name, part in parts.items()}
    by_mixing = []
    for mixing in mixings:
        matrix, often = mixing if mixing is not None else (None, torch.ones(len(rows)))
        mixed = embeddings if matrix is None else [matrix.to(h.device) @ h for h in embeddings]
        shares = (often / often.sum()).to(active.device)
        target = torch.full((len(shares),), label, device=active.device)
        losses = F.cross_entropy(active.apply_top(mixed), target, reduction="none")
        flat = [w for group in weights.values() for w in group]
        each = iter(torch.autograd.grad((losses * shares).sum(), flat, retain_graph=True))
        by_mixing.append(
            {
                name: torch.cat([next(each).reshape(-1) for _ in group]).double().cpu()
                for name, group in weights.items()
            }
        )
    return by_mixing


def full_gradient(federation: Federation, rows: Tensor, label: int) -> dict[str, Tensor]:
    """Return the gradient of the label's mean loss over all its rows."""
    total: dict[str, Tensor] = {}
    for piece in rows.split(PIECE):
        for name, value in gradients(federation, piece, label, [None])[0].items():
            total[name] = total.get(name, torch.zeros_like(value)) + value * len(piece) / len(rows)
    return total


def _measure(
    federation: Federation,
    label: int,
    settings: AlignmentSettings,
    cosines: Cosines,
    spreads: Spreads,
) -> dict[str, Any]:
    """Add a label's cosines, and the spread E|g - E g|^2 / |E g|^2 of its few-shot gradients."""
    active = federation.active
    rows = federation.holdings.rows.train.to(active.device)
    rows = rows[active.labels[rows] == label]
    if max(settings.samples) > len(rows):
        raise SettingsError(
            f"Expected `samples` of at most {len(rows)}, the training rows of label {label}, "
            f"but got {max(settings.samples)}."
        )
    whole = full_gradient(federation, rows, label)
    random = Stream(settings.seeds[0], "alignment").generator(f"{federation.config.train.seed}")
    for n in settings.samples:
        mixing = _all_pairs(n, settings.lambdas, random)
        few_shot: dict[tuple[str, str], list[Tensor]] = {}
        for _ in range(settings.draws):
            some = rows[torch.randperm(len(rows), generator=random)[:n].to(rows.device)]
            drawn = gradients(federation, some, label, [None, mixing])
            for kind, by_model in zip(KINDS, drawn, strict=True):
                for model, value in by_model.items():
                    few_shot.setdefault((model, kind), []).append(value)
        for (model, kind), values in few_shot.items():
            to_whole = [cosine(value, whole[model]) for value in values]
            cosines.setdefault((model, kind, n), []).append(to_whole)
            stacked = torch.stack(values)
            centre = stacked.mean(0)
            around = (stacked - centre).square().sum(1).mean() / centre.square().sum()
            spreads.setdefault((model, kind, n), []).append(float(around))
    # As many samples as can be mixed at once: what is still missing to 1 does not go away with n.
    many = rows[torch.randperm(len(rows), generator=random)[:PIECE].to(rows.device)]
    pairs = pairs_among(len(many))
    if len(many) > FEW:
        pairs = at_most(pairs, settings.lambdas, random)
    mixing = mixer(pairs, settings.lambdas, len(many))
    limit = gradients(federation, many, label, [None, mixing])
    return {
        "rows": len(rows),
        "limit_samples": len(many),
        **{
            f"limit_{kind}": {m: cosine(value, whole[m]) for m, value in by_model.items()}
            for kind, by_model in zip(KINDS, limit, strict=True)
        },
        **_errors(federation, rows, label),
    }


def _all_pairs(n: int, lambdas: Sequence[float], random: torch.Generator) -> Mixing:
    return mixer(at_most(pairs_among(n), lambdas, random), lambdas, n)


def _errors(federation: Federation, rows: Tensor, label: int) -> dict[str, float | None]:
    """Return the label's loss and, for a linear top, the size of mean(e) mean(h)^T beside g."""
    active = federation.active
    embeddings = active.embeddings(rows)
    with torch.no_grad():
        active.top.begin("predict", 0)
        logits = active.apply_top(embeddings).double()
    target = torch.full((len(rows),), label, device=logits.device)
    loss = float(F.cross_entropy(logits, target))
    head = getattr(active.top.module, "head", None)
    if not isinstance(head, nn.Linear) or head.in_features != sum(active.widths):
        empty = dict.fromkeys(("mean_error", "cross_to_main", "cross_main_cosine"))
        return {"loss": loss, **empty}
    e = logits.softmax(1) - F.one_hot(target, logits.shape[1])
    h = F.pad(torch.cat(embeddings, 1).double(), (0, 1), value=1.0)
    main, cross = e.T @ h / len(h), torch.outer(e.mean(0), h.mean(0))
    return {
        "loss": loss,
        "mean_error": float(e.mean(0).norm()),
        "cross_to_main": float(cross.norm() / main.norm()),
        "cross_main_cosine": cosine(cross.reshape(-1), main.reshape(-1)),
    }


BENCHES.add(
    "alignment",
    Bench(
        "cosine of few-shot gradients with the label's full gradient, beside the theory",
        AlignmentSettings,
        measure,
        table,
        picture=picture,
    ),
)
