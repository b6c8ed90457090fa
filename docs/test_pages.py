"""The pages agree with the code: settings, messages, measures, codes, verbs, and what is generated.

A page that tools/ writes must be what it writes now; the message names the command that mends it.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
from dataclasses import MISSING, fields
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import unlabel_bench.registry  # noqa: F401  (its methods, where its entry points are not installed)
from unlabel_bench.paper import related_work

import unlabel as ul
from unlabel import errors, terms
from unlabel.audit import MEASURES
from unlabel.cli import exits
from unlabel.config import (
    ActiveColumns,
    ActiveTable,
    AlignSettings,
    AuditSettings,
    Columns,
    DefendSettings,
    FederationFile,
    FitSettings,
    LabelFreeSettings,
    MachineSettings,
    ModelSettings,
    MonitorSettings,
    OptimiserSettings,
    PartyFile,
    PassiveMember,
    PassiveTable,
    Pictures,
    Policy,
    PredictSettings,
    RunConfig,
    ServerSettings,
    TableColumns,
    TextSettings,
    TrainSettings,
)
from unlabel.config.federation import SharedSettings
from unlabel.defend import DEFENCES
from unlabel.forget import METHODS
from unlabel.terms import DEPTHS
from unlabel.wire.messages import MESSAGES

ROOT = Path(__file__).parent.parent


def page(name: str) -> str:
    """Return the text of a page in docs/."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def table(text: str, head: str) -> list[list[str]]:
    """Return the cells of the first table whose head begins so, without its head."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(f"| {head} |"):
            break
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip(" `") for cell in line.strip("|").split("|")])
    return rows[1:]


def tool(name: str) -> ModuleType:
    """Return a program of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(f"tool_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- what the code says ----------------------------------------------------------------------


def test_the_three_words_of_the_readme_are_those_of_the_code() -> None:
    rows = table((ROOT / "README.md").read_text(encoding="utf-8"), "word")
    assert [row[1:] for row in rows] == [
        *([word, terms.VISIBILITY_MEANS[word]] for word in terms.VISIBILITIES),
        *([word, terms.DEPTH_MEANS[word]] for word in terms.DEPTHS),
        *([word, meaning] for word, meaning in terms.GUARANTEE_MEANS.items()),
    ]
    assert [row[0] for row in rows if row[0]] == ["visibility", "depth", "guarantee"]


#: Sections of the page, and the classes whose own fields, not those they inherit, stand in each.
SECTIONS: dict[str, list[type[Any]]] = {
    "run.yaml": [RunConfig],
    "federation.yaml": [SharedSettings, FederationFile],
    "server": [ServerSettings],
    "predict": [PredictSettings],
    "party.yaml": [PartyFile],
    "active": [ActiveColumns, ActiveTable],
    "passive, a list": [PassiveMember, PassiveTable],
    "Columns of a party's table": [TableColumns],
    "columns": [Columns],
    "pictures": [Pictures],
    "align": [AlignSettings],
    "model": [ModelSettings],
    "model.text": [TextSettings],
    "label_free": [LabelFreeSettings],
    "fit": [FitSettings],
    "train": [OptimiserSettings, TrainSettings],
    "machine": [MachineSettings],
    "policy": [Policy],
    "defend": [DefendSettings],
    "monitor": [MonitorSettings],
    "audit": [AuditSettings],
}


@pytest.mark.parametrize("heading", SECTIONS)
def test_the_page_of_settings_names_every_one_with_its_default(heading: str) -> None:
    (section,) = re.findall(
        rf"^##+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)",
        page("settings.md"),
        re.MULTILINE | re.DOTALL,
    )
    shown = {row[0]: row[1] for row in table(section, "setting")}
    declared = {
        name: next(field for field in fields(kind) if field.name == name)
        for kind in SECTIONS[heading]
        for name in vars(kind)["__annotations__"]
    }
    assert set(shown) == set(declared)
    for name, field in declared.items():
        default = field.default
        if isinstance(default, bool):
            assert shown[name] == str(default).lower(), name
        elif isinstance(default, int | float):
            assert _is_number(shown[name]), name
            assert np.isclose(float(shown[name]), default), name
        elif isinstance(default, str) and default:
            assert shown[name] == default, name
        elif default is MISSING and field.default_factory is MISSING:
            assert shown[name] == "required", name


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[\d.]+(e-?\d+)?", text) is not None


def _in_words(default: object) -> str:
    return default if isinstance(default, str) else f"{default:g}"


def test_the_page_of_settings_names_every_defence_with_its_defaults() -> None:
    for name in DEFENCES.names():
        settings = ", ".join(
            f"`{field.name}={_in_words(field.default)}`" for field in fields(DEFENCES.get(name))
        )
        assert f"| `{name}` | {settings} |" in page("settings.md")


def test_the_messages_of_the_wire_are_all_explained_field_by_field() -> None:
    tables = page("wire.md").split("## What it gives away")[0]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (.*?) \|", tables, re.MULTILINE)
    carried = {
        name: set(re.findall(r"`(\w+)`", cell))
        for names, cell in rows
        for name in re.findall(r"\w+", names)
    }
    assert set(MESSAGES) <= set(carried)
    for name, kind in MESSAGES.items():
        if carried[name]:
            assert carried[name] == {field.name for field in fields(kind)} - {"step"}, name


def test_the_page_of_the_audit_names_every_measure_and_depth() -> None:
    text = page("audit.md")
    assert [name for name in MEASURES.names() if f"`{name}`" not in text] == []
    assert [depth for depth in DEPTHS if f"| `{depth}` |" not in text] == []


def test_the_operations_page_lists_every_class_of_error_with_its_code() -> None:
    classes = {
        name: kind.code
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.UnlabelError)
    }
    assert {row[1]: row[0] for row in table(page("operations.md"), "code")} == classes


def test_the_operations_page_lists_every_finer_code() -> None:
    source = [path.read_text("utf-8") for path in (ROOT / "src" / "unlabel").rglob("*.py")]
    used = {code for text in source for code in re.findall(r"\bcode=\"([a-z-]+)\"", text)}
    rows = {row[0] for row in table(page("operations.md"), "finer code")}
    classes = {row[0] for row in table(page("operations.md"), "code")}
    assert used - classes - set(errors.REFUSALS) <= rows
    assert rows <= used


def test_the_operations_page_lists_every_exit_status() -> None:
    statuses = [int(row[0]) for row in table(page("operations.md"), "status")]
    assert statuses == [
        *(exits.DONE, exits.ERROR, exits.USAGE, exits.NOT_PASSED, exits.INTERRUPTED)
    ]


def test_the_wire_page_lists_the_codes_of_refusals() -> None:
    assert [row[0] for row in table(page("wire.md"), "code")] == list(errors.REFUSALS)


def test_the_page_on_python_names_every_verb_and_every_type_that_one_returns() -> None:
    text = page("python.md")
    verbs = [name for name, kind in vars(ul.Federation).items() if callable(kind)]
    internal = {"refresh", "load_latest", "hand_over", "predict_rows", "version_facts", "of"}
    internal |= {"with_recovery", "close", "predict_tables", "revoke_exports"}
    missing = [n for n in verbs if not n.startswith("_") and n not in internal and n not in text]
    assert missing == []
    elsewhere = {n for n in ul.__all__ if n.endswith(("Settings", "Error", "Config", "Diverged"))}
    elsewhere |= {"PartyLost", "PartyRefused", "PartySuspected", "PublicMismatch"}
    elsewhere |= {"Policy", "__version__"}
    named = [n for n in ul.__all__ if f"`{n}" in text or f"`ul.{n}" in text]
    assert set(ul.__all__) - elsewhere - set(named) == set()


def test_the_table_of_forgetting_names_every_method() -> None:
    named = [row[0].split(" ")[0].strip("`") for row in table(page("forgetting.md"), "method")]
    assert sorted(named) == METHODS.names(), "docs/forgetting.md: a line of each method"


def test_the_table_of_related_work_has_every_method_here() -> None:
    named = sorted(work.unlabel for work in related_work.table() if work.unlabel)
    # The same publication as `mixup-ascent`, by its code.
    published = [name for name in METHODS.names() if name != "as-released"]
    assert named == published, "bench/unlabel_bench/paper/related_work.csv: a line of each"


# --- what tools/ write ------------------------------------------------------------------------


def test_the_page_of_reproduction_is_that_of_the_results() -> None:
    assert tool("reproduction").text() == page("reproduction.md"), "run `make reproduction`"


def test_the_gallery_shows_every_picture() -> None:
    gallery, text = tool("gallery"), page("gallery.md")
    assert gallery.text() == text, "run `make reproduction`"
    shown = {Path(path).name for path in re.findall(r"\]\(([^)]+)\)", text)}
    assert shown == {path.name for path in gallery.pictures()}
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert len(headings) == len(set(headings)), "one heading of two runs"
    assert "by every method" not in text


def test_the_page_of_related_work_is_written_from_its_data() -> None:
    text = page("related-work.md")
    assert tool("related_work").fill(text) == text, "run `make related-work`"


def test_the_pages_of_robustness_hold_the_figures_that_are_recorded() -> None:
    figures = tool("robustness_figures")
    texts = {path.name: path.read_text("utf-8") for path in sorted(figures.PAGES.glob("*.md"))}
    marked = {name for text in texts.values() for name, _ in figures.BLOCK.findall(text)}
    kinds = (
        "public_size",
        "wrong_labels",
        "other_domain",
        "no_labelled",
        "many_requests",
        "uneven",
    )
    assert {f"robustness_{kind}" for kind in kinds} <= marked
    for name, text in texts.items():
        assert figures.fill(text) == text, f"run `make docs-figures`: {name}"
