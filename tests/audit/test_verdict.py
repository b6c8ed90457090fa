"""A verdict as a value: what it shows of itself, and that its JSON is that of version 0.6."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import unlabel
from report import verdicts

from unlabel.audit import ForgettingCost, NotAVerdict, Privacy, Verdict
from unlabel.errors import DataError

#: Written by `unlabel audit` of version 0.6 on small tables: a hidden request and an open one.
KEPT = sorted((Path(__file__).parent / "kept").glob("*.json"))


def kept(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_file_of_version_0_6_is_read_and_written_again_in_the_present_words(path: Path) -> None:
    raw = kept(path)
    verdict = Verdict.from_json(raw)
    depths = {"output": "answers", "deep": "bottoms"}
    assert verdict.visibility == raw["mode"]
    assert verdict.depth == depths.get(raw["level"], raw["level"])
    written = json.loads(json.dumps(verdict.to_json()))
    for old, new in zip(raw["findings"], written["findings"], strict=True):
        level = old.pop("level")
        assert new == {**old, "depth": depths.get(level, level)}
    same = raw.keys() - {"format", "mode", "level", "findings", "measures", "privacy", "thresholds"}
    raw["facts"]["rules"] = 1
    assert {name: written[name] for name in same} == {name: raw[name] for name in same}
    # A depth below the answers by those rules decides nothing any more.
    assert verdict.is_outdated == (verdict.depth in ("top", "bottoms"))
    assert Verdict.from_json(verdict.to_json()) == verdict
    # Read as values, not as text: what the file says is found by attribute.
    linear = verdict.measures["probe-linear"]
    entry = raw["measures"]["probe-linear"]["values"]["retrained"]
    assert linear.value("retrained") == entry["value"]
    assert linear.parties == ("passive-1", "passive-2")
    (first, second) = linear.values["retrained"].estimates("passive-2")
    assert [first.low, second.low] == [e["parties"]["passive-2"]["low"] for e in entry["each"]]
    assert verdict.thresholds.demand == raw["thresholds"]["demand"]
    assert verdict.facts.retrained == 2
    assert verdict.privacy.attacks is not None
    assert len(verdict.privacy.attacks) == 4
    hidden = verdict.visibility == "hidden"
    assert (verdict.privacy.total is not None, verdict.privacy.holds) == (hidden, hidden)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_file_of_version_0_6_still_becomes_a_page(path: Path, tmp_path: Path) -> None:
    (tmp_path / "active").mkdir()
    (tmp_path / "active" / "audit.json").write_bytes(path.read_bytes())
    told = unlabel("report", tmp_path, "--json").json
    assert told["request"] == kept(path)["request"]
    assert (tmp_path / "report.html").read_text().count('<svg role="img"') > 8


@pytest.mark.parametrize("made", [verdicts.full, verdicts.bare, verdicts.top_only])
def test_a_verdict_is_the_same_after_its_plain_data(made: Any) -> None:
    assert Verdict.from_json(made().to_json()) == made()
    assert Verdict.from_json(json.loads(json.dumps(made().to_json()))) == made()


def test_a_verdict_shows_itself_in_a_line_without_its_figures() -> None:
    verdict = verdicts.full()
    assert repr(verdict) == (
        "Verdict(request='9f2c41d07be84a13', labels=('cat',), depth='top', demanded='top', "
        "passed=True)"
    )
    assert str(replace(verdict, demanded="bottoms")) == (
        "Request 9f2c41d07be84a13 (label cat, committed): depth 'top' reached, 'bottoms' demanded, "
        "not passed."
    )
    assert "people=3" in repr(verdicts.bare())
    assert len(repr(verdict.measures["echo"])) < 1000
    with pytest.raises(FrozenInstanceError):
        verdict.depth = "bottoms"  # type: ignore[misc]


def test_what_is_not_known_is_left_out_of_the_plain_data() -> None:
    assert Privacy().to_json() == {}
    assert Privacy(rho=0.0, attacks=()).to_json() == {"rho": 0.0, "attacks": []}
    unknown = replace(verdicts.FACTS, forgetting=ForgettingCost())
    assert unknown.to_json()["forgetting"] == {}


WRONG: list[tuple[str, Any, str]] = [
    ("thresholds", {"forgotten": 1.5}, "SettingsError"),
    ("thresholds", {"other": 0.5}, "TypeError"),
    ("measures", {"echo": []}, "TypeError"),
    ("measures", {"echo": {"values": {"forgotten": {}}}}, "KeyError: 'value'"),
    ("measures", {"echo": {"values": {"forgotten": {"value": "high"}}}}, "`value` is no number"),
    ("measures", {"echo": {"values": {}, "unit": "furlongs"}}, "`unit` is none of share, number"),
    ("privacy", {"information": "little"}, "`information` is no number"),
    ("privacy", {"attacks": [{"value": 0.5}]}, "KeyError: 'name'"),
    ("privacy", {"attacks": 3}, "TypeError"),
    ("messages", {"left": [{"at": 1, "direction": "sent", "kind": "Ask"}]}, "KeyError: 'bytes'"),
    ("messages", {"left": 3}, "TypeError"),
    ("facts", {}, "KeyError: 'at'"),
    ("facts", {**verdicts.FACTS.to_json(), "labels": None}, "`labels` is no number"),
    ("findings", [3], "a finding in it lacks something"),
]


@pytest.mark.parametrize(("name", "value", "words"), WRONG)
def test_plain_data_that_is_no_verdict_is_refused_in_a_sentence(
    name: str, value: Any, words: str
) -> None:
    with pytest.raises(NotAVerdict) as caught:
        Verdict.from_json({**verdicts.full().to_json(), name: value})
    assert isinstance(caught.value, DataError)
    assert words in caught.value.reason
    assert str(caught.value).endswith("; run `audit()` again.")
