"""The packages of unlabel: which may import which, what each needs installed, and its size."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import unlabel

PACKAGE = Path(unlabel.__file__).parent
#: Each may import those before it, and itself.
ORDER = (
    *("config", "wire", "models", "data", "party", "align", "defend", "train", "forget", "audit"),
    *("report", "export", "remote", "serve", "desk", "cli"),
)
#: Modules that all may import.
SHARED = {
    *(
        "errors",
        "registry",
        "files",
        "link",
        "words",
        "signing",
        "text_encoding",
        "terms",
        "progress",
        "events",
    ),
    *("compat", "bench", "_version"),
}
#: `import unlabel` itself and the modules it is made of, which may import all but `LAST`.
ENTRY = {"federation", "verification", "runfolder", "unopened", "updating", ""}
#: Those that may import the entry modules.
LAST = {"remote", "serve", "desk", "cli"}
#: Files that only start a program.
STARTERS = {"__init__", "__main__"}
#: What must work where little more than torch is installed, and what it may import.
LEAN = ("config", "wire", "models", "party", "defend", "train", "forget", "audit")
LEAN_LIBRARIES = {"_typeshed", "torch", "numpy", "safetensors", "sklearn", "scipy", "unlabel"}
#: What a lean package may import where it is installed, or in the one module that needs it.
IF_THERE = {"models": {"transformers", "tokenizers", "skops", "threadpoolctl"}}
#: Reads settings; the second keeps YAML within bounds for it.
LOADER = {"config/loader.py", "config/plain_yaml.py"}
LOADER_LIBRARIES = {"pydantic", "yaml"}
#: The questions of a server come from outside too, and FastAPI reads them by pydantic.
ASKED = "serve/app.py"
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
    "fastapi",
    "uvicorn",
)


def modules_named(source: str) -> Iterator[str]:
    """Name every module that a source imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full"
            # `from unlabel import wire` names the package in its second half.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts_of(source: str) -> set[str]:
    """Return the packages and modules of unlabel that a source imports."""
    known = {*ORDER, *SHARED, *ENTRY}
    found = set()
    for name in modules_named(source):
        head, _, rest = name.partition(".")
        if head == "unlabel":
            part = rest.split(".")[0]
            found.add(part if part in known else "")
    return found


def allowed(part: str) -> set[str]:
    """Return what a package or module of unlabel may import."""
    if part in SHARED:
        return SHARED
    if part in ENTRY:
        # `Federation.connect` makes the federation of parties that live elsewhere, and
        # `Federation.serve` what answers for it.
        later = {"remote", "serve"} if part == "federation" else set()
        return {*SHARED, *ENTRY, *ORDER} - LAST | later
    before = {*ORDER[: ORDER.index(part) + 1], *SHARED}
    return before | ENTRY if part in LAST else before


def sources(package: Path) -> Iterator[tuple[str, Path]]:
    """Yield every file with the package or module it belongs to."""
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        if len(inside.parts) > 1:
            yield inside.parts[0], path
        elif path.stem not in STARTERS:
            yield path.stem, path


def offences(package: Path) -> list[str]:
    return [
        f"{path.relative_to(package)} imports {name or 'unlabel'}"
        for part, path in sources(package)
        for name in sorted(parts_of(path.read_text(encoding="utf-8")) - allowed(part))
    ]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def test_every_file_belongs_to_a_known_package() -> None:
    assert {part for part, _ in sources(PACKAGE)} <= {*ORDER, *SHARED, *ENTRY}


def test_a_package_imports_only_those_before_it() -> None:
    assert offences(PACKAGE) == []


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
        ("config/a.py", "from unlabel.wire import Message", "wire"),
        ("remote/a.py", "import unlabel.cli", "cli"),
        ("errors.py", "from unlabel.wire import Message", "wire"),
    ],
)
def test_an_import_of_a_later_package_is_found(
    tmp_path: Path, file: str, line: str, found: str
) -> None:
    write(tmp_path / file, line)
    assert offences(tmp_path) == [f"{file} imports {found}"]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("party/a.py", "from unlabel.wire import Message\nfrom unlabel.data import Features"),
        ("cli/a.py", "from unlabel import Federation\nimport unlabel.runfolder"),
        ("federation.py", "from unlabel.train import batches\nimport unlabel.runfolder"),
        ("wire/a.py", "from unlabel.errors import WireError\nimport unlabel.wire.codec, torch"),
        ("__init__.py", "from unlabel.federation import Federation"),
    ],
)
def test_an_import_of_an_earlier_package_is_fine(tmp_path: Path, file: str, line: str) -> None:
    write(tmp_path / file, line)
    assert offences(tmp_path) == []


@pytest.mark.parametrize("package", LEAN)
def test_a_lean_package_names_no_other_library(package: str) -> None:
    files = list((PACKAGE / package).rglob("*.py"))
    assert files
    for path in files:
        named = {name.split(".")[0] for name in modules_named(path.read_text(encoding="utf-8"))}
        is_loader = path.relative_to(PACKAGE).as_posix() in LOADER
        optional = LOADER_LIBRARIES if is_loader else IF_THERE.get(package, set())
        assert named - sys.stdlib_module_names <= LEAN_LIBRARIES | optional, path


def test_yaml_and_pydantic_are_known_to_the_loader_and_pydantic_to_what_is_asked() -> None:
    named = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for name in modules_named(path.read_text(encoding="utf-8"))
        if name.split(".")[0] in LOADER_LIBRARIES
    }
    assert named == {*LOADER, ASKED}


#: Lines of a file that is read from top to bottom; longer ones have one subject all the same.
LONG_FILE = 350
#: Of the whole package, since what measures it lies in bench/: 32,000, 2,000 for labels that can
#: be cleared and certificates that are bound to figures, and 6,500 for bottoms that never see a
#: label, with their own way to train, to forget and to prove it, and 1,000 for audits beside models
#: that never had a label, those of people too. And 1,400 for served predictions, and 1,000 for
#: running a party: health, metrics, logs, backups. And 6,200 for the erasure desk: cases, the two
#: persons, accounts, pages. And 400 for what stands between organisations without a table, and for
#: a line of every command, and 500 for tops that are exported, signed and revoked, and 400 for what
#: people stumbled over and what attacks on the connections between organisations showed, and 500
#: for what cold readings of the running of a party, the desk and the core found. What is added
#: makes room.
MOST_LINES = 56_500
LONG_FILES = {"federation.py", "wire/messages.py"}


def test_long_files_are_exceptions_and_the_package_is_small() -> None:
    lengths = {
        path.relative_to(PACKAGE).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.rglob("*.py")
    }
    assert {name for name, lines in lengths.items() if lines > LONG_FILE} <= LONG_FILES
    assert sum(lengths.values()) <= MOST_LINES


#: What a command that needs none of it must not wait for.
SLOW = {"sklearn", "skops", "scipy", "pandas", "pyarrow", "matplotlib", "transformers"}


def test_slow_libraries_are_imported_where_they_are_used() -> None:
    found = []
    for _, path in sources(PACKAGE):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        at_once = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        named = modules_named("\n".join(map(ast.unparse, at_once)))
        slow = sorted({name.split(".")[0] for name in named} & SLOW)
        found += [f"{path.relative_to(PACKAGE)} imports {name}" for name in slow]
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
from unlabel_bench.registry import BENCHES
from unlabel.models import BOTTOMS
found = {"benches": BENCHES.names(), "models": BOTTOMS.names()}
print(json.dumps({"asked": asked, "loaded": [h for h in heavy if h in sys.modules], **found}))
"""


def test_lean_packages_work_without_the_heavy_libraries(tmp_path: Path) -> None:
    modules = [
        "unlabel.federation",
        "unlabel_bench.__main__",
        *(f"unlabel.{package}" for package in LEAN),
    ]
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
