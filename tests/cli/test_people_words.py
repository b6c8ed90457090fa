"""Requests about people, as a newcomer meets them: what is said before, after and instead."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path

import pytest
from cli.command_line import nothing_written, one_thread, unlabel

from unlabel.cli import output
from unlabel.federation import Federation

__all__ = ["one_thread"]  # a fixture for every test here

DIGITS = ("--data", "digits", "--model", "mlp", "--parties", "2", "--epochs", "3")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("people") / "d"
    assert unlabel("train", *DIGITS, "--out", run).code == 0
    return run


@pytest.fixture
def run(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of a run, with a request of five people beside it."""
    shutil.copytree(kept, tmp_path / "d")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(output.results, "width", 80)
    held = Federation.open("d").holdings
    ids = held.ids[held.rows.train[:5].numpy()].tolist()
    Path("five.csv").write_text("\n".join(["id", *ids, ""]))
    return Path("d")


def test_what_a_request_about_people_costs_and_tells_is_said_before_and_after(run: Path) -> None:
    dry = unlabel("forget", run, "--ids", "five.csv", "--dry-run").out
    assert re.search(r"│ people +│ 5 ", dry)
    assert re.search(r"│ method +│ retrain ", dry)
    assert re.search(r"│ takes +│ as long as the training did ", dry)
    assert re.search(r"│ partners learn +│ the forgotten rows, all of them", dry)
    assert re.search(r"│ proved bound +│ none ", dry)

    said = unlabel("forget", run, "--ids", "five.csv").err
    before, after = said.split("It took ")  # what it costs and tells is said before it begins, too
    for words in (
        "takes as long as the training did",
        "see which rows are left out",
        "--defer DAY",
    ):
        assert words in " ".join(before.split())
    assert "Partners learn: the forgotten rows, all of them, by leaving them out." in after
    assert "Next: unlabel commit d, or unlabel rollback d." in after
    with nothing_written(run):
        audit, report = (unlabel(verb, run).sentence for verb in ("audit", "report"))
    assert audit.endswith(
        "each for as long as the training took; add --retrained 5, or 2 at least."
    )
    assert "run `unlabel audit d` first" in report

    judged = unlabel("audit", run, "--retrained", "2")
    assert "Depth reached: answers ('answers' is demanded and holds)" in " ".join(
        judged.out.split()
    )
    assert unlabel("report", run).code == 0
    assert unlabel("commit", run).code == 0
    assert unlabel("audit", run).code == 0  # beside the same two
    purged = unlabel("purge", run)
    assert "Next: unlabel certificate d, and unlabel status d --copies\n" in purged.err
    assert unlabel("certificate", run).code == 0

    # The ledger has who they were, in words that fit the window.
    ids = Path("five.csv").read_text().split()[1:]
    book = unlabel("ledger", run).out
    assert "Ledger of active: 4 lines, chain whole" in book
    listed = re.search(r"people: (.*)", book)
    assert listed
    assert listed[1].startswith(", ".join(sorted(ids, key=listed[1].index)))
    assert "audit: depth answers, " in book
    assert max(map(len, book.splitlines())) <= 80


def test_who_was_trained_on_can_be_listed(run: Path) -> None:
    held = Federation.open(run).holdings
    tested = str(held.ids[int(held.rows.test[0])])
    Path("more.csv").write_text(Path("five.csv").read_text() + f"{tested}\nnobody\n")
    with nothing_written(run):
        sentence = unlabel("forget", run, "--ids", "more.csv").sentence
        assert unlabel("predict", run, "--part", "train", "--out", "trained.csv").code == 0
    assert sentence.startswith(
        "2 of 7 ids were not trained on (1 set aside for tests or as public samples), the first "
        f"being '{tested}', so their labels were not learnt: leave them out"
    )
    assert "`unlabel predict RUN --part train --out FILE` lists who was trained on" in sentence
    with Path("trained.csv").open() as file:
        listed = [line["id"] for line in csv.DictReader(file)]
    assert listed == held.ids[held.rows.train.numpy()].tolist()
    # With those alone the same request is carried out.
    wanted = Path("more.csv").read_text().split()[1:]
    Path("kept.csv").write_text("\n".join(["id", *(i for i in wanted if i in listed), ""]))
    words = ("--ids", "kept.csv", "--dry-run", "--json")
    assert unlabel("forget", run, *words).json["people"] == 5


def test_a_part_is_of_the_run_and_no_file(run: Path) -> None:
    assert (
        "Unknown part 'trian'. Did you mean 'train'?"
        in unlabel("predict", run, "--part", "trian").sentence
    )
    sentence = unlabel("predict", run, "--part", "train", "--data", "new.npz").sentence
    assert sentence == "`part` names the run's own rows; leave out `tables` and `data`."
    usual, named = (unlabel("predict", run, *w, "--json") for w in ((), ("--part", "test")))
    assert usual.json == named.json


def test_accuracy_after_a_request_is_that_of_labels_that_stay(run: Path) -> None:
    before = unlabel("evaluate", run, "--json").json
    assert before["retained_accuracy"] == before["accuracy"]
    assert before["forgotten_labels"] == []
    assert "forgotten" not in unlabel("evaluate", run).out
    assert unlabel("forget", run, "--label", "3", "--label", "5", "--commit").code == 0
    found = unlabel("evaluate", run, "--json").json
    stays = [n for n in range(10) if n not in (3, 5)]
    right = sum(found["confusion"][n][n] for n in stays)
    share = right / sum(sum(found["confusion"][n]) for n in stays)
    assert found["retained_accuracy"] == pytest.approx(share)
    assert found["accuracy"] == found["retained_accuracy"]
    assert found["accuracy_all_labels"] < share - 0.1
    assert found["forgotten_labels"] == ["3", "5"]
    shown = unlabel("evaluate", run).out
    headline = f"Test accuracy {100 * share:.1f} % on the 8 labels that stay, 2 forgotten"
    assert shown.startswith(headline)
    assert f"On all labels: {100 * found['accuracy_all_labels']:.1f} %." in shown
    assert re.search(r"│ 5 \(forgotten\) +│ +0.0 % ", shown)


def test_a_dry_run_speaks_in_words(run: Path) -> None:
    for visibility in ("hidden", "open"):
        shown = unlabel("forget", run, "--label", "3", "--visibility", visibility, "--dry-run").out
        assert re.search(r"│ labels +│ 3 ", shown)
        assert not re.search(r"[\[\]{}]|True|False|None", shown)
    assert re.search(r"│ samples +│ \d+ of the label, \d+ of others ", shown)


def test_a_request_that_failed_is_said_without_markup(run: Path) -> None:
    # At rate 0 nothing is forgotten.
    words = ("--visibility", "open", "--set", "top_lr=0", "--set", "bottom_lr=0")
    said = unlabel("forget", run, "--label", "3", *words).err
    assert "Not forgotten: " in said
    assert "[bold]" not in said


@pytest.mark.parametrize(
    "words",
    [("methods",), ("data", "list"), ("bench", "list"), ("bench", "paper", "--list")],
)
def test_lists_fit_a_window_of_80_letters_uncut(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output.results, "width", 80)
    shown = unlabel(*words).out
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_after_a_request_that_was_dropped_there_is_nothing_to_clear(run: Path) -> None:
    assert unlabel("forget", run, "--label", "3").code == 0
    assert unlabel("rollback", run).code == 0
    purged = unlabel("purge", run)
    assert "and nothing older." in purged.err
    assert "Next:" not in purged.err


def test_a_request_that_waits_is_shown_with_its_day_until_it_is_done(run: Path) -> None:
    waits = unlabel("forget", run, "--ids", "five.csv", "--defer", "2999-12-31", "--json").json
    said = " ".join(unlabel("status", run).err.split())
    assert (
        f"Request {waits['deferred']} waits, of the labels of 5 people, until 2999-12-31 at the "
        f"latest. Next: unlabel train --update --out d"
    ) in said
    assert [each["until"] for each in unlabel("status", run, "--json").json["waiting"]] == [
        "2999-12-31"
    ]
    assert unlabel("train", "--update", "--out", run).code == 0
    assert unlabel("status", run, "--json").json["waiting"] == []


def test_a_request_that_waits_behind_a_hidden_one_names_the_flag_that_its_update_needs(
    run: Path,
) -> None:
    assert unlabel("forget", run, "--label", "7", "--commit").code == 0
    told = unlabel("forget", run, "--ids", "five.csv", "--defer", "2999-12-31")
    assert "--allow-disclosure, which may show what was hidden before" in " ".join(told.err.split())
    assert unlabel("train", "--update", "--out", run).code != 0
    assert unlabel("train", "--update", "--out", run, "--allow-disclosure").code == 0
