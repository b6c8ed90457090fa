"""From what each party holds to parties that talk: one process, one subfolder a party."""

from __future__ import annotations

from pathlib import Path

import torch

from unlabel.config import RunConfig, expect
from unlabel.data import ACTIVE, Features
from unlabel.defend.defence import defences_of
from unlabel.errors import DataError
from unlabel.files import OWNER_ONLY
from unlabel.models import build_bottom, describe_bottom, embedding_width, join_top, reads_bag
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
from unlabel.party.passive import Aligning
from unlabel.party.staging import TRANSCRIPT
from unlabel.party.training_loss import MIXING, TrainingLoss, balanced
from unlabel.train.checks import check_batch, place_of
from unlabel.train.loading import Holdings
from unlabel.wire import LocalTransport, Transcript, Transport


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
    form = describe_bottom(config.bottom_of(name), config.model.text)
    model = f"{form} on rows of {list(features.shape)}"
    store = CheckpointStore(folder, party=name, model=model) if folder else None
    return PassiveParty(
        name,
        bottom,
        width=embedding_width(bottom.module, features.shape),
        policy=config.policy_of(name),
        store=store,
        filters=defences_of(config, name),
        filter_seed=config.defend.seed,
        transcript=transcript,
        people=people,
        agreement=agreement,
    )


def build_active(
    holdings: Holdings, transport: Transport, place: Place, *, folder: Path | None = None
) -> ActiveParty:
    """Build the active party on top of whatever parties the transport reaches."""
    config = holdings.config
    described = describe(transport)
    widths, rows = [answer.width for answer in described.values()], len(holdings.labels)
    for party, answer in described.items():
        if answer.rows != rows:
            raise DataError(f"Party '{party}' has {answer.rows} rows for {rows} labels.")
    most = min(answer.max_rows for answer in described.values())
    check_batch(config.train.batch, holdings.rows.train, most)
    remembered, last = config.train.remember, len(holdings.names) - 1
    expect("remember", remembered, max(remembered, default=0) <= last, f"labels from 0 to {last}")
    bottom, own_width = None, []
    if ACTIVE in holdings.features:
        features = holdings.features[ACTIVE]
        bottom = _build_bottom(ACTIVE, features, config, place)
        own_width = [embedding_width(bottom.module, features.shape)]
    stream = Stream(config.train.seed, f"{ACTIVE}/top")
    stream.start("init", torch.device("cpu"))
    name = top_of(config.model)
    labels = len(holdings.names)
    top = join_top(name, own_width + widths, labels, config.model.combine, config.code)
    model = f"{name} over embeddings of {own_width + widths} to {labels} labels"
    if bottom and reads_bag(config.bottom_of(ACTIVE), config.model.text):
        model += f" and {describe_bottom(config.bottom_of(ACTIVE), config.model.text)}"
    store = CheckpointStore(folder, party=ACTIVE, model=model, mode=OWNER_ONLY) if folder else None
    return ActiveParty(
        labels=holdings.labels,
        top=Learner(top, config.train, stream=stream, place=place),
        widths=widths,
        transport=transport,
        bottom=bottom,
        most_rows=most,
        filters=defences_of(config, ACTIVE),
        filter_seed=config.defend.seed,
        monitor=config.monitor,
        training_loss=_training_loss(holdings, place),
        store=store,
    )


def _training_loss(holdings: Holdings, place: Place) -> TrainingLoss:
    settings, weights = holdings.config.train, None
    if settings.balance:
        trained = holdings.labels[holdings.rows.train]
        weights = balanced(trained[trained >= 0], len(holdings.names)).to(place.device)
    return TrainingLoss(Stream(settings.seed, MIXING), settings.mixup, weights)


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


def _build_bottom(name: str, features: Features, config: RunConfig, place: Place) -> Bottom:
    stream = Stream(config.train.seed, name)
    stream.start("init", torch.device("cpu"))
    module = build_bottom(config.bottom_of(name), features.shape, config.code, config.model.text)
    return Bottom(module, features, config.train, stream=stream, place=place)
