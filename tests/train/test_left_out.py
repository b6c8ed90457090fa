"""New rows that not every party has: whose rows are missing is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from unlabel import Federation
from unlabel.config.loader import parse_run
from unlabel.errors import DataError
from unlabel.train.tables import match_tables


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    folder = tmp_path_factory.mktemp("tables")
    ids = [f"c{n}" for n in range(40)]
    x = [float(n % 7) for n in range(40)]
    pd.DataFrame({"id": ids, "x": x, "y": [n % 2 for n in range(40)]}).to_csv(
        folder / "bank.csv", index=False
    )
    for name in ("shop", "gym"):
        pd.DataFrame({"id": ids, "z": x}).to_csv(folder / f"{name}.csv", index=False)
    raw = {
        "active": {"table": str(folder / "bank.csv"), "label": "y"},
        "passive": [
            {"name": "shop", "table": str(folder / "shop.csv")},
            {"name": "gym", "table": str(folder / "gym.csv"), "missing": "drop"},
        ],
        "train": {"epochs": 1, "batch": 16},
    }
    federation = Federation.create(parse_run(raw, "x"))
    federation.train()
    return federation


def write(folder: Path, **people: list[str]) -> dict[str, Path]:
    paths = {}
    for party, ids in people.items():
        paths[party] = folder / f"{party}.csv"
        column = "x" if party == "active" else "z"
        pd.DataFrame({"id": ids, column: range(len(ids))}).to_csv(paths[party], index=False)
    return paths


def test_each_party_is_named_with_the_rows_it_lacks(trained: Federation, tmp_path: Path) -> None:
    # Rows that only a passive party has were not asked for.
    paths = write(tmp_path, active=["a", "b", "c", "d"], shop=["c", "a", "s"], gym=["a", "b", "c"])
    found = trained.predict(tables=paths)
    assert found.ids.tolist() == ["a", "c"]
    assert found.unknown == 2
    assert found.notes == (
        "Party 'shop' has no row for 2 of the 4 ids of 'active' (b, d).",
        "Party 'gym' has no complete row for 1 of the 4 ids of 'active' (d).",
    )


def test_where_the_label_holder_has_no_table_all_ids_are_asked_for(
    trained: Federation, tmp_path: Path
) -> None:
    config = trained.config
    assert config.active is not None
    alone = replace(config, active=replace(config.active, features="none"))
    paths = write(tmp_path, shop=["a", "b", "c"], gym=["c", "a", "g"])
    tables = match_tables(alone, paths, trained.holdings.encodings)
    assert [table.left_out for table in tables.values()] == [2, 2]
    assert [note for table in tables.values() for note in table.notes()] == [
        "Party 'shop' has no row for 1 of the 4 ids of the new tables (g).",
        "Party 'gym' has no complete row for 1 of the 4 ids of the new tables (b).",
    ]


def test_of_many_missing_rows_the_first_are_shown(trained: Federation, tmp_path: Path) -> None:
    many = [f"{'n' * 50}{n}" for n in range(7)]
    paths = write(tmp_path, active=["a", *many], shop=["a", *many], gym=["a"])
    (note,) = trained.predict(tables=paths).notes
    assert "no complete row for 7 of the 8 ids" in note
    assert note.endswith(f"({', '.join(['n' * 40] * 5)}, ...).")


def test_nothing_is_said_where_all_rows_are_there(trained: Federation, tmp_path: Path) -> None:
    found = trained.predict(tables=write(tmp_path, active=["a"], shop=["a"], gym=["a"]))
    assert (found.unknown, found.notes) == (0, ())


@pytest.mark.parametrize(
    ("shop", "gym", "said"),
    [
        (["x"], ["a"], "'shop' has none of the 2 ids of 'active', such as 'a'; check"),
        (["x"], ["x"], "'shop' and 'gym' have none of the 2 ids of 'active'"),
        (["a"], ["b"], "of the 2 ids of 'active', 'shop' has 1, 'gym' has 1, but none is in all"),
    ],
)
def test_where_no_row_is_common_the_party_that_lacks_them_is_named(
    trained: Federation, tmp_path: Path, shop: list[str], gym: list[str], said: str
) -> None:
    paths = write(tmp_path, active=["a", "b"], shop=shop, gym=gym)
    with pytest.raises(DataError, match=said) as caught:
        match_tables(trained.config, paths, trained.holdings.encodings)
    assert "have no id in common" in str(caught.value)
