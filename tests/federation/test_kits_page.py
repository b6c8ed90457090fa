"""The page about federations is true: its commands run, and it names every setting."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from cli.command_line import unlabel

from unlabel.config import (
    Agreement,
)
from unlabel.remote.kit import Kit

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
    assert done == ["init", "show", "request", "renew", "install", "revoke", "install"]
    assert Kit.open("kits/shop").agreement.train.epochs == 5


def test_the_page_names_every_part_of_an_agreement() -> None:
    section = PAGE.split("## agreement.yaml\n")[1].split("##")[0]
    assert [f.name for f in fields(Agreement) if f"`{f.name}`" not in section] == []
