"""The bench `people` on a table of two labels in one file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from unlabel_bench.comparison import people
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import BENCHES

from unlabel.config import Columns
from unlabel.errors import DataError, SettingsError


def write(folder: Path, rows: int = 900) -> None:
    rng = np.random.default_rng(0)
    job = rng.choice(["cook", "nurse", "judge"], rows)
    age = rng.normal(50, 10, rows)
    code = rng.integers(1, 4, rows)
    y = np.where((age - 50) / 10 + (job == "judge") + (code == 2) > 0.6, "good", "bad")
    table = pd.DataFrame({"key": range(rows), "job": job, "age": age, "code": code, "y": y})
    table.to_csv(folder / "people.csv", index=False)


def settings(folder: Path, **changes: object) -> people.PeopleSettings:
    given = {"rows": 400, "singles": 2, "group": 8, "models": 2, "epochs": 6, **changes}
    table = "people.csv:label=y:id=key:categories=code:holder=age"
    return people.PeopleSettings(tables=(table,), folder=str(folder), **given)  # type: ignore[arg-type]


def test_single_people_and_a_group_are_judged_beside_retrained_models(tmp_path: Path) -> None:
    write(tmp_path)
    asked = settings(tmp_path, page=str(tmp_path / "people.md"))
    result = BENCHES.get("people").run(asked, lambda _: None)
    found = result["tables"]["people"]
    assert (found["single"]["people"], found["group"]["people"]) == (2, 8)
    assert len(found["group"]["retrained"]) == 2
    # They are named by absence: no gradient comes for them, and nobody asks for them.
    assert found["named"] == {"gradients": 0.0, "asked": 1.0}
    assert found["seconds"]["training"] > 0
    page = (tmp_path / "people.md").read_text()
    assert "They are named by absence" in page
    assert [row[0] for row in people.table(result)] == ["table", "people", "people"]


def test_wrong_labels_are_known_by_id_in_every_part(tmp_path: Path) -> None:
    write(tmp_path)
    asked = settings(tmp_path, epochs=1, wrong=0.25)
    table = next(people._read(asked))
    world = people.draw_world(table, asked)
    truth = dict(zip(table.frames["holder"]["id"].tolist(), table.labels.tolist(), strict=True))
    held = world.original.holdings
    assert len(world.wrong) == pytest.approx(100, abs=25)
    for part in ("train", "test"):
        wrong = set(world.rows(part, wrong=True).tolist())
        for row in world.rows(part, wrong=False).tolist():
            name = held.names[held.labels[row]]
            assert (name != truth[str(held.ids[row])]) == (row in wrong)


def test_distances_by_hand() -> None:
    retrained = torch.tensor([[0.2, 0.9], [0.4, 0.9], [0.6, 0.9]])
    found = people.distances(torch.tensor([1.0, 0.9]), torch.tensor([0.5, 0.8]), retrained)
    assert found["before"]["mean"] == pytest.approx((0.6 + 0.0) / 2)
    assert found["after"]["mean"] == pytest.approx((0.1 + 0.1) / 2)
    # 0.2 is 0.3 from the others' mean, 0.4 on it, 0.6 as far as 0.2.
    assert found["noise"] == pytest.approx({"mean": 0.1, "most": 0.2})


def test_a_goal_that_seeds_alone_miss_is_missed_with_that_reason() -> None:
    def single(after: float, noise: float) -> str:
        return people.reached({"after": {"mean": after}, "noise": {"mean": noise}})

    assert single(0.03, 0.2) == "reached"
    assert "0.075 apart themselves" in single(0.06, 0.075)
    assert single(0.06, 0.02) == "missed"
    assert people.group_reached({"after": 0.55, "retrained": [0.5, 0.52]}) == "reached"
    assert people.group_reached({"after": 0.6, "retrained": [0.5, 0.52]}) == "missed"


def test_a_list_of_columns_is_written_with_a_plus() -> None:
    recipe = Recipe(data="people.csv", columns=("label=y", "categories=job+code", "missing=flag"))
    assert recipe.config(0).columns == Columns(
        label="y", categories=("job", "code"), missing="flag"
    )


def test_too_few_people_are_told(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(DataError):
        BENCHES.get("people").run(settings(tmp_path, rows=1000), lambda _: None)
    with pytest.raises(SettingsError):
        settings(tmp_path, models=1)
