"""What settings must fit: known names, the machine, the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from unlabel.compat import translate_training
from unlabel.config import MACHINE_SETTINGS, MachineSettings, RunConfig, TrainSettings, expect
from unlabel.defend.defence import check_defences
from unlabel.errors import RunError, SettingsError, unknown
from unlabel.files import RUN_FILE
from unlabel.models.registry import model_settings
from unlabel.party import Place


def checked_run(config: RunConfig) -> RunConfig:
    """Return a run whose names of models, defences and parties all mean something.

    The one place where they are checked, before any data is read and anything is written.
    """
    for name in config.model.bottoms:
        if name not in config.party_names():
            raise SettingsError(unknown("party under `model.bottoms`", name, config.party_names()))
    for party in config.passive:
        check_defences("passive.defend", party.defend or [], "embeddings")
    check_defences("defend.gradients", config.defend.gradients, "gradients")
    check_defences("defend.embeddings", config.defend.embeddings, "embeddings")
    return replace(config, model=model_settings(config.model))


def training_settings(given: Mapping[str, Any]) -> TrainSettings:
    """Return training settings from names and values; an unknown name is refused with a hint."""
    known = [field.name for field in fields(TrainSettings)]
    for name in given:
        if name not in known:
            raise SettingsError(unknown("training setting", name, known))
    return TrainSettings(**given)


def deciding_settings(settings: TrainSettings) -> dict[str, Any]:
    """Return the settings that decide which weights a training ends in, as JSON holds them."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if name not in MACHINE_SETTINGS
    }


def check_unchanged(settings: TrainSettings, noted: Mapping[str, Any], run: str) -> None:
    """Raise where a run's settings are not those that were noted when it was trained."""
    # A run from before a setting existed was trained with what is its default now.
    trained = {**deciding_settings(TrainSettings()), **translate_training(noted)}
    now = deciding_settings(settings)
    for name in sorted(trained.keys() | now.keys()):
        if trained.get(name) != now.get(name):
            raise RunError(
                f"{run} was trained with {name} = {trained.get(name)}, but its {RUN_FILE} now says "
                f"{now.get(name)}; put it back."
            )


def place_of(settings: MachineSettings) -> Place:
    """Return where to compute; a missing GPU is an error, not a slow surprise."""
    name = settings.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise SettingsError("Expected a CUDA device but this machine has none; use 'cpu'.")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingsError(f"Expected `device` like cpu or cuda:0 but got '{name}'.") from error
    if device.type == "cuda":
        count = torch.cuda.device_count()
        if (device.index or 0) >= count:
            raise SettingsError(f"Expected one of {count} CUDA devices but got '{name}'.")
        torch.backends.cudnn.benchmark = not settings.deterministic
        torch.backends.cudnn.deterministic = settings.deterministic
    if settings.graphs and device.type != "cuda":
        raise SettingsError("Expected `graphs` only with a CUDA device; set it to false.")
    return Place(device, settings.precision, settings.graphs)


def check_batch(batch: int, rows: Tensor, most: int) -> None:
    """Raise where a batch is larger than the data or than what every party serves."""
    expect("batch", batch, batch <= len(rows), f"at most the {len(rows)} training rows")
    allowed = f"at most {most}, the rows a request that every party's policy allows,"
    expect("batch", batch, batch <= most, allowed)
