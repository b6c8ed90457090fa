"""`unlabel methods`."""

import json

from typer.testing import CliRunner

from unlabel.cli.main import app
from unlabel.forget import METHODS


def test_every_method_is_listed_with_what_it_needs_and_tells() -> None:
    found = json.loads(CliRunner().invoke(app, ["methods", "--json"]).stdout)["methods"]
    assert [line["name"] for line in found] == METHODS.names()
    by_name = {line["name"]: line for line in found}
    assert by_name["ssd"]["needs"] == "all"
    assert by_name["ssd"]["messages"] == ["AccumulateFisher", "BeginRequest", "TransformWeights"]
    assert by_name["ssd"]["settings"]["alpha"] == 10.0
    assert by_name["ssd"]["names_rows"]
    assert not by_name["renormalise"]["names_rows"]


def test_the_table_names_every_method() -> None:
    text = CliRunner().invoke(app, ["methods"], env={"COLUMNS": "160"}).stdout
    assert all(f"│ {name} " in text for name in METHODS.names())
