"""The rooms of the house: which may look into which, and what each needs to be installed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import unlabel

HOUSE = Path(unlabel.__file__).parent
#: A room may import the rooms before it, and itself.
ROOMS = (
    *("wire", "models", "data", "party", "align", "defend", "train", "forget", "audit", "report"),
    *("operate", "bench", "cli"),
)
#: What every room may import.
COMMON = {"errors", "registry", "files", "link", "words", "signing", "_version"}
#: The house's front: `import unlabel` itself, and the files it is made of.
FRONT = {"federation", "verification", "configfile", "runfolder", ""}
#: Rooms that may come in through the front; the front may look into all others.
GUESTS = {"operate", "bench", "cli"}
#: Files that only start a program.
DOORS = {"__init__", "__main__"}
#: Rooms that must work where little more than torch is installed, and what they may import.
LEAN = ("wire", "models", "party", "defend", "train", "forget", "bench")
LEAN_LIBRARIES = {"torch", "numpy", "safetensors", "sklearn", "unlabel"}
#: What a lean room may ask for where it is there: a bench to draw a picture, a model to encode
#: texts. `test_lean_rooms_work_without_the_heavy_libraries` sees that it is asked for only then.
IF_THERE = {"bench": {"matplotlib"}, "models": {"transformers", "tokenizers"}}
HEAVY = (
    "pydantic",
    "yaml",
    "typer",
    "rich",
    "pandas",
    "PIL",
    "pyarrow",
    "matplotlib",
    "cryptography",
    "transformers",
    "tokenizers",
)


def modules_named(source: str) -> Iterator[str]:
    """Name every module that a source imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full"
            # `from unlabel import wire` names the room in its second half.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts_of(source: str) -> set[str]:
    """Return the parts of the house that a source imports, by the name of the room or file."""
    known = {*ROOMS, *COMMON, *FRONT}
    found = set()
    for name in modules_named(source):
        head, _, rest = name.partition(".")
        if head == "unlabel":
            part = rest.split(".")[0]
            found.add(part if part in known else "")
    return found


def allowed(part: str) -> set[str]:
    """Return the parts of the house that one of them may import."""
    if part in COMMON:
        return COMMON
    if part in FRONT:
        # `Federation.connect` makes the federation of parties that live elsewhere.
        remote = {"operate"} if part == "federation" else set()
        return {*COMMON, *FRONT, *ROOMS} - GUESTS | remote
    before = {*ROOMS[: ROOMS.index(part) + 1], *COMMON}
    return before | FRONT if part in GUESTS else before


def sources(house: Path) -> Iterator[tuple[str, Path]]:
    """Yield every file with the part of the house it belongs to."""
    for path in sorted(house.rglob("*.py")):
        inside = path.relative_to(house)
        if len(inside.parts) > 1:
            yield inside.parts[0], path
        elif path.stem not in DOORS:
            yield path.stem, path


def offences(house: Path) -> list[str]:
    return [
        f"{path.relative_to(house)} imports {name or 'unlabel'}"
        for part, path in sources(house)
        for name in sorted(parts_of(path.read_text(encoding="utf-8")) - allowed(part))
    ]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def test_every_file_belongs_to_a_known_part_of_the_house() -> None:
    assert {part for part, _ in sources(HOUSE)} <= {*ROOMS, *COMMON, *FRONT}


def test_rooms_import_only_the_rooms_before_them() -> None:
    assert offences(HOUSE) == []


@pytest.mark.parametrize(
    ("file", "line", "found"),
    [
        ("wire/a.py", "import unlabel.party", "party"),
        ("wire/a.py", "from unlabel.models import build_top", "models"),
        ("models/a.py", "from unlabel import party", "party"),
        ("data/a.py", "def f():\n    from unlabel.party.policy import Policy", "party"),
        ("party/a.py", "from unlabel.train import batches", "train"),
        ("train/a.py", "from unlabel import Federation", "unlabel"),
        ("train/a.py", "import unlabel as ul", "unlabel"),
        ("train/a.py", "import unlabel.federation", "federation"),
        ("party/a.py", "from unlabel.configfile import dump_config", "configfile"),
        ("bench/a.py", "import unlabel.cli", "cli"),
        ("federation.py", "from unlabel.bench.registry import BENCHES", "bench"),
        ("errors.py", "from unlabel.wire import Message", "wire"),
    ],
)
def test_an_import_of_a_later_room_is_found(
    tmp_path: Path, file: str, line: str, found: str
) -> None:
    write(tmp_path / file, line)
    assert offences(tmp_path) == [f"{file} imports {found}"]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("party/a.py", "from unlabel.wire import Message\nfrom unlabel.data import Features"),
        ("bench/a.py", "from unlabel.federation import Federation"),
        ("cli/a.py", "from unlabel import Federation\nimport unlabel.configfile"),
        ("federation.py", "from unlabel.train import batches\nimport unlabel.configfile"),
        ("wire/a.py", "from unlabel.errors import WireError\nimport unlabel.wire.codec, torch"),
        ("__init__.py", "from unlabel.federation import Federation"),
    ],
)
def test_an_import_of_an_earlier_room_is_fine(tmp_path: Path, file: str, line: str) -> None:
    write(tmp_path / file, line)
    assert offences(tmp_path) == []


@pytest.mark.parametrize("room", LEAN)
def test_a_lean_room_names_no_other_library(room: str) -> None:
    files = list((HOUSE / room).rglob("*.py"))
    assert files
    for path in files:
        named = {name.split(".")[0] for name in modules_named(path.read_text(encoding="utf-8"))}
        optional = IF_THERE.get(room, set())
        assert named - sys.stdlib_module_names <= LEAN_LIBRARIES | optional, path


#: What a command that needs none of it must not wait for.
SLOW = {"sklearn", "scipy", "pandas", "pyarrow", "matplotlib", "transformers"}


def test_slow_libraries_are_imported_where_they_are_used() -> None:
    found = []
    for _, path in sources(HOUSE):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        at_once = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        named = modules_named("\n".join(map(ast.unparse, at_once)))
        slow = sorted({name.split(".")[0] for name in named} & SLOW)
        found += [f"{path.relative_to(HOUSE)} imports {name}" for name in slow]
    assert found == []


#: scikit-learn imports pandas and rich by itself where it finds them, so looking at `sys.modules`
#: would not tell who did. Here the heavy libraries cannot be found at all, and whoever asks is
#: noted.
PROGRAM = """
import importlib, json, sys

heavy, lean = json.loads(sys.argv[1])
asked = []

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in heavy:
            asked.append(name)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import numpy, safetensors.torch, sklearn.linear_model, torch
asked.clear()
for name in lean:
    importlib.import_module(name)
from unlabel.bench.registry import BENCHES
from unlabel.models import BOTTOMS
found = {"benches": BENCHES.names(), "models": BOTTOMS.names()}
print(json.dumps({"asked": asked, "loaded": [h for h in heavy if h in sys.modules], **found}))
"""


def test_lean_rooms_work_without_the_heavy_libraries(tmp_path: Path) -> None:
    modules = ["unlabel.federation", *(f"unlabel.{room}" for room in LEAN)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([HEAVY, modules])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["asked"], found["loaded"]) == ([], [])
    assert {"fuzz-wire", "split-overhead", "training"} <= set(found["benches"])
    assert {"convnet", "mlp", "resnet18", "vgg16"} <= set(found["models"])
