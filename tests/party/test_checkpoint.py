"""A checkpoint is whole and its owner's, or it is refused by name."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch

from unlabel.errors import CheckpointError
from unlabel.party import CheckpointStore


def make_store(
    folder: Path, party: str = "host", model: str = "mlp on rows of [3]"
) -> CheckpointStore:
    return CheckpointStore(folder, party=party, model=model)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = make_store(tmp_path)
    tensors = {
        "model/w": torch.randn(3, 4),
        "model/n": torch.tensor(7),
        "bf": torch.ones(2).bfloat16(),
    }
    store.save(5, tensors, {"epoch": 5})
    return tmp_path


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    tensors = {"a/b": torch.randn(2, 3), "c": torch.arange(4), "empty": torch.empty(0, 2)}
    make_store(tmp_path).save(1, tensors, {"history": [1.5, None]})
    found, facts = make_store(tmp_path).load(1)
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    assert facts == {"history": [1.5, None]}


def test_tied_weights_are_kept(tmp_path: Path) -> None:
    shared = torch.randn(4)
    make_store(tmp_path).save(1, {"a": shared, "b": shared[:2]}, {})
    found, _ = make_store(tmp_path).load(1)
    assert torch.equal(found["b"], shared[:2])


def test_every_truncation_is_refused_by_name(folder: Path) -> None:
    path = folder / "versions" / "000005.safetensors"
    data = path.read_bytes()
    for size in (0, 1, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(CheckpointError):
            make_store(folder).load(5)


def test_every_changed_byte_of_either_file_is_refused_by_name(folder: Path) -> None:
    draw = random.Random(0)
    for name in ("000005.safetensors", "000005.json"):
        path = folder / "versions" / name
        data = path.read_bytes()
        for position in draw.sample(range(len(data)), 60):
            changed = bytearray(data)
            changed[position] ^= 1 << draw.randrange(7)
            if name.endswith(".json") and _same_json(bytes(changed), data):
                continue
            path.write_bytes(bytes(changed))
            with pytest.raises(CheckpointError, match="000005"):
                make_store(folder).load(5)
        path.write_bytes(data)
    make_store(folder).load(5)


def _same_json(one: bytes, other: bytes) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def test_a_checkpoint_of_another_party_model_or_version_is_refused_by_name(folder: Path) -> None:
    with pytest.raises(CheckpointError, match=r"'host'"):
        make_store(folder, party="bank").load(5)
    with pytest.raises(CheckpointError, match=r"'convnet'"):
        make_store(folder, model="convnet").load(5)
    for suffix in ("json", "safetensors"):
        source = folder / "versions" / f"000005.{suffix}"
        source.rename(source.with_name(f"000006.{suffix}"))
    with pytest.raises(CheckpointError):
        make_store(folder).load(6)


def test_a_missing_file_is_refused_by_name(folder: Path) -> None:
    (folder / "versions" / "000005.safetensors").unlink()
    with pytest.raises(CheckpointError):
        make_store(folder).load(5)
    with pytest.raises(CheckpointError):
        make_store(folder).load(9)


def test_a_schema_of_the_future_is_refused_with_both_numbers(folder: Path) -> None:
    path = folder / "versions" / "000005.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "schema": 99}))
    with pytest.raises(CheckpointError):
        make_store(folder).load(5)


def test_a_version_without_its_manifest_does_not_exist(folder: Path) -> None:
    (folder / "versions" / "000005.json").unlink()
    assert make_store(folder).versions() == ()
