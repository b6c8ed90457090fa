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

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

from unlabel.bench.registry import BENCHES, Bench
from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.files import writing
from unlabel.forget.mixing import at_most, mixer, pairs_among
from unlabel.party import Stream, own_randomness

EPSILONS = (0.1, 0.2, 0.5)
KINDS = ("unmixed", "mixed")
#: Rows that go through the bottoms at a time.
PIECE = 512
#: Samples of which all pairs are mixed, however many those are.
FEW = 200

Mixing = tuple[Tensor, Tensor]
Figures = list[dict[str, Any]]
#: By model, kind and n: a list of cosines (or one spread) for each seed and label.
Cosines = dict[tuple[str, str, int], list[list[float]]]
Spreads = dict[tuple[str, str, int], list[float]]


@dataclass(frozen=True)
class AlignmentSettings:
    """Settings of the bench.

    labels   forgotten, one at a time
    samples  how many few-shot samples are drawn, each n in turn
    draws    random draws for each n, label and seed
    lambdas  shares of the first sample in a mixed one
    picture  PNG file to draw (needs matplotlib); empty draws none
    """

    data: str = "digits"
    model: str = "convnet"
    parties: int = 2
    epochs: int = 15
    batch: int = 64
    lr: float = 0.05
    device: str = "cpu"
    seeds: tuple[int, ...] = (0,)
    labels: tuple[int, ...] = (0,)
    samples: tuple[int, ...] = (5, 10, 20, 40, 80)
    draws: int = 50
    lambdas: tuple[float, ...] = (0.25, 0.5)
    picture: str = ""


def run(settings: AlignmentSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Train, draw, compare; return cosines, fitted c and where theory and measurement part."""
    if settings.picture:
        _figure()
    runs: Figures = []
    cosines: Cosines = {}
    spreads: Spreads = {}
    for seed in settings.seeds:
        say(f"seed {seed}: training")
        federation = Federation.local(
            settings.data,
            parties=settings.parties,
            model=settings.model,
            epochs=settings.epochs,
            batch=settings.batch,
            lr=settings.lr,
            validation=0.0,
            public=0,
            device=settings.device,
            seed=seed,
        )
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
            **_summary([x for each in values for x in each]),
        }
        | {"spread": median(spreads[model, kind, n])}
        for (model, kind, n), values in cosines.items()
    ]
    found: dict[str, Any] = {
        "runs": runs,
        "figures": figures,
        "bounds": [
            _bound(cosines, model, kind, epsilon)
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
    found["says"] = says(found)
    if settings.picture:
        draw(found, settings)
    return found


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
    found = []
    for mixing in mixings:
        matrix, often = mixing if mixing is not None else (None, torch.ones(len(rows)))
        mixed = embeddings if matrix is None else [matrix.to(h.device) @ h for h in embeddings]
        shares = (often / often.sum()).to(active.device)
        target = torch.full((len(shares),), label, device=active.device)
        losses = F.cross_entropy(active.apply_top(mixed), target, reduction="none")
        flat = [w for group in weights.values() for w in group]
        each = iter(torch.autograd.grad((losses * shares).sum(), flat, retain_graph=True))
        found.append(
            {
                name: torch.cat([next(each).reshape(-1) for _ in group]).double().cpu()
                for name, group in weights.items()
            }
        )
    return found


def full_gradient(federation: Federation, rows: Tensor, label: int) -> dict[str, Tensor]:
    """Return the gradient of the label's mean loss over all its rows."""
    total: dict[str, Tensor] = {}
    for piece in rows.split(PIECE):
        for name, value in gradients(federation, piece, label, [None])[0].items():
            total[name] = total.get(name, torch.zeros_like(value)) + value * len(piece) / len(rows)
    return total


def cosine(one: Tensor, other: Tensor) -> float:
    """Return one . other / (|one| |other|), and 0 where one of them points nowhere."""
    lengths = one.norm() * other.norm()
    return float(one @ other / lengths) if lengths > 0 else 0.0


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
        kept: dict[tuple[str, str], list[Tensor]] = {}
        for _ in range(settings.draws):
            some = rows[torch.randperm(len(rows), generator=random)[:n].to(rows.device)]
            drawn = gradients(federation, some, label, [None, mixing])
            for kind, found in zip(KINDS, drawn, strict=True):
                for model, value in found.items():
                    kept.setdefault((model, kind), []).append(value)
        for (model, kind), values in kept.items():
            own = [cosine(value, whole[model]) for value in values]
            cosines.setdefault((model, kind, n), []).append(own)
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
            f"limit_{kind}": {model: cosine(value, whole[model]) for model, value in found.items()}
            for kind, found in zip(KINDS, limit, strict=True)
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
    found: dict[str, float | None] = {"loss": float(F.cross_entropy(logits, target))}
    head = getattr(active.top.module, "head", None)
    if not isinstance(head, nn.Linear) or head.in_features != sum(active.widths):
        return {**found, "mean_error": None, "cross_to_main": None, "cross_main_cosine": None}
    e = logits.softmax(1) - F.one_hot(target, logits.shape[1])
    h = F.pad(torch.cat(embeddings, 1).double(), (0, 1), value=1.0)
    main, cross = e.T @ h / len(h), torch.outer(e.mean(0), h.mean(0))
    return {
        **found,
        "mean_error": float(e.mean(0).norm()),
        "cross_to_main": float(cross.norm() / main.norm()),
        "cross_main_cosine": cosine(cross.reshape(-1), main.reshape(-1)),
    }


# --- the bound -----------------------------------------------------------------------------


def _summary(values: Sequence[float]) -> dict[str, Any]:
    array = np.array(values)
    return {
        "draws": len(values),
        "mean": float(array.mean()),
        "quantile_5": float(np.quantile(array, 0.05)),
        "share_at_most_0": float((array <= 0).mean()),
        "share_at_most": {str(eps): float((array <= 1 - eps).mean()) for eps in EPSILONS},
    }


def largest_c(share: float, n: int, epsilon: float) -> float | None:
    """Return the largest c with share <= exp(-c n eps^2); None where any c will do.

    >>> round(largest_c(math.exp(-2), 10, 0.2), 6)
    5.0
    >>> largest_c(1.0, 10, 0.2), largest_c(0.0, 10, 0.2)
    (0.0, None)
    """
    return None if share == 0 else max(0.0, -math.log(share)) / (n * epsilon**2)


def limits(share: float, draws: int) -> tuple[float, float]:
    """Return Wilson's lower and upper limit (95 % each) of a share of draws.

    >>> [round(limit, 3) for limit in limits(0.5, 100)]
    [0.419, 0.581]
    """
    z = 1.645
    middle = share + z * z / (2 * draws)
    half = z * math.sqrt(share * (1 - share) / draws + z * z / (4 * draws * draws))
    return (middle - half) / (1 + z * z / draws), (middle + half) / (1 + z * z / draws)


def fit(shares: Mapping[int, float], draws: int, epsilon: float) -> dict[str, Any]:
    """Return the largest c at each n, and the n where it has shrunk or grown by more than chance.

    `c` is the smallest of them, which holds at every n that was measured. The bound claims more:
    that c does not shrink as n grows. Where it has grown, the bound holds but is too weak. With
    five n of 50 draws each, chance makes 2 to 9 % of true bounds look shrunk.
    """
    fitted = {n: largest_c(share, n, epsilon) for n, share in shares.items()}
    ranges = {}
    for n, share in shares.items():
        low, high = limits(share, draws)
        least, most = largest_c(high, n, epsilon), largest_c(low, n, epsilon)
        ranges[n] = (least or 0.0, math.inf if most is None else most)
    before = {n: [ranges[m] for m in shares if m < n] for n in shares}
    shrunk = [n for n in shares if any(least > ranges[n][1] for least, _ in before[n])]
    return {
        "c_at": {str(n): c for n, c in fitted.items()},
        "c": min((c for c in fitted.values() if c is not None), default=None),
        "broken_at": shrunk,
        "grown_at": [n for n in shares if any(most < ranges[n][0] for _, most in before[n])],
        "one_c": not shrunk,
    }


def _bound(cosines: Cosines, model: str, kind: str, epsilon: float) -> dict[str, Any]:
    """Return what fits all draws together, and for how many seeds and labels one c holds."""
    own = {n: lists for (m, k, n), lists in cosines.items() if (m, k) == (model, kind)}
    shares = {
        n: [mean(value <= 1 - epsilon for value in values) for values in lists]
        for n, lists in own.items()
    }
    sizes = next(iter(own.values()))
    together = {n: mean(each) for n, each in shares.items()}
    alone = [
        fit({n: each[run] for n, each in shares.items()}, len(values), epsilon)
        for run, values in enumerate(sizes)
    ]
    return {
        "model": model,
        "kind": kind,
        "epsilon": epsilon,
        "shares": {str(n): share for n, share in together.items()},
        **fit(together, sum(map(len, sizes)), epsilon),
        "runs": len(alone),
        "runs_without_one_c": sum(not each["one_c"] for each in alone),
    }


# --- the coefficient -----------------------------------------------------------------------


def coefficients(lambdas: Sequence[float]) -> dict[str, float]:
    """Return a and b by our algebra and as in the paper; see the top of this file.

    >>> coefficients((0.25, 0.5))
    {'main': 0.5625, 'cross': 0.4375, 'paper_main': 0.3125, 'paper_cross': 0.4375}
    """
    square = mean(x * x for x in lambdas)
    return {
        "main": mean(x * x + (1 - x) ** 2 for x in lambdas),
        "cross": mean(2 * x * (1 - x) for x in lambdas),
        "paper_main": 2 * square,
        "paper_cross": 2 * (mean(lambdas) - square),
    }


def linear_network(
    lambdas: Sequence[float], *, label: int = 0, samples: int = 20, hidden: int = 10
) -> dict[str, Any]:
    """Measure a and b on a linear two-layer network fitted to digits by least squares.

    The mixed gradient, by autograd over all ordered pairs of samples of the label, is regressed on
    the unmixed gradient and the cross term together, and on the unmixed gradient alone.
    """
    images, digits = load_digits(return_X_y=True)
    x = F.pad(torch.from_numpy(images) / 16, (0, 1), value=1.0)
    y = F.one_hot(torch.from_numpy(digits)).double()
    # Least squares in its smallest norm, cut into two layers of equal size.
    left, sizes, right = torch.linalg.svd((torch.linalg.pinv(x) @ y).T, full_matrices=False)
    roots = sizes[:hidden].sqrt()
    first = (roots[:, None] * right[:hidden]).requires_grad_()
    second = (left[:, :hidden] * roots).requires_grad_()
    some = (torch.from_numpy(digits) == label).nonzero()[:samples, 0]
    x, y = x[some], y[some]

    def gradient(matrix: Tensor, often: Tensor) -> list[Tensor]:
        mixed = second @ first @ (matrix @ x).T - (matrix @ y).T
        loss = 0.5 * (mixed.square().sum(0) * often / often.sum()).sum()
        return list(torch.autograd.grad(loss, [second, first]))

    matrix, often = mixer(pairs_among(len(x)), lambdas, len(x))
    mixed = gradient(matrix.double(), often.double())
    plain = gradient(torch.eye(len(x), dtype=x.dtype), torch.ones(len(x), dtype=x.dtype))
    with torch.no_grad():
        e = (second @ first @ x.T).T - y
        cross = [
            torch.outer(e.mean(0), (x @ first.T).mean(0)),
            torch.outer(second.T @ e.mean(0), x.mean(0)),
        ]
    expected = coefficients(lambdas)
    found: dict[str, Any] = {"lambdas": list(lambdas), "label": label, "samples": samples}
    found |= expected
    for name, m, g, k in zip(("second", "first"), mixed, plain, cross, strict=True):
        both = torch.stack([g.reshape(-1), k.reshape(-1)], 1)
        a, b = torch.linalg.lstsq(both, m.reshape(-1, 1)).solution[:, 0].tolist()
        found[name] = {
            "main": a,
            "cross": b,
            "slope_on_main_alone": float((m * g).sum() / g.square().sum()),
            "cross_to_main": float(k.norm() / g.norm()),
            "cross_main_cosine": cosine(k.reshape(-1), g.reshape(-1)),
        }
    return found


# --- in words ------------------------------------------------------------------------------


def says(found: dict[str, Any]) -> list[str]:
    """Return in sentences where theory and measurement agree and where they part."""
    figures: Figures = found["figures"]
    lines = [*_says_cosine(figures), *_says_limit(found["runs"]), *_says_spread(figures)]
    lines += _says_bound(found["bounds"])
    for check in found["coefficient"][:1]:
        lines.append(
            f"Coefficient: with lambdas {check['lambdas']} the linear network's mixed gradient has "
            f"{check['second']['main']:.4f} of the unmixed one; our algebra says "
            f"{check['main']:.4f}, the paper's formula {check['paper_main']:.4f}."
        )
        lines.append(
            f"Dropped term: on that network |mean(e) mean(h)^T| is "
            f"{check['second']['cross_to_main']:.2f} of the main term (cosine "
            f"{check['second']['cross_main_cosine']:.2f}), so the slope on the unmixed gradient "
            f"alone is {check['second']['slope_on_main_alone']:.2f}."
        )
    ratios = [x["cross_to_main"] for x in found["runs"] if x["cross_to_main"] is not None]
    if ratios:
        angles = [x["cross_main_cosine"] for x in found["runs"] if x["cross_to_main"] is not None]
        lines.append(
            f"Dropped term: in the trained federations, at a mean loss of "
            f"{mean(x['loss'] for x in found['runs']):.4f}, it is {min(ratios):.2f} to "
            f"{max(ratios):.2f} of the main term for the top, so it does not vanish with the loss; "
            f"its cosine with the main term is {min(angles):.2f} to {max(angles):.2f}, so dropping "
            f"it does no harm to the sign."
        )
    return lines


def _says_cosine(figures: Figures) -> list[str]:
    lines = []
    for n in dict.fromkeys(x["samples"] for x in figures):
        means = {
            kind: [x["mean"] for x in figures if x["samples"] == n and x["kind"] == kind]
            for kind in KINDS
        }
        wrong = {
            kind: max(
                x["share_at_most_0"] for x in figures if x["samples"] == n and x["kind"] == kind
            )
            for kind in KINDS
        }
        lines.append(
            f"n = {n}: mean cosine {_range(means['mixed'])} mixed and {_range(means['unmixed'])} "
            f"unmixed; at worst {100 * wrong['mixed']:.1f} % of draws point the wrong way mixed, "
            f"{100 * wrong['unmixed']:.1f} % unmixed."
        )
    return lines


def _says_limit(runs: Figures) -> list[str]:
    mixed = [v for x in runs for v in x["limit_mixed"].values()]
    plain = [v for x in runs for v in x["limit_unmixed"].values()]
    sizes = [x["limit_samples"] for x in runs]
    text = (
        f"Limit: with {min(sizes)} to {max(sizes)} samples the mixed gradient has cosine "
        f"{_range(mixed)} with the full one, the unmixed {_range(plain)}"
    )
    whole = [v for x in runs if x["limit_samples"] == x["rows"] for v in x["limit_mixed"].values()]
    if whole:
        text += (
            f"; over all rows of a label mixing leaves it at 0.9 or less in "
            f"{sum(value <= 0.9 for value in whole)} of {len(whole)} cases, where the bound at "
            f"eps = 0.1 cannot hold for large n"
        )
    return [text + "."]


def _says_spread(figures: Figures) -> list[str]:
    most = max(x["samples"] for x in figures)
    spreads = {(x["model"], x["kind"]): x["spread"] for x in figures if x["samples"] == most}
    ratios = [
        spreads[m, "mixed"] / spreads[m, "unmixed"]
        for m, kind in spreads
        if kind == "mixed" and spreads[m, "unmixed"]
    ]
    if not ratios:
        return []
    return [
        f"Variance: at n = {most} the mixed gradient varies {_range(ratios)} times as much as the "
        f"unmixed one, relative to its length squared; were its mixtures independent samples, it "
        f"would be {1 / (2 * most):.4f} times."
    ]


def _says_bound(bounds: Figures) -> list[str]:
    lines = []
    for epsilon in EPSILONS:
        own = [x for x in bounds if x["epsilon"] == epsilon and x["kind"] == "mixed"]
        for x in own:
            fitted = ", ".join(
                f"{n}: {'any' if c is None else f'{c:.2g}'}" for n, c in x["c_at"].items()
            )
            lines.append(
                f"Bound, {x['model']}, mixed, eps = {epsilon}: largest c by n {fitted}; "
                f"{_verdict(x)}; taken alone, it shrinks for {x['runs_without_one_c']} of "
                f"{x['runs']} models and labels."
            )
    return lines


def _verdict(bound: dict[str, Any]) -> str:
    if bound["c"] is None:
        return "no draw came that low"
    parts = []
    if bound["broken_at"]:
        parts.append(f"it has shrunk by n = {', '.join(map(str, bound['broken_at']))}")
    if bound["grown_at"]:
        parts.append(f"it has grown by n = {', '.join(map(str, bound['grown_at']))}")
    return " and ".join(parts) or "one c fits every n"


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the cosines as rows for people, then the sentences."""
    heads = [f"cos <= {1 - eps:.1f}" for eps in EPSILONS]
    rows = [["model", "kind", "n", "mean", "5 %", "cos <= 0", *heads]]
    for x in result["figures"]:
        shares = [x["share_at_most_0"], *x["share_at_most"].values()]
        rows.append(
            [x["model"], x["kind"], str(x["samples"])]
            + [f"{x['mean']:.3f}", f"{x['quantile_5']:.3f}"]
            + [f"{100 * share:.1f} %" for share in shares]
        )
    return rows


# --- picture -------------------------------------------------------------------------------


def _figure() -> Any:
    """Return matplotlib's Figure; it is no part of what the package needs."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingsError(
            "A picture needs matplotlib; install it with pip install 'unlabel[plots]'."
        ) from error
    return Figure


def draw(found: dict[str, Any], settings: AlignmentSettings) -> None:
    """Draw cosine against n for every model, and below it the share of draws beside the bound."""
    models = list(dict.fromkeys(x["model"] for x in found["figures"]))
    figure = _figure()(figsize=(4 * len(models), 7), layout="constrained")
    axes = figure.subplots(2, len(models), squeeze=False, sharey="row")
    epsilon = EPSILONS[1]
    for column, model in enumerate(models):
        above, below = axes[0][column], axes[1][column]
        for kind, colour in zip(KINDS, ("tab:grey", "tab:blue"), strict=True):
            own = [x for x in found["figures"] if x["model"] == model and x["kind"] == kind]
            n = [x["samples"] for x in own]
            above.plot(n, [x["mean"] for x in own], "o-", color=colour, label=f"{kind}, mean")
            low = [x["quantile_5"] for x in own]
            above.plot(n, low, "v--", color=colour, label=f"{kind}, 5 % of draws below")
            share = [x["share_at_most"][str(epsilon)] for x in own]
            below.plot(n, share, "o-", color=colour, label=f"{kind}, measured")
        limit = median(x["limit_mixed"][model] for x in found["runs"])
        above.axhline(limit, color="tab:blue", lw=0.8, ls=":", label="mixed, all samples (median)")
        bound = next(
            x
            for x in found["bounds"]
            if x["model"] == model and x["kind"] == "mixed" and x["epsilon"] == epsilon
        )
        first = next((c for c in bound["c_at"].values() if c), None)
        if first is not None:
            grid = np.geomspace(min(settings.samples), max(settings.samples), 50)
            # exp(-c n eps^2) = 5 % solved for eps.
            above.plot(
                *(grid, 1 - np.sqrt(math.log(20) / (first * grid))),
                *("tab:red",),
                label="bound on the 5 %, c of the smallest n",
            )
            below.plot(
                *(grid, np.exp(-first * grid * epsilon**2)),
                *("tab:red",),
                label=f"exp(-c n eps^2), c = {first:.2g}",
            )
        above.set(title=model, xscale="log", ylim=(-0.3, 1.02))
        below.set(xscale="log", xlabel="few-shot samples n", ylim=(-0.02, 1.02))
        for axis in (above, below):
            axis.set_xticks(settings.samples, [str(n) for n in settings.samples])
            axis.minorticks_off()
            axis.grid(alpha=0.3)
        below.legend(fontsize=8)
    axes[0][0].set_ylabel("cosine with the label's full gradient")
    axes[1][0].set_ylabel(f"share of draws with cosine <= {1 - epsilon:.1f}")
    axes[0][-1].legend(fontsize=8)
    figure.suptitle(
        f"{settings.data}: {len(settings.labels)} labels, {len(settings.seeds)} seeds, "
        f"{settings.draws} draws each"
    )
    path = Path(settings.picture)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="png", dpi=110)


BENCHES.add(
    "alignment",
    Bench(
        "cosine of few-shot gradients with the label's full gradient, beside the theory",
        AlignmentSettings,
        run,
        table,
    ),
)
