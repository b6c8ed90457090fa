"""A training that stopped half-way is told from one that came to its end."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from unlabel import Federation
from unlabel.errors import ForgetError
from unlabel.forget import ForgetSettings, Transaction
from unlabel.forget.methods.renormalise import Renormalise
from unlabel.train import Epoch, Watcher
from unlabel.train.progress import expect_finished, unfinished, unfinished_note

AGAIN = "unlabel train --resume --out runs/d"


class StopAfter(Watcher):
    """Stops a training as a person would, after so many epochs."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def epoch_ended(self, epoch: Epoch, history: Any) -> None:
        if epoch.epoch == self.epochs:
            raise KeyboardInterrupt


def newest(folder: Path) -> dict[str, Any]:
    active = Federation.open(folder, resume=True).active
    return active.versions.facts(active.versions.common()[-1])


def test_a_stopped_training_is_unfinished_until_it_is_resumed_and_so_is_a_request_in_it(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    federation = Federation.local("digits", model="mlp", epochs=3, folder=run)
    with pytest.raises(KeyboardInterrupt):
        federation.train(watchers=[StopAfter(2)])
    assert unfinished(newest(run)) == "Training stopped after epoch 2 of 3"

    federation = Federation.open(run)
    method = Renormalise(steps=1)
    with pytest.raises(ForgetError):
        federation.forget([3], settings=ForgetSettings(method=method))
    federation.forget([3], settings=ForgetSettings(method=method, allow_unfinished=True))
    waiting = Transaction(federation.active).staged_version()
    assert waiting is not None
    assert unfinished(waiting.to_json()) == "Training stopped after epoch 2 of 3"
    Transaction(federation.active).commit(force=True)
    assert unfinished(newest(run)) == "Training stopped after epoch 2 of 3"

    Federation.open(run, resume=True).train()
    assert unfinished(newest(run)) == ""


def test_an_early_stop_is_an_end(tmp_path: Path) -> None:
    run = tmp_path / "run"
    federation = Federation.local("digits", model="mlp", epochs=50, patience=1, folder=run)
    progress = federation.train()
    assert len(progress.history) < 50
    assert unfinished(newest(run)) == ""


def test_models_that_nobody_has_trained_yet_are_unfinished() -> None:
    from unlabel.train import Progress

    facts = {"progress": asdict(Progress()), "settings": {"epochs": 3}}
    assert unfinished(facts) == "Training stopped before the end of its first epoch"


def test_facts_without_a_number_of_epochs_or_without_a_training_are_fine() -> None:
    stopped = {"history": [{}, {}], "finished": False}
    for settings in ({}, {"epochs": None}, {"epochs": 0}):
        assert unfinished({"progress": stopped, "settings": settings}) == (
            "Training stopped after epoch 2"
        )
    assert unfinished({"progress": stopped}) == "Training stopped after epoch 2"
    assert unfinished({}) == unfinished({"progress": None}) == ""


def test_the_note_and_the_refusal_name_the_command_that_goes_on() -> None:
    stopped = {"progress": {"history": [{}] * 7, "finished": False}, "settings": {"epochs": 20}}
    ended = {"progress": {"history": [{}] * 20, "finished": True}, "settings": {"epochs": 20}}
    assert unfinished_note(stopped, AGAIN) == (
        f"Training stopped after epoch 7 of 20; go on with: {AGAIN}"
    )
    assert unfinished_note(ended, AGAIN) == ""
    expect_finished(ended, AGAIN)
    with pytest.raises(ForgetError, match="after epoch 7 of 20; finish it with `train"):
        expect_finished(stopped, AGAIN)
