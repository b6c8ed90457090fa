"""The page about federations is true: its commands run, and it names every setting."""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import unlabel

from unlabel.operate.agreement import Agreement, PredictSettings, ServerSettings
from unlabel.operate.federationfile import ActiveColumns, FederationFile, PassiveMember
from unlabel.operate.kit import Kit
from unlabel.operate.partyfile import PartyFile

PAGE = (Path(__file__).parents[2] / "docs" / "federation.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_pages_commands_run_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = []
    for language, text in BLOCK.findall(PAGE):
        if language == "yaml":
            assert len(text.splitlines()) < 10
            (tmp_path / "federation.yaml").write_text(text)
        elif language == "sh" and text.startswith("unlabel "):
            for line in text.splitlines():
                words = line.split()[1:]
                assert unlabel(*words).code == 0, line
                done.append(words[1])
    assert done == ["init", "show", "request", "renew", "install"]
    assert Kit.open("kits/shop").agreement.train.epochs == 5


SECTIONS = {
    "## federation.yaml": FederationFile,
    "### server": ServerSettings,
    "### active": ActiveColumns,
    "### passive, a list": PassiveMember,
    "### predict": PredictSettings,
    "## party.yaml": PartyFile,
}


@pytest.mark.parametrize("heading", SECTIONS)
def test_the_page_names_every_setting_with_its_default(heading: str) -> None:
    section = re.split(r"^#+ .*$", PAGE.split(f"{heading}\n")[1], flags=re.MULTILINE)[0]
    named = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section, re.MULTILINE))
    assert named == {field.name: shown(field) for field in fields(SECTIONS[heading])}


def shown(field: Field[Any]) -> str:
    """Return how the page writes a default."""
    if field.default is MISSING:
        return "required" if field.default_factory is MISSING else ""
    if isinstance(field.default, bool):
        return str(field.default).lower()
    if isinstance(field.default, float):
        return f"{field.default:g}"
    return str(field.default) if field.default not in (None, ()) else ""


def test_the_page_names_every_part_of_an_agreement() -> None:
    section = PAGE.split("## agreement.yaml\n")[1].split("##")[0]
    assert [f.name for f in fields(Agreement) if f"`{f.name}`" not in section] == []
