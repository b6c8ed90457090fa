"""Rivals' measures on cases worked by hand, and against independent computations."""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch
from audit.observation_cases import GONE, NAMES, knower, stranger
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, mutual_info_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from unlabel_bench.knowledge import nats_about
from unlabel_bench.rivals import RIVALS, rivals
from unlabel_bench.rivals.cka import linear_cka
from unlabel_bench.rivals.idi import index
from unlabel_bench.rivals.three_sample import nearer
from unlabel_bench.rivals.ulira import confidences, u_lira

from unlabel.audit import Observation, ObservedRows
from unlabel.audit.compare import compare
from unlabel.audit.figures import Figure
from unlabel.audit.intervals import Array
from unlabel.audit.measure import MEASURES, Models

LABELS = (GONE,)


def seen(embeddings: Tensor, labels: list[int], logits: Tensor | None = None) -> Observation:
    """Return a model of one party, the same on training rows and on test rows."""
    truth = torch.tensor(labels)
    scores = torch.zeros(len(truth), 3) if logits is None else logits
    part = ObservedRows(truth, scores, scores, {"p": embeddings})
    return Observation(part, part, ("a", "b", "c")[: scores.shape[1]])


def taken(
    name: str, observed: Observation, models: Models, labels: tuple[int, ...] = LABELS
) -> Figure:
    return RIVALS.get(name)().beside(observed, labels, models)


@pytest.fixture(scope="module")
def models() -> dict[str, list[Observation]]:
    return {"original": [knower()], "retrained": [stranger(1), stranger(2)]}


def test_an_audit_takes_none_of_them() -> None:
    assert RIVALS.names() == [
        *("cka-original", "cka-retrained", "cmia", "idi", "lpr", "separability", "three-sample"),
    ]
    assert not set(RIVALS.names()) & set(MEASURES.names())


def test_every_one_stays_within_its_bounds_and_repeats(
    models: dict[str, list[Observation]],
) -> None:
    cases = {**models, "forgotten": [knower(3)]}
    first, second = (compare(cases, LABELS, measures=rivals()) for _ in range(2))
    assert first == second
    values = {name: m.value("forgotten") for name, m in first.items()}
    assert all(value is not None for value in values.values())


@pytest.mark.parametrize("name", RIVALS.names())
def test_without_rows_of_the_label_there_is_no_value_and_a_note(
    name: str, models: dict[str, list[Observation]]
) -> None:
    def bare(one: Observation) -> Observation:
        return replace(one, train=one.train.without(LABELS), test=one.test.without(LABELS))

    cases = {kind: [bare(one) for one in several] for kind, several in models.items()}
    figure = taken(name, cases["original"][0], cases)
    if not name.startswith("cka"):  # which looks at all rows alike
        assert figure.value is None
        assert figure.note
    nobody = replace(cases["original"][0], test=cases["original"][0].test.of(LABELS))
    assert taken(name, nobody, {"original": [nobody], "retrained": [nobody]}).value is None


@pytest.mark.parametrize("name", ["cka-original", "cka-retrained", "idi", "three-sample"])
def test_a_comparison_without_others_has_no_value(name: str) -> None:
    figure = taken(name, knower(), {"forgotten": [knower()]})
    assert figure.value is None
    assert figure.note


# Linear-probe recovery


def test_recovery_is_the_balanced_accuracy_of_a_logistic_regression() -> None:
    one = stranger(4)
    x, forgotten = one.test.joined().double().numpy(), (one.test.labels == GONE).numpy()
    fit, asked, y, truth = train_test_split(
        x, forgotten, test_size=0.3, random_state=0, stratify=forgotten
    )
    scale = StandardScaler().fit(fit)
    probe = LogisticRegression(max_iter=1000).fit(scale.transform(fit), y)
    figure = taken("lpr", one, {})
    calls = probe.predict(scale.transform(asked))
    assert figure.value == pytest.approx(balanced_accuracy_score(truth, calls))
    area = roc_auc_score(truth, probe.decision_function(scale.transform(asked)))
    assert figure.detail["auc"] == pytest.approx(area)
    assert figure.low is not None
    assert figure.high is not None
    assert figure.value is not None
    assert figure.low <= figure.value <= figure.high


def test_recovery_is_whole_where_a_line_separates_and_half_where_rows_are_alike() -> None:
    line = torch.arange(40.0)[:, None]
    labels = [0] * 20 + [1] * 20
    assert taken("lpr", seen(line, labels), {}, (1,)).value == 1.0
    assert taken("lpr", seen(torch.zeros(40, 1), labels), {}, (1,)).value == 0.5


# Alignment


def test_alignment_of_three_rows_worked_by_hand() -> None:
    # Centred: x = (-1, 0, 1), y = (-1, 2, -1): x'y = 0; with z = (-1, -1, 2): x'z = 3, 9 / (2 6).
    x, y, z = (torch.tensor(v)[:, None] for v in ([0.0, 1, 2], [0.0, 3, 0], [1.0, 1, 4]))
    assert linear_cka(x, y) == pytest.approx(0.0)
    assert linear_cka(x, z) == pytest.approx(0.75)
    assert linear_cka(x, torch.ones(3, 2)) is None


def test_alignment_sees_no_rotation_size_or_shift_but_sees_another_map() -> None:
    random = torch.Generator().manual_seed(0)
    x, y = torch.randn(50, 4, generator=random), torch.randn(50, 3, generator=random)
    turn = torch.linalg.qr(torch.randn(4, 4, generator=random)).Q
    assert linear_cka(x, 3 * x @ turn + 5) == pytest.approx(1.0)
    value = linear_cka(x @ torch.diag(torch.tensor([1.0, 2, 4, 8])), x)
    assert value is not None
    assert value < 0.9
    # Independently, by columns: |Y'X|^2 / (|X'X| |Y'Y|).
    a, b = (v.double().numpy() - v.double().numpy().mean(0) for v in (x, y))
    size = np.linalg.norm
    expected = size(b.T @ a) ** 2 / (size(a.T @ a) * size(b.T @ b))
    assert linear_cka(x, y) == pytest.approx(expected)


def test_alignment_is_to_the_models_of_its_name_and_never_to_itself(
    models: dict[str, list[Observation]],
) -> None:
    original, (first, second) = models["original"][0], models["retrained"]
    assert taken("cka-original", original, models).value == pytest.approx(1.0)
    figure = taken("cka-retrained", first, models)
    assert figure.value == pytest.approx(linear_cka(first.test.joined(), second.test.joined()))
    alone = taken("cka-retrained", original, models).detail["parties"]["party-1"]["value"]
    each = [
        linear_cka(original.test.embeddings["party-1"], o.test.embeddings["party-1"])
        for o in (first, second)
    ]
    assert alone == pytest.approx(sum(x or 0 for x in each) / 2)


# Separability


def test_separability_of_four_rows_worked_by_hand() -> None:
    # Means (0, 1) and (4, 4): distance^2 25. Variances over n - 1: 0 + 2 and 8 + 0.
    rows = torch.tensor([[0.0, 0], [0, 2], [2, 4], [6, 4]])
    one = seen(rows, [1, 1, 0, 0])
    assert taken("separability", one, {}, (1,)).value == pytest.approx(2.5)
    turned = seen(7 * rows @ torch.tensor([[0.6, -0.8], [0.8, 0.6]]) + 1, [1, 1, 0, 0])
    assert taken("separability", turned, {}, (1,)).value == pytest.approx(2.5)
    assert taken("separability", seen(torch.zeros(4, 2), [1, 1, 0, 0]), {}, (1,)).value is None


def test_separability_takes_the_trace_with_fewer_rows_than_columns_too() -> None:
    rows = torch.randn(6, 40, generator=torch.Generator().manual_seed(1)).double()
    forgotten = np.array([True, True, True, False, False, False])
    sides = [rows.numpy()[side] for side in (forgotten, ~forgotten)]
    scatter = sum(np.trace(np.cov(side.T)) for side in sides)
    expected = ((sides[0].mean(0) - sides[1].mean(0)) ** 2).sum() / scatter
    value = taken("separability", seen(rows, [1, 1, 1, 0, 0, 0]), {}, (1,)).value
    assert value == pytest.approx(expected)


# Information difference


def test_the_index_is_the_ratio_of_sums_over_layers() -> None:
    # (0.2 + 0.3 - 0.2) / (0.4 + 0.4 - 0.2): retrained have 0.1 + 0.1 on average.
    now, before = {"e": 0.2, "layer 1": 0.3}, {"e": 0.4, "layer 1": 0.4}
    retrained = [{"e": 0.05, "layer 1": 0.1}, {"e": 0.15, "layer 1": 0.1}]
    assert index(now, before, retrained).value == pytest.approx(0.5)
    assert index(before, before, retrained).value == pytest.approx(1.0)
    # A layer that another model lacks is left out: (0.2 - 0.1) / (0.4 - 0.1).
    assert index(now, before, [{"e": 0.1}]).value == pytest.approx(1 / 3)
    same = index(now, before, [before])
    assert same.value is None
    assert "differ by 0.000 nats" in same.note


def test_the_information_of_a_binary_layer_is_the_exact_one() -> None:
    # Z in {-1, 1}, Y = 1 for 80 of 100 rows with Z = 1 and 10 of 100 with Z = -1.
    z = torch.tensor([1.0] * 100 + [-1.0] * 100)[:, None]
    y = torch.tensor([1] * 80 + [0] * 20 + [1] * 10 + [0] * 90)
    exact = mutual_info_score((z[:, 0] > 0).numpy(), y.numpy())
    assert nats_about(z, y, z, y) == pytest.approx(exact, abs=0.002)
    assert nats_about(z, y, z, y) == nats_about(z, y, z, y)
    # A layer that says nothing, and one that says all: 0 and H(Y).
    noise = torch.randn(200, 3, generator=torch.Generator().manual_seed(2))
    assert nats_about(noise, y, noise.flip(0), y) < 0.05
    whole = nats_about(y.float()[:, None], y, y.float()[:, None], y)
    entropy = -(0.45 * log(0.45) + 0.55 * log(0.55))
    assert entropy - 0.05 < whole <= entropy


def test_the_index_of_the_original_is_one_and_of_strangers_near_zero(
    models: dict[str, list[Observation]],
) -> None:
    assert taken("idi", models["original"][0], models).value == pytest.approx(1.0)
    value = taken("idi", stranger(5), models).value
    assert value is not None
    assert abs(value) < 0.2


# Class membership


def test_class_membership_is_the_area_between_the_label_and_its_neighbour() -> None:
    # Rows of c lean to a, which is its neighbour; rows of b are not looked at. Of the other two
    # labels' answers only p(a) against p(b) is left, and one row of c lies among those of a.
    lead = torch.tensor([4.0, 3, 1, 2, 0.5, 0, -9])
    logits = torch.stack([lead, torch.zeros(7), torch.full((7,), 50.0)], 1)
    one = seen(torch.zeros(7, 1), [0, 0, 0, 2, 2, 2, 1], logits)
    figure = taken("cmia", one, {}, (2,))
    assert figure.detail["neighbours"] == {"c": "a"}
    assert figure.value == pytest.approx(8 / 9)  # of 9 pairs, (1, 2) stands the wrong way


def test_class_membership_is_half_where_both_labels_get_the_same_answers() -> None:
    logits = torch.stack([torch.tensor([2.0, 1, 2, 1]), torch.zeros(4), torch.zeros(4)], 1)
    one = seen(torch.zeros(4, 1), [0, 0, 2, 2], logits)
    assert taken("cmia", one, {}, (2,)).value == pytest.approx(0.5)


# Three samples


def test_the_three_sample_statistic_is_that_of_plain_loops() -> None:
    random = np.random.default_rng(0)
    x, y, z = (random.normal(shift, 1, (12, 2)) for shift in (0.0, 0.4, 0.8))
    every = np.concatenate([x, y, z])
    gaps = [np.linalg.norm(a - b) for i, a in enumerate(every) for b in every[:i]]
    width = 2 * np.sort(gaps)[(len(gaps) - 1) // 2] ** 2

    def k(a: Array, b: Array) -> float:
        return float(np.exp(-((a - b) ** 2).sum() / width))

    def mmd(a: Array, b: Array) -> float:
        pairs = [(i, j) for i in range(12) for j in range(12) if i != j]
        return float(np.mean([k(a[i], a[j]) + k(b[i], b[j]) - 2 * k(a[i], b[j]) for i, j in pairs]))

    h = np.array(
        [
            np.mean(
                [
                    *(
                        k(y[i], y[j])
                        - k(z[i], z[j])
                        - k(x[i], y[j])
                        - k(x[j], y[i])
                        + k(x[i], z[j])
                        + k(x[j], z[i])
                        for j in range(12)
                        if j != i
                    )
                ]
            )
            for i in range(12)
        ]
    )
    expected = norm.cdf((mmd(x, y) - mmd(x, z)) / np.sqrt(4 * h.var(ddof=1) / 12))
    assert nearer(*(torch.tensor(v) for v in (x, y, z))) == pytest.approx(expected)


def test_the_three_sample_test_holds_its_level_and_finds_what_is_nearer() -> None:
    random = torch.Generator().manual_seed(1)

    def draw(shift: float) -> Tensor:
        return torch.randn(60, 2, generator=random) + shift

    level = np.mean([nearer(draw(0.0), draw(0.5), draw(0.5)) < 0.05 for _ in range(200)])
    assert level <= 0.1
    assert nearer(draw(0.0), draw(0.0), draw(2.0)) < 1e-3
    assert nearer(draw(0.0), draw(2.0), draw(0.0)) > 1 - 1e-3
    same = draw(0.0)
    assert nearer(draw(0.0), same, same) == 0.5
    assert nearer(torch.zeros(5, 2), torch.zeros(5, 2), torch.zeros(5, 2)) == 0.5


def test_a_mask_is_no_nearer_to_retrained_models_than_the_original(
    models: dict[str, list[Observation]],
) -> None:
    original = models["original"][0]
    masked = taken("three-sample", original.masked(LABELS), models)
    assert masked.value is not None
    assert masked.value > 0.95
    assert masked.detail["than_original"] == 0.5
    other = taken("three-sample", models["retrained"][0], models)
    assert other.value is not None
    assert other.value < 0.05


# U-LiRA


def test_the_likelihood_ratio_worked_by_hand() -> None:
    # Two rows. Target: the first unlearned model, at (0, 3). Shadows: unlearned at 1 and 3, 5 and 7
    # (means 2 and 6, one deviation sqrt 2); retrained at -1, 0, 1 and 2, 3, 4 (0 and 3, deviation
    # 1): called retrained on both rows. All six targets are compared with scipy's densities.
    unlearned = [[0.0, 3.0], [1.0, 5.0], [3.0, 7.0]]
    retrained = [[-1.0, 2.0], [0.0, 3.0], [1.0, 4.0]]
    figure = u_lira(unlearned, retrained)
    assert figure.detail["unlearned"][0] == 0.0
    sides = [np.array(side) for side in (unlearned, retrained)]
    right: list[list[float]] = [[], []]
    for kind in (0, 1):
        for target in range(3):
            shadows = [np.delete(s, target, 0) if n == kind else s for n, s in enumerate(sides)]
            spreads = [np.sqrt(s.var(0, ddof=1).mean()) for s in shadows]
            logs = [
                norm.logpdf(sides[kind][target], s.mean(0), spread)
                for s, spread in zip(shadows, spreads, strict=True)
            ]
            right[kind].append(float(np.mean(logs[kind] > logs[1 - kind])))
    assert (figure.detail["unlearned"], figure.detail["retrained"]) == tuple(right)
    assert figure.value == pytest.approx(np.mean([np.mean(side) for side in right]))


def test_models_far_apart_are_told_and_the_same_ones_are_not() -> None:
    random = np.random.default_rng(0)
    sides = [random.normal(shift, 1, (8, 50)).tolist() for shift in (0, 40, 0)]
    near, distant, other = sides
    assert u_lira(distant, near).value == 1.0
    value = u_lira(other, near).value
    assert value is not None
    assert abs(value - 0.5) < 0.1
    assert u_lira(near[:2], distant).value is None
    nothing: list[list[float]] = [[], [], []]
    assert u_lira(nothing, nothing).value is None


def test_confidence_is_the_log_odds_among_the_labels_that_stay() -> None:
    # Without c: p = 0.6 / 0.8, whose log-odds are ln 3.
    logits = torch.log(torch.tensor([[0.6, 0.2, 0.2], [0.5, 0.4, 0.1]]))
    one = seen(torch.zeros(2, 1), [2, 0], logits)
    assert confidences(one, (2,)) == [round(log(3), 4)]
    assert confidences(one, (1,)) == []
    assert len(NAMES) == 5
