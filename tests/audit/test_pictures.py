"""The data of the report's pictures, against other people's implementations and worked cases."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from report.verdicts import CAT, NAMES, models, seen
from scipy.stats import binomtest
from sklearn.decomposition import PCA
from torch import Tensor

from unlabel.audit import Observation, ObservedRows
from unlabel.audit.pictures import (
    CERTAIN,
    MAP_FORGOTTEN,
    MAP_OTHERS,
    certainty,
    destination,
    flat_map,
    histograms,
    label_accuracy,
    picture_data,
)


def part_of(labels: list[int], predicted: list[int], count: int) -> ObservedRows:
    logits = torch.eye(count)[predicted]
    return ObservedRows(torch.tensor(labels), logits, logits.clone(), {"left": logits})


def random_part(rows: int, count: int, seed: int, width: int = 4) -> ObservedRows:
    draw = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(rows, count, generator=draw)
    labels = torch.randint(count, (rows,), generator=draw)
    found = {name: torch.randn(rows, width, generator=draw) for name in ("left", "right")}
    return ObservedRows(labels, scores, scores.clone(), found)


def test_accuracy_of_each_label_is_counted_with_an_exact_interval() -> None:
    part = part_of([0] * 20 + [1] * 3, [0] * 17 + [2] * 3 + [1] * 3, 3)
    first, second, third = label_accuracy(part, 3)
    assert first is not None
    assert second is not None
    for (share, low, high, rows), (right, n) in ((first, (17, 20)), (second, (3, 3))):
        exact = binomtest(right, n).proportion_ci(method="exact")
        assert (share, rows) == (right / n, n)
        assert (low, high) == pytest.approx((exact.low, exact.high))
    assert third is None  # no row of it


def test_where_rows_go_is_counted_and_its_entropy_is_that_of_the_shares() -> None:
    found = destination(part_of([0] * 4, [1, 1, 2, 3], 4), 4)
    assert found["shares"] == [0, 0.5, 0.25, 0.25]
    assert found["rows"] == 4
    assert found["entropy"] == pytest.approx(1.5 * math.log(2))
    assert destination(part_of([0] * 4, [2] * 4, 4), 4)["entropy"] == 0
    even = destination(part_of([0] * 4, [0, 1, 2, 3], 4), 4)
    assert even["entropy"] == pytest.approx(math.log(4))


def test_the_attack_score_is_the_log_odds_of_the_own_label_whatever_is_muted() -> None:
    part = random_part(50, 5, 0)
    own = part.scores.double().softmax(1).gather(1, part.labels[:, None])[:, 0]
    assert torch.allclose(certainty(part), (own / (1 - own)).log(), atol=1e-6)
    masked = Observation(part, part, tuple("abcde")).masked([1]).train
    assert not torch.equal(masked.logits, part.logits)
    assert torch.equal(certainty(masked), certainty(part))


def test_scores_that_are_certain_are_cut_off_and_those_that_are_no_number_left_out() -> None:
    scores = torch.tensor([[1e4, 0.0], [-torch.inf, 0.0], [torch.nan, 0.0], [0.0, 0.0]])
    part = ObservedRows(torch.zeros(4, dtype=torch.int64), scores, scores, {})
    assert certainty(part).tolist() == [CERTAIN, -CERTAIN, 0.0]


def test_histograms_count_as_numpy_does_and_share_their_edges() -> None:
    draw = torch.Generator().manual_seed(3)
    scores = {
        model: {
            "members": torch.randn(n, generator=draw).double() + shift,
            "strangers": torch.randn(n, generator=draw).double(),
        }
        for model, n, shift in (("original", 200, 3.0), ("forgotten", 81, 0.0))
    }
    found = histograms(scores)
    every = torch.cat([v for groups in scores.values() for v in groups.values()]).numpy()
    edges = np.linspace(every.min(), every.max(), 31)
    assert found["edges"] == pytest.approx(edges, abs=1e-3)
    for model, groups in scores.items():
        for name, values in groups.items():
            drawn = found["models"][model][name]
            assert drawn["counts"] == np.histogram(values.numpy(), edges)[0].tolist()
            assert drawn["rows"] == sum(drawn["counts"]) == len(values)
            quartiles = np.quantile(values.numpy(), [0.25, 0.5, 0.75])
            assert drawn["quartiles"] == pytest.approx(quartiles, abs=1e-3)


def test_one_score_everywhere_still_has_a_histogram() -> None:
    same = torch.full((7,), -CERTAIN, dtype=torch.float64)
    found = histograms({"forgotten": {"members": same, "strangers": same[:2]}})
    drawn = found["models"]["forgotten"]
    assert sum(drawn["members"]["counts"]) == 7
    assert max(drawn["strangers"]["counts"]) == 2
    assert found["edges"][0] < -CERTAIN < found["edges"][-1]


def test_the_map_is_that_of_principal_components_of_both_models_together() -> None:
    before, after = random_part(60, 3, 1), random_part(60, 3, 2)
    after = ObservedRows(before.labels, after.logits, after.scores, after.embeddings)
    found = flat_map({"original": before, "forgotten": after}, [1])
    stacked = torch.cat([before.joined(), after.joined()]).double().numpy()
    ready = (stacked - stacked.mean(0)) / stacked.std(0)
    reference = PCA(2, svd_solver="full")
    places = reference.fit_transform(ready)
    drawn = np.array([*found["models"]["original"], *found["models"]["forgotten"]])
    for axis in (0, 1):
        sign = np.sign(drawn[:, axis] @ places[:, axis])
        assert drawn[:, axis] == pytest.approx(sign * places[:, axis], abs=1e-3)
    assert found["explained"] == pytest.approx(reference.explained_variance_ratio_.sum())
    assert drawn[:60, 2].tolist() == before.labels.tolist()


def test_rows_that_did_not_move_lie_at_the_same_place_of_both_maps() -> None:
    before, changed = random_part(40, 3, 1), random_part(40, 3, 9)
    mixed = {
        party: torch.cat([values[:20], changed.embeddings[party][20:]])
        for party, values in before.embeddings.items()
    }
    after = ObservedRows(before.labels, before.logits, before.scores, mixed)
    drawn = flat_map({"original": before, "forgotten": after}, [0])["models"]
    assert drawn["original"][:20] == drawn["forgotten"][:20]
    assert drawn["original"][20:] != drawn["forgotten"][20:]


@pytest.mark.parametrize("width", [0, 1])
def test_embeddings_too_narrow_for_a_map_are_drawn_on_a_line(width: int) -> None:
    part = random_part(10, 2, 0)
    values = torch.arange(10.0)[:, None].repeat(1, width) if width else torch.ones(10, 1)
    narrow = ObservedRows(part.labels, part.logits, part.scores, {"left": values})
    found = flat_map({"original": narrow, "forgotten": narrow}, [0])
    assert all(place[1] == 0 for place in found["models"]["original"])
    assert found["explained"] == pytest.approx(width)


def test_the_data_is_small_however_many_rows_and_labels_there_are() -> None:
    many, names = 100, [f"label {n}" for n in range(100)]
    view = Observation(random_part(9000, many, 0), random_part(9000, many, 1), tuple(names))
    each = dict.fromkeys(("original", "mask", "forgotten", "retrained"), view)
    found = picture_data(each, list(range(60)), names)
    points = found["map"]["models"]["forgotten"]
    assert sum(point[2] < 60 for point in points) == MAP_FORGOTTEN
    assert sum(point[2] >= 60 for point in points) == MAP_OTHERS
    assert len(json.dumps(found, allow_nan=False)) < 150_000


def test_what_is_drawn_tells_a_forgetter_from_a_model_that_only_hides() -> None:
    found = json.loads(json.dumps(picture_data(models(), [CAT], NAMES), allow_nan=False))
    assert found["labels"] == list(NAMES)
    assert found["forgotten"] == [CAT]
    share = {model: lines[CAT][0] for model, lines in found["accuracy"].items()}
    assert share["original"] > 0.9
    assert share["mask"] == 0
    assert max(share["forgotten"], share["retrained"]) < 0.1
    scores = found["scores"]["models"]
    assert scores["mask"] == scores["original"]  # whoever holds the weights lifts a mask
    middle = {model: groups["members"]["quartiles"][1] for model, groups in scores.items()}
    assert middle["original"] > 0 > middle["forgotten"] > -CERTAIN
    assert set(found["map"]["models"]) == {"original", "forgotten"}
    assert found["destination"]["original"]["entropy"] < found["destination"]["mask"]["entropy"]


def test_without_test_rows_of_a_label_there_is_nothing_to_attack_with() -> None:
    view = seen(0.0, 1.0)
    others: Tensor = view.test.labels != CAT
    found = picture_data(
        {"original": Observation(view.train, view.test.take(others), NAMES)}, [CAT], NAMES
    )
    assert {"scores", "destination"} & set(found) == set()
    assert found["accuracy"]["original"][CAT] is None
