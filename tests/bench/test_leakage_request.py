"""Which label was it: views that name it, views of pure noise, and what lies between."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from unlabel_bench.privacy.groups import groups_by_cluster, groups_by_label, name_clusters
from unlabel_bench.privacy.information import information_bound
from unlabel_bench.privacy.partner_view import Held, View, heard_of
from unlabel_bench.privacy.posterior import attackers as kinds_of
from unlabel_bench.privacy.posterior import learn, log_loss, stratified, tempered, unusual
from unlabel_bench.privacy.request_guess import guess, name_requests
from unlabel_bench.privacy.traces import FIGURES, Trace, Traces, gather, trace

from unlabel.defend.accountant import Account, Release
from unlabel.errors import SettingsError
from unlabel.forget.noisy_request import CLIP, noisy_row
from unlabel.wire import Describe, Embed, Gradients, Message, Stage

COUNT, ROWS, WIDTH = 5, 60, 4
LABELS = torch.arange(ROWS) % COUNT
#: The last three rows of each label are public.
PUBLIC = torch.arange(ROWS - 3 * COUNT, ROWS)
KNOWN = {"main": torch.where(torch.isin(torch.arange(ROWS), PUBLIC), LABELS, -1)}


def draw(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


CENTRES = 4 * torch.randn(COUNT, WIDTH, generator=draw(1))
BEFORE = CENTRES[LABELS] + 0.3 * torch.randn(ROWS, WIDTH, generator=draw(2))
HELD = Held({"w": torch.zeros(3)}, {"main": BEFORE})


def view(messages: list[Message], after: torch.Tensor | None = None) -> View:
    later = HELD if after is None else Held({"w": torch.ones(3)}, {"main": after})
    return View("p", tuple(heard_of(message) for message in messages), HELD, later)


def joint(secret: int, seed: int, size: float) -> View:
    """Gradients of noise for all public samples, larger by a factor for the secret label's."""
    values = torch.randn(len(PUBLIC), WIDTH, generator=draw(100 + seed))
    values[LABELS[PUBLIC] == secret] *= size
    return view([Embed(0, PUBLIC, "frozen"), Gradients(0, values)])


def moving(secret: int, seed: int, size: float) -> View:
    """No message at all, but rows of the secret label moved further."""
    after = BEFORE + 0.01 * torch.randn(ROWS, WIDTH, generator=draw(200 + seed))
    after[torch.isin(LABELS, torch.tensor(secret))] += (
        size * 0.01 * torch.randn(WIDTH, generator=draw(300 + seed))
    )
    return view([], after)


def counting(secret: int, seed: int, size: float) -> View:
    """Nothing but a number of empty messages that depends on the label."""
    return view([Describe(0)] * (10 + round(size * secret)))


def telling(secret: int, seed: int, size: float) -> View:
    """A note in a message names the label, or another at random."""
    other = int(torch.randint(COUNT, (), generator=draw(400 + seed)))
    return view([Stage(0, "abc", 2, f'{{"labels": ["{"abcde"[secret if size > 1 else other]}"]}}')])


def seen(
    make: Callable[[int, int, float], View], size: float, *, requests: int = 80, named: bool = True
) -> Traces:
    """Return the traces of requests at random labels."""
    secrets = torch.randint(COUNT, (requests,), generator=draw(7)).tolist()
    groups = groups_by_label([view([])], KNOWN, COUNT)
    if not named:
        clusters = groups_by_cluster([view([])], COUNT)
        groups = name_clusters(clusters, {"main": LABELS}, COUNT)
    traces = [
        trace([make(secret, n, size)], groups, COUNT, "abcde" if named else ())
        for n, secret in enumerate(secrets)
    ]
    return gather(traces, secrets, [n % 2 for n in range(requests)], named=named)


@pytest.mark.parametrize(
    "make", [joint, counting, *(pytest.param(x, marks=pytest.mark.long) for x in (moving, telling))]
)
def test_a_view_that_names_the_label_is_found_out(make: Callable[..., View]) -> None:
    result = name_requests({"one": seen(make, 100.0)})
    assert result.best.value is not None
    assert result.best.value > 0.97
    assert result.information.value == pytest.approx(math.log(COUNT), abs=0.1)
    assert result.information.detail["limit"] > 1.3


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (joint, 1.0),
        (counting, 0),
        pytest.param(moving, 0.0, marks=pytest.mark.long),
        pytest.param(telling, 0, marks=pytest.mark.long),
    ],
)
def test_a_view_of_noise_names_nothing(make: Callable[..., View], size: float) -> None:
    result = name_requests({"one": seen(make, size, requests=150)})
    assert result.best.low is not None
    assert result.best.high is not None
    assert result.best.low <= 1 / COUNT <= result.best.high
    assert result.information.detail["limit"] < 0.02


def test_clusters_without_labels_are_enough() -> None:
    result = name_requests({"one": seen(joint, 100.0, named=False)})
    assert result.best.value == 1.0
    # Only what treats all labels alike makes sense where labels are clusters.
    assert set(kinds_of(False)) == {"by-label"}
    assert not any(name.endswith(("flat", "forest")) for name in result.attacks)


def test_rows_are_told_apart_by_a_few_known_labels() -> None:
    assert torch.equal(groups_by_label([view([])], KNOWN, COUNT)["main"], LABELS)
    clusters = groups_by_cluster([view([])], COUNT)
    assert torch.equal(name_clusters(clusters, {"main": LABELS}, COUNT)["main"], LABELS)


def test_figures_by_hand() -> None:
    rows = torch.tensor([0, 1, 2, 3])
    held = Held({"w": torch.zeros(2)}, {"main": torch.tensor([[2.0], [2.0], [-2.0], [-2.0]])})
    later = Held(
        {"w": torch.tensor([3.0, 4.0])}, {"main": torch.tensor([[1.0], [1.0], [-2], [-2]])}
    )
    messages = [
        Embed(0, rows, "predict"),
        Embed(1, rows[:3], "frozen"),
        Gradients(1, torch.tensor([[3.0], [1.0], [-0.5]])),
    ]
    one = View("p", tuple(heard_of(message) for message in messages), held, later)
    result = trace([one], {"main": torch.tensor([0, 0, 1, 1])}, 2)
    # Of two labels every column that differs at all is +1 and -1 once it is standardised.
    signs = dict(zip(FIGURES, result.by_label[0].round(6).tolist(), strict=True))
    assert signs == {
        "norm": 1, "log norm": 1, "sum": 1,  # 2 against 0.5
        "along": 1,  # 2 against 0.5, both away from the middle
        "toward": 1,  # 3.5 along +1, and along -1
        "asked": 1,  # 1 against 1/2
        "looked": 0,
        "moved": 1, "shift": 1,  # 1/2 against 0
        "inward": -1,
        "closer": 0,  # both come nearer to each other
        "spread": 0, "named": 0,
    }  # fmt: skip
    assert result.by_label[1].round(6).tolist() == [
        -v for v in result.by_label[0].round(6).tolist()
    ]
    assert result.whole["0/count Embed"] == 2
    assert result.whole["0/rows Embed rows"] == 7
    assert result.whole["0/norm Gradients values"] == pytest.approx(math.sqrt(10.25))
    assert result.whole["0/weights w"] == 5


def test_among_equals_a_rule_takes_any_label() -> None:
    nothing = gather([Trace(np.zeros((COUNT, len(FIGURES))), {})] * 200, [0] * 200)
    named = guess(nothing, "largest gradients")
    assert set(named.tolist()) == set(range(COUNT))
    assert 0.1 < (named == 0).mean() < 0.3


@pytest.mark.long
def test_a_label_that_always_stands_out_hides_nothing() -> None:
    random = np.random.default_rng(0)
    secrets, origins = np.arange(60) % COUNT, np.arange(60) % 2
    # Each model has a label with by far the largest gradients, whatever is forgotten.
    figures = 0.1 * random.normal(size=(60, COUNT, len(FIGURES)))
    figures[np.arange(60), origins, FIGURES.index("log norm")] += 9
    figures[np.arange(60), secrets, FIGURES.index("log norm")] += 1
    every = gather([Trace(row, {}) for row in figures], secrets.tolist(), origins.tolist())
    assert (guess(every, "gradients larger than usual") == secrets).mean() < 0.5
    odd = unusual(every, every)
    assert (guess(odd, "gradients larger than usual") == secrets).all()
    result = name_requests({"one": every})
    assert result.attacks["one/gradients larger than usual"].value == 1.0


def synthetic(requests: int, means: np.ndarray, seed: int, parties: int = 1) -> Traces:
    """Return requests whose figures are a secret's mean and N(0, 1)."""
    random = np.random.default_rng(seed)
    count = len(means)
    secrets = random.integers(count, size=requests)
    values = means[secrets][:, :, None] + random.normal(size=(requests, count, parties))
    rest = np.zeros((requests, count, len(FIGURES) - 1))
    columns = [np.concatenate([values[:, :, [n]], rest], 2) for n in range(parties)]
    traces = [Trace(row, {}) for row in np.concatenate(columns, 2)]
    return gather(traces, secrets.tolist())


def true_information(gap: float) -> float:
    """Return I(S; X) of S = 0 or 1 and X = (+-gap/2, -+gap/2) + N(0, I), by summing over a grid.

    Only the difference of the two numbers matters: N(+-gap, 2).
    """
    x = np.linspace(-40, 40, 400_001)
    p, q = (np.exp(-((x - m) ** 2) / 4) / math.sqrt(4 * math.pi) for m in (gap, -gap))
    mixed = (p + q) / 2
    return float(
        (p * np.log(np.where(p > 1e-300, p, 1) / np.maximum(mixed, 1e-300))).sum() * (x[1] - x[0])
    )


@pytest.mark.parametrize("gap", [pytest.param(0.3, marks=pytest.mark.long), 1.5])
def test_what_is_told_lies_below_the_truth_and_near_it(gap: float) -> None:
    truth = true_information(gap)
    means = np.array([[gap / 2, -gap / 2], [-gap / 2, gap / 2]])
    entries = []
    for seed in range(12):
        traces = synthetic(300, means, seed)
        half, log_beliefs = stratified(traces.secrets, 2, seed=seed), np.zeros(300)
        for out in (half == 0, half == 1):
            _, q = learn(kinds_of(True)["by-label"], traces.take(~out), traces.take(out))
            log_beliefs[out] = np.log(q[np.arange(out.sum()), traces.secrets[out]])
        entries.append(information_bound(log_beliefs, 2))
    # Of 12 limits that hold with 95 % confidence each, more than 3 fail once in 450 times.
    assert sum(figure.detail["limit"] > truth for figure in entries) <= 3
    assert np.mean([figure.value for figure in entries]) == pytest.approx(
        truth, abs=0.2 * truth + 0.01
    )


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3, 4))]
)
def test_noisy_rows_tell_no_more_than_the_accountant_allows(seed: int) -> None:
    random = np.random.default_rng(seed)
    sigma, count = float(np.exp(random.uniform(-1.5, 1.5))), int(random.integers(2, 11))
    secrets = random.integers(count, size=300)
    rows = [
        noisy_row((int(secret),), count, sigma, f"{seed * 1000 + n:064x}").double().numpy()
        for n, secret in enumerate(secrets)
    ]
    rest = np.zeros((count, len(FIGURES) - 1))
    traces = [Trace(np.concatenate([row[:, None], rest], 1), {}) for row in rows]
    result = name_requests({"one": gather(traces, secrets.tolist())})
    allowed = Account.of(Release(1, 1, CLIP, sigma))
    assert result.information.detail["limit"] <= allowed.information
    assert (result.best.low or 0.0) <= allowed.best_guess(count)


@pytest.mark.long
def test_two_parties_together_are_told_more_than_one() -> None:
    means = 1.5 * np.eye(4)
    both = synthetic(400, means, 0, parties=2)
    one = Traces(
        both.by_label[:, :, : len(FIGURES)], both.whole, both.secrets, both.origins, FIGURES
    )
    alone, together = name_requests({"one": one}), name_requests({"two": both})
    assert (together.information.value or 0) > 1.2 * (alone.information.value or 0)
    assert (together.best.value or 0) > (alone.best.value or 0)


@pytest.mark.long
def test_the_best_attack_is_not_the_luckiest() -> None:
    chosen, highest = [], []
    for seed in range(6):
        result = name_requests({"one": synthetic(40, np.zeros((4, 4)), seed)}, seed=seed)
        chosen.append(result.best.value or 0.0)
        highest.append(max(figure.value or 0.0 for figure in result.attacks.values()))
    assert np.mean(chosen) == pytest.approx(0.25, abs=0.08)
    assert np.mean(highest) > np.mean(chosen) + 0.05


def test_information_by_hand() -> None:
    sure = information_bound(np.log([0.5, 0.5, 0.5]), 4)
    assert sure.value == pytest.approx(math.log(2))
    assert sure.low == pytest.approx(math.log(2))
    blank = information_bound(np.log([0.25] * 10), 4)
    assert blank.value == pytest.approx(0.0, abs=1e-12)
    wrong = information_bound(np.log([0.01] * 10), 4)
    assert (wrong.value, wrong.low, wrong.detail["limit"]) == (0.0, 0.0, 0.0)
    mixed = information_bound(np.log([0.9] * 12 + [0.4] * 8), 2)
    assert mixed.value == pytest.approx(math.log(2) + 0.6 * math.log(0.9) + 0.4 * math.log(0.4))
    assert 0 < (mixed.low or 0) <= mixed.detail["limit"] < (mixed.value or 0) < (mixed.high or 0)


def test_a_belief_is_drawn_to_a_blank_one_where_nothing_can_be_learned() -> None:
    random = np.random.default_rng(0)
    traces = [Trace(random.normal(size=(4, len(FIGURES))), {}) for _ in range(160)]
    every = gather(traces, (np.arange(160) % 4).tolist())
    for kinds in kinds_of(True).values():
        inner, outer = learn(kinds, every.take(np.arange(80)), every.take(np.arange(80, 160)))
        assert log_loss(inner, every.secrets[:80]) <= math.log(4) + 1e-9
        assert log_loss(outer, every.secrets[80:]) < math.log(4) + 0.1
    assert np.allclose(tempered(outer, 1.0), 0.25)
    assert np.allclose(tempered(outer, 0.3).sum(1), 1.0)


def test_halves_hold_as_many_requests_of_every_label() -> None:
    secrets = np.repeat(np.arange(5), [8, 6, 4, 2, 1])
    half = stratified(secrets, 2, seed=0)
    for label in range(5):
        mine = half[secrets == label]
        assert abs(int((mine == 0).sum()) - int((mine == 1).sum())) <= 1
    assert abs(int((half == 0).sum()) - int((half == 1).sum())) <= 1


def test_too_few_requests_are_refused() -> None:
    few = synthetic(3, np.eye(3), 0)
    with pytest.raises(SettingsError):
        name_requests({"one": few})
