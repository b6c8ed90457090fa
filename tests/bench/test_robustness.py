"""The benches of robustness in tiny settings, what their levels are, and their pages."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from cli.command_line import one_thread
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import BENCHES
from unlabel_bench.robustness.domains import foreign, reshaped
from unlabel_bench.robustness.levels import ANY, looks
from unlabel_bench.robustness.many_requests import LABELS, ManyRequestsSettings
from unlabel_bench.robustness.no_labelled import NoLabelledSettings
from unlabel_bench.robustness.other_domain import ORDER, OtherDomainSettings
from unlabel_bench.robustness.public_size import PublicSizeSettings, first_of_each
from unlabel_bench.robustness.summary import block, page, summarise, table
from unlabel_bench.robustness.uneven import UnevenSettings, recipe_of
from unlabel_bench.robustness.wrong_labels import WrongLabelsSettings

from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.forget import PublicSet

__all__ = ["one_thread"]  # a fixture for every test here

ROOT = Path(__file__).parents[2]
#: Everything but the levels; a convnet of four epochs knows digits.
SMALL: dict[str, Any] = {
    "epochs": 3,
    "seeds": 1,
    "methods": ("hidden:samples=public:steps=40", "mask"),
}
Entries = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Keep originals apart from the user's, and share them between the tests here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNLABEL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def by(result: dict[str, Any]) -> Entries:
    return {(x["level"], x["method"].split(":")[0]): x for x in result["summary"]}


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("figures", ROOT / "tools/robustness_figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_size_of_the_public_set_is_measured_once_and_read_the_second_time(
    tmp_path: Path,
) -> None:
    files: dict[str, Any] = {
        name: str(tmp_path / f"out.{name}") for name in ("records", "page", "picture")
    }
    settings = PublicSizeSettings(**SMALL, public=12, sizes=(4, 12), **files)
    result = BENCHES.get("public-size").run(settings, lambda _: None)
    entries = by(result)
    # Mask looks at no public sample: one line for both sizes.
    assert set(entries) == {(ANY, "original"), (ANY, "mask"), ("4", "hidden"), ("12", "hidden")}
    assert entries["12", "hidden"]["forgotten"]["mean"] == 0
    assert entries[ANY, "mask"]["probe_linear"] == entries[ANY, "original"]["probe_linear"]
    assert BENCHES.get("public-size").run(settings, pytest.fail) == result
    lines = [json.loads(line) for line in Path(files["records"]).read_text().splitlines()]
    assert len(lines) == 4
    assert lines[-1]["agreement"] == result["records"][-1]["agreement"]
    assert Path(files["picture"]).read_bytes().startswith(b"\x89PNG")
    assert Path(files["page"]).read_text() == page(result)
    assert len(table(result)) == 1 + 4
    json.dumps(result)


def test_the_first_of_each_label_are_the_first_in_order() -> None:
    labels = torch.tensor([1, 0, 1, 0, 1, 0])
    public = PublicSet("main", torch.arange(6) * 10, labels, tuple("abcdef"), False, "an example")
    nobody: Any = None
    assert first_of_each(nobody, public, 0, size=2).ids == ("a", "b", "c", "d")
    with pytest.raises(SettingsError):
        first_of_each(nobody, public, 0, size=4)


def test_wrong_labels_are_so_many_and_warned_of(tmp_path: Path) -> None:
    settings = WrongLabelsSettings(
        **SMALL, shares=(0.0, 0.4), records=str(tmp_path / "records.jsonl")
    )
    entries = by(BENCHES.get("wrong-labels").run(settings, lambda _: None))
    clean, wrong = entries["0 %", "hidden"], entries["40 %", "hidden"]
    assert (clean["warned"], wrong["warned"], wrong["refused"]) == (0, 1, 0)
    # A model that calls all by their true label agrees with 60 % then.
    assert wrong["agreement"]["mean"] == pytest.approx(0.6 * clean["agreement"]["mean"], abs=4)
    assert wrong["forgotten"]["mean"] == 0


def test_a_foreign_public_set_is_refused_and_forced(tmp_path: Path) -> None:
    settings = OtherDomainSettings(**SMALL, records=str(tmp_path / "records.jsonl"))
    result = BENCHES.get("other-domain").run(settings, lambda _: None)
    entries = by(result)
    assert [entries[level, "hidden"]["refused"] for level in ("own", "noise", ORDER)] == [0, 1, 1]
    assert (
        entries["noise", "hidden"]["retained"]["mean"]
        < entries["own", "hidden"]["retained"]["mean"]
    )
    assert entries[ORDER, "hidden"]["agreement"]["mean"] < 5
    assert "refused 1 of 1" in block(result)


def test_foreign_samples_have_the_shape_of_the_run_and_so_many_a_label() -> None:
    fed = Federation.local("digits", parties=3, model="mlp", epochs=1)
    result = foreign(fed, "digits", 5, 0)
    assert torch.bincount(result.labels).tolist() == [5] * 10
    # The images are those of the dataset, so each stands among the run's own rows.
    held = torch.cat([p.bottom.tables["public"].values for p in fed.passives.values()], -1)
    mine = torch.cat([part.values for part in fed.holdings.features.values()], -1)
    rows = {
        image.numpy().tobytes(): int(y) for image, y in zip(mine, fed.holdings.labels, strict=True)
    }
    assert [rows[image.numpy().tobytes()] for image in held] == result.labels.tolist()
    assert len(foreign(fed, "noise", 2, 0)) == 20


def test_resizing_keeps_even_images_even_and_means_channels() -> None:
    x = np.stack([np.full((3, 6, 6), 30), np.full((3, 6, 6), 200)]).astype(np.uint8)
    x[0, 0] = 90
    small = reshaped(x, (1, 4, 2))
    assert small.shape == (2, 1, 4, 2)
    assert (small[0] == 50).all()
    assert (small[1] == 200).all()


def test_without_labels_the_default_forgets_as_well(tmp_path: Path) -> None:
    settings = NoLabelledSettings(
        **SMALL, others=("noise",), records=str(tmp_path / "records.jsonl")
    )
    entries = by(BENCHES.get("no-labelled").run(settings, lambda _: None))
    for level in ("labelled", "pseudo", "anchors"):
        assert entries[level, "hidden"]["forgotten"]["mean"] == 0
        assert entries[level, "hidden"]["retained"]["mean"] > 85
    # What the model says of itself it agrees with; anchors it calls by their label, nearly all.
    assert entries["pseudo", "hidden"]["agreement"]["mean"] == 100
    assert 90 < entries["anchors", "hidden"]["agreement"]["mean"] <= 100


def test_every_split_is_a_model_of_its_own(tmp_path: Path) -> None:
    settings = UnevenSettings(
        **{**SMALL, "model": "mlp", "epochs": 2},
        splits=("2", "7+1", "8"),
        records=str(tmp_path / "records.jsonl"),
    )
    result = BENCHES.get("uneven").run(settings, lambda _: None)
    assert {x["level"] for x in result["summary"]} == {"2", "7+1", "8"}
    assert len({x["recipe"] for x in result["records"]}) == 3
    assert len(result["summary"]) == 3 * 3  # mask stands at every split
    fed = recipe_of(settings, "7+1").federation(0)
    assert [party.bottom.tables["main"].shape[-1] for party in fed.passives.values()] == [7, 1]
    assert len(recipe_of(settings, "8").federation(0).passives) == 8
    with pytest.raises(SettingsError, match="joined by"):
        UnevenSettings(splits=("7,1",))


@pytest.mark.long
def test_requests_add_up_and_stand_beside_one_for_all(tmp_path: Path) -> None:
    settings = ManyRequestsSettings(
        epochs=3,
        seeds=1,
        labels=(4, 1),
        methods=("hidden:steps=60", "mask"),
        beside=(2,),
        records=str(tmp_path / "records.jsonl"),
    )
    result = BENCHES.get("many-requests").run(settings, lambda _: None)
    entries = {(x["group"], x["level"], x["method"].split(":")[0]): x for x in result["summary"]}
    assert {key[1:] for key in entries if key[0] == LABELS} == {
        *(("1", "hidden"), ("2", "hidden"), ("2", "mask"))
    }
    assert entries[LABELS, "2", "hidden"]["forgotten"]["mean"] == 0
    assert BENCHES.get("many-requests").run(settings, pytest.fail) == result
    # A series that broke off begins again, and ends in the same figures.
    records = Path(settings.records)
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    last = [x for x in lines if x["method"].startswith("hidden")][-1]
    records.write_text("".join(f"{json.dumps(x)}\n" for x in lines if x != last))
    repeated = BENCHES.get("many-requests").run(settings, lambda _: None)
    (now,) = (x for x in repeated["records"] if (x["level"], x["method"]) == ("2", last["method"]))
    assert {k: v for k, v in now.items() if k != "seconds"} == {
        k: v for k, v in last.items() if k != "seconds"
    }


def test_references_stop_at_the_first_the_middle_and_the_last() -> None:
    settings = ManyRequestsSettings()
    assert settings.stops(8) == (1, 4, 8)
    assert settings.stops(1) == (1,)
    assert replace(settings, beside=(2, 9)).stops(8) == (2,)


def test_a_summary_is_over_what_was_done_and_counts_the_rest() -> None:
    start = {"level": "5", "method": "m", "retained": 0.9, "forgotten": 0.1, "refused": ""}
    lines: list[dict[str, Any]] = [
        {**start, "warning": "odd"},
        {**start, "retained": 0.8, "refused": "no"},
        {"level": "5", "method": "m", "failed": "It fell apart."},
        {**start, "level": "9"},
    ]
    five, nine = summarise(lines)
    assert five["retained"]["mean"] == pytest.approx(85)
    assert five["retained"]["deviation"] == pytest.approx(50**0.5)
    assert (five["runs"], five["failed"]) == (2, ["It fell apart."])
    assert (five["refused"], five["warned"], five["asr"]) == (1, 1, None)
    assert (nine["runs"], nine["retained"]["count"]) == (1, 1)


def test_what_looks_at_public_samples() -> None:
    assert [name for name in ("original", "mask", "retrain", "deep", "hidden") if looks(name)] == [
        "hidden"
    ]


def test_every_bench_is_known_by_its_name_and_settings_of_no_sense_are_refused() -> None:
    names = {
        "public-size",
        "wrong-labels",
        "other-domain",
        "no-labelled",
        "many-requests",
        "uneven",
    }
    assert names <= set(BENCHES.names())
    assert all(issubclass(BENCHES.get(name).settings, Recipe) for name in names)
    nonsense: tuple[dict[str, Any], ...] = (
        {"seeds": 0},
        {"labels": ()},
        {"methods": ("tea",)},
        {"sizes": (5, 200)},
    )
    for wrong in nonsense:
        with pytest.raises(SettingsError):
            PublicSizeSettings(**wrong)


def test_a_page_is_filled_from_a_result_and_from_nothing(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"level": level, "method": "hidden", "retained": 0.9, "forgotten": 0.0, "seed": seed}
        for level in ("5", "10")
        for seed in (0, 1)
    ]
    message: dict[str, Any] = {
        "bench": "public-size",
        "data": "digits",
        "model": "mlp",
        "epochs": 3,
        "public": 13,
    }
    message |= {"validation": 0.1, "seeds": 2, "note": "A note.", "request": "0"}
    result: dict[str, Any] = {
        "title": "samples a label",
        "levels": ["5", "10"],
        "methods": ["hidden"],
    }
    result |= {
        "summary": summarise(lines),
        "records": lines,
        "about": message,
        "command": "a command",
    }
    figures = tool()
    empty = "<!-- figures: robustness_some -->\nold\n<!-- end -->\n"
    assert figures.NOTHING in figures.fill(empty, tmp_path)
    (tmp_path / "robustness_some.json").write_text(json.dumps(result))
    text = figures.fill(empty, tmp_path)
    assert "| 10 | hidden | 90.0 ± 0.0 | 0.0 ± 0.0 |  |" in text
    assert re.search(r"90% of the training rows.*label 0, 2 seeds", text)
    assert "A note." in text
    assert "`a command`" in text
    assert "![" not in text
    (tmp_path / "robustness_some.png").write_bytes(b"")
    assert "![public-size](../../results/robustness_some.png)" in figures.fill(text, tmp_path)
