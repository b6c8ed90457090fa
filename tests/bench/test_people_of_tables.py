"""The bench `people` on a table of two labels in one file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from unlabel_bench.comparison import people
from unlabel_bench.comparison.people import PAPER, accuracies_of_strangers
from unlabel_bench.drawing import can_draw
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import BENCHES

from unlabel.config import Columns
from unlabel.errors import DataError


def write(folder: Path, rows: int = 900) -> None:
    rng = np.random.default_rng(0)
    job = rng.choice(["cook", "nurse", "judge"], rows)
    age = rng.normal(50, 10, rows)
    code = rng.integers(1, 4, rows)
    y = np.where((age - 50) / 10 + (job == "judge") + (code == 2) > 0.6, "good", "bad")
    table = pd.DataFrame({"key": range(rows), "job": job, "age": age, "code": code, "y": y})
    table.to_csv(folder / "people.csv", index=False)


def settings(folder: Path, **changes: object) -> people.PeopleSettings:
    given = {"rows": 300, "strangers": 200, "listed": 10, "requests": 1, "seeds": (0,), **changes}
    return people.PeopleSettings(
        data="people.csv",
        folder=str(folder),
        columns=("label=y", "id=key", "categories=job+code"),
        model="mlp",
        epochs=6,
        **given,  # type: ignore[arg-type]
    )


def test_people_of_a_binary_table_are_judged_and_written_down(tmp_path: Path) -> None:
    write(tmp_path)
    picture = str(tmp_path / "people.png") if can_draw() else ""
    asked = settings(tmp_path, page=str(tmp_path / "people.md"), picture=picture, note="A note.")
    result = BENCHES.get("people").run(asked, lambda _: None)
    assert [result["kinds"][kind]["forgotten"]["people"] for kind in people.KINDS] == [2, 2, 6]
    # By hand: the points lost are the difference of the two accuracies, in points.
    right = {name: result["accuracy"][name]["mean"] for name in result["accuracy"]}
    for name in ("retrained", "forgotten"):
        lost = 100 * (right["original"] - right[name])
        assert result["lost_points"][name]["mean"] == pytest.approx(lost)
    assert right["original"] > 0.7
    page = (tmp_path / "people.md").read_text()
    assert PAPER in page
    assert "A note." in page
    assert f"| original | {accuracies_of_strangers(result)[1][1]} |" in page
    assert not picture or Path(picture).stat().st_size > 1000


def test_a_list_of_columns_is_written_with_a_plus() -> None:
    recipe = Recipe(data="people.csv", columns=("label=y", "categories=job+code", "missing=flag"))
    assert recipe.config(0).columns == Columns(
        label="y", categories=("job", "code"), missing="flag"
    )


def test_too_few_people_are_told(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(DataError):
        BENCHES.get("people").run(settings(tmp_path, rows=400), lambda _: None)
