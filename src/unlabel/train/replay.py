"""What the outcome of an exact request is a function of, and that function once more.

    rows         SHA-256 of all rows whose labels are known: part, id and name of the label
    recipe       what else decides the weights: seed, top and its settings, how it is fitted
    embeddings   SHA-256 of the files of kept embeddings, in a blind run
    bases        SHA-256 of every party's bottom, as it was made without labels
    environment  versions of the software, processor, device and threads

Equal rows, recipe, embeddings or bases, and environment give equal weights, bit for bit. In another
environment sums are rounded otherwise, and nothing is promised of the bits.
"""

from __future__ import annotations

import contextlib
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from unlabel.config import RunConfig
from unlabel.data import ACTIVE, Rows
from unlabel.data.column_encoding import stored_encoding
from unlabel.data.dataset import Array
from unlabel.data.tables import label_texts
from unlabel.errors import RunError, UnlabelError
from unlabel.files import sha256
from unlabel.models.registry import top_of
from unlabel.party import ActiveParty, own_randomness
from unlabel.train.assembly import LABEL_FREE, build_blind
from unlabel.train.checks import deciding_settings, place_of
from unlabel.train.label_free import VIEWS, Base, read_kept
from unlabel.train.label_record import LABELS, LabelRecord
from unlabel.train.loading import Holdings, load_holdings
from unlabel.train.tables import read_active
from unlabel.train.top_fit import fit_top, recipe_of

#: Software that computes.
LIBRARIES = ("torch", "numpy", "scikit-learn")
#: What of an environment can be set for a replay, and so is none of what makes it another one.
ADJUSTABLE = "threads"
#: How far probabilities may be apart in another environment.
TOLERANCE = 0.01
Outcome = Literal["same", "near", "other"]


def environment(device: torch.device) -> dict[str, str]:
    """Return what bits depend on beside the inputs."""
    accelerator = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in LIBRARIES},
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "device": f"{device.type} {accelerator}".strip(),
        ADJUSTABLE: str(torch.get_num_threads()),
    }


def _processor() -> str:
    """Return the type of the processor, as far as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


@contextlib.contextmanager
def with_threads(count: str) -> Iterator[None]:
    """Compute with so many threads inside the block, where a number is given."""
    before = torch.get_num_threads()
    if count.isdecimal() and int(count) > 0:
        torch.set_num_threads(int(count))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def recipe(config: RunConfig) -> dict[str, Any]:
    """Return, as plain data, what beside rows and embeddings decides the weights of a run."""
    model = config.model
    fitted: dict[str, Any] = {"fit": asdict(config.fit)}
    if config.bottoms == "tuned":
        fitted = {"train": deciding_settings(config.train)}
    plain = {
        "bottoms": config.bottoms,
        "seed": config.train.seed,
        "precision": config.train.precision,
        "balance": config.train.balance,
        "top": top_of(model),
        "options": model.options,
        "combine": model.combine,
        "label_free": asdict(config.label_free),
        **fitted,
    }
    # It is signed, and programs write fractions differently: as text they are one thing.
    return dict(json.loads(json.dumps(plain, default=str), parse_float=str))


def rows_digest(ids: Array, labels: Tensor, names: Sequence[str], rows: Rows) -> str:
    """Return the SHA-256 of every row with a known label: its part, its id and its label."""
    known = []
    for part in fields(Rows):
        numbers = getattr(rows, part.name).cpu()
        numbers = numbers[labels.cpu()[numbers] >= 0]
        codes = labels.cpu()[numbers].tolist()
        people = ids[numbers.numpy()].tolist()
        known += [
            [part.name, str(who), names[code]] for who, code in zip(people, codes, strict=True)
        ]
    return sha256(json.dumps(known).encode())


def commitment(
    active: ActiveParty, config: RunConfig, ids: Array, labels: Tensor, names: Sequence[str],
    rows: Rows,
) -> dict[str, Any]:  # fmt: skip
    """Return what an outcome is a function of, as plain data; see the head of this file.

    labels, names  of what stays
    """
    base = Base.read(active.versions.store.home / LABEL_FREE)
    return {
        "rows": rows_digest(ids, labels, names, rows),
        "recipe": recipe(config),
        "embeddings": {} if base is None else dict(base.files),
        "bases": {} if base is None else dict(base.weights),
        "environment": environment(active.device),
    }


@dataclass(frozen=True)
class Comparison:
    """A top beside the one that comes out when it is fitted again.

    differing  names of tensors that are not the same, bit for bit
    apart      the largest difference of any probability on rows that stay
    elsewhere  what of the environment is another than it was; bits may differ then
    """

    differing: tuple[str, ...]
    apart: float
    elsewhere: tuple[str, ...]

    @property
    def outcome(self) -> Outcome:
        """same bit for bit; near, in another environment; other."""
        if not self.differing:
            return "same"
        return "near" if self.elsewhere and self.apart <= TOLERANCE else "other"


@dataclass(frozen=True)
class KeptData:
    """What the label holder has of a blind run: its rows, and embeddings of them.

    labels, names  as they are known in this folder now, forgotten ones not yet taken out
    embeddings     [n, width] a party
    views          [v, n, width] a party, of the training rows; none where none were asked for
    """

    config: RunConfig
    ids: Array
    labels: Tensor
    names: tuple[str, ...]
    rows: Rows
    embeddings: Mapping[str, Tensor]
    views: Mapping[str, Tensor]

    @property
    def sources(self) -> list[str]:
        """The names of those whose embeddings the top joins, in their order."""
        others = [name for name in self.config.party_names() if name != ACTIVE]
        return [*([ACTIVE] if ACTIVE in self.embeddings else []), *others]

    def fitted(
        self, labels: Tensor, names: Sequence[str], *, seed: int | None = None
    ) -> ActiveParty:
        """Return a party whose top is fitted anew to these labels; seed None is the run's own."""
        active = self.begun(labels, names, seed=seed)
        views = [self.views[name].to(active.device) for name in self.sources if self.views]
        how = recipe_of(self.config)
        fit_top(active, self.rows, how if seed is None else replace(how, seed=seed), views)
        return active

    def begun(
        self, labels: Tensor, names: Sequence[str], *, seed: int | None = None
    ) -> ActiveParty:
        """Return a party that knows these labels, with the weights that a fit begins with."""
        config = self.config
        if seed is not None:
            config = replace(config, train=replace(config.train, seed=seed))
        place, sources = place_of(config.train), self.sources
        parts = [self.embeddings[name].to(place.device, torch.float32) for name in sources]
        widths = [part.shape[1] for part in parts]
        held = Holdings(config, {}, labels, tuple(names), np.array([]), self.rows)
        with own_randomness(torch.device("cpu")):
            active = build_blind(held, widths, place, None, carrier=None)
        active.sources = tuple(sources)
        active.local_embeddings = {"main": parts}
        return active

    def compare(
        self,
        labels: Tensor,
        names: Sequence[str],
        state: Mapping[str, Tensor],
        recorded: Mapping[str, str],
    ) -> Comparison:
        """Fit the top anew to what stays, and hold a version of it against that.

        labels, names  of what stays
        state          the tensors of the version
        recorded       the environment in which it was fitted; as many threads are used here
        """
        with with_threads(recorded.get(ADJUSTABLE, "")):
            active = self.fitted(labels, names)
            here = environment(active.device)
            unequal = differing(active.versions.model_state(), state)
            apart = 0.0
            if unequal:
                apart = self._apart(active, state, labels)
        others = tuple(
            f"{name} {recorded.get(name) or 'unknown'}, here {value}"
            for name, value in here.items()
            if recorded.get(name) != value
        )
        return Comparison(tuple(unequal), apart, others)

    def _apart(self, active: ActiveParty, state: Mapping[str, Tensor], labels: Tensor) -> float:
        """Return the largest difference of a probability on rows that stay; 1 where none fits."""
        rows = (labels >= 0).nonzero()[:, 0].to(active.device)
        expected = active.logits(rows).softmax(1)
        try:
            active.top.load_state(
                {k.removeprefix("top/"): v for k, v in state.items() if k.startswith("top/")}
            )
            if active.top.names != active.names:  # type: ignore[attr-defined]
                return 1.0
            return float((active.logits(rows).softmax(1) - expected).abs().max())
        except (UnlabelError, RuntimeError, KeyError, ValueError):  # of another form
            return 1.0


def kept_data(config: RunConfig, folder: Path) -> KeptData:
    """Read what the label holder has of a blind run; no partner's table is opened for it.

    Raise where labels, rows or embeddings are not those that the run was bound to.
    """
    home = folder / ACTIVE
    if not torch.cuda.is_available() and config.train.device.startswith("cuda"):
        config = replace(config, train=replace(config.train, device="cpu", graphs=False))
    ids, labels, names, rows = _labels(config, folder)
    views = read_kept(home / LABEL_FREE, VIEWS)
    return KeptData(config, ids, labels, names, rows, read_kept(home / LABEL_FREE), views)


def _labels(config: RunConfig, folder: Path) -> tuple[Array, Tensor, tuple[str, ...], Rows]:
    if config.data is not None:
        held = load_holdings(config, folder=folder)
        return held.ids, held.labels, held.names, held.rows
    assert config.active is not None
    home = folder / ACTIVE
    record = LabelRecord.read(home)
    if record is None:
        raise RunError(f"'{home / LABELS}', which binds the run to its labels, is missing.")
    table = read_active(config.active, encoding=stored_encoding(home), blank_labels=True)
    table = table.take(record.places_of(table.ids))
    assert table.labels is not None
    return table.ids, record.open(table.ids, label_texts(table.labels)), record.names, record.rows


def differing(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> list[str]:
    """Return the names of tensors that are not the same, bit for bit, in two states.

    >>> differing({"a": torch.zeros(2)}, {"a": torch.zeros(2), "b": torch.ones(1)})
    ['b']
    """
    return [
        name
        for name in sorted(one.keys() | other.keys())
        if name not in one or name not in other or not _is_same(one[name], other[name])
    ]


def _is_same(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same type, shape and bytes: not a number is one too."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    pair = (each.detach().cpu().contiguous().reshape(-1) for each in (one, other))
    first, second = (each.view(torch.uint8) if each.numel() else each for each in pair)
    return torch.equal(first, second)
