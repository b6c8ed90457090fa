"""Each defence, by hand: norms, means, spread, how much is left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from unlabel.defend import DEFENCES, Gaussian, Quantise, TopK, read_defence, read_defences
from unlabel.defend.gaussian import clip_rows
from unlabel.errors import SettingsError
from unlabel.party import Stream
from unlabel.party.randomness import normal, secret_stream, uniform
from unlabel.wire import AccumulateFisher, Done, Embeddings, Gradients

STREAM = Stream(0, "test")


def rows(count: int = 200, width: int = 50) -> torch.Tensor:
    values = torch.randn(count, width, generator=torch.Generator().manual_seed(1))
    return values * torch.linspace(0.01, 3, count)[:, None]


# --- gaussian ------------------------------------------------------------------------------


def test_rows_are_clipped_to_a_norm_and_keep_their_direction() -> None:
    values = rows()
    norms = values.norm(dim=1)
    clipped = Gaussian(clip=2.0, sigma=0.0).apply(values, STREAM, 0)
    assert clipped.dtype == values.dtype
    assert torch.allclose(clipped.norm(dim=1), norms.clamp(max=2.0))
    small = norms <= 2.0
    assert 0 < small.sum() < len(values)
    assert torch.equal(clipped[small], values[small])
    assert torch.allclose(torch.cosine_similarity(clipped, values), torch.ones(len(values)))


def test_a_row_that_is_not_finite_says_nothing() -> None:
    wild = torch.tensor([[float("inf"), 1.0], [float("nan"), 1.0], [3.0, 4.0], [0.0, 0.0]])
    clipped = clip_rows(wild, 1.0)
    assert torch.allclose(clipped, torch.tensor([[0, 0], [0, 0], [0.6, 0.8], [0, 0]]))


def test_noise_has_the_mean_and_variance_it_says() -> None:
    values = rows(400, 500)
    noise = (Gaussian(clip=0.0, sigma=0.3).apply(values, STREAM, 0) - values).flatten().double()
    count = len(noise)
    assert abs(noise.mean()) < 4 * 0.3 / count**0.5
    assert abs(noise.var() / 0.09 - 1) < 4 * (2 / count) ** 0.5
    assert abs(noise.pow(4).mean() / (3 * 0.09**2) - 1) < 0.05  # a bell, not merely the spread


def test_noise_of_two_steps_parties_or_filters_is_not_the_same() -> None:
    like = torch.zeros(1000)
    draws = [normal(Stream(0, who), step, like) for who in "ab" for step in (0, 1)]
    draws += [normal(secret_stream("a"), 0, like) for _ in range(2)]
    close = torch.corrcoef(torch.stack(draws)).fill_diagonal_(0)
    assert close.abs().max() < 0.15
    assert torch.equal(draws[1], normal(Stream(0, "a"), 1, like))
    assert uniform(STREAM, 0, like).min() >= 0
    assert uniform(STREAM, 0, like).max() < 1


def test_all_bits_of_a_seed_decide_the_noise() -> None:
    like = torch.zeros(4)
    first = normal(Stream(1, "a"), 0, like)
    assert not torch.equal(first, normal(Stream(1 + 2**40, "a"), 0, like))
    assert not torch.equal(first, normal(Stream(1 + 2**200, "a"), 0, like))


# --- top-k and quantise --------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0.05, 0.5, 1.0])
def test_the_largest_numbers_of_a_message_stay(keep: float) -> None:
    values = rows()
    sent = TopK(keep).apply(values, STREAM, 0)
    stays = sent != 0
    assert stays.sum() == round(keep * values.numel())
    assert torch.equal(sent[stays], values[stays])
    if keep < 1:
        assert values[stays].abs().min() >= values[~stays].abs().max()


def test_of_numbers_that_tie_no_more_are_sent_and_one_always_is() -> None:
    assert TopK(0.5).apply(torch.ones(4, 4), STREAM, 0).sum() == 8
    assert TopK(1e-6).apply(torch.tensor([[1.0, -2.0]]), STREAM, 0).tolist() == [[0.0, -2.0]]


@pytest.mark.parametrize("bits", [1, 3])
def test_rounding_keeps_to_its_levels_and_is_right_on_average(bits: int) -> None:
    values = torch.tensor([[-1.5, -0.4, 0.0, 0.7, 1.5]])
    draws = 4000
    sent = torch.cat([Quantise(bits).apply(values, STREAM, step) for step in range(draws)])
    step = 2 * 1.5 / (2**bits - 1)
    places = (sent.double() + 1.5) / step
    assert torch.allclose(places, places.round(), atol=1e-5)
    assert (sent - values).abs().max() <= step + 1e-6
    assert torch.allclose(sent.mean(0), values[0], atol=4 * step / 2 / draws**0.5 + 1e-6)
    # Of a number between two levels, a share p goes up: variance p (1 - p) step^2.
    share = ((values[0].double() + 1.5) / step) % 1
    spread = sent.double().var(0)
    assert torch.allclose(spread, share * (1 - share) * step**2, atol=0.06 * step**2)


def test_zeros_stay_zeros_when_rounded() -> None:
    assert torch.equal(Quantise(4).apply(torch.zeros(2, 3), STREAM, 0), torch.zeros(2, 3))


# --- as filters ----------------------------------------------------------------------------


def test_a_defence_changes_rows_of_numbers_and_nothing_else() -> None:
    values = rows(4, 3)
    for message in (
        Gradients(1, values),
        Embeddings(1, values),
        AccumulateFisher(1, values, "gone", 0.5),
    ):
        sent = Gaussian(1.0, 0.1)(message, "shop", STREAM)
        assert type(sent) is type(message)
        assert not torch.equal(sent.values, values)
        assert replace(sent, values=values).__dict__ == message.__dict__
    done = Done(1)
    assert Gaussian(1.0, 0.1)(done, "shop", STREAM) is done


def test_words_become_defences_in_their_order() -> None:
    found = read_defences(["top-k:keep=0.5", "gaussian:clip=2:sigma=0.5"], "gradients")
    assert found == (TopK(0.5), Gaussian(2.0, 0.5))
    assert DEFENCES.names() == ["gaussian", "half", "quantise", "top-k"]
    assert all(DEFENCES.get(name).about for name in DEFENCES.names())


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("gausian", "Unknown defence 'gausian'. Did you mean 'gaussian'?"),
        ("gaussian:sigma=-1", "Expected `sigma` to be a number of 0 or more but got -1.0."),
        ("gaussian:clip=inf", "Expected `clip` to be a number of 0 or more but got inf."),
        ("gaussian:noise=1", "Unknown setting 'noise'"),
        ("top-k:keep=0", "Expected `keep` to be a share above 0, at most 1 but got 0.0."),
        ("quantise:bits=0", "Expected `bits` to be from 1 to 24 but got 0."),
        ("quantise:bits=x", "Expected `bits` to be int but got 'x'."),
    ],
)
def test_words_that_mean_nothing_are_explained(word: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_defence(word)
    assert str(error.value).startswith(sentence)


def test_compression_is_for_gradients_only() -> None:
    with pytest.raises(SettingsError, match=r"'top-k'"):
        read_defences(["top-k"], "embeddings")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("defence", [Gaussian(1.0, 0.1), TopK(0.1), Quantise(4)])
def test_on_a_gpu_nothing_waits(defence: Any) -> None:
    values = rows().cuda()
    defence.apply(values, STREAM, 0)
    torch.cuda.set_sync_debug_mode("error")
    try:
        sent = defence.apply(values, STREAM, 1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert sent.device == values.device
