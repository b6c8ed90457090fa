"""The names that code uses: the field's words, and nouns that say what a variable holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: What reads files of older versions, and what makes them with 0.6.0, may use their words.
READERS = ("compat.py", "make_v0_6.py")
#: Names of earlier versions, which now have a name of the field's.
OLD = {
    *("FarFederation", "far", "lasting", "take_up", "catch_up", "come_back"),
    *("Office", "office", "Courier", "courier", "Neighbours", "neighbours", "House", "house"),
    *("houses", "standin", "StandIns", "StandInTransport", "Asked", "meeting"),
    *("Lookout", "lookout", "WatchSettings", "Lesson", "lesson", "Shots", "shots"),
    *("Weigh", "Track", "Keep", "Tune", "Draft", "Rewrite", "Standing"),
    *("wreck", "drift", "again", "reveal", "settle", "gone", "shelf"),
    *("Level", "LEVELS", "level_of", "late_parties", "late_rule", "Lateness"),
}
#: Words that say nothing of what a variable holds.
EMPTY = {"said", "told", "found", "made", "own"}


def identifiers(source: str) -> Iterator[tuple[int, str]]:
    """Yield every identifier of a source with its line: names, arguments, attributes, keywords."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield node.lineno, name
            case ast.keyword(arg=str(name)) | ast.alias(name=name):
                yield node.lineno, name.rpartition(".")[2]
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name


def offences(path: Path, words: set[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for line, name in identifiers(path.read_text(encoding="utf-8"))
        if name in words
    ]


def sources(folder: str) -> list[Path]:
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if path.name not in READERS]


FOLDERS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "src/unlabel").iterdir())
PARTS = [*(folder for folder in FOLDERS if (ROOT / folder / "__init__.py").exists()), "bench"]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_has_no_old_names_and_variables_are_nouns(part: str) -> None:
    lines = [line for path in sources(part) for line in offences(path, OLD | EMPTY)]
    assert lines == [], "use the field's word, or a noun that says what the variable holds"


def test_the_modules_in_front_have_no_old_names() -> None:
    front = [path for path in (ROOT / "src/unlabel").glob("*.py") if path.name not in READERS]
    assert [line for path in front for line in offences(path, OLD | EMPTY)] == []


def test_tests_have_no_old_names() -> None:
    assert [line for path in sources("tests") for line in offences(path, OLD)] == []


def test_an_old_name_is_noticed_wherever_it_stands() -> None:
    source = "from a import shelf\ndef gone(found, *, x=1):\n    return x.told(own=found)\n"
    assert {name for _, name in identifiers(source)} >= {"shelf", "gone", "found", "told", "own"}
