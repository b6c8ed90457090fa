"""What a passive party can tell of labels from all that it saw of a training.

Every attack is also made by a party that never took part: on its features as they are, on an
untrained bottom, and on a bottom that it trained by its own views, which needs nobody. What an
attack finds beyond that, it owes to the training.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unlabel.config import (
    BottomsKind,
    LabelFreeSettings,
    ModelSettings,
    RunConfig,
    TrainSettings,
    expect,
)
from unlabel.data.dataset import Array
from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.train import load_holdings
from unlabel.train.loading import Holdings
from unlabel.wire import Embed, Gradients, Message
from unlabel.wire.codec import encode
from unlabel_bench import markdown
from unlabel_bench.blind.split_tables import PARTNER, read_split
from unlabel_bench.privacy.label_clusters import label_clusters
from unlabel_bench.records import Records
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.summary import interval

#: How a training of each name is set up: its bottoms, and how they are made without labels.
TRAININGS: dict[str, tuple[BottomsKind, dict[str, Any]]] = {
    "supervised": ("supervised", {}),
    "tuned": ("tuned", {"objective": "contrast", "across": True}),
    "blind, across": ("blind", {"objective": "contrast", "across": True}),
    "blind, own views": ("blind", {"objective": "contrast", "across": False}),
    "blind, components": ("blind", {"objective": "components"}),
}
#: What a party that never took part attacks with.
CONTROLS = ("features", "untrained bottom", "bottom by its own views")
ATTACKS = ("clusters", "norms", "neighbours", "completion")
#: Seeds of a party that trains by its own views start here: the draws are its own.
ELSEWHERE = 1000
#: Rows that are clustered at most.
CLUSTERED = 3000
#: What a page says where a blind training still tells a party something.
ACROSS = (
    "So where a blind training does better than never taking part, that comes from no label: "
    "agreement across parties brings into a party's bottom what the others' features have in "
    "common with its rows, and that helps whoever has a few labels. With components and own views "
    "nothing of the others reaches it."
)


@dataclass(frozen=True)
class LabelInferenceSettings:
    """Settings of the bench.

    data       digits, of which each of two parties has a half, or FILE:NAME=VALUE:.. of a table
    folder     where the table lies; no part of what is recorded
    model      bottom model of every party
    trainings  to look at
    epochs     of training with labels, and `contrast` without
    labelled   labels of each kind that the attacker has
    draws      of these people, a seed
    rows       rows of a table, 0 for all
    seeds      to repeat it with, from 0 on
    records    JSONL file of the figures; it is read first, and what is there is not repeated
    page       Markdown file to write the tables into
    """

    data: str = "digits"
    folder: str = "."
    model: str = "convnet"
    trainings: tuple[str, ...] = ()
    epochs: int = 15
    contrast: int = 30
    labelled: int = 4
    draws: int = 5
    rows: int = 0
    seeds: int = 5
    records: str = ""
    page: str = ""

    def __post_init__(self) -> None:
        strange = set(self.trainings) - set(TRAININGS)
        if strange:
            raise SettingsError(
                f"Expected trainings among {list(TRAININGS)} but got '{min(strange)}'."
            )
        expect("seeds", self.seeds, self.seeds >= 1, "at least 1")

    @property
    def party(self) -> str:
        """The party that attacks."""
        return "passive-1" if self.data == "digits" else PARTNER


@dataclass
class Listener:
    """Keeps what a passive party hears in training: the gradients of each row, and a digest."""

    rows: int
    total: Tensor | None = None
    norms: Tensor = field(init=False)
    count: Tensor = field(init=False)
    digest: Any = field(default_factory=hashlib.sha256)
    _waiting: Tensor | None = None

    def __post_init__(self) -> None:
        self.norms, self.count = (torch.zeros(self.rows, dtype=torch.float64) for _ in range(2))

    def attach(self, federation: Federation, party: str) -> None:
        """Listen to one party from now on."""
        endpoint = federation.passives[party]
        plain = endpoint.handle

        def handle(message: Message) -> Message:
            self.hear(message)
            return plain(message)

        endpoint.handle = handle  # type: ignore[method-assign]

    def hear(self, message: Message) -> None:
        """Note one message."""
        self.digest.update(encode(message))
        if isinstance(message, Embed):
            self._waiting = message.rows if message.mode != "predict" else None
        elif isinstance(message, Gradients) and self._waiting is not None:
            rows, values = self._waiting.cpu(), message.values.detach().cpu().double()
            if len(values) == 2 * len(rows):  # two views of each row
                values = torch.stack(values.chunk(2)).sum(0)
            if self.total is None:
                self.total = torch.zeros(self.rows, values.shape[1], dtype=torch.float64)
            self.total.index_add_(0, rows, values)
            self.norms.index_add_(0, rows, values.norm(dim=1))
            self.count.index_add_(0, rows, torch.ones(len(rows), dtype=torch.float64))


def measure(settings: LabelInferenceSettings, say: Say) -> Result:
    """Make every attack on every training, and without one."""
    recipe = (settings.data, settings.model, settings.epochs, settings.contrast, settings.rows)
    records = Records(settings.records, f"{recipe} {settings.labelled} {settings.draws}")
    names = (*CONTROLS, *(settings.trainings or TRAININGS))
    lines = []
    for seed in range(settings.seeds):
        for name in names:
            line = records.find(name=name, seed=seed)
            if line is None:
                say(f"seed {seed}: {name}")
                line = records.add(name=name, seed=seed, **_attack(settings, name, seed))
            lines.append(line)
    return {"summary": _summary(lines, names), "lines": lines}


def _holdings(settings: LabelInferenceSettings, kind: BottomsKind, **given: Any) -> Holdings:
    """Return what the parties hold."""
    if settings.data == "digits":
        config = RunConfig(data="digits", parties=2, bottoms=kind, **given)
        return load_holdings(config)
    table = read_split(settings.data, settings.folder)
    if settings.rows:
        order = np.random.default_rng(0).permutation(len(table.labels))
        table = table.some(np.sort(order[: settings.rows]))
    return table.holdings(bottoms=kind, **given)[0]


def _federation(settings: LabelInferenceSettings, name: str, seed: int) -> Federation:
    """Return an untrained run of one kind; all kinds have the parts of a blind one."""
    kind, chosen = TRAININGS[name]
    label_free = LabelFreeSettings(**{"epochs": settings.contrast, "batch": 256, **chosen})
    model = ModelSettings(bottom=settings.model)
    blind = _holdings(settings, "blind", model=model, train=TrainSettings(seed=seed))
    if kind == "blind":
        given = {"model": model, "train": TrainSettings(seed=seed), "label_free": label_free}
        return Federation.of(_holdings(settings, kind, **given))
    train = TrainSettings(seed=seed, epochs=settings.epochs, patience=0)
    held = _holdings(settings, kind, model=model, train=train, label_free=label_free)
    return Federation.of(replace(held, rows=blind.rows))


def _attack(settings: LabelInferenceSettings, name: str, seed: int) -> dict[str, Any]:
    if name in CONTROLS:
        return _control(settings, name, seed)
    federation = _federation(settings, name, seed)
    heard = Listener(len(federation.holdings.ids))
    heard.attach(federation, settings.party)
    federation.train()
    sets = {
        "features": _features(settings, federation.holdings),
        "embeddings": _embeddings(federation, settings.party),
    }
    gradients = None
    if heard.total is not None:
        gradients = (heard.total / heard.count.clamp_min(1)[:, None]).float()
        sets["gradients"] = gradients
        sets["both"] = torch.cat([_standard(sets["embeddings"]), _standard(gradients)], 1)
    norms = None if gradients is None else heard.norms / heard.count.clamp_min(1)
    figures = _figures(settings, federation.holdings, sets, norms, seed)
    if TRAININGS[name][0] == "blind":
        figures["same_messages"] = _same_messages(settings, name, seed, heard.digest.hexdigest())
    return figures


def _same_messages(settings: LabelInferenceSettings, name: str, seed: int, digest: str) -> bool:
    """Return whether the party hears the same, byte for byte, where labels are shuffled."""
    federation = _federation(settings, name, seed)
    draw = torch.Generator().manual_seed(seed)
    held = federation.holdings
    shuffled = held.labels[torch.randperm(len(held.labels), generator=draw)]
    other = Federation.of(replace(held, labels=shuffled))
    heard = Listener(len(held.ids))
    heard.attach(other, settings.party)
    other.train()
    return bool(heard.digest.hexdigest() == digest)


def _control(settings: LabelInferenceSettings, name: str, seed: int) -> dict[str, Any]:
    """Attack with what a party has by itself."""
    federation = _federation(settings, "blind, own views", seed)
    held = federation.holdings
    values = _features(settings, held)
    if name == "untrained bottom":
        federation.passives[settings.party].bottom.prepare(held.rows.train, 1)
        values = _embeddings(federation, settings.party)
    elif name == "bottom by its own views":
        alone = _federation(settings, "blind, own views", ELSEWHERE + seed)
        alone.train()
        values = _embeddings(alone, settings.party)
    return _figures(settings, held, {name: values}, values.norm(dim=1), seed)


@torch.no_grad()
def _embeddings(federation: Federation, party: str) -> Tensor:
    """Return what the party's bottom gives for all its rows, by itself."""
    bottom = federation.passives[party].bottom
    every = torch.arange(len(federation.holdings.ids))
    pieces = [
        bottom.embed(some, table="main", mode="predict", step=0) for some in every.split(1024)
    ]
    return torch.cat(pieces).float()


def _features(settings: LabelInferenceSettings, held: Holdings) -> Tensor:
    """Return the party's rows as they are, but for their scale."""
    return _standard(held.features[settings.party].values.flatten(1).float().nan_to_num())


def _standard(values: Tensor) -> Tensor:
    spread = values.std(0)
    return (values - values.mean(0)) / torch.where(spread > 0, spread, torch.ones_like(spread))


def _figures(
    settings: LabelInferenceSettings,
    held: Holdings,
    sets: Mapping[str, Tensor],
    norms: Tensor | None,
    seed: int,
) -> dict[str, Any]:
    """Return how well each attack tells the labels of training rows.

    clusters    share of rows whose cluster (k-means) stands for their label
    norms       mean over labels of max(a, 1 - a), a the AUC of the norm for the label
    neighbours  the nearest of the people whose labels are known say the label
    completion  a logistic regression fitted to these people says it
    All but the norms are the best over what the party has; the last two over several draws of those
    people: accuracy, or AUC where there are two labels.
    """
    rows = held.rows.train
    truth = held.labels[rows].numpy()
    figures: dict[str, Any] = {"norms": None}
    some = torch.from_numpy(np.random.default_rng(seed).permutation(len(rows))[:CLUSTERED])
    figures["clusters"] = max(
        label_clusters(
            values[rows[some]],
            torch.from_numpy(truth)[some],
            len(held.names),
            normalised=way,
            seed=seed,
        )
        for values in sets.values()
        for way in (False, True)
    )
    if norms is not None:
        figures["norms"] = _norm_auc(norms[rows].numpy(), truth)
    by_set = {
        name: _few_labels(settings, values[rows].numpy(), truth, seed)
        for name, values in sets.items()
    }
    figures["sets"] = by_set
    for attack in ("neighbours", "completion"):
        figures[attack] = max((shares[attack] for shares in by_set.values()), key=np.mean)
    return figures


def _norm_auc(norms: Array, truth: Array) -> float:
    from sklearn.metrics import roc_auc_score

    areas = [float(roc_auc_score(truth == label, norms)) for label in np.unique(truth)]
    return float(np.mean([max(area, 1 - area) for area in areas]))


def _few_labels(
    settings: LabelInferenceSettings, values: Array, truth: Array, seed: int
) -> dict[str, list[float]]:
    """Return the success of both attacks with a few labels, one figure a draw."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.neighbors import KNeighborsClassifier

    size = values.std(0)
    values = (values - values.mean(0)) / np.where(size > 0, size, 1)
    shares: dict[str, list[float]] = {"neighbours": [], "completion": []}
    for draw in range(settings.draws):
        rng = np.random.default_rng([seed, draw])
        kinds = np.unique(truth)
        known = np.concatenate(
            [rng.permutation(np.flatnonzero(truth == k))[: settings.labelled] for k in kinds]
        )
        rest = np.setdiff1d(np.arange(len(truth)), known)
        two = len(kinds) == 2
        models = {
            "neighbours": KNeighborsClassifier(min(5, settings.labelled) if two else 1),
            "completion": LogisticRegression(max_iter=500),
        }
        for name, model in models.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(values[known], truth[known])
            if two:
                share = roc_auc_score(truth[rest], model.predict_proba(values[rest])[:, 1])
            else:
                share = model.score(values[rest], truth[rest])
            shares[name].append(float(share))
    return shares


def _summary(lines: list[dict[str, Any]], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return means and intervals over seeds and draws, and what no control does as well."""
    entries = []
    for name in names:
        some = [line for line in lines if line["name"] == name]
        entry: dict[str, Any] = {"name": name, "control": name in CONTROLS}
        for attack in ATTACKS:
            values = [x[attack] for x in some if x[attack] is not None]
            entry[attack] = interval([np.atleast_1d(v) for v in values]) if values else None
        same = [x["same_messages"] for x in some if "same_messages" in x]
        entry["same_messages"] = all(same) if same else None
        entries.append(entry)
    best = {
        attack: max((e[attack] for e in entries if e["control"]), key=lambda x: x["mean"])
        for attack in ATTACKS
    }
    for entry in entries:
        entry["better"] = [
            attack
            for attack in ATTACKS
            if not entry["control"]
            and entry[attack]
            and entry[attack]["low"] > best[attack]["high"]
        ]
    return entries


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the figures as rows for people."""
    lines = [["the party's part", *ATTACKS, "better than never taking part"]]
    for entry in result["summary"]:
        cells = [
            markdown.interval(entry[attack], 1, scale=100) or "none came" for attack in ATTACKS
        ]
        title = f"none: {entry['name']}" if entry["control"] else entry["name"]
        verdict = "" if entry["control"] else (", ".join(entry["better"]) or "by no attack")
        lines.append([title, *cells, verdict])
    return lines


def page(result: Result) -> str:
    """Return the figures as a page."""
    about = result["settings"]
    data = about["data"].partition(":")[0]
    blind = [x for x in result["summary"] if x["same_messages"] is not None]
    same = all(x["same_messages"] for x in blind)
    return markdown.page(
        "# What a passive party can tell of labels",
        f"{data}, {about['model']}, {markdown.counted(about['seeds'], 'seed')}, training rows, in "
        "percent with 95 % intervals (bootstrap over seeds, then draws). *Clusters* are matched "
        "with labels; *norms* are the AUC of the size of the gradients that came, mean over "
        f"labels; *neighbours* and *completion* use the labels of {about['labelled']} people a "
        f"label, {about['draws']} draws a seed: accuracy, or AUC where there are two labels. All "
        "but the norms are of the party's features, of the embeddings of its bottom, of the "
        "gradients and of both, whichever does best. A party that never took part makes the same "
        "attacks on what it has by itself. A training is called better by an attack where its "
        "interval lies above that of the best of these.",
        markdown.table(table(result)),
        "Labels were shuffled and every blind training run again: the party received "
        + ("the same bytes in all of them." if same else "other bytes in some of them."),
        ACROSS if same and any(x["better"] for x in blind) else "",
    )


BENCHES.add(
    "label-inference",
    Bench(
        "labels a passive party can tell after training, beside one that never took part",
        LabelInferenceSettings,
        measure,
        table,
        page,
    ),
)
