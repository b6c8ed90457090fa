"""What a partner finds by its own old bottom, on rows moved on purpose; what is kept in a file."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from sklearn.metrics import roc_auc_score

from unlabel.audit import Observation, ObservedRows
from unlabel.audit.attacks.moved_rows import moved_attacks
from unlabel.audit.observation import read_observation, write_observation
from unlabel.errors import RunError
from unlabel.files import sha256

NAMES = ("a", "b", "c")
MADE_FROM = {"recipe": "0f" * 32, "seed": "1"}


def part(seed: int, rows: int = 60) -> ObservedRows:
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % len(NAMES)
    logits = torch.randn(rows, len(NAMES), generator=random)
    embeddings = {
        name: torch.randn(rows, 4, generator=random) + 3 for name in ("active", "host", "other")
    }
    return ObservedRows(labels, logits, logits + 1, embeddings)


def moved(seen: Observation, party: str, by: torch.Tensor) -> Observation:
    """Return the same model with one party's training rows moved."""
    embeddings = {**seen.train.embeddings, party: seen.train.embeddings[party] + by}
    return replace(seen, train=replace(seen.train, embeddings=embeddings))


@pytest.fixture
def seen() -> Observation:
    return Observation(part(0), part(1, 30), NAMES)


def test_where_nothing_moved_every_attack_is_a_guess(seen: Observation) -> None:
    found = moved_attacks(seen, seen, [1])
    assert [each.name.split(":")[0] for each in found] == ["host", "host", "other", "other"]
    for each in found:
        assert (each.value, each.low, each.high, each.chance) == (0.5, 0.5, 0.5, 0.5)


def test_rows_that_move_alone_are_found_and_only_by_their_party(seen: Observation) -> None:
    ours = (seen.train.labels == 1)[:, None].float()
    after = moved(seen, "host", ours * torch.tensor([1.0, -2.0, 0.0, 1.0]))
    values = {each.name: each.value for each in moved_attacks(seen, after, [1])}
    assert [v for name, v in values.items() if name.startswith("host")] == [1.0, 1.0]
    assert [v for name, v in values.items() if name.startswith("other")] == [0.5, 0.5]
    # Where all others move and these do not, they stand below everybody else.
    away = moved(seen, "host", (1 - ours) * torch.tensor([1.0, -2.0, 0.0, 1.0]))
    assert moved_attacks(seen, away, [1])[0].value == pytest.approx(0, abs=1e-12)


def test_the_area_is_that_of_another_implementation(seen: Observation) -> None:
    noise = torch.randn(60, 4, generator=torch.Generator().manual_seed(5))
    after = moved(seen, "other", noise)
    old, new = (s.train.embeddings["other"].double() for s in (seen, after))
    length = (new - old).norm(dim=1) / old.norm(dim=1)
    found = moved_attacks(seen, after, [0, 2])[2]
    assert found.value == pytest.approx(roc_auc_score(seen.train.labels != 1, length))
    low, value, high = found.low, found.value, found.high
    assert None not in (low, value, high)
    assert low < value < high  # type: ignore[operator]


def test_without_rows_of_both_kinds_there_is_no_attack(seen: Observation) -> None:
    assert moved_attacks(seen, seen, [0, 1, 2]) == []
    others = replace(seen, train=seen.train.without([1]))
    assert moved_attacks(others, others, [1]) == []


def test_what_was_seen_comes_back_from_its_file(seen: Observation, tmp_path: Path) -> None:
    path = tmp_path / "0.safetensors"
    write_observation(path, seen, MADE_FROM)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    restored, content = read_observation(path, NAMES, MADE_FROM)
    assert content == sha256(save(load_file(path)))
    assert restored.names == NAMES
    for name in ("train", "test"):
        was, now = getattr(seen, name), getattr(restored, name)
        for kind in ("labels", "logits", "scores"):
            assert torch.equal(getattr(was, kind), getattr(now, kind))
        assert was.embeddings.keys() == now.embeddings.keys()
        assert all(torch.equal(was.embeddings[p], now.embeddings[p]) for p in was.embeddings)


def test_a_file_that_was_changed_is_named(seen: Observation, tmp_path: Path) -> None:
    path = tmp_path / "0.safetensors"
    write_observation(path, seen, MADE_FROM)
    whole = path.read_bytes()
    for damaged in (b"", whole[:200], whole[:-8], whole.replace(b"test/scores", b"test/scorns")):
        path.write_bytes(damaged)
        with pytest.raises(RunError):
            read_observation(path, NAMES, MADE_FROM)


def test_a_model_of_another_recipe_or_seed_or_with_other_content_is_named(
    seen: Observation, tmp_path: Path
) -> None:
    path = tmp_path / "0.safetensors"
    for noted in ({**MADE_FROM, "seed": "2"}, {**MADE_FROM, "recipe": "00" * 32}, {}):
        write_observation(path, seen, noted)
        with pytest.raises(RunError, match="by this recipe and from this seed; remove the file"):
            read_observation(path, NAMES, MADE_FROM)
    write_observation(path, seen, MADE_FROM)
    with safe_open(path, "pt") as file:
        noted = file.metadata()
    # The same sizes and the same words at its head, but one other score.
    tensors = load_file(path)
    tensors["test/scores"][0, 0] += 1
    path.write_bytes(save(tensors, noted))
    with pytest.raises(RunError, match="is not what an audit kept of a model retrained"):
        read_observation(path, NAMES, MADE_FROM)
    path.write_bytes(save(tensors))  # as earlier versions wrote it, with nothing at its head
    with pytest.raises(RunError, match="is not what an audit kept of a model retrained"):
        read_observation(path, NAMES, MADE_FROM)
