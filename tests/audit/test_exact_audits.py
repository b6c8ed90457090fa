"""An audit of an exact request: judged by evidence, measured all the same, on labels as they were.

One that its evidence does not bear out is not forgotten, whatever the figures say.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from cli.command_line import one_thread
from report.exact_runs import (
    NAMES,
    change_base,
    labels,
    make_run,
    nobody_asked,
    people,
    quick_measures,
    replace_tensors,
)

from unlabel import Federation
from unlabel.audit import Observation, ObservedRows, Verdict
from unlabel.audit.construction import construction_of, depth_by, judge_construction
from unlabel.audit.people import MEASURES_OF_PEOPLE
from unlabel.audit.verdict import read_verdict
from unlabel.errors import ForgetError

__all__ = ["one_thread"]  # a fixture for every test here


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with quick_measures():
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("blind") / "run")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("tuned") / "run", kind="tuned", objective="contrast")


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def rulings(verdict: Verdict) -> dict[str, str]:
    return {f"{each.measure}": each.ruling for each in verdict.findings}


def why(verdict: Verdict, measure: str) -> str:
    """Return the sentence of the finding of a measure that fails."""
    (sentence,) = [
        f.sentence for f in verdict.findings if (f.measure, f.ruling) == (measure, "fail")
    ]
    return sentence


def test_a_label_is_exact_before_and_after_the_commit_and_nobody_is_asked(run: Path) -> None:
    federation = Federation.open(run)
    with nobody_asked():
        outcome = federation.forget(["beech"])
        staged = federation.audit()
        outcome.commit()
        committed = federation.audit()
    assert (staged.depth, staged.guarantee, staged.passed) == ("bottoms", "exact", True)
    assert (staged.state, committed.state) == ("staged", "committed")
    assert committed.guarantee == "exact"
    # After the commit the run has no such label: it is judged by the labels from before.
    assert federation.labels == ("alder", "cedar")
    assert committed.measures == staged.measures
    assert committed.pictures == staged.pictures
    assert committed.pictures["labels"] == list(NAMES)
    assert set(rulings(staged).values()) == {"pass"}
    assert set(rulings(staged)) == {"outputs", "replay", "base", "gradients"}
    left_of_it = staged.measures["forgotten-accuracy"]
    assert left_of_it.value("original") > 0.2 > left_of_it.value("forgotten") == 0  # type: ignore[operator]
    assert {"original", "mask", "forgotten"} == set(left_of_it.values)
    # The new top has no output for it, so that nothing is left of the old one.
    assert staged.measures["trace-output"].value("forgotten") == 0.0


def test_what_is_read_back_is_the_same_verdict(run: Path) -> None:
    federation = Federation.open(run)
    federation.forget(ids=people(run, 3))
    verdict = federation.audit()
    kept = read_verdict(run / "active" / "audit.json")
    assert (kept.guarantee, kept.people, kept.findings) == ("exact", 3, verdict.findings)
    assert kept.facts.construction == verdict.facts.construction
    path = run / "active" / "audit.json"
    raw = json.loads(path.read_text())
    path.write_text(json.dumps({**raw, "guarantee": "certain"}))
    with pytest.raises(Exception, match="its guarantee is none of exact, measured"):
        read_verdict(path)


@pytest.mark.parametrize("count", [1, 4])
def test_people_have_figures_that_make_sense_for_one_and_for_many(run: Path, count: int) -> None:
    federation = Federation.open(run)
    with nobody_asked():
        outcome = federation.forget(ids=people(run, count))
        verdict = federation.audit(retrained=2)
        outcome.commit()
        committed = federation.audit()
    assert (verdict.depth, verdict.guarantee, verdict.people) == ("bottoms", "exact", count)
    assert set(verdict.measures) == set(MEASURES_OF_PEOPLE)
    assert committed.measures == verdict.measures
    change = outcome.result.confidence
    assert change is not None
    confidence = verdict.measures["confidence"]
    assert confidence.value("original") == pytest.approx(change.before, abs=1e-6)
    assert confidence.value("forgotten") == pytest.approx(change.after, abs=1e-6)
    attack = verdict.measures["people-membership"]
    assert len(attack.figure("retrained").seeds) == 2
    assert "mask" not in attack.values
    assert (attack.figure("forgotten").low is None) == (count == 1)


def seen(part: list[list[float]], truth: list[int]) -> ObservedRows:
    logits = torch.tensor(part).log()
    return ObservedRows(torch.tensor(truth), logits, logits, {})


def test_the_figures_of_people_by_hand() -> None:
    # Certain of two people by 0.9 and 0.6, of strangers by 0.8, 0.6 and 0.3.
    observed = Observation(
        seen([[0.9, 0.1], [0.4, 0.6]], [0, 1]),
        seen([[0.8, 0.2], [0.4, 0.6], [0.7, 0.3]], [0, 1, 1]),
        ("no", "yes"),
    )
    figures = {name: each.measure(observed, ()) for name, each in MEASURES_OF_PEOPLE.items()}
    assert figures["retained-accuracy"].value == pytest.approx(2 / 3)
    assert figures["old-labels"].value == 1
    assert figures["confidence"].value == pytest.approx(0.75)
    # Of six pairs the person is surer in 3 + 1, and one pair is equal.
    assert figures["people-membership"].value == pytest.approx((3 + 1 + 0.5) / 6)


def test_of_people_who_were_tested_on_no_attack_can_say_that_they_were_members(run: Path) -> None:
    federation = Federation.open(run)
    federation.forget(ids=people(run, 2, part="test"))
    verdict = federation.audit()
    assert verdict.guarantee == "exact"
    attack = verdict.measures["people-membership"].figure("forgotten")
    assert attack.value is None
    assert "None of these people was trained on" in attack.note
    assert verdict.measures["retained-accuracy"].value("forgotten") is not None


def test_models_to_compare_with_are_fits_from_other_seeds_and_are_kept(run: Path) -> None:
    federation = Federation.open(run)
    federation.forget(["beech"])
    with nobody_asked():
        verdict = federation.audit(retrained=2)
    repeated = federation.audit()
    assert verdict.facts.retrained == repeated.facts.retrained == 2
    assert verdict.facts.references == repeated.facts.references
    assert len(set(verdict.facts.references)) == 2
    seeds = verdict.measures["calibration"]
    assert len(seeds.figure("retrained").seeds) == 2
    # Other seeds, so other models than the one that was staged; and none has the label.
    assert seeds.value("forgotten") not in seeds.figure("retrained").seeds
    assert verdict.measures["forgotten-accuracy"].value("retrained") == 0
    assert "other seeds" not in " ".join(verdict.unknown)
    federation.rollback()
    federation.forget(["cedar"])
    assert federation.audit().facts.retrained == 0  # those were without another label


def test_a_tuned_run_is_exact_by_its_bases_and_by_the_label_holders_word(
    tuned: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(tuned, tmp_path / "run"))
    federation = Federation.open(run)
    federation.forget(["beech"])
    verdict = federation.audit(retrained=1)
    assert (verdict.depth, verdict.guarantee, verdict.visibility) == ("bottoms", "exact", "open")
    assert rulings(verdict)["replay"] == "unknown"
    gradients = [f.sentence for f in verdict.findings if f.measure == "gradients"]
    assert "label-free by the label holder's word, replayable" in gradients[0]
    exact = construction_of(verdict.facts.construction, verdict.depth)
    assert exact is not None
    assert (exact.restart, exact.by_word, exact.holds) == (True, True, True)
    assert verdict.measures["forgotten-accuracy"].value("retrained") == 0


# --- evidence that does not hold ---------------------------------------------------------------


def staged_file(run: Path) -> Path:
    (path,) = (run / "active" / "staged").glob("*.safetensors")
    return path


def expect_refused(run: Path, verdict: Verdict) -> None:
    """Check that nothing is claimed, and that a commit needs a second word."""
    assert (verdict.depth, verdict.guarantee, verdict.passed) == ("none", "measured", False)
    with pytest.raises(ForgetError, match="force"):
        Federation.open(run).commit()


def test_a_top_whose_weights_were_changed_is_not_what_comes_out_again(run: Path) -> None:
    Federation.open(run).forget(["beech"])

    def nudge(tensors: dict[str, object]) -> None:
        name = next(name for name in tensors if name.endswith("bias"))
        tensors[name] = tensors[name] + 1e-6  # type: ignore[operator]

    replace_tensors(staged_file(run), nudge)
    verdict = Federation.open(run).audit()
    assert "comes out with other weights: 1 of its tensors differ" in why(verdict, "replay")
    expect_refused(run, verdict)


def test_a_top_that_kept_the_label_still_has_an_output_for_it(run: Path) -> None:
    from safetensors.torch import load_file

    before = load_file(max((run / "active" / "versions").glob("*.safetensors")))
    Federation.open(run).forget(["beech"])

    def keep(tensors: dict[str, object]) -> None:
        names = list(tensors)
        tensors.clear()
        tensors.update({name: before[name] for name in names})

    replace_tensors(staged_file(run), keep)
    verdict = Federation.open(run).audit()
    assert why(verdict, "outputs") == "The new model still has an output for beech."
    assert why(verdict, "replay")
    expect_refused(run, verdict)


def test_gradients_where_none_may_be_and_other_weights_are_named_with_their_party(
    run: Path,
) -> None:
    Federation.open(run).forget(["beech"])
    change_base(run, gradients=3, gradients_digest="ab" * 32)
    verdict = Federation.open(run).audit()
    assert "Party 'shop' attests that 3 gradients reached its bottom" in why(verdict, "gradients")
    expect_refused(run, verdict)
    change_base(run, gradients=0, weights="ab" * 32)
    verdict = Federation.open(run).audit()
    assert "is not the one that it signed" in why(verdict, "base")
    expect_refused(run, verdict)
    change_base(run, weights=verdict.facts.construction["bases"]["shop"]["weights"])
    assert Federation.open(run).audit().guarantee == "exact"
    change_base(run, objective="contrast")
    assert "was made by 'contrast', not by 'components'" in why(
        Federation.open(run).audit(), "base"
    )


def test_what_nobody_signed_yet_is_not_known_and_decides_nothing(run: Path) -> None:
    path = run / "active" / "label-free" / "base.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "attestations": {}}))
    federation = Federation.open(run)
    federation.forget(["beech"])
    verdict = federation.audit()
    assert (verdict.depth, verdict.guarantee) == ("bottoms", "exact")
    assert rulings(verdict) == {
        "outputs": "pass",
        "replay": "pass",
        "base": "unknown",
        "gradients": "unknown",
    }
    own = [f.ruling for f in verdict.findings if "'active'" in f.sentence]
    assert own == ["pass"]  # the label holder looks at its own file


def test_a_signature_that_does_not_hold_is_no_signature(run: Path) -> None:
    path = run / "active" / "label-free" / "base.json"
    raw = json.loads(path.read_text())
    raw["attestations"]["shop"]["part"] = raw["attestations"]["shop"]["part"].replace(
        '"gradients":0', '"gradients":7'
    )
    path.write_text(json.dumps(raw))
    federation = Federation.open(run)
    federation.forget(["beech"])
    assert rulings(federation.audit())["gradients"] == "unknown"


def test_rows_that_are_not_left_out_and_missing_bottoms_fail() -> None:
    evidence = {
        "method": "refit",
        "outputs": ["alder"],
        "left_out": 4,
        "kept": 2,
        "replay": "same",
        "differing": 0,
        "objective": "components",
        "across": False,
        "bases": {},
    }
    findings = judge_construction(evidence, [], 4)
    assert [f.sentence for f in findings if f.ruling == "fail"] == [
        "2 of the forgotten rows are not left out of what the model learns from.",
        "Nothing shows how bottoms were made.",
    ]
    assert depth_by(findings) == "none"


def test_after_a_purge_nothing_is_left_to_be_measured(run: Path) -> None:
    federation = Federation.open(run)
    federation.forget(["beech"]).commit()
    federation.purge()
    with pytest.raises(ForgetError) as error:
        federation.audit()
    assert error.value.code == "purged"


def test_an_earlier_request_is_no_part_of_the_next(run: Path) -> None:
    federation = Federation.open(run)
    first = people(run, 2, "beech")
    federation.forget(ids=first).commit()
    federation.forget(["beech"])
    verdict = federation.audit()
    left = int((labels() == "beech").sum()) - len(first)
    assert verdict.facts.construction["left_out"] == left
    assert (verdict.labels, verdict.guarantee) == (("beech",), "exact")
