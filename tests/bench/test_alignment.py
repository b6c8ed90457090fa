"""The bench `alignment` beside gradients and coefficients that are computed another way."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from unlabel_bench.paper import alignment
from unlabel_bench.paper.alignment import AlignmentSettings, full_gradient, gradients
from unlabel_bench.paper.alignment_theory import (
    Cosines,
    bound,
    coefficients,
    cosine,
    fit,
    limits,
    linear_network,
)
from unlabel_bench.registry import BENCHES

from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.forget.mixing import mixer, pairs_among

LAMBDAS = (0.25, 0.5)


@pytest.fixture(scope="module")
def trained() -> Federation:
    federation = Federation.local("digits", parties=2, model="convnet", epochs=1, batch=128)
    federation.train()
    return federation


def rows_of(federation: Federation, label: int) -> Tensor:
    rows = federation.holdings.rows.train
    return rows[federation.holdings.labels[rows] == label]


def in_one_piece(
    federation: Federation, rows: Tensor, label: int, *, mix: bool
) -> dict[str, Tensor]:
    """Return the gradients by plain backward through one network, a mixed sample at a time."""
    parties = {"top": federation.active.top}
    bottoms = {name: party.bottom for name, party in federation.passives.items()}
    modules = {k: v.module.eval() for k, v in {**parties, **bottoms}.items()}
    for module in modules.values():
        module.zero_grad()
    embeddings = []
    for name, bottom in bottoms.items():
        assert bottom.scaling is not None
        x = bottom.scaling.apply(bottom.tables["main"].batch(rows, augment=False))
        embeddings.append(modules[name](x))
    joined = torch.cat(embeddings, 1)
    head = modules["top"].head
    assert isinstance(head, nn.Linear)
    losses = []
    if mix:
        for i, j, share in product(range(len(rows)), range(len(rows)), LAMBDAS):
            logits = head(share * joined[i] + (1 - share) * joined[j])
            losses.append(-logits.log_softmax(0)[label])
    else:
        losses = [-head(one).log_softmax(0)[label] for one in joined]
    (sum(losses, start=torch.zeros(())) / len(losses)).backward()
    by_name = {}
    for name, module in modules.items():
        slopes = [w.grad for w in module.parameters() if w.grad is not None]
        by_name[name] = torch.cat([slope.reshape(-1) for slope in slopes]).double()
        module.zero_grad(set_to_none=True)
    return by_name


@pytest.mark.parametrize("mix", [False, True])
def test_gradients_are_those_of_the_network_in_one_piece(trained: Federation, mix: bool) -> None:
    rows = rows_of(trained, 3)[:5]
    mixing = mixer(pairs_among(5), LAMBDAS, 5) if mix else None
    result = gradients(trained, rows, 3, [mixing])[0]
    wanted = in_one_piece(trained, rows, 3, mix=mix)
    assert result.keys() == wanted.keys() == {"top", "passive-1", "passive-2"}
    for name, value in wanted.items():
        torch.testing.assert_close(result[name], value, rtol=1e-3, atol=1e-6)
        assert value.norm() > 0


def test_the_cosine_is_that_of_the_gradients_in_one_piece(trained: Federation) -> None:
    rows = rows_of(trained, 3)
    whole, few = full_gradient(trained, rows, 3), gradients(trained, rows[:6], 3, [None])[0]
    every = in_one_piece(trained, rows, 3, mix=False)
    some = in_one_piece(trained, rows[:6], 3, mix=False)
    for name in whole:
        a, b = every[name].numpy(), some[name].numpy()
        wanted = np.dot(a, b) / math.sqrt(np.dot(a, a) * np.dot(b, b))
        assert cosine(few[name], whole[name]) == pytest.approx(wanted, abs=1e-4)
        assert wanted < 0.999


def test_a_full_gradient_does_not_depend_on_its_pieces(
    trained: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(trained, 1)
    wanted = full_gradient(trained, rows, 1)
    monkeypatch.setattr(alignment, "PIECE", 47)
    for name, value in full_gradient(trained, rows, 1).items():
        torch.testing.assert_close(value, wanted[name], rtol=1e-3, atol=1e-7)


def test_measuring_leaves_the_models_as_they_are(trained: Federation) -> None:
    before = {k: v.clone() for k, v in trained.active.top.state().items()}
    buffers = {k: v.clone() for k, v in trained.passives["passive-1"].bottom.state().items()}
    full_gradient(trained, rows_of(trained, 0), 0)
    for name, value in trained.active.top.state().items():
        assert torch.equal(value, before[name])
    for name, value in trained.passives["passive-1"].bottom.state().items():
        assert torch.equal(value, buffers[name])


def test_a_gradient_that_points_nowhere_has_cosine_0() -> None:
    assert cosine(torch.zeros(3), torch.ones(3)) == 0
    assert cosine(torch.tensor([3.0, 4.0]), torch.tensor([4.0, 3.0])) == pytest.approx(24 / 25)


# --- the coefficient -----------------------------------------------------------------------


def test_the_coefficient_holds_for_two_samples_worked_by_hand() -> None:
    # f(x) = x, samples 1 and 3, both to be 0: e = h = (1, 3), so g = 5, mean(e) mean(h) = 4.
    # Mixed at lambda = 1/4: 1, 3, 0.25 + 2.25 = 2.5 and 0.75 + 0.75 = 1.5, each squared.
    by_hand = (1 + 9 + 2.5**2 + 1.5**2) / 4
    a = coefficients((0.25,))
    assert a["main"] * 5 + a["cross"] * 4 == pytest.approx(by_hand)
    assert a["paper_main"] * 5 + a["paper_cross"] * 4 == pytest.approx(by_hand - 2.5)


def test_mixing_samples_that_are_all_alike_changes_nothing() -> None:
    for lambdas in (LAMBDAS, (0.1,), (0.3, 0.9)):
        result = coefficients(lambdas)
        assert result["main"] + result["cross"] == pytest.approx(1)
    result = coefficients(LAMBDAS)
    assert result["paper_main"] + result["paper_cross"] == pytest.approx(0.75)


def test_the_linear_network_has_our_coefficients_and_not_the_papers() -> None:
    result = linear_network(LAMBDAS, label=3, samples=7)
    for layer in ("first", "second"):
        assert result[layer]["main"] == pytest.approx(0.5625, abs=1e-6)
        assert result[layer]["cross"] == pytest.approx(0.4375, abs=1e-6)
    assert result["paper_main"] == 0.3125


def test_symmetric_lambdas_have_the_papers_coefficient() -> None:
    result = linear_network((0.25, 0.75), samples=7)
    assert result["second"]["main"] == pytest.approx(result["paper_main"], abs=1e-6)


def test_without_pairs_of_one_sample_the_coefficients_shift() -> None:
    random = np.random.default_rng(0)
    n, e, h = 5, random.normal(size=(5, 2)), random.normal(size=(5, 3))
    mixed = [
        np.outer(s * e[i] + (1 - s) * e[j], s * h[i] + (1 - s) * h[j])
        for i, j, s in product(range(n), range(n), LAMBDAS)
        if i != j
    ]
    a, b = coefficients(LAMBDAS)["main"], coefficients(LAMBDAS)["cross"]
    wanted = (a - b / (n - 1)) * (e.T @ h / n) + b * n / (n - 1) * np.outer(e.mean(0), h.mean(0))
    assert np.allclose(np.mean(mixed, axis=0), wanted)


# --- the bound -----------------------------------------------------------------------------


def test_shares_that_follow_the_bound_have_one_c() -> None:
    shares = {n: math.exp(-3 * n * 0.04) for n in (5, 10, 20)}
    result = fit(shares, 400, 0.2)
    assert result["one_c"]
    assert result["c"] == pytest.approx(3)


def test_shares_that_stay_have_no_one_c() -> None:
    result = fit({5: 0.5, 10: 0.5, 20: 0.5}, 400, 0.2)
    assert (result["broken_at"], result["grown_at"]) == ([10, 20], [])
    assert result["c"] == pytest.approx(math.log(2) / (20 * 0.04))


def test_what_chance_explains_does_not_break_the_bound() -> None:
    shares = {5: 0.5, 10: 0.3}
    assert fit(shares, 20, 0.2)["one_c"]
    assert not fit(shares, 2_000, 0.2)["one_c"]


def test_a_share_of_1_allows_no_c_and_one_of_0_any() -> None:
    result = fit({5: 1.0, 10: 0.5, 20: 0.0}, 400, 0.2)
    assert result["c_at"]["5"] == 0
    assert result["c_at"]["20"] is None
    assert (result["c"], result["broken_at"], result["grown_at"]) == (0, [], [10, 20])
    result = fit({5: 0.0}, 400, 0.2)
    assert (result["c"], result["one_c"]) == (None, True)


def test_a_few_draws_that_are_all_low_do_not_rule_out_every_c() -> None:
    assert fit({5: 1.0, 10: 0.9}, 20, 0.1)["grown_at"] == []


def test_labels_that_keep_to_their_own_c_can_break_it_together() -> None:
    draws = 1_000
    cosines: Cosines = {}
    for n in (5, 40):
        low = [round(draws * math.exp(-c * n * 0.04)) for c in (0.5, 20.0)]
        lists = [[0.0] * count + [1.0] * (draws - count) for count in low]
        cosines["top", "mixed", n] = lists
    result = bound(cosines, "top", "mixed", 0.2)
    assert result["broken_at"] == [40]
    assert (result["runs"], result["runs_without_one_c"]) == (2, 0)


# --- the bench -----------------------------------------------------------------------------

SMALL = AlignmentSettings(epochs=1, batch=128, samples=(3, 6), draws=4, labels=(2,))


def test_the_bench_reports_every_model_and_draws_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "made" / "a.png"
    settings = AlignmentSettings(**{**vars(SMALL), "picture": str(path)})
    bench = BENCHES.get("alignment")
    result = bench.run(settings, lambda _: None)
    kinds = {(x["model"], x["kind"], x["samples"]) for x in result["figures"]}
    assert kinds == set(product(("top", "passive-1", "passive-2"), ("unmixed", "mixed"), (3, 6)))
    for line in result["figures"]:
        assert line["draws"] == 4
        assert -1 <= line["quantile_5"] <= line["mean"] <= 1
    assert result["runs"][0]["limit_unmixed"]["top"] == pytest.approx(1, abs=1e-6)
    assert any(text.startswith("Coefficient:") for text in result["says"])
    assert len(bench.table(result)) == 1 + len(result["figures"])
    assert path.read_bytes().startswith(b"\x89PNG")
    json.dumps(result)


def test_the_cross_term_is_measured_by_its_definition(trained: Federation) -> None:
    rows = rows_of(trained, 4)
    result = alignment._errors(trained, rows, 4)
    h = torch.cat(trained.active.embeddings(rows), 1)
    h = torch.cat([h, torch.ones(len(h), 1)], 1).double()
    e = trained.active.logits(rows).double().softmax(1)
    e[:, 4] -= 1
    main = torch.stack([torch.outer(a, b) for a, b in zip(e, h, strict=True)]).mean(0)
    cross = torch.outer(e.mean(0), h.mean(0))
    assert result["cross_to_main"] == pytest.approx(float(cross.norm() / main.norm()))
    # What is called main is the top's gradient itself.
    top = full_gradient(trained, rows, 4)["top"]
    flat = torch.cat([main[:, :-1].reshape(-1), main[:, -1]])
    torch.testing.assert_close(top, flat, rtol=1e-3, atol=1e-6)


def test_more_samples_than_rows_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"`samples`"):
        BENCHES.get("alignment").run(
            AlignmentSettings(**{**vars(SMALL), "samples": (5, 500)}), lambda _: None
        )


def test_a_picture_without_matplotlib_is_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unlabel_bench.drawing.can_draw", lambda: False)
    messages: list[str] = []
    with pytest.raises(SettingsError, match="needs matplotlib"):
        BENCHES.get("alignment").run(AlignmentSettings(picture="a.png"), messages.append)
    assert messages == []


def test_the_limits_of_a_share_near_it_with_more_draws() -> None:
    assert limits(1.0, 50)[0] < 1
    assert limits(0.0, 50)[0] == pytest.approx(0)
    assert limits(0.0, 50)[1] > 0
    low, high = limits(0.3, 10_000)
    assert 0.29 < low < 0.3 < high < 0.31
