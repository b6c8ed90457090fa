"""The paper's tables and figures: all there, each runs small, the pages say what is recorded."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from cli.command_line import nothing_written, one_thread, unlabel
from unlabel_bench.__main__ import main
from unlabel_bench.comparison.claims import aims, missed
from unlabel_bench.comparison.comparison import methods_of
from unlabel_bench.drawing import draw
from unlabel_bench.measures import read_method
from unlabel_bench.paper import presets as paper_presets
from unlabel_bench.paper.entry import ENTRIES, STATUSES, Entry, Part, Run, recorded
from unlabel_bench.paper.figures import FIGURES, VARIANTS, rate_of, variant_of
from unlabel_bench.paper.layers import LayersSettings
from unlabel_bench.paper.layers import measure as count_layers
from unlabel_bench.paper.page import COMPARISONS, command_of, measured, section
from unlabel_bench.paper.paper import PaperSettings, planned
from unlabel_bench.paper.paper import measure as run
from unlabel_bench.paper.presets import PresetsSettings
from unlabel_bench.paper.small_data import (
    COUNT,
    SENTENCES,
    TOPICS,
    VIEWS,
    sentences,
    write_small,
)
from unlabel_bench.paper.tables import printed_lambda, printed_leakage
from unlabel_bench.provenance import provenance
from unlabel_bench.registry import BENCHES

from unlabel.errors import DataError, SettingsError
from unlabel.forget.settings import DEFAULT_METHOD
from unlabel.words import parse_settings

__all__ = ["one_thread"]  # a fixture for every test here

ROOT = Path(__file__).parent.parent.parent
#: The paper's own names of its tables and figures, and of the parts of figures.
LABELS = {
    *("tab:1classunlearn", "tab:textdata", "tab:2classunlearn", "tab:multiclassunlearn"),
    *("tab:lambda", "tab:leakage_adversary", "tab:notations", "tab:summary"),
    *("tab:hyperparameters_singleclass", "tab:hyperparameters_other", "tab:model_dataset_setup"),
    *("fig:2", "fig: time efficiency", "fig:compare_GA", "fig:numberofpp", "2pp", "4pp", "8pp"),
    *("fig:label_leakage", "fig:DP", "ET_Dr", "ET_Df", "ET_Dr_gc", "ET_Df_gc"),
    *("fig:cifar10", "fig:modelnet", "fig:yahoo_answer"),
}
RUNS = [
    pytest.param(one, id=f"{entry.name}-{kind}-{one.name}")
    for entry in ENTRIES.values()
    for kind, runs in (("whole", [part.run for part in entry.parts]), ("small", entry.small))
    for one in runs
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path_factory.mktemp("cache")))


def tool(name: str) -> ModuleType:
    """Return one of the tools that write pages."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- the entries ---------------------------------------------------------------------------


def test_every_table_and_figure_of_the_paper_has_one_entry() -> None:
    labels = [label for entry in ENTRIES.values() for label in entry.labels]
    assert sorted(labels) == sorted(LABELS)
    places = [entry.where for entry in ENTRIES.values()]
    assert places == [*(f"Table {n}" for n in range(1, 12)), *(f"Figure {n}" for n in range(1, 10))]


@pytest.mark.parametrize("one", RUNS)
def test_a_run_has_settings_that_its_bench_takes(one: Run) -> None:
    settings = parse_settings(BENCHES.get(one.bench).settings, one.chosen())
    methods_of(getattr(settings, "methods", ()))


def test_names_of_parts_and_small_runs_are_unique_within_an_entry() -> None:
    for entry in ENTRIES.values():
        for names in ([part.name for part in entry.parts], [one.name for one in entry.small]):
            assert names
            assert len(set(names)) == len(names)


def test_the_status_of_every_part_agrees_with_the_records() -> None:
    assert sorted(recorded()) == tool("reproduction").there(ENTRIES.values()), (
        "run `make reproduction`"
    )
    for entry in ENTRIES.values():
        for part in entry.parts:
            if part.status != "small only":
                assert (ROOT / part.record).is_file()
                assert part.ours


def test_an_entry_is_reproduced_only_where_every_part_is() -> None:
    entry = ENTRIES["lambda"]
    done = replace(entry.parts[0], possible="reproduced", record=min(recorded()))
    other = replace(done, possible="stand-in data")
    none = replace(done, record="results/nothing.json")
    statuses = [
        replace(entry, parts=parts).status()
        for parts in ((done, done), (done, other), (other,), (done, none), (none,))
    ]
    mixed = "stand-in data"
    assert statuses == ["reproduced", mixed, mixed, mixed, "small only"]


def test_a_missed_aim_has_a_reason() -> None:
    for entry in ENTRIES.values():
        for part in entry.parts:
            if part.record in recorded() and part.record.endswith(".json"):
                bench, result = measured(json.loads((ROOT / part.record).read_text()))
                if bench in COMPARISONS and DEFAULT_METHOD in result["methods"]:
                    text = f"{entry.name}, {part.name} misses {missed(result['summary'])}"
                    assert part.reason or not missed(result["summary"]), f"{text}: say why"


def methods_in(name: str) -> list[str]:
    """Return the methods of the first part of an entry."""
    one = ENTRIES[name].parts[0].run
    return list(parse_settings(BENCHES.get(one.bench).settings, one.chosen()).methods)


def test_the_ablations_name_the_paper_s_variants_at_both_rates() -> None:
    preset = "mixup-ascent@resnet18-cifar10"
    variants = ("ascent:samples=all", "ascent", f"{preset}:recovery=false", preset)
    rates = ("", ":lr=0.0001", ":lr=0.0003", ":lr=0.001")
    assert methods_in("modules") == [f"{name}{rate}" for rate in rates for name in variants]
    pairs = [f"{preset}:lambdas={first}/0.5" for first in ("0.2", "0.25", "0.33")]
    methods = methods_in("lambda")
    assert methods == [f"{name}{rate}" for rate in ("", ":lr=0.001") for name in pairs]
    assert read_method(methods[-1]).lambdas == (0.33, 0.5)  # type: ignore[attr-defined]


def test_printed_figures_stand_beside_the_same_settings_alone() -> None:
    method = "mixup-ascent@resnet18-cifar10:lambdas=0.33/0.5"
    assert {k: str(v) for k, v in printed_lambda(method).items()} == {
        "retained": "88.91 ± 0.21",
        "forgotten": "0.21 ± 0.02",
    }
    assert printed_lambda(f"{method}:lr=0.001") == {}
    assert printed_lambda("mixup-ascent@resnet18-cifar10") == {}
    leak = printed_leakage("cifar100", "mixup-ascent")
    assert leak is not None
    assert leak.mean == 4.04
    assert printed_leakage("cifar10", "hidden") is None


# --- aims ----------------------------------------------------------------------------------


def summary(**figures: tuple[float, float, float]) -> list[dict[str, Any]]:
    """Return a summary of retained accuracy, forgotten accuracy and membership attack by method."""
    names = ("retained", "forgotten", "asr")
    return [
        {
            "method": method,
            "tuned": False,
            "control": False,
            "runs": 3,
            **{name: {"mean": v, "deviation": 0.0} for name, v in zip(names, values, strict=True)},
        }
        for method, values in figures.items()
    ]


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        ((89.0, 1.0, 10.0), []),  # each just within
        ((89.0, 1.0, 20.0), []),
        ((88.9, 1.1, 9.9), ["retained accuracy", "forgotten accuracy", "membership attack"]),
        ((95.0, 0.0, 20.1), ["membership attack"]),
    ],
)
def test_aims_are_what_they_say(after: tuple[float, float, float], wrong: list[str]) -> None:
    result = summary(original=(90.0, 91.0, 80.0), retrain=(90.5, 0.0, 20.0), hidden=after)
    assert missed(result) == wrong


def test_an_aim_that_was_not_measured_neither_holds_nor_fails() -> None:
    assert [aim.holds for aim in aims(summary(original=(90.0, 91.0, 80.0)))] == [None] * 3


# --- what the benches of the entries find ---------------------------------------------------


def test_our_presets_are_the_paper_s(monkeypatch: pytest.MonkeyPatch) -> None:
    for which, many in (("single", 9), ("more", 6)):
        result = paper_presets.measure(PresetsSettings(which), lambda _: None)["summary"]
        assert len(result) == many
        assert [entry["preset"] for entry in result if entry["differs"]] == []
    printed = paper_presets.printed_presets("single")
    printed["vgg16-cifar10"] |= {"epochs": 18, "forgotten samples": 41}
    monkeypatch.setattr(paper_presets, "printed_presets", lambda _: printed)
    result = paper_presets.measure(PresetsSettings("single"), lambda _: None)
    wrong = {entry["preset"]: entry["differs"] for entry in result["summary"] if entry["differs"]}
    assert wrong == {"vgg16-cifar10": ["epochs", "forgotten samples"]}
    rows = {row[0]: row[-1] for row in paper_presets.table(result)}
    assert rows["vgg16-cifar10"] == "epochs 17, forgotten samples 40"


def test_our_models_have_the_layers_of_the_paper_s() -> None:
    for entry in count_layers(LayersSettings(), lambda _: None)["summary"]:
        assert entry["counted"]["active"] == entry["paper"]["active"]
        if not entry["counted"]["passive"].startswith("not built"):
            assert entry["counted"]["passive"] == entry["paper"]["passive"]


def test_the_second_view_of_a_digit_is_the_first_one_turned() -> None:
    with np.load(write_small(VIEWS) / VIEWS) as file:
        views = file["x"]
    assert views.shape == (1797, 2, 8, 8)
    top_right = views[:, 0, 0, 7]  # a turn to the left brings it to the top left
    assert (views[:, 1, 0, 0] == top_right).all()
    assert views[0, 1].tolist() == [[row[7 - n] for row in views[0, 0].tolist()] for n in range(8)]


def test_made_up_sentences_are_the_same_every_time_and_say_their_topic() -> None:
    result = sentences()
    assert result == sentences()
    assert [label for label, _ in result] == [topic for topic in TOPICS for _ in range(COUNT)]
    topics = {topic: set(words.split()) for topic, words in TOPICS.items()}
    votes = [
        max(topics, key=lambda topic: sum(word in topics[topic] for word in text.split()))
        for _, text in result
    ]
    right = np.mean([vote == label for vote, (label, _) in zip(votes, result, strict=True)])
    assert 0.9 < right < 1.0


def test_a_made_file_that_was_changed_is_made_again() -> None:
    path = write_small(SENTENCES) / SENTENCES
    before = path.read_bytes()
    path.write_text("label,text\n")
    assert (write_small(SENTENCES) / SENTENCES).read_bytes() == before


# --- running them ---------------------------------------------------------------------------


def test_the_list_names_each_with_a_status() -> None:
    result = unlabel("bench", "paper", "--list", "--json").json
    assert result["statuses"] == STATUSES
    assert len(result["entries"]) == len(ENTRIES.values())
    for entry in result["entries"]:
        assert set(entry) == {"name", "where", "title", "status", "claim", "parts", "small"}
        assert entry["status"] in STATUSES
        for part in entry["parts"]:
            assert part["status"] in STATUSES
            assert part["bench"] in BENCHES.names()
            assert part["record"] or part["status"] == "small only"
        assert entry["small"]
    table = unlabel("bench", "paper", "--list")
    assert table.code == 0
    assert "single-label" in table.out


def test_a_text_runs_small_and_again_without_repeating(tmp_path: Path) -> None:
    out = tmp_path / "text.json"
    words = ("bench", "paper", "text", "--small", "--out", out)
    result = unlabel(*words, "--json").json
    assert json.loads(out.read_text()) == result
    assert (result["entry"], result["small"]) == ("text", True)
    (part,) = result["parts"]
    assert part["part"] == "sentences"
    assert not any("folder=" in word for word in part["settings"])
    by_name = {entry["method"]: entry for entry in part["result"]["summary"]}
    assert by_name["original"]["forgotten"]["mean"] > 30
    assert by_name["hidden"]["forgotten"]["mean"] <= 1
    assert {path.name for path in tmp_path.iterdir()} == {
        *("text.json", "text.jsonl", "text.md", "text.png", "text-sentences.md"),
    }
    assert "| `hidden` |" in (tmp_path / "text.md").read_text()
    before = (tmp_path / "text.jsonl").read_bytes()
    messages: list[str] = []
    repeated = run(PaperSettings("text", small=True, out=str(out)), messages.append)
    assert messages == []
    assert (tmp_path / "text.jsonl").read_bytes() == before
    assert repeated["parts"][0]["result"]["summary"] == part["result"]["summary"]


@pytest.mark.parametrize("name", ["settings-single", "related-work", "overview", "split-views"])
def test_what_needs_no_training_runs_at_once(name: str, tmp_path: Path) -> None:
    result = unlabel("bench", "paper", name, "--small", "--out", tmp_path / "x.json")
    assert result.code == 0, result.err
    drawn = {"x.png"} if name == "split-views" else set()
    assert {path.name for path in tmp_path.iterdir()} == {"x.json", "x.md", *drawn}


def test_without_the_command_line_s_libraries_it_is_a_bench_like_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["paper", "entry=notation", "small=true"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["bench"], result["entry"]) == ("paper", "notation")


def test_a_stand_in_is_measured_where_its_file_is_given_and_its_place_is_not_told(
    tmp_path: Path,
) -> None:
    place = tmp_path / "private place"
    place.mkdir()
    path = place / "topics.csv"
    path.write_bytes((write_small(SENTENCES) / SENTENCES).read_bytes())
    out = tmp_path / "out" / "text.json"
    sets = ("model=words", "epochs=2", "methods=mixup-ascent@mixtext-yahoo", "batch=256")
    words = [word for text in sets for word in ("--set", text)]
    result = unlabel(
        *("bench", "paper", "text", "--part", "dbpedia", "--data", f"dbpedia={path}"),
        *("--seeds", 1, *words),
        *("--out", out),
    )
    assert result.code == 0, result.err
    text = out.read_text()
    assert "private place" not in text
    assert json.loads(text)["parts"][0]["settings"][0] == "data=topics.csv"
    page = out.with_suffix(".md").read_text()
    assert "| 62.92 |" in page
    assert "others than the paper's (Yahoo Answers)" in page


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("lamda",), "Did you mean 'lambda'?"),
        ((), "`unlabel bench paper --list` names them"),
        (("text", "--data", "dbpedia=/nowhere.csv"), "does not exist"),
        (("text", "--data", "dpedia=/tmp"), "Did you mean 'dbpedia'?"),
        (("text", "--data", "/tmp"), "PART=FILE"),
        (("text", "--part", "dpedia"), "Did you mean 'dbpedia'?"),
        (("text", "--small", "--part", "dbpedia"), "has its own"),
        (("all", "--part", "cifar10"), "of one entry"),
        (("single-label", "--part", "cifar100"), "needs cifar100.npz"),
    ],
)
def test_what_cannot_work_is_told_and_writes_nothing(
    words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    with nothing_written(tmp_path):
        result = unlabel("bench", "paper", *words, "--out", tmp_path / "x.json")
        assert says in result.sentence


def test_data_that_is_missing_is_named_with_the_ways_to_give_it(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        run(PaperSettings("text", folder=str(tmp_path)), lambda _: None)
    for messages in ("dbpedia14k.csv.gz", "`data` dbpedia=PATH", "'yahoo-answers'", "`small`"):
        assert messages in str(error.value)


def test_seeds_and_settings_reach_the_benches_that_have_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []
    bench = BENCHES.get("single-label")

    def listen(settings: Any, say: Any) -> dict[str, Any]:
        seen.append(settings)
        raise SettingsError("Enough.")

    fake = replace(bench, measure=listen)
    monkeypatch.setattr(BENCHES, "get", lambda _: fake)
    with pytest.raises(SettingsError, match="Enough"):
        run(PaperSettings("lambda", small=True, seeds=7, more="batch=32;nothing=1"), lambda _: None)
    (settings,) = seen
    assert (settings.seeds, settings.batch, settings.data) == (7, 32, "digits")


def test_deep_models_are_measured_on_a_gpu_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for there in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        (one,) = planned(ENTRIES["lambda"], PaperSettings("lambda"))
        wanted = {"device=auto", "precision=bf16", "graphs=true"}
        assert wanted & {*one.words} == (wanted if there else set())
    for name in ("split-image", "models", "settings-more"):  # nothing is computed there
        (one,) = planned(ENTRIES[name], PaperSettings(name))
        parse_settings(BENCHES.get(one.bench).settings, one.words)


def test_a_record_does_not_say_where_data_lie() -> None:
    settings = PaperSettings("text", given=("dbpedia=/home/me/x.csv",), folder="/home/me")
    assert "/home/me" not in json.dumps(provenance(settings)["settings"])


# --- pages ----------------------------------------------------------------------------------


def test_a_page_without_records_says_so(tmp_path: Path) -> None:
    for name in ("docs", "results"):
        (tmp_path / name).mkdir()
    text = tool("reproduction").text(tmp_path)
    assert "± 0.23" not in text
    assert text.count("Not recorded") >= len(ENTRIES.values())


def test_a_section_has_ours_beside_the_paper_s_and_the_aims() -> None:
    result = {
        "bench": "single-label",
        "command": "unlabel bench single-label",
        "commit": "0123456789abcdef",
        "machine": {"system": "Linux", "threads": 1},
        "versions": {"torch": "2.13"},
        "settings": {"seeds": 3},
        "about": {"data": "cifar10"},
        "methods": ["retrain", "hidden", "mixup-ascent@resnet18-cifar10"],
        "records": [],
        "summary": summary(
            **{
                "original": (90.0, 91.0, 80.0),
                "retrain": (90.5, 0.0, 20.0),
                "hidden": (90.2, 0.0, 4.0),
                "mixup-ascent@resnet18-cifar10": (88.0, 70.0, 50.0),
            }
        ),
    }
    one = Run("cifar10", "single-label")
    part = Part(
        *(one, "ResNet18", "CIFAR-10", "CIFAR-10", "reproduced", "results/x.json"),
        table=(1, "resnet18", "cifar10"),
        reason="Told here.",
    )
    entry = Entry("some", "Table 1", (), "Some", (part,), (one,), "Something.")
    text = section(entry, {"results/x.json": result})
    row = next(line for line in text.splitlines() if "`mixup-ascent@" in line)
    assert row.split(" | ")[1:5] == ["88.00 ± 0.00", "89.29 ± 0.19", "70.00 ± 0.00", "0.00 ± 0.00"]
    assert (
        "- **missed**: membership attack 4.00 where retrained models have 20.00\n- why: Told here."
        in text
    )
    assert "- all three hold for: no method" in text
    assert "forgotten accuracy 70.0 (paper 0.0)" in text
    assert "commit 0123456789ab;" in text


def test_a_command_is_told_without_its_files() -> None:
    text = "unlabel bench x data=a records=/tmp/r.jsonl note=Two ran at once. epochs=3 --out o.json"
    assert command_of({"command": text}) == "unlabel bench x data=a epochs=3"


# --- figures that join records ---------------------------------------------------------------


def test_the_words_of_a_method_tell_its_variant_and_rate() -> None:
    words = methods_in("modules")
    assert [variant_of(word) for word in words] == [*VARIANTS] * 4
    rates = ("paper's", "0.0001", "0.0003", "0.001")
    assert [rate_of(word) for word in words] == [rate for rate in rates for _ in VARIANTS]


def test_a_figure_over_parties_follows_the_methods_that_all_records_have(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    known = {"mean": 90.0, "deviation": 1.0}
    line = {"retained": known, "forgotten": known, "asr": None}
    parts = {
        "8": [{"method": "hidden", **line}],
        "2": [{"method": "hidden", **line}, {"method": "ssd", **line}],
    }
    draw(FIGURES["parties"](parts), tmp_path / "parties.png")
    assert (tmp_path / "parties.png").read_bytes().startswith(b"\x89PNG")
