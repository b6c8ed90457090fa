"""From what each party holds to parties that talk: one process, one subfolder a party."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unlabel.config import AUTO, Policy, RunConfig, TrainSettings, expect
from unlabel.config.party import BLIND_SERVES
from unlabel.data import ACTIVE, Features, Rows
from unlabel.defend.defence import defences_of
from unlabel.errors import DataError
from unlabel.files import OWNER_ONLY
from unlabel.models import build_bottom, describe_bottom, embedding_width, join_top, reads_bag
from unlabel.models.contrast import Projection
from unlabel.models.registry import top_of
from unlabel.party import (
    ActiveParty,
    Bottom,
    CheckpointStore,
    Learner,
    PassiveParty,
    Place,
    Stream,
    describe,
    own_randomness,
)
from unlabel.party.active import PREDICTED_ROWS
from unlabel.party.label_free import LabelFreePart, load_base
from unlabel.party.objective import plan_of
from unlabel.party.passive import Aligning
from unlabel.party.staging import TRANSCRIPT
from unlabel.party.top import TopLearner
from unlabel.party.training_loss import MIXING, TrainingLoss, balanced
from unlabel.train.checks import check_batch, place_of
from unlabel.train.epochs import MOST
from unlabel.train.label_record import UNKNOWN
from unlabel.train.loading import Holdings
from unlabel.train.loop import batch_count
from unlabel.wire import LocalTransport, Transcript, Transport

#: The subfolder of the label holder in which it keeps what its bottoms gave without labels.
LABEL_FREE = "label-free"


def build_passive(
    name: str,
    features: Features,
    config: RunConfig,
    place: Place,
    *,
    folder: Path | None = None,
    transcript: Transcript | None = None,
    people: Aligning | None = None,
    agreement: str = "",
) -> PassiveParty:
    """Build one passive party; `folder` is its own, and it opens no other.

    transcript  where it notes what it was asked and what it answered
    people      who knows which of its rows all parties share, where that has to be found out
    agreement   digest of what it agreed on with the others
    """
    bottom = _build_bottom(name, features, config, place)
    model = f"{_form(config, name)} on rows of {list(features.shape)}"
    store = CheckpointStore(folder, party=name, model=model) if folder else None
    if config.is_label_free:
        load_base(bottom, store, aligned=people is None or bool(people.digest))
    return PassiveParty(
        name,
        bottom,
        width=embedding_width(bottom.module, features.shape),
        policy=served_policy(config, name),
        label_free=label_free_part(config),
        store=store,
        filters=defences_of(config, name),
        filter_seed=config.defend.seed,
        transcript=transcript,
        people=people,
        agreement=agreement,
        agreed_steps=agreed_steps(config.train) if agreement else None,
    )


def agreed_steps(train: TrainSettings) -> Callable[[int], int]:
    """Return the most steps of a training over so many rows, as the parties agreed on it.

    Where the epochs follow from the data, the label holder found their number on rows of which some
    may be forgotten since; then the most there can be count.
    """
    epochs = MOST if train.epochs == AUTO else train.epochs
    return lambda rows: epochs * batch_count(torch.empty(rows), train.batch)


def build_active(
    holdings: Holdings,
    transport: Transport,
    place: Place,
    *,
    folder: Path | None = None,
    known: Sequence[int] = (),
) -> ActiveParty:
    """Build the active party on top of whatever parties the transport reaches.

    known  widths of their embeddings, where they are known: nobody is asked then
    """
    config = holdings.config
    widths, rows, most = list(known), len(holdings.labels), PREDICTED_ROWS
    if not known:
        described = describe(transport)
        widths = [answer.width for answer in described.values()]
        for party, answer in described.items():
            if answer.rows != rows:
                raise DataError(f"Party '{party}' has {answer.rows} rows for {rows} labels.")
        most = min(answer.max_rows for answer in described.values())
    if config.bottoms != "blind":  # which is not trained together
        check_batch(config.train.batch, holdings.rows.train, most)
    remembered, last = config.train.remember, len(holdings.names) - 1
    expect("remember", remembered, max(remembered, default=0) <= last, f"labels from 0 to {last}")
    bottom, own_width = None, []
    if ACTIVE in holdings.features:
        features = holdings.features[ACTIVE]
        bottom = _build_bottom(ACTIVE, features, config, place)
        own_width = [embedding_width(bottom.module, features.shape)]
    every = own_width + widths
    shared = _Shared(rows, widths, transport, bottom, most, config)
    if config.bottoms == "blind":
        return build_blind(holdings, every, place, folder, carrier=_carrier(shared, place, folder))
    top, labels = top_of(config.model), len(holdings.names)
    model = f"{top} over embeddings of {every}"
    if not config.is_label_free:
        model += f" to {labels} labels"  # which cannot change then
    if bottom and reads_bag(config.bottom_of(ACTIVE), config.model.text):
        model += f" and {describe_bottom(config.bottom_of(ACTIVE), config.model.text)}"
    store = CheckpointStore(folder, party=ACTIVE, model=model, mode=OWNER_ONLY) if folder else None
    active = ActiveParty(
        labels=holdings.labels,
        names=holdings.names,
        top=_build_top(holdings, every, place),
        monitor=config.monitor,
        training_loss=training_loss(config, holdings.labels, holdings.rows, labels, place),
        store=store,
        **shared.given(),
    )
    if config.is_label_free:
        active.carrier = _carrier(shared, place, folder)
    return active


@dataclass(frozen=True)
class _Shared:
    """What reaches the partners, with labels or without."""

    rows: int
    widths: list[int]
    transport: Transport
    bottom: Bottom | None
    most_rows: int
    config: RunConfig

    def given(self) -> dict[str, Any]:
        return {
            "widths": self.widths,
            "transport": self.transport,
            "bottom": self.bottom,
            "most_rows": self.most_rows,
            "filters": defences_of(self.config, ACTIVE),
            "filter_seed": self.config.defend.seed,
        }


def _carrier(shared: _Shared, place: Place, folder: Path | None) -> ActiveParty:
    """Build who reaches the partners without labels: it has none that could show.

    Its top is what the parties' agreement is computed on.
    """
    config, bottom = shared.config, shared.bottom
    first = [] if bottom is None else [embedding_width(bottom.module, bottom.tables["main"].shape)]
    widths, part = first + shared.widths, label_free_part(config)
    assert part is not None
    stream = Stream(config.train.seed, f"{ACTIVE}/agreement")
    stream.start("init", torch.device("cpu"))
    store = None
    if folder is not None:
        model = f"agreement over embeddings of {widths}"
        home = folder / LABEL_FREE
        store = CheckpointStore(home, party=ACTIVE, model=model, mode=OWNER_ONLY)
        if bottom is not None:
            load_base(bottom, store)
    return ActiveParty(
        labels=torch.full((shared.rows,), UNKNOWN),
        top=Learner(Heads(widths), part.optimiser(), stream=stream, place=place),
        monitor=config.monitor,
        store=store,
        **shared.given(),
    )


def build_blind(
    holdings: Holdings,
    widths: Sequence[int],
    place: Place,
    folder: Path | None,
    *,
    carrier: ActiveParty | None,
) -> ActiveParty:
    """Build an active party whose embeddings lie here, once they were asked for: it asks nobody."""
    config = holdings.config
    model = f"{top_of(config.model)} over kept embeddings of {list(widths)}"
    store = CheckpointStore(folder, party=ACTIVE, model=model, mode=OWNER_ONLY) if folder else None
    features = [ACTIVE] if ACTIVE in holdings.features else []
    active = ActiveParty(
        labels=holdings.labels,
        names=holdings.names,
        top=_build_top(holdings, widths, place),
        widths=widths,
        transport=LocalTransport({}),
        store=store,
        sources=[*features, *(name for name in config.party_names() if name != ACTIVE)],
    )
    active.carrier = carrier
    return active


def _build_top(holdings: Holdings, widths: Sequence[int], place: Place) -> Learner:
    config, name = holdings.config, top_of(holdings.config.model)
    stream = Stream(config.train.seed, f"{ACTIVE}/top")

    def build(labels: int) -> nn.Module:
        model = config.model
        return join_top(
            name, list(widths), labels, model.combine, config.code, settings=model.options
        )

    if config.is_label_free:
        return TopLearner(build, holdings.names, config.train, stream=stream, place=place)
    stream.start("init", torch.device("cpu"))
    return Learner(build(len(holdings.names)), config.train, stream=stream, place=place)


def training_loss(
    config: RunConfig, labels: Tensor, rows: Rows, count: int, place: Place
) -> TrainingLoss:
    """Return the loss of a training together, each label weighed alike where that is asked for."""
    settings, weights = config.train, None
    if settings.balance:
        trained = labels[rows.train]
        weights = balanced(trained[trained >= 0], count).to(place.device)
    return TrainingLoss(Stream(settings.seed, MIXING), settings.mixup, weights)


def label_free_part(config: RunConfig) -> LabelFreePart | None:
    """Return a party's part in making bottoms without labels, None where they learn with them."""
    if not config.is_label_free:
        return None
    plan = plan_of(config)
    settings, seed = config.label_free, config.train.seed
    keeps = config.bottoms == "blind"
    return LabelFreePart(settings.objective, settings, plan.learns, plan.gradients, seed, keeps)


def served_policy(config: RunConfig, party: str) -> Policy:
    """Return a party's policy; one whose bottom never sees a label serves no more than it must."""
    policy = config.policy_of(party)
    if config.bottoms != "blind":
        return policy
    return blind_policy(policy, plan_of(config).gradients)


def blind_policy(policy: Policy, gradients: bool) -> Policy:
    """Return a policy that serves what the making of a bottom without labels needs, and no more.

    gradients  whether those of the label holder move it
    """
    needed = (*BLIND_SERVES, *(("Gradients",) if gradients else ()))
    return replace(policy, serves=tuple(kind for kind in policy.serves if kind in needed))


def _form(config: RunConfig, party: str) -> str:
    """Return what checkpoints call a party's bottom."""
    if config.is_label_free and not plan_of(config).learns:
        return config.label_free.objective
    return describe_bottom(config.bottom_of(party), config.model.text)


def assemble(
    holdings: Holdings, *, folder: Path | None = None, encoded: bool = False, record: bool = False
) -> tuple[ActiveParty, dict[str, PassiveParty]]:
    """Build all parties of a run in this process."""
    config = holdings.config
    place = place_of(config.train)
    homes = {name: folder / name if folder else None for name in config.party_names()}
    with own_randomness(torch.device("cpu")):
        passives = {}
        for name, features in holdings.features.items():
            if name != ACTIVE:
                home = homes[name]
                path = home / TRANSCRIPT if home else None
                transcript = Transcript(path=path) if record else None
                passives[name] = build_passive(
                    name, features, config, place, folder=home, transcript=transcript
                )
        transport = LocalTransport(passives, encoded=encoded)
        return build_active(holdings, transport, place, folder=homes[ACTIVE]), passives


class Heads(nn.Module):
    """A projection of each party's embeddings, on which the label holder computes agreement."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.widths = list(widths)
        self.heads = nn.ModuleList(Projection(width) for width in widths)

    def forward(self, embeddings: Sequence[Tensor]) -> list[Tensor]:
        """Return the projections, in the order of the parties."""
        return [head(values) for head, values in zip(self.heads, embeddings, strict=True)]


def _build_bottom(name: str, features: Features, config: RunConfig, place: Place) -> Bottom:
    stream = Stream(config.train.seed, name)
    stream.start("init", torch.device("cpu"))
    if config.is_label_free:
        module = plan_of(config).objective.build(name, features.shape, config)
    else:
        bottom, text = config.bottom_of(name), config.model.text
        module = build_bottom(bottom, features.shape, config.code, text)
    return Bottom(module, features, config.train, stream=stream, place=place)
