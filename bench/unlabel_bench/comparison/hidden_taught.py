"""What teaches the new top of a hidden request: the old top, or labels. Beside masks and retrained.

Attack, entropy and divergence are shown together, since each alone can be had without forgetting: a
mask whose logits are scaled until the attack's figure fits has forgotten nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from unlabel.audit.measures.membership import attack_success, entropy, sides
from unlabel.config import ForgetSettings, expect
from unlabel.federation import Federation
from unlabel.models.tops import MUTED
from unlabel.train import Forgotten, Holdings
from unlabel.words import parse_settings
from unlabel_bench import markdown
from unlabel_bench.measures import key_of, read_method
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.summary import grouped, spread_of

#: The two forms: the old top teaches on public samples, true labels of all retained rows teach.
FORMS = ("hidden:samples=public", "hidden")
#: What the logits of the second mask are multiplied by.
SCALE = 1.5
FIGURES = {
    "retained": "retained accuracy, %",
    "forgotten": "forgotten accuracy, %",
    "asr": "attack",
    "entropy": "entropy",
    "divergence": "from retrained",
    "from_mask": "from the mask",
}
PERCENT = ("retained", "forgotten")
MEANINGS = (
    "*Attack*: share of forgotten training rows that the membership attack calls members. "
    "*Entropy* of the answer, *from retrained* = KL(r || p) and *from the mask* = KL(m || p): "
    "means over test rows of the forgotten label, with p the answer of the model, r the mean "
    "answer of the retrained models and m that of the masked original, all over the labels that "
    "stay and renormalised, in nats. A retrained model is held against the mean of the others. The "
    "aim of every column but the last is what retrained models have; it is no aim to be nearer to "
    "their mean than they are themselves, which an unsure answer can."
)

Seen = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class HiddenTaughtSettings:
    """Settings of the bench.

    runs        DATA:NAME=VALUE:.. with settings of a run; `labels` to forget, one a request
    folder      where files of data lie; no part of what is recorded
    labels      of a run that names none
    seeds       of the originals
    references  models retrained without the label
    page        Markdown file to write the table into
    """

    runs: tuple[str, ...] = ("digits:top=mlp", "digits:top=linear")
    folder: str = ""
    labels: tuple[int, ...] = (0, 3, 8)
    seeds: int = 3
    references: int = 3
    page: str = ""

    def __post_init__(self) -> None:
        expect("seeds", self.seeds, self.seeds >= 1, "at least 1")
        expect("references", self.references, self.references >= 2, "at least 2")


@dataclass(frozen=True)
class _Run(Recipe):
    labels: tuple[int, ...] = ()

    def shown(self) -> str:
        return ", ".join(filter(None, (self.data.split(".")[0], self.model, self.top)))


def measure(settings: HiddenTaughtSettings, say: Say) -> Result:
    """Return the figures of every model, as means and deviations over labels and seeds."""
    lines: list[dict[str, Any]] = []
    for words in settings.runs:
        # Between settings stands a colon, so a list within one has / between its values.
        data, *given = words.replace("/", ",").split(":")
        run = parse_settings(_Run, given, _Run(data=data, folder=settings.folder))
        holdings = run.federation(0).holdings
        originals = {}
        for seed in range(settings.seeds):
            say(f"{run.shown()}: original {seed}")
            originals[seed] = _trained(holdings, seed)
        for label in run.labels or settings.labels:
            say(f"{run.shown()}: label {label}")
            measured = list(_of_label(holdings, originals, label, settings.references))
            lines += [{"run": run.shown(), "label": label, **line} for line in measured]
    summary = [
        {**key, **{name: spread_of(some, name) for name in (*FIGURES, "seconds")}}
        for key, some in grouped(lines, "run", "model")
    ]
    return {"summary": summary, "lines": lines}


def _trained(holdings: Holdings, seed: int, without: tuple[int, ...] = ()) -> Federation:
    """Return a run of these rows, trained from a seed and without some labels."""
    config = holdings.config
    config = replace(config, train=replace(config.train, seed=seed))
    federation = Federation.of(replace(holdings, config=config))
    federation.forgotten = Forgotten(labels=without)
    federation.train()
    federation.forgotten = Forgotten()
    return federation


def _of_label(
    holdings: Holdings, originals: Mapping[int, Federation], label: int, references: int
) -> Iterator[dict[str, Any]]:
    """Yield the figures of every model of one label."""
    stay = [n for n in range(len(holdings.names)) if n != label]
    truth = holdings.labels[holdings.rows.train], holdings.labels[holdings.rows.test]

    def answers(seen: Seen) -> Tensor:
        """Return p over the labels that stay, on test rows of the label."""
        return seen[1][truth[1] == label][:, stay].double().softmax(1)

    def line(model: str, seen: Seen, aim: Tensor, mask: Tensor | None = None) -> dict[str, Any]:
        right, theirs, p = seen[1].argmax(1) == truth[1], truth[1] == label, answers(seen)
        members, forgotten = sides(entropy(seen[0]), truth[0], [label])
        return {
            "model": model,
            "retained": right[~theirs].double().mean().item(),
            "forgotten": right[theirs].double().mean().item(),
            "asr": attack_success(members, entropy(seen[1]), forgotten),
            "entropy": entropy(p.log()).mean().item(),
            "divergence": divergence(aim, p),
            "from_mask": None if mask is None else divergence(mask, p),
        }

    # Seeds that no original has: what they have in common with one is the data.
    retrained = [_look(_trained(holdings, 100 + n, (label,))) for n in range(references)]
    for n, seen in enumerate(retrained):
        others = [answers(other) for m, other in enumerate(retrained) if m != n]
        yield {"seed": 100 + n, **line("retrained", seen, torch.stack(others).mean(0))}
    aim = torch.stack([answers(seen) for seen in retrained]).mean(0)
    for seed, federation in originals.items():
        before = _look(federation)
        mask = answers(before)
        models = {
            "original": before,
            "mask": _masked(before, label),
            f"mask, logits x {SCALE:g}": _masked(before, label, SCALE),
        }
        for model, seen in models.items():
            yield {"seed": seed, **line(model, seen, aim, mask)}
        for form in FORMS:
            method = read_method(form)
            asked = ForgetSettings(method=method, key=key_of(seed, label), allow_collapse=True)
            outcome = federation.forget([label], settings=asked)
            seconds, seen = outcome.result.seconds, _look(federation)
            outcome.rollback()
            yield {"seed": seed, "seconds": seconds, **line(form, seen, aim, mask)}


def _look(federation: Federation) -> Seen:
    """Return the logits of training rows and of test rows."""
    rows, active = federation.holdings.rows, federation.active
    train, test = (active.logits(part.to(active.device)).cpu() for part in (rows.train, rows.test))
    return train, test


def _masked(seen: Seen, label: int, scale: float = 1.0) -> Seen:
    train, test = (scale * part for part in seen)
    train[:, label] += MUTED
    test[:, label] += MUTED
    return train, test


def divergence(aim: Tensor, p: Tensor) -> float:
    """Return KL(aim || p), the mean over rows.

    >>> divergence(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.5, 0.5]]))
    0.0
    """
    ratio = aim.clamp_min(1e-30).log() - p.clamp_min(1e-30).log()
    return (aim * ratio).sum(1).mean().item()


def table(result: Result) -> list[list[str]]:
    """Return the figures as rows for people."""
    rows = [["run", "model", *FIGURES.values(), "seconds"]]
    for entry in result["summary"]:
        cells = [
            markdown.figure(entry[name], 1 if name in PERCENT else 3, scale=_scale(name))
            for name in FIGURES
        ]
        rows.append([entry["run"], entry["model"], *cells, markdown.seconds(entry["seconds"])])
    return rows


def _scale(name: str) -> float:
    return 100 if name in PERCENT else 1


def page(result: Result) -> str:
    """Return the figures as a page of Markdown."""
    settings = result["settings"]
    return markdown.page(
        "# What teaches the new top of a hidden request",
        "`hidden:samples=public` is taught by the old top, on public samples; `hidden`, the "
        "default, by the true labels of all retained training rows. Means and deviations over the "
        f"labels forgotten, one a request, and {settings['seeds']} originals; "
        f"{settings['references']} models retrained without each label, of the same rows and "
        "other seeds.",
        MEANINGS,
        markdown.table(table(result)),
    )


BENCHES.add(
    "hidden-taught",
    Bench(
        "hidden requests taught by the old top or by labels, beside masks and retrained models",
        HiddenTaughtSettings,
        measure,
        table,
        page,
    ),
)
