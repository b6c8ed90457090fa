"""The page of related work is true: written from its data, and at one with the methods here."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from unlabel_bench.paper.related_work import read, table

from unlabel.errors import DataError
from unlabel.forget import METHODS

ROOT = Path(__file__).parent.parent.parent
HEAD = "name,year,reference,setting,target,kind,protects,note,unlabel,printed"


def tool() -> ModuleType:
    """Return the tool that writes the page."""
    path = ROOT / "tools" / "related_work.py"
    spec = importlib.util.spec_from_file_location("related_work_page", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_changed_page_is_noticed() -> None:
    text = (ROOT / "docs" / "related-work.md").read_text(encoding="utf-8")
    changed = text.replace("| FedEraser | 2021 |", "| FedEraser | 1999 |")
    assert changed != text
    assert tool().fill(changed) == text


OURS = [work.unlabel for work in table() if work.unlabel]


def test_what_the_table_names_is_there_and_stands_in_it_once() -> None:
    assert len(OURS) == len(set(OURS))
    assert set(OURS) <= set(METHODS.names())
    names = [work.name for work in table()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", OURS)
def test_only_what_is_hidden_by_its_mode_is_said_to_protect(name: str) -> None:
    (work,) = [work for work in table() if work.unlabel == name]
    assert (work.protects == "yes") == (METHODS.get(name)().visibility == "hidden")
    assert (work.kind == "exact") == (name == "retrain")
    assert (work.kind == "control") == (name == "mask")


def test_the_papers_own_table_is_whole() -> None:
    # Counted in the paper: 14 horizontal and 5 vertical methods, of which 3 are called exact.
    printed = [work for work in table() if work.printed]
    settings = [work.setting for work in printed]
    assert (settings.count("horizontal"), settings.count("vertical")) == (14, 5)
    exact = [work.name for work in printed if work.kind == "exact"]
    assert exact == ["FedEraser", "Rapid Retraining", "Fast Retraining"]
    assert [work.unlabel for work in printed if work.unlabel] == ["mixup-ascent"]


def test_a_claim_that_differs_from_the_papers_says_so() -> None:
    (theirs,) = [work for work in table() if work.unlabel == "mixup-ascent"]
    assert theirs.protects == "no"
    assert theirs.note.startswith("the paper says yes")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("A,2020,,diagonal,class,exact,no,,,no", "`setting` of 'A'.*found 'diagonal'"),
        ("A,2020,,vertical,class,perfect,no,,,no", "`kind` of 'A'.*found 'perfect'"),
        ("A,2020,,vertical,class,exact,maybe,,,no", "`protects` of 'A'.*found 'maybe'"),
        ("A,2020,,vertical,class,exact,no,,,", "`printed` of 'A'.*found ''"),
    ],
)
def test_a_word_that_is_none_of_the_columns_is_refused(line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read([HEAD, line])


def test_other_columns_are_refused() -> None:
    with pytest.raises(DataError):
        read(["name,when", "A,2020"])
