"""The page of methods is true: settings, what is needed and told, formulas, commands, figures."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
from dataclasses import fields
from inspect import cleandoc
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cli.command_line import one_thread, unlabel
from unlabel_bench.measures import read_method
from unlabel_bench.summary import summarise
from unlabel_bench.sweep import SWEEPS, candidates

from unlabel.federation import Federation
from unlabel.forget import METHODS

__all__ = ["one_thread"]  # a fixture for every test here

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## `(\S+)`\n(.*?)(?=^## )", re.MULTILINE | re.DOTALL)
SECTIONS: dict[str, str] = dict(SECTION.findall(PAGE))
#: Retraining, and the controls.
UNTUNED = ("retrain", "mask", "as-released")
BLOCK = re.compile(r"^```(text|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def rows_of(text: str, head: str) -> list[list[str]]:
    """Return the cells of the table whose head begins so, without its head."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(f"| {head} |"):
            break
    next(lines, None)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def in_words(value: object) -> str:
    """Return a default as the page writes it, numbers in one form."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(in_words, value))
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def in_one_form(text: str) -> str:
    """Return what a page says of a default, numbers in one form."""
    try:
        return f"{float(text):g}"
    except ValueError:
        return text


def one_line(text: str) -> str:
    """Return a text with single blanks."""
    return " ".join(text.split())


def listed(cell: str) -> set[str]:
    """Return the words of a cell."""
    return set() if cell == "none" else set(cell.split(", "))


def figures() -> ModuleType:
    """Return the tool that writes the figures."""
    spec = importlib.util.spec_from_file_location(
        "methods_figures", ROOT / "tools" / "methods_figures.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_method_has_a_section_and_a_line_of_the_index() -> None:
    names = METHODS.names()
    assert sorted(SECTIONS) == names, "docs/methods.md: a section of each method, like `mask`'s"
    index = {cells[0]: cells[1] for cells in rows_of(PAGE, "method")}
    assert index == {f"[`{n}`](#{n})": f"`{METHODS.get(n)().needs}`" for n in names}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_names_every_setting_with_its_default(name: str) -> None:
    method: Any = METHODS.get(name)()
    found = [(row[0], in_one_form(row[1])) for row in rows_of(SECTIONS[name], "setting")]
    assert found == [(f"`{f.name}`", in_words(getattr(method, f.name))) for f in fields(method)]


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_says_what_each_form_needs_and_tells(name: str) -> None:
    forms = rows_of(SECTIONS[name], "form")
    assert forms[0][0] == "default"
    for form, needs, rows, gradients, messages, named in forms:
        words = [] if form == "default" else form.strip("`").split(" ")
        method = read_method(":".join([name, *words]))
        disclosure = method.disclosure
        assert needs == f"`{method.needs}`"
        assert listed(rows) == disclosure.rows
        assert listed(gradients) == disclosure.gradients
        assert listed(messages) == disclosure.messages
        assert named == ("yes" if disclosure.names_rows() else "no")


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_has_the_sweep_that_the_comparison_tries(name: str) -> None:
    paragraph = SECTIONS[name].partition("**Sweep.**")[2].partition("\n\n")[0]
    tried = [text for text in re.findall(r"`([^`]+)`", paragraph) if "=" in text]
    assert tried == [x.removeprefix(f"{name}:").replace(":", " ") for x in candidates(name)[1:]]


@pytest.mark.parametrize("name", SECTIONS)
def test_a_formula_on_the_page_is_that_of_the_code(name: str) -> None:
    said = one_line(cleandoc(METHODS.get(name).__doc__ or ""))
    formulas = [text for kind, text in BLOCK.findall(SECTIONS[name]) if kind == "text"]
    assert formulas
    assert [text for text in formulas if one_line(text) not in said] == []


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the run that the page's commands name, and a list of people."""
    folder = tmp_path_factory.mktemp("page")
    words = ("--data", "digits", "--model", "convnet", "--epochs", 5)
    assert unlabel("train", *words, "--out", folder / "runs/digits").code == 0
    holdings = Federation.open(folder / "runs/digits").holdings
    ids = holdings.ids[holdings.rows.train[:2].numpy()].tolist()
    (folder / "people.csv").write_text("\n".join(["id", *map(str, ids)]) + "\n")
    return folder


@pytest.mark.parametrize("name", SECTIONS)
def test_every_command_on_the_page_runs(
    name: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each in a run of its own: after a hidden request open ones need --allow-disclosure.
    monkeypatch.chdir(shutil.copytree(run, tmp_path, dirs_exist_ok=True))
    commands = [text for kind, text in BLOCK.findall(SECTIONS[name]) if kind == "sh"]
    assert commands
    for command in commands:
        assert unlabel(*shlex.split(command)[1:], "--json").json["method"] == name
        assert unlabel("rollback", "runs/digits").code == 0


def test_the_figures_on_the_page_are_those_of_the_results() -> None:
    marks = re.findall(r"^<!-- figures: (\S+) -->$", PAGE, re.MULTILINE)
    assert sorted(marks) == sorted(["files", *SECTIONS])
    for name, section in SECTIONS.items():
        assert f"<!-- figures: {name} -->" in section
    assert figures().fill(PAGE) == PAGE, "run `make docs-figures`"


def test_every_method_is_tuned_with_the_same_effort_but_for_those_with_nothing_to_tune() -> None:
    tuned = [n for n in METHODS.names() if not METHODS.get(n).people and n not in UNTUNED]
    assert sorted(SWEEPS) == tuned, "bench/unlabel_bench/comparison/sweeps.json: three forms each"


def test_figures_are_a_row_a_file_and_one_more_where_tuning_chose_otherwise(tmp_path: Path) -> None:
    measured = {
        "original": (0.9, 0.8, 0.9, 0.95),
        "retrain": (0.92, 0.0, 0.2, 0.55),
        "delete": (0.8, 0.0, 0.1, 0.75),
        "delete:lr=0.001": (0.91, 0.01, 0.3, 0.95),
        "ssd": (0.7, 0.0, 0.2, 0.55),
    }
    lines: list[dict[str, Any]] = [
        {
            "kind": "forget",
            "method": method,
            "seed": seed,
            "retained": kept,
            "forgotten": left + 0.02 * seed,
            "asr": asr,
            "probe_linear": probe,
            "probe_nearest": probe,
            "seconds": 2.0 + seed,
            "where": {"device": "a machine", "torch": "2.11", "commit": "ab"},
        }
        for method, (kept, left, asr, probe) in measured.items()
        for seed in (0, 1)
    ]
    lines.append({"kind": "forget", "method": "ssd", "seed": 2, "failed": "It fell apart."})
    rows = [(name, ":" in name) for name in measured]
    about = {"data": "cifar10", "model": "resnet18", "parties": 2, "seeds": 2, "epochs": 24}
    result = {
        "request": "0+2",
        "summary": summarise(lines, rows),
        "choices": [
            {"method": "delete", "published_won": False},
            {"method": "ssd", "published_won": True},
        ],
        "about": about,
        "records": lines,
    }
    (tmp_path / "cifar10_resnet18_two.json").write_text(json.dumps(result))
    tool = figures()

    def filled(name: str) -> list[list[str]]:
        text = tool.fill(f"<!-- figures: {name} -->\nold\n<!-- end -->\n", tmp_path)
        assert "old" not in text
        assert tool.fill(text, tmp_path) == text
        return rows_of(text, "file" if name == "files" else "run")

    run = "CIFAR-10, ResNet18 x 2, labels 0 and 2"
    aim, seconds = "20.00 ± 0.00", "2.50 ± 0.71"
    spread = "1.00 ± 1.41"
    assert filled("delete") == [
        [
            run,
            "default",
            "80.00 ± 0.00",
            spread,
            "10.00 ± 0.00",
            aim,
            *["0.50 ± 0.00"] * 2,
            seconds,
        ],
        [
            *(run, "tuned: `lr=0.001`", "91.00 ± 0.00", "2.00 ± 1.41", "30.00 ± 0.00", aim),
            *(*["1.00 ± 0.00"] * 2, seconds),
        ],
    ]
    assert [row[1] for row in filled("ssd")] == ["default, tuned the same; failed 1 of 3"]
    assert [row[1] for row in filled("retrain")] == ["before forgetting", "default"]
    assert filled("files")[0][1:] == [run, "2", "24", "a machine, torch 2.11, commit ab"]
    assert filled("scrub") == []
    (tmp_path / "cifar10_resnet18_two.json").unlink()
    assert filled("files") == []
