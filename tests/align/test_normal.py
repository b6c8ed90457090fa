"""One form of an id for everybody, worked by hand and in general."""

from __future__ import annotations

import hashlib
import logging
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unlabel.align import People, match_ids
from unlabel.align.normal import digest_of, forms_of, in_order, normalise, normalise_all
from unlabel.align.store import FILE, StoredAlignment, read
from unlabel.config import AlignSettings
from unlabel.errors import DataError, SettingsError

SETTINGS = [
    AlignSettings(trim=trim, case=case, unicode=form)
    for trim in ("ends", "all")
    for case in ("keep", "fold")
    for form in ("NFC", "NFKC", "none")
]


@given(st.lists(st.text(st.sampled_from("aA7 \t\u00e5A\u030a\u00a0\ufb01"))))
def test_all_ids_have_the_form_that_each_has_alone(texts: list[str]) -> None:
    for settings in SETTINGS:
        forms = [normalise(text, settings) for text in texts]
        assert forms_of(texts, settings) == forms
        assert forms_of(np.array(texts, dtype=object), settings) == forms


def test_rows_in_one_order_are_matched_as_rows_in_another_are() -> None:
    ids = np.array(["b", "a", "c"])
    same = match_ids({"bank": ids, "shop": ids.copy()})
    assert {party: rows.tolist() for party, rows in same.items()} == {
        "bank": [0, 1, 2], "shop": [0, 1, 2]
    }  # fmt: skip
    turned = match_ids({"bank": ids, "shop": ids[::-1]})
    assert {party: rows.tolist() for party, rows in turned.items()} == {
        "bank": [0, 1, 2], "shop": [2, 1, 0]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "text", "form"),
    [
        ({}, "  007\t", "007"),
        ({}, "Ann@Example.org", "Ann@Example.org"),
        ({"case": "fold"}, "Ann@Example.org", "ann@example.org"),
        ({"case": "fold"}, "STRASSE", "strasse"),
        ({"case": "fold"}, "Straße", "strasse"),
        ({}, "Ame\u0301lie", "Am\u00e9lie"),
        ({"unicode": "none"}, "Ame\u0301lie", "Ame\u0301lie"),
        ({}, "\uff10\uff10\uff17", "\uff10\uff10\uff17"),
        ({"unicode": "NFKC"}, "\uff10\uff10\uff17", "007"),
        ({}, "DE 89 37", "DE 89 37"),
        ({"trim": "all"}, " DE 89\u00a037 ", "DE8937"),
    ],
)
def test_a_form_worked_by_hand(settings: dict[str, str], text: str, form: str) -> None:
    assert normalise(text, AlignSettings(**settings)) == form  # type: ignore[arg-type]


@given(st.text(max_size=12), st.sampled_from(SETTINGS))
def test_a_form_is_its_own_form(text: str, settings: AlignSettings) -> None:
    once = normalise(text, settings)
    assert normalise(once, settings) == once


def test_ids_that_become_the_same_are_refused_with_one_example() -> None:
    ids = ["Ann", "bob", "ANN", "Bob", "eve"]
    assert normalise_all(ids, AlignSettings()) == ids
    with pytest.raises(DataError) as caught:
        normalise_all(ids, AlignSettings(case="fold"), "customer")
    said = str(caught.value)
    assert "Column 'customer': 2 ids are the same as another one" in said
    assert "'ann'" in said
    assert "bob" not in said


@pytest.mark.parametrize(("text", "why"), [(" \u3000", "has no id"), ("a\ud800", "half a char")])
def test_an_id_that_is_none_is_named_by_its_row(text: str, why: str) -> None:
    with pytest.raises(DataError, match=f"row 2.*{why}|{why}.*row 2"):
        normalise_all(["a", text], AlignSettings())


def test_a_digest_worked_by_hand() -> None:
    data = (1).to_bytes(8, "big") + b"a" + (2).to_bytes(8, "big") + "é".encode()
    assert digest_of(["a", "é"]) == hashlib.sha256(data).hexdigest()
    assert digest_of(["ab", "c"]) != digest_of(["a", "bc"])


def test_the_order_is_that_of_code_points() -> None:
    assert in_order(["é", "z", "Z", "10", "9"], range(5)).tolist() == [3, 4, 2, 1, 0]


@pytest.mark.parametrize("smallest", [0, -1])
def test_at_least_one_row_must_be_common(smallest: int) -> None:
    with pytest.raises(SettingsError, match=r"align\.smallest"):
        AlignSettings(smallest=smallest)


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "private_set_intersection", None)
    monkeypatch.setitem(sys.modules, "private_set_intersection.python", None)
    with pytest.raises(SettingsError, match=r"pip install 'unlabel\[federation\]'"):
        People(["a"])


# --- on disk -------------------------------------------------------------------------------


def keep(folder: Path, positions: list[int]) -> StoredAlignment:
    kept = StoredAlignment(
        "own", "common", np.array(positions, dtype=np.int64), {"sizes": {"shop": 3}}
    )
    kept.write(folder)
    return kept


def test_what_was_kept_is_found_and_is_nobody_elses(tmp_path: Path) -> None:
    kept = keep(tmp_path, [2, 0])
    found = read(tmp_path, "own", 3)
    assert found is not None
    assert (found.ids_digest, found.digest) == (kept.ids_digest, kept.digest)
    assert found.facts == kept.facts
    assert found.positions.tolist() == [2, 0]
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert read(None, "own", 3) is None
    assert read(tmp_path / "elsewhere", "own", 3) is None


@pytest.mark.parametrize(
    ("positions", "rows", "damage", "said"),
    [
        ([2, 0], 3, "", ""),
        ([2, 0], 2, "", "damaged"),
        ([0, -1], 3, "", "damaged"),
        ([1, 1], 3, "", "damaged"),
        ([], 3, "", "damaged"),
        ([2, 0], 3, "cut", "damaged"),
        ([2, 0], 3, "other", "made for other ids"),
    ],
)
def test_what_does_not_fit_is_not_taken_up(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    positions: list[int],
    rows: int,
    damage: str,
    said: str,
) -> None:
    keep(tmp_path, positions)
    if damage == "cut":
        path = tmp_path / FILE
        path.write_bytes(path.read_bytes()[:-5])
    found = read(tmp_path, "another" if damage == "other" else "own", rows)
    assert (found is None) == bool(said)
    assert said in caplog.text
    assert not caplog.records or caplog.records[0].levelno == logging.WARNING
