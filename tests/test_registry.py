"""The registry: one name, one thing, found in the files of a room."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unlabel.errors import SettingsError
from unlabel.registry import Registry


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a package `room` with a registry in one file and things in others."""
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "__main__.py").write_text("raise SystemExit('a program was imported')\n")
    (folder / "shelf.py").write_text(
        "from unlabel.registry import Registry\nSHELF = Registry('cup', package='room')\n"
    )
    (folder / "blue.py").write_text("from room.shelf import SHELF\nSHELF.add('blue', 1)\n")
    (folder / "green.py").write_text(
        "from room.shelf import SHELF\n\n@SHELF.register('green')\ndef green():\n    return 2\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("room", "room.shelf", "room.blue", "room.green", "room.red"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def shelf() -> Registry[object]:
    from room.shelf import SHELF  # type: ignore[import-not-found]

    assert isinstance(SHELF, Registry)
    return SHELF


def colours(*names: str) -> Registry[int]:
    registry: Registry[int] = Registry("colour", package="unlabel.wire")
    for number, name in enumerate(names):
        registry.add(name, number)
    return registry


def test_things_are_found_by_name() -> None:
    registry = colours("red", "blue")
    assert (registry.get("red"), registry.get("blue")) == (0, 1)
    assert registry.names() == ["blue", "red"]
    assert "red" in registry
    assert "green" not in registry
    assert None not in registry


def test_adding_returns_the_thing_itself() -> None:
    thing = object()
    registry: Registry[object] = Registry("thing", package="unlabel.wire")
    assert registry.add("one", thing) is thing
    assert registry.register("two")(thing) is thing
    assert registry.get("two") is thing


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rad", "Unknown colour 'rad'. Did you mean 'red'? Known: blue, red."),
        ("Blue", "Unknown colour 'Blue'. Did you mean 'blue'? Known: blue, red."),
        ("xyz", "Unknown colour 'xyz'. Known: blue, red."),
        ("", "Unknown colour ''. Known: blue, red."),
    ],
)
def test_an_unknown_name_gets_the_nearest_spelling_and_the_list(name: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        colours("red", "blue").get(name)
    assert str(caught.value) == message


def test_a_second_thing_of_the_same_name_is_refused() -> None:
    registry = colours("red")
    with pytest.raises(
        SettingsError, match=r"^Two colours are called 'red'; rename one of them\.$"
    ):
        registry.add("red", 7)
    with pytest.raises(SettingsError, match="called 'red'"):
        registry.register("red")(7)
    assert registry.get("red") == 0


def test_a_new_file_in_the_room_is_enough(room: Path) -> None:
    (room / "red.py").write_text("from room.shelf import SHELF\nSHELF.add('red', 3)\n")
    assert shelf().names() == ["blue", "green", "red"]
    assert shelf().get("red") == 3


def test_files_are_read_only_once_somebody_asks(room: Path) -> None:
    registry = shelf()
    assert "room.blue" not in sys.modules
    assert "blue" in registry
    assert "room.blue" in sys.modules
    assert registry.names() == ["blue", "green"]


def test_two_files_cannot_claim_one_name(room: Path) -> None:
    (room / "red.py").write_text("from room.shelf import SHELF\nSHELF.add('blue', 3)\n")
    with pytest.raises(SettingsError, match="Two cups are called 'blue'"):
        shelf().names()


def test_a_file_that_cannot_be_imported_is_not_passed_over(room: Path) -> None:
    (room / "red.py").write_text("import surely_not_installed\n")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="surely_not_installed"):
            shelf().get("blue")
