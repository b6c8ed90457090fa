"""From what each party holds to parties that talk: one process, one subfolder a party."""

from __future__ import annotations

from pathlib import Path

import torch

from unlabel.data import ACTIVE, Features
from unlabel.errors import DataError
from unlabel.files import OWNER_ONLY
from unlabel.models import build_bottom, describe_bottom, embedding_width, join_top, reads_bag
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
from unlabel.party.lateness import Lateness, check_late
from unlabel.party.lesson import MIXING, Lesson, balanced
from unlabel.party.passive import Aligning
from unlabel.party.staging import TRANSCRIPT
from unlabel.train.config import RunConfig
from unlabel.train.loading import Holdings
from unlabel.train.settings import check_batch, check_remembered
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
    agreed: str = "",
) -> PassiveParty:
    """Build one passive party; `folder` is its own, and it opens no other.

    transcript  where it notes what it was asked and what it answered
    people      who knows which of its rows all parties share, where that has to be found out
    agreed      digest of what it agreed on with the others
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
        filters=config.defences_of(name),
        filter_seed=config.defend.seed,
        transcript=transcript,
        people=people,
        agreed=agreed,
        late=_lateness(name, config),
    )


def build_active(
    holdings: Holdings, transport: Transport, place: Place, *, folder: Path | None = None
) -> ActiveParty:
    """Build the active party on top of whatever parties the transport reaches."""
    config = holdings.config
    described = describe(transport)
    widths = [answer.width for answer in described.values()]
    for party, answer in described.items():
        if answer.rows != len(holdings.labels):
            raise DataError(
                f"Party '{party}' has {answer.rows} rows for {len(holdings.labels)} labels."
            )
    most = min(answer.max_rows for answer in described.values())
    check_batch(config.train.batch, holdings.rows.train, most)
    check_remembered(config.train.remember, len(holdings.names))
    late = check_late(config.train.late_parties, transport.parties)
    own = None
    if ACTIVE in holdings.features:
        own = _build_bottom(ACTIVE, holdings.features[ACTIVE], config, place)
    own_width = [embedding_width(own.module, holdings.features[ACTIVE].shape)] if own else []
    stream = Stream(config.train.seed, f"{ACTIVE}/top")
    stream.start("init", torch.device("cpu"))
    name = config.model.top_name()
    labels = len(holdings.names)
    top = join_top(name, own_width + widths, labels, config.model.combine, config.code)
    model = f"{name} over embeddings of {own_width + widths} to {labels} labels"
    if own and reads_bag(config.bottom_of(ACTIVE), config.model.text):
        model += f" and {describe_bottom(config.bottom_of(ACTIVE), config.model.text)}"
    return ActiveParty(
        labels=holdings.labels,
        top=Learner(top, config.train, stream=stream, place=place),
        widths=widths,
        transport=transport,
        own=own,
        most_rows=most,
        filters=config.defences_of(ACTIVE),
        filter_seed=config.defend.seed,
        watch=config.watch,
        lesson=_lesson(holdings),
        lateness=Lateness(config.train.late, late),
        store=CheckpointStore(folder, party=ACTIVE, model=model, mode=OWNER_ONLY)
        if folder
        else None,
    )


def _lateness(name: str, config: RunConfig) -> int:
    """Return how many steps a party may be late; the active one waits for nobody's answer."""
    named = config.train.late_parties
    return config.train.late if name != ACTIVE and (not named or name in named) else 0


def _lesson(holdings: Holdings) -> Lesson:
    settings = holdings.config.train
    place = settings.place()
    trained = holdings.labels[holdings.rows.train]
    weights = balanced(trained, len(holdings.names)) if settings.balance else None
    return Lesson(
        Stream(settings.seed, MIXING),
        settings.mixup,
        None if weights is None else weights.to(place.device),
    )


def assemble(
    holdings: Holdings, *, folder: Path | None = None, encoded: bool = False, record: bool = False
) -> tuple[ActiveParty, dict[str, PassiveParty]]:
    """Build all parties of a run in this process."""
    config = holdings.config
    place = config.train.place()
    with own_randomness(torch.device("cpu")):
        passives = {
            name: build_passive(
                name,
                features,
                config,
                place,
                folder=folder / name if folder else None,
                transcript=_transcript(folder, name) if record else None,
            )
            for name, features in holdings.features.items()
            if name != ACTIVE
        }
        transport = LocalTransport(passives, encoded=encoded)
        own_folder = folder / ACTIVE if folder else None
        return build_active(holdings, transport, place, folder=own_folder), passives


def _transcript(folder: Path | None, name: str) -> Transcript:
    return Transcript(path=folder / name / TRANSCRIPT if folder else None)


def _build_bottom(name: str, features: Features, config: RunConfig, place: Place) -> Bottom:
    stream = Stream(config.train.seed, name)
    stream.start("init", torch.device("cpu"))
    module = build_bottom(config.bottom_of(name), features.shape, config.code, config.model.text)
    foresee = config.train.late_rule == "foresee" and _lateness(name, config) > 0
    return Bottom(module, features, config.train, stream=stream, place=place, foresee=foresee)
