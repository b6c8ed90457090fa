"""The registry: one name, one thing, found in the files of a package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unlabel.errors import SettingsError
from unlabel.registry import Registry


@pytest.fixture
def cupboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a package with a registry in one file and things in others."""
    folder = tmp_path / "cupboard"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "__main__.py").write_text("raise SystemExit('a program was imported')\n")
    (folder / "shelf.py").write_text(
        "from unlabel.registry import Registry\nSHELF = Registry('cup', package='cupboard')\n"
    )
    (folder / "blue.py").write_text("from cupboard.shelf import SHELF\nSHELF.add('blue', 1)\n")
    (folder / "green.py").write_text(
        "from cupboard.shelf import SHELF\n\n@SHELF.register('green')\ndef green():\n    return 2\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("cupboard", "cupboard.shelf", "cupboard.blue", "cupboard.green", "cupboard.red"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def cups() -> Registry[object]:
    from cupboard.shelf import SHELF  # type: ignore[import-not-found]

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
    with pytest.raises(SettingsError, match=r"'red'"):
        registry.add("red", 7)
    with pytest.raises(SettingsError, match="called 'red'"):
        registry.register("red")(7)
    assert registry.get("red") == 0


def test_a_new_file_in_the_room_is_enough(cupboard: Path) -> None:
    (cupboard / "red.py").write_text("from cupboard.shelf import SHELF\nSHELF.add('red', 3)\n")
    assert cups().names() == ["blue", "green", "red"]
    assert cups().get("red") == 3


def test_files_are_read_only_once_somebody_asks(cupboard: Path) -> None:
    registry = cups()
    assert "cupboard.blue" not in sys.modules
    assert "blue" in registry
    assert "cupboard.blue" in sys.modules
    assert registry.names() == ["blue", "green"]


def test_two_files_cannot_claim_one_name(cupboard: Path) -> None:
    (cupboard / "red.py").write_text("from cupboard.shelf import SHELF\nSHELF.add('blue', 3)\n")
    with pytest.raises(SettingsError, match="Two cups are called 'blue'"):
        cups().names()


def test_a_file_that_cannot_be_imported_is_not_passed_over(cupboard: Path) -> None:
    broken = cupboard / "red.py"
    broken.write_text("# red\nimport surely_not_installed\n")
    for _ in range(2):
        with pytest.raises(SettingsError) as caught:
            cups().get("blue")
        assert str(caught.value).startswith(f"{broken}, line 2 cannot be imported (No module named")
        assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    broken.write_text("def red(:\n")
    with pytest.raises(SettingsError, match=r"red.py cannot be imported \(SyntaxError: .*line 1\)"):
        cups().get("blue")


def test_another_distribution_adds_things_by_an_entry_point(
    cupboard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = cupboard.parent / "extra-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[cups]\nours = cupboard\n")
    monkeypatch.delitem(sys.modules, "unlabel.wire", raising=False)
    registry: Registry[object] = Registry("cup", package="unlabel.wire", plugins="cups")
    assert registry.names() == []  # its files were imported, and registered elsewhere
    assert "cupboard.blue" in sys.modules


def test_one_more_package_is_searched(cupboard: Path) -> None:
    (cupboard / "red.py").write_text("from cupboard.shelf import OTHERS\nOTHERS.add('red', 3)\n")
    text = (cupboard / "shelf.py").read_text()
    (cupboard / "shelf.py").write_text(text + "OTHERS = Registry('jug', package='unlabel.wire')\n")
    from cupboard.shelf import OTHERS

    assert "red" not in OTHERS
    OTHERS.search("cupboard")
    assert OTHERS.names() == ["red"]
