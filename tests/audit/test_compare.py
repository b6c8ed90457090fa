"""All measures over all models; and what holds of every one of them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from audit.observation_cases import GONE, knower, refitted, shifted, shuffled, stranger
from hypothesis import given, settings
from hypothesis import strategies as st

from unlabel.audit import MEASURES, Figure, Measure, Measurement, Observation, ObservedRows, compare
from unlabel.audit.figures import measurements_from_json, plain_data
from unlabel.audit.measures.relearning import Relearning
from unlabel.errors import DataError
from unlabel.terms import DEPTHS

NAMES = MEASURES.names()
#: Measures whose value depends on which rows are drawn, so that another order moves it a little.
DRAWN = {"probe-linear", "probe-mlp", "probe-nearest", "relearning"}
#: The value for a model that knows the label, for the same one masked, and for one that never saw
#: it: each the extreme that the measure has.
EXTREMES = {
    "forgotten-accuracy": (1.0, 0.0, 0.0),
    "trace": (1.0, 1.0, 0.0),
    "trace-output": (1.0, 1.0, 0.0),
    "echo": (1.0, 1.0, 0.0),
    "resurfacing": (1.0, 1.0, 0.0),
    "probe-linear": (1.0, 1.0, 0.2),
    "probe-nearest": (1.0, 1.0, 0.2),
    "probe-mlp": (1.0, 1.0, 0.2),
}


@pytest.fixture(scope="module")
def found() -> dict[str, Measurement]:
    known, never = knower(), stranger(7)
    models = {
        "original": [known],
        "mask": [known.masked([GONE])],
        "forgotten": [never],
        "retrained": [stranger(1), stranger(2)],
        "refitted": [refitted(never, number) for number in range(3)],
    }
    measures = {name: MEASURES.get(name)() for name in NAMES}
    measures["relearning"] = Relearning(steps=60)
    return compare(models, [GONE], measures=measures)


def values(found: dict[str, Measurement], name: str) -> dict[str, Any]:
    return dict(found[name].values)


def test_every_measure_explains_itself() -> None:
    assert len(NAMES) >= 15
    for name in NAMES:
        kind = MEASURES.get(name)
        assert kind.__doc__
        assert kind.about
        assert kind.depth in (None, *DEPTHS)


def test_every_measurement_comes_back_from_the_plain_data_of_a_verdict(
    found: dict[str, Measurement],
) -> None:
    assert set(found) == set(NAMES)
    plain = {name: plain_data(each) for name, each in found.items()}
    assert json.loads(json.dumps(plain)) == plain
    assert measurements_from_json(plain) == found
    for name, block in plain.items():
        assert list(block) == ["about", "depth", "higher_is_better", "unit", "values"], name
        for entry in block["values"].values():
            assert list(entry) == ["value", "low", "high", "detail", "note", "seeds", "each"]
            assert [list(one) for one in entry["each"]] == [
                ["value", "low", "high", "parties"] for _ in entry["seeds"]
            ]
        for figure in values(found, name).values():
            if figure.value is not None and figure.low is not None:
                assert figure.low <= figure.value + 1e-9


@pytest.mark.parametrize("name", EXTREMES)
def test_a_non_forgetter_and_a_perfect_one_get_the_extremes(
    found: dict[str, Measurement], name: str
) -> None:
    entry = values(found, name)
    got = [entry[model].value for model in ("original", "mask", "forgotten")]
    assert got == pytest.approx(EXTREMES[name], abs=0.12)


def test_what_is_no_extreme_still_tells_a_forgetter_from_a_mask(
    found: dict[str, Measurement],
) -> None:
    went = values(found, "destination")
    # Built to lie on the four other centres, as many on each.
    assert went["original"].value == 0.0
    assert went["forgotten"].value == pytest.approx(1.0, abs=0.02)
    steps = values(found, "relearning")
    assert steps["original"].value < 30
    assert steps["forgotten"].value is None


@pytest.mark.parametrize("name", NAMES)
def test_a_perfect_forgetter_lies_within_what_retrained_models_show(
    found: dict[str, Measurement], name: str
) -> None:
    entry = values(found, name)
    forgotten, retrained = entry["forgotten"], entry["retrained"]
    if forgotten.value is None:
        assert retrained.value is None
    elif forgotten.low is None:
        assert forgotten.value == pytest.approx(retrained.value, abs=0.1)
    else:
        assert forgotten.low <= retrained.high + 1e-9
        assert retrained.low <= forgotten.high + 1e-9


@pytest.mark.parametrize("name", [n for n in NAMES if MEASURES.get(n).depth in ("top", "bottoms")])
def test_below_the_output_nothing_depends_on_what_is_predicted(name: str) -> None:
    seen = knower(rows=100)

    def silent(part: ObservedRows) -> ObservedRows:
        return replace(part, logits=torch.full_like(part.logits, torch.nan))

    muted = Observation(silent(seen.train), silent(seen.test), seen.names)
    measure = MEASURES.get(name)()
    assert measure.measure(muted, (GONE,)) == measure.measure(seen, (GONE,))


QUICK = [n for n in NAMES if MEASURES.get(n).depth != "bottoms"]


@given(seed=st.integers(0, 1000), by=st.floats(-30, 30))
@settings(max_examples=10)
def test_the_order_of_rows_and_a_constant_on_all_logits_change_nothing(
    seed: int, by: float
) -> None:
    seen = knower(3, rows=60)
    for name in QUICK:
        measure = MEASURES.get(name)()
        expected = measure.measure(seen, (GONE,)).value
        assert measure.measure(shuffled(seen, seed), (GONE,)).value == pytest.approx(expected), name
        # The attack's cut between members may fall on either side of a row.
        loose = 0.1 if name == "membership" else 1e-4
        moved = measure.measure(shifted(seen, by), (GONE,)).value
        assert moved == pytest.approx(expected, abs=loose), name


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_another_order_of_rows_moves_a_probe_by_no_more_than_its_interval(name: str) -> None:
    measure, seen = MEASURES.get(name)(), knower(3, rows=100)
    one, two = measure.measure(seen, (GONE,)), measure.measure(shuffled(seen, 1), (GONE,))
    assert one.low is not None
    assert one.high is not None
    assert two.low is not None
    assert two.high is not None
    assert one.low <= two.high
    assert two.low <= one.high


@dataclass(frozen=True)
class Told(Measure):
    """Return what the first test row's first logit says, and remember having been asked."""

    about: ClassVar[str] = "a test"
    asked: ClassVar[list[float]] = []

    def measure(self, seen: Observation, labels: tuple[int, ...]) -> Figure:
        """Return it."""
        value = round(float(seen.test.logits[0, 0]), 6)
        self.asked.append(value)
        return Figure(None if value < 0 else value, value - 0.01, value + 0.01, {"is": value})


def saying(value: float) -> Observation:
    seen = knower(rows=10)
    return replace(seen, test=replace(seen.test, logits=torch.full_like(seen.test.logits, value)))


def test_several_of_one_model_are_averaged() -> None:
    several = [saying(0.2), saying(0.4), saying(0.6)]
    told: list[tuple[int, int, str]] = []
    found = compare(
        {"retrained": several, "original": [saying(0.9)]},
        [GONE],
        measures={"told": Told()},
        watch=lambda step, steps, note: told.append((step, steps, note)),
    )["told"].values
    entry = found["retrained"]
    assert entry.value == pytest.approx(0.4)
    assert entry.seeds == pytest.approx([0.2, 0.4, 0.6])
    # The mean -+ 2 * 0.2 / sqrt(3) reaches further up than the seeds' own intervals.
    assert entry.high == pytest.approx(0.4 + 0.4 / 3**0.5)
    assert entry.low == pytest.approx(0.4 - 0.4 / 3**0.5)
    assert entry.detail == {"is": pytest.approx(0.2)}
    assert [one.high for one in entry.each] == pytest.approx([0.21, 0.41, 0.61])
    assert found["original"].seeds == pytest.approx([0.9])
    assert [step for step, _, _ in told] == [1, 2, 3, 4]
    assert told[-1] == (4, 4, "told of original")


def test_a_seed_without_a_value_is_left_out_and_said_so() -> None:
    several = {"retrained": [saying(0.5), saying(-1.0)]}
    entry = compare(several, [GONE], measures={"told": Told()})["told"].values["retrained"]
    assert entry.value == 0.5
    assert entry.seeds == (0.5, None)
    assert entry.note == "1 of 2 have no value."


def test_a_mask_is_not_measured_again_below_the_output() -> None:
    @dataclass(frozen=True)
    class Deeper(Told):
        """The same, said to be of a deeper depth."""

        depth: ClassVar = "bottoms"
        bounds: ClassVar = (-math.inf, math.inf)
        asked: ClassVar[list[float]] = []

    known = knower(rows=10)
    models = {"original": [known], "mask": [known.masked([GONE])], "other": [stranger(rows=10)]}
    compare(models, [GONE], measures={"deeper": Deeper()})
    assert len(Deeper.asked) == 2


def test_a_model_of_which_nothing_was_seen_is_refused() -> None:
    with pytest.raises(DataError, match=r"'retrained'"):
        compare({"retrained": []}, [GONE])


@dataclass(frozen=True)
class Broken(Measure):
    """Returns what it is given, or raises it."""

    about: ClassVar[str] = "a mistake"
    outcome: Any = None

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        figure: Figure = self.outcome
        return figure


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (Figure(torch.tensor(0.5)), "plain numbers or None but got a Tensor"),  # type: ignore[arg-type]
        (Figure(0.5, torch.tensor(0.4), 0.6), "plain numbers or None but got a Tensor"),  # type: ignore[arg-type]
        (Figure(10.85), "between its `bounds` 0 and 1 but got 10.85"),
        (Figure(-0.1), "between its `bounds` 0 and 1 but got -0.1"),
        (Figure(float("nan")), "between its `bounds` 0 and 1 but got nan"),
        (None, "failed"),
        (ZeroDivisionError("division by zero"), r"failed \(ZeroDivisionError: division by zero\)"),
    ],
)
def test_a_measure_that_is_wrong_is_named(outcome: object, sentence: str) -> None:
    with pytest.raises(DataError, match=rf"Measure 'mine'.*{sentence}"):
        compare({"original": [knower(rows=10)]}, [GONE], measures={"mine": Broken(outcome)})


def test_a_value_may_miss_its_bounds_by_rounding() -> None:
    measures = {"mine": Broken(Figure(1.0 + 1e-7))}
    assert compare({"original": [knower(rows=10)]}, [GONE], measures=measures)["mine"]
