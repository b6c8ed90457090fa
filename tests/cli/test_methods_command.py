"""`unlabel methods`."""

import json

import pytest
from cli.command_line import unlabel
from typer.testing import CliRunner

from unlabel.cli.main import app
from unlabel.errors import SettingsError
from unlabel.forget import METHODS, ForgetSettings, Method
from unlabel.forget.methods.mask import Mask
from unlabel.forget.settings import choose_method
from unlabel.forget.work import Work


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


class WithoutFacts(Method):
    def run(self, work: Work) -> None:
        """Do nothing."""


class WithoutAbout(Mask):
    about = property()


@pytest.mark.parametrize(
    ("kind", "missing"), [(WithoutFacts, "tells_partners"), (WithoutAbout, "'about'")]
)
def test_a_method_without_a_fact_is_named_in_one_sentence(
    kind: type[Method], missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(METHODS, "_things", {**METHODS._all(), "half": kind})
    sentence = unlabel("methods").sentence
    assert sentence.startswith("Method 'half' is not complete (")
    assert missing in sentence
    with pytest.raises(SettingsError, match="'half' is not complete"):
        choose_method(ForgetSettings(method="half"), people=False)


class CalledHidden(Mask):
    account = None  # type: ignore[assignment]


def test_no_method_is_listed_as_hidden_without_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(METHODS, "_things", {**METHODS._all(), "mine": CalledHidden})
    assert "'mine' is called hidden but has no `account`" in unlabel("methods").sentence
