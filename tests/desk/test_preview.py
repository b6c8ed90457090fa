"""What a choice would mean and cost: from the plan alone, and in the words of what is then done."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from blind_runs import IDS
from serve.served import KINDS, LABEL, trained

from desk.runs import contents
from unlabel import Federation
from unlabel.config import BottomsKind, RunConfig
from unlabel.desk.preview import Preview, choices, impossible, preview
from unlabel.errors import ForgetError, UnlabelError


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a trained run of each kind, which no test here changes."""
    folders = {kind: tmp_path_factory.mktemp("runs") / kind for kind in KINDS}
    for kind, folder in folders.items():
        trained(kind, folder)
    return folders


def previews(folder: Path, *, people: bool) -> dict[str, Preview]:
    """Return what a desk shows of every choice."""
    run = Federation.open(folder)
    labels = [] if people else [LABEL]
    ids = [trained_on(run)] if people else []
    shown = {}
    for choice in choices(run.config, people=people):
        try:
            work = run.plan(labels, ids=ids, settings=choice.settings)
            shown[choice.key] = preview(run, choice, work)
        except UnlabelError as error:
            shown[choice.key] = impossible(choice, error)
    return shown


def trained_on(run: Federation) -> str:
    """Return the id of somebody whose label was trained on."""
    return str(IDS[int(run.holdings.rows.train[0])])


@pytest.mark.parametrize("people", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_preview_changes_no_file(runs: dict[str, Path], kind: str, people: bool) -> None:
    before = contents(runs[kind])
    shown = previews(runs[kind], people=people)
    assert contents(runs[kind]) == before
    assert any(not each.trouble for each in shown.values())
    for each in shown.values():
        assert Preview.from_json(each.to_json()) == each
        if not each.trouble:
            assert len(each.means) == 3
            assert each.costs
            assert all(sentence.endswith(".") for sentence in (*each.means, *each.costs))


@pytest.mark.parametrize("people", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_request_is_carried_out_in_the_words_of_its_preview(
    runs: dict[str, Path], kind: str, people: bool
) -> None:
    shown = previews(runs[kind], people=people)
    run = Federation.open(runs[kind]).copy()
    key = next(key for key, each in shown.items() if not each.trouble)
    choice = next(each for each in choices(run.config, people=people) if each.key == key)
    labels, ids = ([], [trained_on(run)]) if people else ([LABEL], [])
    result = run.forget(labels, ids=ids, settings=choice.settings).result
    assert (result.visibility, result.aim) == (shown[key].visibility, shown[key].depth)
    assert f"Partners learn: {result.tells_partners}." in shown[key].costs[1]
    # Where nothing was sent, the preview says so; and the other way round.
    assert ("no message is sent" in shown[key].costs[1]) == (result.transcript_bytes == 0)


def test_only_a_run_without_labels_in_its_bottoms_promises_what_is_exact(
    runs: dict[str, Path],
) -> None:
    for kind in KINDS:
        for people in (False, True):
            for each in previews(runs[kind], people=people).values():
                promised = "bit for bit" in " ".join(each.means)
                assert promised == (kind != "supervised" and not each.trouble)
                assert promised == (each.guarantee == "exact")


def test_what_cannot_be_done_is_offered_with_the_reason(runs: dict[str, Path]) -> None:
    shown = previews(runs["supervised"], people=True)
    assert shown["hidden"].trouble
    assert not shown["hidden"].means
    assert not shown["retrain"].trouble
    assert shown["retrain"].warnings, "partners see whose rows are left out"


def test_an_aim_is_not_told_as_what_was_reached(runs: dict[str, Path]) -> None:
    for each in previews(runs["supervised"], people=False).values():
        assert "aims at" in each.means[1]


def test_every_way_of_a_request_has_its_own_key() -> None:
    kinds: tuple[BottomsKind, ...] = get_args(BottomsKind)
    for kind in kinds:
        config = replace(RunConfig(data="digits"), bottoms=kind)
        for people, hidden in product((False, True), repeat=2):
            keys = [each.key for each in choices(config, people=people, hidden=hidden)]
            assert len(set(keys)) == len(keys) > 0


def test_the_reason_of_a_refusal_is_the_plan_s_own() -> None:
    choice = choices(RunConfig(data="digits"), people=False)[0]
    error = ForgetError("Label 'x' was already forgotten.", code="already-forgotten")
    assert impossible(choice, error).trouble == str(error)
