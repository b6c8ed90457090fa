"""What a model is still good for: each figure on a case worked by hand, or by scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from audit.observation_cases import by_logits
from sklearn.metrics import confusion_matrix

from unlabel.audit import Measure
from unlabel.audit.intervals import share_interval
from unlabel.audit.measures.accuracy import PerLabelAccuracy, RetainedAccuracy
from unlabel.audit.measures.calibration import Calibration
from unlabel.audit.measures.confusion import Confusion

#: Rows of three labels and what they are called: 0 0 0 | 1 1 | 2 2.
TRUTH = torch.tensor([0, 0, 0, 1, 1, 2, 2])
CALLED = torch.tensor([0, 0, 2, 1, 2, 2, 0])
SEEN = by_logits(torch.nn.functional.one_hot(CALLED, 3) * 3.0, TRUTH)


def test_retained_accuracy_by_hand() -> None:
    found = RetainedAccuracy().measure(SEEN, (2,))
    assert found.value == 3 / 5
    assert (found.low, found.high) == share_interval(3, 5)
    assert RetainedAccuracy().measure(SEEN, ()).value == 4 / 7


def test_the_worst_label_that_stays_by_hand() -> None:
    found = PerLabelAccuracy().measure(SEEN, (2,))
    assert found.value == 1 / 2
    assert (found.low, found.high) == share_interval(1, 2)
    lines = found.detail["labels"]
    assert [line["value"] for line in lines] == [2 / 3, 1 / 2, 1 / 2]
    assert [line["forgotten"] for line in lines] == [False, False, True]
    assert [line["rows"] for line in lines] == [3, 2, 2]


def test_confusion_is_that_of_scikit_learn() -> None:
    found = Confusion().measure(SEEN, (2,))
    assert found.detail["matrix"] == confusion_matrix(TRUTH, CALLED).tolist()
    # One 0 and one 1 of five are called 2.
    assert found.value == 2 / 5
    assert Confusion().measure(SEEN, (0, 1)).value == 1 / 2


def test_calibration_by_hand() -> None:
    # Confidences 0.9, 0.9, 0.6: two of the first bin's rows right in one case, the last wrong.
    p = torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.6, 0.4]])
    found = Calibration(bins=10).measure(by_logits(p.log(), torch.tensor([0, 0, 1])), ())
    expected = 2 / 3 * abs(0.5 - 0.9) + 1 / 3 * abs(0.0 - 0.6)
    assert found.value == pytest.approx(expected, abs=1e-6)
    assert [point["rows"] for point in found.detail["curve"]] == [1, 2]
    assert found.detail["curve"][1]["accuracy"] == 0.5
    assert found.detail["curve"][1]["confidence"] == pytest.approx(0.9)


def test_a_bin_holds_its_upper_edge() -> None:
    seen = by_logits(torch.tensor([[0.0, 0.0], [90.0, 0.0]]), torch.tensor([0, 0]))
    curve = Calibration(bins=2).measure(seen, ()).detail["curve"]
    assert [(point["low"], point["high"]) for point in curve] == [(0.0, 0.5), (0.5, 1.0)]


def test_calibration_agrees_with_a_loop_over_bins() -> None:
    torch.manual_seed(0)
    logits, labels = 2 * torch.randn(500, 4), torch.randint(0, 4, (500,))
    p = logits.double().softmax(1).max(1)
    right = (p.indices == labels).double()
    expected = 0.0
    for n in range(15):
        inside = (p.values > n / 15) & (p.values <= (n + 1) / 15)
        if inside.any():
            gap = abs(float(right[inside].mean() - p.values[inside].mean()))
            expected += gap * float(inside.double().mean())
    found = Calibration().measure(by_logits(logits, labels), ())
    assert found.value == pytest.approx(expected)
    assert found.low is not None
    assert found.high is not None
    assert found.low < expected < found.high


def test_a_calibrated_model_has_nearly_no_error_and_a_sure_wrong_one_has_all() -> None:
    random = np.random.default_rng(0)
    p = torch.tensor(random.uniform(0.5, 1, 4000))
    labels = torch.tensor((random.uniform(size=4000) > p.numpy()).astype(np.int64))
    logits = torch.stack([p, 1 - p], 1).log()
    good = Calibration().measure(by_logits(logits, labels), ()).value
    sure = torch.tensor([[50.0, 0.0]]).repeat(10, 1)
    bad = Calibration().measure(by_logits(sure, torch.ones(10, dtype=torch.long)), ()).value
    assert good is not None
    assert good < 0.04
    assert bad == pytest.approx(1.0)


@pytest.mark.parametrize(
    "measure", [RetainedAccuracy(), PerLabelAccuracy(), Confusion(), Calibration()]
)
def test_without_rows_that_stay_a_figure_is_undefined_and_says_why(measure: Measure) -> None:
    found = measure.measure(SEEN, (0, 1, 2))
    assert found.value is None
    assert "no test rows of labels that stay" in found.note
