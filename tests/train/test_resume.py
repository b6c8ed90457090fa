"""A training that was interrupted ends in the same weights as one that was not."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from federations import small_holdings
from safetensors.torch import load_file

from unlabel.files import write_atomically
from unlabel.party import checkpoint
from unlabel.train import Training, assemble

COMMAND = [
    *(sys.executable, "-m", "unlabel", "train", "--data", "digits", "--model", "mlp"),
    *("--epochs", "40", "--lr", "0.02", "--patience", "50", "--json"),
]


def final_weights(run: Path) -> dict[str, torch.Tensor]:
    """Return every tensor of the one version each party ended with."""
    found: dict[str, torch.Tensor] = {}
    for party in ("active", "passive-1", "passive-2"):
        files = list((run / party / "versions").glob("*.safetensors"))
        assert len(files) == 1
        found |= {f"{party}/{name}": tensor for name, tensor in load_file(files[0]).items()}
    return found


@pytest.mark.long
def test_a_training_killed_at_random_moments_and_resumed_ends_in_the_same_weights(
    tmp_path: Path,
) -> None:
    subprocess.run([*COMMAND, "--out", "calm"], cwd=tmp_path, check=True, capture_output=True)
    draw = random.Random()
    kills = 0
    for target in (1, 12):  # early enough for the training to be far from its end
        child = subprocess.Popen(
            [*COMMAND, "--out", "shaken", "--resume"],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        versions = tmp_path / "shaken" / "active" / "versions"
        while child.poll() is None and not any(
            int(path.stem) >= target for path in versions.glob("*.json")
        ):
            time.sleep(0.002)
        time.sleep(draw.random() * 0.15)
        child.send_signal(signal.SIGKILL)
        kills += child.wait() == -signal.SIGKILL
    assert kills > 0, "the training ended before it could be killed"
    subprocess.run([*COMMAND, "--out", "shaken", "--resume"], cwd=tmp_path, check=True,
                   capture_output=True)  # fmt: skip
    calm, shaken = final_weights(tmp_path / "calm"), final_weights(tmp_path / "shaken")
    assert calm.keys() == shaken.keys()
    assert [name for name in calm if not torch.equal(calm[name], shaken[name])] == []
    lines = (tmp_path / "shaken" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 40


class Crash(BaseException):
    """A process that dies at a chosen moment."""


def crash_after(writes: int, real: Callable[..., None]) -> Callable[..., None]:
    """Return a write that works so many times and then dies, half-way through the next file."""
    left = writes

    def write(path: Path, data: bytes, mode: int = 0o666) -> None:
        nonlocal left
        if left == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name(path.name + ".part").write_bytes(data[: len(data) // 2])
            raise Crash
        left -= 1
        real(path, data, mode)

    return write


def train(folder: Path, **settings: Any) -> dict[str, torch.Tensor]:
    holdings = small_holdings(2, bottom="small_models:dropout_bottom", epochs=3, **settings)
    active, passives = assemble(holdings, folder=folder)
    Training(active, holdings.rows, holdings.config.train, labels=4).run()
    modules = {"top": active.top.module, **{k: p.bottom.module for k, p in passives.items()}}
    return {f"{who}/{k}": v for who, m in modules.items() for k, v in m.state_dict().items()}


# Two passive parties and the active one write two files each, in each of three epochs.
@pytest.mark.parametrize("writes", range(18))
def test_a_crash_at_any_write_of_any_party_changes_nothing_after_resuming(
    writes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm = train(tmp_path / "calm")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_atomically", crash_after(writes, write_atomically))
        with pytest.raises(Crash):
            train(tmp_path / "shaken")
    shaken = train(tmp_path / "shaken")
    assert [name for name in calm if not torch.equal(calm[name], shaken[name])] == []
    assert not list((tmp_path / "shaken").rglob("*.part"))


def test_a_run_in_memory_trains_as_a_run_in_a_folder(tmp_path: Path) -> None:
    in_folder = train(tmp_path)
    holdings = small_holdings(2, bottom="small_models:dropout_bottom", epochs=3)
    active, _ = assemble(holdings)
    Training(active, holdings.rows, holdings.config.train, labels=4).run()
    for name, tensor in active.top.module.state_dict().items():
        assert torch.equal(tensor, in_folder[f"top/{name}"])
