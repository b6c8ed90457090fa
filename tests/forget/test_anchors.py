"""Public sets without labels, and public sets that do not fit: moments, anchors, pseudo-labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli.command_line import one_thread, unlabel
from forget.one_piece import TRAIN, federation
from forget.partner_view import expect_same_view, view, watch
from torch import Tensor

from unlabel.errors import ForgetError, PublicMismatch, SettingsError
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings, Forgotten, PublicSet, make_anchors, named_by_model, plan
from unlabel.forget.anchors import ANCHORS, Moments
from unlabel.forget.methods.hidden import Hidden
from unlabel.forget.methods.renormalise import Renormalise
from unlabel.forget.public_fit import Fit
from unlabel.forget.public_set import MOST
from unlabel.forget.work import sgd
from unlabel.train import Evaluation

#: The form that public samples teach.
FEW = ForgetSettings(method=Hidden(samples="public"))

__all__ = ["one_thread"]  # a fixture for every test here


def trained(**options: Any) -> Federation:
    fed = federation(**options)
    fed.train()
    return fed


@pytest.fixture(scope="module")
def digits() -> Iterator[Federation]:
    """Return one trained model of digits; every test takes back what it does."""
    fed = Federation.local("digits", model="convnet", epochs=4)
    fed.train()
    yield fed
    assert fed.undecided is None


# --- moments ------------------------------------------------------------------------------------


def test_moments_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    values, labels = rng.normal(3, 2, (60, 4)), rng.integers(0, 3, 60)
    found = Moments.of(torch.from_numpy(values).float(), torch.from_numpy(labels), 4)
    for label in range(3):
        own = values.astype(np.float32).astype(np.float64)[labels == label]
        np.testing.assert_allclose(found.means[label], own.mean(0), rtol=1e-12)
        np.testing.assert_allclose(found.covariances[label], np.cov(own.T), rtol=1e-10)
    assert not found.means[3].any()  # a label without rows
    assert not found.covariances[3].any()


def test_an_anchor_is_its_mean_and_a_root_of_its_spread_times_noise() -> None:
    moments = Moments(
        torch.tensor([[1.0, 2.0], [5.0, 5.0]], dtype=torch.float64),
        torch.tensor([[[4.0, 0.0], [0.0, 9.0]], [[0.0, 0.0], [0.0, 0.0]]], dtype=torch.float64),
    )
    labels = torch.tensor([0, 1, 0])
    drawn = moments.draw(labels, torch.Generator().manual_seed(1))
    z = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    by_hand = torch.tensor([[1.0, 2.0], [5.0, 5.0], [1.0, 2.0]], dtype=torch.float64)
    by_hand[[0, 2]] += z[[0, 2]] * torch.tensor([2.0, 3.0], dtype=torch.float64)
    torch.testing.assert_close(drawn, by_hand, rtol=1e-12, atol=1e-12)


def test_many_anchors_have_the_moments_they_were_drawn_from() -> None:
    mixed = torch.tensor([[2.0, 0.0, 0.0], [1.0, 1.0, 0.0]], dtype=torch.float64)
    cov = mixed.T @ mixed  # of rank 2 in 3 dimensions
    moments = Moments(torch.tensor([[1.0, -1.0, 7.0]], dtype=torch.float64), cov[None])
    drawn = moments.draw(torch.zeros(40_000, dtype=torch.int64), torch.Generator().manual_seed(0))
    torch.testing.assert_close(drawn.mean(0), moments.means[0], rtol=0, atol=0.05)
    torch.testing.assert_close(drawn.T.cov(), cov, rtol=0, atol=0.15)
    torch.testing.assert_close(drawn[:, 2], torch.full((40_000,), 7.0, dtype=torch.float64))


# --- anchors ------------------------------------------------------------------------------------


def test_the_original_top_calls_anchors_by_their_label(digits: Federation) -> None:
    party, public = make_anchors(digits.active, digits.holdings.rows.train, 10, seed=0)
    assert torch.bincount(public.labels).tolist() == [40] * 10
    said = party.logits(public.rows, table=ANCHORS).argmax(1)
    assert (said == public.labels).float().mean() > 0.95
    # Beside them everybody's rows are what they were.
    rows = digits.holdings.rows.test[:50]
    assert torch.equal(party.logits(rows), digits.active.logits(rows))


def test_the_means_of_anchors_are_those_of_the_rows_people_who_are_gone_left_out() -> None:
    fed = trained(active_part=True)
    train = torch.arange(TRAIN)
    few, many = (
        make_anchors(fed.active, train, 5, seed=0, unused=unused, per_label=400)
        for unused in ((), tuple(range(0, TRAIN, 10)))  # half of label 0
    )
    parts = fed.active.embeddings(train)
    for (party, public), step in ((few, 5), (many, 10)):
        own = party.embeddings(public.rows[public.labels == 0], table=ANCHORS)
        for drawn, part in zip(own, parts, strict=True):
            rows = part[5 if step == 10 else 0 :: step]
            error = (drawn.mean(0) - rows.mean(0)).abs() / (rows.std(0) / 400**0.5)
            assert error.max() < 4.5


@pytest.mark.parametrize("active_part", [False, True])
def test_with_anchors_the_top_moves_and_no_bottom_does(active_part: bool) -> None:
    fed = trained(active_part=active_part)
    watched = watch(fed)
    bottoms = [party.bottom for party in fed.passives.values()]
    bottoms += [fed.active.bottom] if fed.active.bottom is not None else []
    before = [_copy(bottom.model_state()) for bottom in bottoms]
    top = _copy(fed.active.top.model_state())
    method = Renormalise(steps=5, until=0.0)
    outcome = fed.forget(
        [1],
        settings=ForgetSettings(
            method=method, public_from="anchors", few_shot=8, allow_collapse=True
        ),
    )
    for bottom, was in zip(bottoms, before, strict=True):
        after = bottom.model_state()
        assert all(torch.equal(after[name], was[name]) for name in was)
    changed = fed.active.top.model_state()
    assert any(not torch.equal(changed[name], top[name]) for name in top)
    assert "Gradients" not in {entry[0] for entry in watched.seen["passive-1"]}
    assert outcome.result.few_shot == 8
    assert "anchors" in outcome.result.public
    outcome.rollback()
    assert all(torch.equal(fed.active.top.model_state()[name], top[name]) for name in top)


def test_a_step_on_anchors_is_a_step_of_plain_autograd(digits: Federation) -> None:
    party, public = make_anchors(digits.active, digits.holdings.rows.train, 10, seed=0)
    saved = digits.active.versions.snapshot()
    rows = public.rows[:30]
    embeddings = [part.clone() for part in party.embeddings(rows, table=ANCHORS)]
    weights = [weight for _, weight in digits.active.top.module.named_parameters()]
    loss = torch.nn.functional.cross_entropy(party.apply_top(embeddings), public.labels[:30])
    expected = torch.autograd.grad(loss, weights)
    old = [weight.detach().clone() for weight in weights]
    rate = 0.25
    digits.active.top.use_optimiser(sgd(rate, 0.0), 0)
    party.move(
        rows,
        0,
        lambda e: torch.nn.functional.cross_entropy(party.apply_top(e), public.labels[:30]),
        mode="frozen",
        table=ANCHORS,
    )
    for weight, was, gradient in zip(weights, old, expected, strict=True):
        torch.testing.assert_close(weight.detach(), was - rate * gradient)
    digits.active.versions.load_snapshot(saved)


@pytest.mark.parametrize("source", ["pseudo", "anchors"])
def test_partners_see_the_same_whatever_is_forgotten(source: str) -> None:
    views = []
    for first, second in ((1, 3), (4, 0)):
        fed = trained(parties=2, active_part=True, epochs=2)
        watched = watch(fed)
        for label in (first, second):
            options: dict[str, Any] = {
                "public_from": source,
                "allow_collapse": True,
                "any_public": True,
            }
            # From all rows: so small a model may name no public sample by some label.
            method = Hidden(steps=20, samples="all")
            fed.forget([label], settings=ForgetSettings(method=method, **options)).commit(
                force=True
            )
        views.append(view(fed, watched))
    expect_same_view(views[0], views[1], f"two requests with {source}")


@pytest.mark.parametrize("source", ["labelled", "pseudo", "anchors"])
def test_hidden_forgets_from_every_kind_of_public_set(source: Any, digits: Federation) -> None:
    outcome = digits.forget([3], settings=replace(FEW, public_from=source))
    result = outcome.result
    outcome.rollback()
    assert result.forgotten_accuracy.after == 0
    assert result.retained_accuracy.after > result.retained_accuracy.before - 0.03  # type: ignore[operator]
    assert (result.warning, result.visibility) == ("", "hidden")


# --- pseudo-labels ------------------------------------------------------------------------------


def test_pseudo_labels_are_what_the_model_says(digits: Federation) -> None:
    public = plan(digits, labels=[3], settings=ForgetSettings(public_from="pseudo")).public
    rows = digits.holdings.rows.public
    assert torch.equal(public.rows, rows)
    assert torch.equal(public.labels, digits.active.logits(rows).argmax(1))
    assert "labelled by the model itself" in public.source
    assert public.balanced() is public


def test_of_many_samples_some_are_taken_at_even_distances(digits: Federation) -> None:
    every = torch.arange(len(digits.holdings.labels)).repeat(3)
    ids = tuple(map(str, range(len(every))))
    many = PublicSet("main", every, torch.zeros_like(every), ids, False, "all rows, three times")
    found = named_by_model(digits.active, many)
    assert len(found) == MOST < len(many)
    assert (int(found.rows[0]), found.ids[-1]) == (0, ids[-1])


def test_a_file_without_labels_is_enough(digits: Federation, tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=_images(digits)[:200])
    with pytest.raises(Exception, match="y"):
        plan(digits, labels=[3], settings=ForgetSettings(public=tmp_path / "rows.npz"))
    work = plan(
        digits,
        labels=[3],
        settings=ForgetSettings(public=tmp_path / "rows.npz", public_from="pseudo"),
    )
    expected = digits.active.logits(torch.arange(200)).argmax(1)
    assert torch.equal(work.public.labels, expected)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"public_from": "tea leaves"}, SettingsError, "tea leaves"),
        ({"public_from": "anchors", "public": "some.npz"}, ForgetError, "leave `public` out"),
    ],
)
def test_what_cannot_be_is_refused(
    digits: Federation, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        plan(digits, labels=[3], settings=ForgetSettings(**options))


def test_people_are_held_against_labels_that_are_known(digits: Federation) -> None:
    someone = str(digits.holdings.ids[int(digits.holdings.rows.train[0])])
    for source in ("pseudo", "anchors"):
        with pytest.raises(ForgetError, match=r"`public_from`"):
            plan(digits, ids=[someone], settings=ForgetSettings(public_from=source))


# --- a public set that does not fit -------------------------------------------------------------


@pytest.mark.parametrize(
    ("fit", "doubtful", "useless"),
    [
        (Fit(0.97, 0.98, 10, 400, 1000), False, False),
        # b - 0.1 - 2 sqrt(0.98 x 0.02 x (1 / 400 + 1 / 1000)) = 0.8634
        (Fit(0.8633, 0.98, 10, 400, 1000), True, False),
        (Fit(0.8635, 0.98, 10, 400, 1000), False, False),
        # 0.1 + 0.088 + 2 sqrt(0.1 x 0.9 / 400) = 0.218
        (Fit(0.2179, 0.98, 10, 400, 1000), True, True),
        (Fit(0.2181, 0.98, 10, 400, 1000), True, False),
        # Ten samples of two labels reach 0.856 by chance and a tenth, and (0.9 + 0.5) / 2 = 0.7.
        (Fit(0.8, 0.9, 2, 10, 1000), False, False),
        (Fit(0.6, 0.9, 2, 10, 1000), True, True),
        # A model that is nearer to guessing than to knowing: b <= 0.55.
        (Fit(0.1, 0.55, 10, 400, 1000), True, False),
    ],
)
def test_a_fit_is_judged_as_its_formula_says(fit: Fit, doubtful: bool, useless: bool) -> None:
    assert (fit.doubtful(), fit.useless()) == (doubtful, useless)


def test_labels_forgotten_earlier_count_on_neither_side() -> None:
    logits = torch.eye(3)[[0, 1, 1, 2]]
    labels = torch.tensor([0, 1, 0, 1])
    tested = Evaluation(0.5, 1.0, (), ((8, 2, 0), (0, 0, 5), (1, 0, 4)), 0.5)
    assert Fit.of(logits, labels, tested, ()) == Fit(0.5, (0.8 + 0.0) / 2, 3, 4, 15)
    assert Fit.of(logits, labels, tested, (1,)) == Fit(0.5, 0.8, 2, 2, 10)
    assert Fit.of(logits, labels, tested, (0, 1)) is None  # one label is none to choose from


def test_a_public_set_of_even_labels_is_held_against_test_rows_of_even_labels() -> None:
    """A model of a rare label is right on 94 of 110 rows, and on 65 % of each label alike."""
    tested = Evaluation(94 / 110, 0.5, (), ((90, 10), (6, 4)), 94 / 110)
    logits = torch.eye(2)[[0] * 9 + [1] + [0] * 6 + [1] * 4]
    fit = Fit.of(logits, torch.tensor([0] * 10 + [1] * 10), tested, ())
    assert fit is not None
    assert fit.test == pytest.approx(0.65)
    assert fit.public == pytest.approx(0.65)
    assert not fit.doubtful()
    assert not fit.useless()


def test_noise_for_a_public_set_is_refused_unless_it_is_asked_for(
    digits: Federation, tmp_path: Path
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (300, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "noise.npz", x=noise, y=np.arange(300) % 10)
    before = _copy(digits.active.top.model_state())
    for label in (3, 8):
        with pytest.raises(PublicMismatch):
            digits.forget([label], settings=replace(FEW, public=tmp_path / "noise.npz"))
    after = digits.active.top.model_state()
    assert all(torch.equal(after[name], before[name]) for name in before)
    outcome = digits.forget(
        [3],
        settings=replace(FEW, public=tmp_path / "noise.npz", any_public=True, allow_collapse=True),
    )
    outcome.rollback()
    assert "of another domain" in outcome.result.warning
    assert (outcome.result.public_agreement or 0) < 0.2
    # A method that no public sample teaches does not mind.
    for method in ("mask", "hidden"):
        outcome = digits.forget(
            [3], settings=ForgetSettings(public=tmp_path / "noise.npz", method=method)
        )
        outcome.rollback()
        assert outcome.result.public_agreement is None


def test_some_wrong_labels_are_a_warning_with_both_figures(
    digits: Federation, tmp_path: Path
) -> None:
    labels = digits.holdings.labels.numpy()[:500].copy()
    labels[::3] = (labels[::3] + 1) % 10
    np.savez(tmp_path / "public.npz", x=_images(digits)[:500], y=labels)
    outcome = digits.forget([3], settings=replace(FEW, public=tmp_path / "public.npz"))
    outcome.rollback()
    said = digits.active.logits(torch.arange(500)).argmax(1).numpy()
    right = (said == labels).mean()
    test = digits.evaluate().accuracy
    assert outcome.result.public_agreement == pytest.approx(right)
    assert f"{right:.0%} of the 500 public samples" in outcome.result.warning
    assert f"{test:.0%} of the test rows" in outcome.result.warning


def test_the_command_takes_both_options_and_says_what_is_odd(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("--data", "digits", "--model", "mlp", "--epochs", 6, "--batch", 128)
    assert unlabel("train", *words, "--out", run).code == 0
    noise = np.random.default_rng(0).integers(0, 256, (300, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "noise.npz", x=noise, y=np.arange(300) % 10)
    files = {path for path in run.rglob("*") if path.is_file()}
    few = ("forget", run, "--label", 3, "--set", "samples=public")
    asked = (*few, "--public", tmp_path / "noise.npz")
    assert "--any-public" in unlabel(*asked).sentence
    assert {path for path in run.rglob("*") if path.is_file()} == files
    told = unlabel(*asked, "--any-public")
    assert "Careful: The model calls" in " ".join(told.err.split())
    assert unlabel("rollback", run).code == 0
    found = unlabel(*few, "--public-from", "anchors", "--json").json
    assert found["forgotten_accuracy"]["after"] == 0
    assert "anchors" in found["public"]
    assert unlabel("commit", run).code == 0
    assert Federation.open(run).forgotten == Forgotten(labels=(3,))


def _images(fed: Federation) -> np.ndarray[Any, Any]:
    """Return the whole images of a run of digits, its parts side by side."""
    parts = [part.values for part in fed.holdings.features.values()]
    return np.asarray(torch.cat(parts, -1)[:, 0].cpu().numpy())


def _copy(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in state.items()}
