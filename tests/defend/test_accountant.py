"""The accountant, against brute force and against what an attack really finds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import beta

from unlabel.defend import Account, Gaussian, Quantise, Release, TopK, account_of
from unlabel.defend.accountant import binary_divergence, most_often
from unlabel.defend.defence import Defence
from unlabel.errors import SettingsError

Array = np.ndarray[Any, np.dtype[np.float64]]


# --- by hand -------------------------------------------------------------------------------


def test_the_bound_of_some_rows_by_hand() -> None:
    account = Account.of(Release(rows=3, messages=5, clip=0.5, sigma=2.0, colluders=2))
    assert account.rho == pytest.approx(2 * 3 * 5 * 2 * 0.25 / 4)
    assert account.information == pytest.approx(account.rho / 4)
    log = math.log(100)
    tails = [
        account.rho + 2 * math.sqrt(account.rho * log),
        (math.sqrt(account.rho) / 2 + math.sqrt(log)) ** 2,
        account.information * 100,
    ]
    assert account.tail(0.01) == pytest.approx(min(tails))


def test_the_smallest_of_three_tails_is_told() -> None:
    log = math.log(100)
    little, some, much = (Account(rho, rho / 4) for rho in (0.004, 1.0, 40.0))
    assert little.tail(0.01) == pytest.approx(0.1)
    assert some.tail(0.01) == pytest.approx(1 + 2 * math.sqrt(log))
    assert much.tail(0.01) == pytest.approx((math.sqrt(10) + math.sqrt(log)) ** 2)


def test_a_width_gives_the_capacity_of_the_channel() -> None:
    release = Release(rows=2, messages=3, clip=2.0, sigma=1.0, width=4)
    assert release.information == pytest.approx(6 * 4 / 2 * math.log(2))
    wide = Release(rows=2, messages=3, clip=2.0, sigma=1.0, width=10**9)
    assert wide.information == pytest.approx(12.0, rel=1e-6)
    assert release.rho == wide.rho


def test_requests_compose_and_decisions_cost_ln_2() -> None:
    one = Account.of(Release(1, 1, 1.0, 2.0))
    other = Account.of(Release(4, 2, 0.5, 3.0))
    both = one + other
    assert both == Account.of(Release(1, 1, 1.0, 2.0), Release(4, 2, 0.5, 3.0))
    assert both.information == pytest.approx(one.information + other.information)
    decided = both + Account.decision()
    assert decided.information == pytest.approx(both.information + math.log(2))
    assert decided.tail(0.01) > both.tail(0.01)
    assert both.best_guess(10) < decided.best_guess(10) <= 2 * both.best_guess(10)
    assert both + Account.nothing() == both


def test_nothing_sent_is_nothing_learned() -> None:
    nothing = Account.nothing()
    assert (nothing.information, nothing.tail(0.01)) == (0.0, 0.0)
    assert nothing.best_guess(10) == pytest.approx(0.1)
    assert nothing.sentences(10) == [
        "Nothing that was sent depends on the request: the bound is 0."
    ]


def test_a_bound_above_everything_there_is_to_learn_is_none() -> None:
    account = Account.of(Release(100, 40, 1.0, 1.0))
    assert account.guarantee(10) == "no guarantee"
    assert account.to_json(10)["guarantee"] == "no guarantee"
    assert account.sentences(10)[0].startswith("No guarantee: the bound of 2000 nats is no less")
    assert account.best_guess(10) == pytest.approx(1.0)


def test_the_figures_are_told_for_people_and_machines() -> None:
    account = Account.of(Release(1, 1, 1.0, 4.0))
    plain = account.to_json(10, delta=0.05)
    assert plain["information"] == pytest.approx(1 / 32)
    assert plain["chance"] == 0.1
    assert plain["best_guess"] == account.best_guess(10)
    assert plain["tail"] == account.tail(0.05)
    average, single, guess = account.sentences(10, delta=0.05)
    assert "0.03125 of 2.303 nats" in average
    assert single == "With probability 0.95 a single request tells 0.625 nats at most."
    assert guess.startswith("The best guess is right in 15.1 % of the cases at most")
    assert account.sentences(3, delta=0.001)[1].endswith(", which for 3 labels says nothing.")


@pytest.mark.parametrize("prior", [0.5, 0.1, 0.01])
def test_the_inverse_of_the_binary_divergence_against_brute_force(prior: float) -> None:
    grid = np.linspace(prior, 1, 200_001)
    values = np.array([binary_divergence(float(p), prior) for p in grid[::100]])
    assert (np.diff(values) > 0).all()
    for information in (1e-6, 0.01, 0.3, 0.99 * -math.log(prior)):
        best = max(p for p in grid.tolist() if binary_divergence(p, prior) <= information)
        found = most_often(prior, information)
        assert best <= found <= best + (1 - prior) / 200_000 + 1e-12
    assert most_often(prior, -math.log(prior)) == 1.0


def test_figures_that_cannot_be_are_refused() -> None:
    for wrong in ({"clip": 0.0}, {"sigma": 0.0}, {"rows": -1}, {"colluders": 0}, {"width": 0}):
        with pytest.raises(SettingsError, match="Expected `"):
            Release(**({"rows": 1, "messages": 1, "clip": 1.0, "sigma": 1.0} | wrong))
    with pytest.raises(SettingsError):
        Account.nothing().best_guess(1)
    with pytest.raises(SettingsError, match=r"`delta`"):
        Account.nothing().tail(1.0)


# --- which defences have a proof -----------------------------------------------------------

CLIP, NOISE = Gaussian(clip=1.0, sigma=0.0), Gaussian(clip=0.0, sigma=5.0)
BOTH = Gaussian(clip=1.0, sigma=5.0)


@pytest.mark.parametrize(
    "chain",
    [
        (BOTH,),
        (BOTH, TopK(0.1), Quantise(2)),
        (TopK(0.1), Quantise(2), BOTH),
        (CLIP, NOISE),
        (CLIP, TopK(0.5), NOISE),
        (NOISE, CLIP, NOISE),
    ],
)
def test_noise_on_clipped_rows_has_a_bound(chain: tuple[Defence, ...]) -> None:
    account = account_of(chain, rows=10, messages=3, colluders=2)
    assert account == Account.of(Release(10, 3, 1.0, 5.0, 2))


def test_the_smallest_of_several_bounds_holds() -> None:
    weak = Gaussian(clip=1.0, sigma=2.0)
    assert account_of((weak, BOTH), rows=1, messages=1).rho == pytest.approx(2 / 25)
    assert account_of((BOTH, weak), rows=1, messages=1).rho == pytest.approx(2 / 25)


@pytest.mark.parametrize(
    ("chain", "reason"),
    [
        ((), "nothing is done to what is sent"),
        ((TopK(0.1),), "top-k and quantise hide numbers without a proof"),
        ((Quantise(1),), "top-k and quantise hide numbers without a proof"),
        ((NOISE,), "the noise is added to rows that are not clipped"),
        ((CLIP,), "rows are clipped but get no noise"),
        ((NOISE, CLIP), "the rows are clipped after the noise was added"),
        ((CLIP, Quantise(2), NOISE), "rounding between clipping and noise lets rows grow"),
    ],
)
def test_a_bound_without_a_proof_is_refused_in_one_sentence(
    chain: tuple[Defence, ...], reason: str
) -> None:
    with pytest.raises(SettingsError) as error:
        account_of(chain, rows=1, messages=1)
    assert str(error.value).startswith(f"There is no bound: {reason}")
    assert str(error.value).count(".") == 1


# --- against what really happens -----------------------------------------------------------


@dataclass(frozen=True)
class Protocol:
    """Two adaptive messages to one party, about one of C secrets.

    The means of the first message are rows of `first`; those of the second turn with the sign of
    what the party answered, which depends on what it was sent. All have norm `clip` at most.
    """

    first: Array
    second: Array
    sigma: float

    @classmethod
    def random(cls, rng: np.random.Generator) -> Protocol:
        secrets, width = int(rng.integers(2, 7)), int(rng.integers(1, 5))
        first, second = rng.normal(size=(2, secrets, 2, width))
        for means in (first, second):
            norms = np.linalg.norm(means, axis=-1, keepdims=True)
            # Some rows at the edge, some within.
            means *= np.where(rng.random(norms.shape) < 0.7, 1.0, rng.random(norms.shape)) / norms
        return cls(first, second, float(rng.uniform(0.5, 12.0)))

    @property
    def secrets(self) -> int:
        return len(self.first)

    def account(self) -> Account:
        width = self.first.shape[-1]
        return Account.of(Release(rows=2, messages=2, clip=1.0, sigma=self.sigma, width=width))

    def log_likelihoods(self, draws: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return secrets [n], and ln p(transcript | s) - the same constant for all s, [n, C]."""
        true = rng.integers(self.secrets, size=draws)
        noise = rng.normal(0, self.sigma, size=(2, draws, *self.first.shape[1:]))
        one = self.first[true] + noise[0]
        turn = np.sign(one.sum((1, 2)))[:, None, None]
        two = turn * self.second[true] + noise[1]
        found = np.zeros((draws, self.secrets))
        for s in range(self.secrets):
            off = (one - self.first[s]) ** 2 + (two - turn * self.second[s]) ** 2
            found[:, s] = -off.sum((1, 2)) / (2 * self.sigma**2)
        return true.astype(float), found


def learned(protocol: Protocol, draws: int, seed: int) -> tuple[Array, Array, Array]:
    """Return ln p_S / p, the belief's divergence, and whether the guess is right, a transcript."""
    true, log_p = protocol.log_likelihoods(draws, np.random.default_rng(seed))
    belief = log_p - logsumexp(log_p, axis=1, keepdims=True)
    gained = belief + math.log(protocol.secrets)
    at_truth = np.take_along_axis(gained, true.astype(int)[:, None], 1)[:, 0]
    return at_truth, (np.exp(belief) * gained).sum(1), belief.argmax(1) == true


def test_an_estimate_of_the_information_lies_below_the_bound_and_above_nothing() -> None:
    """Two secrets at the two ends of the ball: the worst case, where the bound is nearly met."""
    means = np.zeros((2, 2, 1))
    means[:, :, 0] = [[1, 1], [-1, -1]]
    for sigma in (2.0, 4.0, 10.0):
        protocol = Protocol(means, means, sigma)
        found, beliefs, _ = learned(protocol, 100_000, seed=int(sigma))
        spread = 4 * found.std() / len(found) ** 0.5
        bound = protocol.account().information
        assert found.mean() - spread <= bound
        assert found.mean() - spread > 0
        # E D_KL(posterior || prior) is the same number by another way.
        assert beliefs.mean() == pytest.approx(found.mean(), abs=spread)
        if sigma == 10.0:
            assert found.mean() > 0.9 * bound - spread  # the factor is right, not merely safe


def test_the_adaptive_second_message_tells_more_than_the_first_alone() -> None:
    protocol = Protocol.random(np.random.default_rng(3))
    whole = learned(protocol, 50_000, 0)[0].mean()
    part = learned(Protocol(protocol.first, 0 * protocol.second, protocol.sigma), 50_000, 0)[0]
    assert whole > part.mean() > 0


def test_the_bounds_hold_over_random_settings() -> None:
    """Nats, tail and guess: no bound lies below the 95 % lower limit of what is measured."""
    draws, rng = 4000, np.random.default_rng(11)
    told = []
    for seed in range(50):
        protocol = Protocol.random(rng)
        account = protocol.account()
        found, beliefs, right = learned(protocol, draws, seed)
        lower = found.mean() - 1.645 * found.std() / draws**0.5
        assert lower <= account.information
        hits = int(right.sum())
        least = beta.ppf(0.05, hits, draws - hits + 1)
        assert least <= account.best_guess(protocol.secrets)
        for delta in (0.5, 0.1, 0.01):
            over = int((beliefs > account.tail(delta)).sum())
            assert over == 0 or beta.ppf(0.05, over, draws - over + 1) <= delta
        told.append(least > 1 / protocol.secrets)
    assert sum(told) > 25, "the attack must find something, or nothing is tested"


def test_a_bound_that_is_too_small_would_be_noticed() -> None:
    """The same comparison fails for half of the information: it has teeth."""
    means = np.ones((2, 2, 1)) * np.array([1.0, -1.0])[:, None, None]
    protocol = Protocol(means, means, 10.0)
    found, _, right = learned(protocol, 200_000, 0)
    lower = found.mean() - 1.645 * found.std() / len(found) ** 0.5
    assert lower > protocol.account().information / 2
    hits = int(right.sum())
    account = protocol.account()
    less = Account(account.rho / 2, account.sent / 2)
    assert beta.ppf(0.05, hits, len(right) - hits + 1) > less.best_guess(2)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_one_noisy_row_that_says_what_a_request_is_about(sigma: float) -> None:
    """The row of the hidden method, onehot(u) - 1 / C with noise: C = 10, which adds up to 0."""
    count, draws, rng = 10, 40_000, np.random.default_rng(2)
    means = np.eye(count) - 1 / count
    true = rng.integers(count, size=draws)
    rows = means[true] + rng.normal(0, sigma, size=(draws, count))
    log_p = rows @ means.T / sigma**2  # all means have one norm
    belief = log_p - logsumexp(log_p, axis=1, keepdims=True)
    found = belief[np.arange(draws), true] + math.log(count)
    # The part along (1, .., 1) is noise alone, so that nine numbers are left.
    account = Account.of(Release(1, 1, clip=math.sqrt(0.9), sigma=sigma, width=count - 1))
    spread = 4 * float(found.std()) / math.sqrt(draws)
    assert 0 < found.mean() - spread <= account.information
    right = float((belief.argmax(1) == true).mean())
    assert 0.1 < right <= account.best_guess(count)
    if sigma == 3.0:
        assert found.mean() + spread > 0.8 * account.information


def test_a_visible_decision_is_paid_for() -> None:
    """A rollback whenever the secret is 0 is one bit at most, and the bound allows for it."""
    protocol = Protocol.random(np.random.default_rng(5))
    true, log_p = protocol.log_likelihoods(20_000, np.random.default_rng(0))
    rolled_back = true == 0
    possible = (np.arange(protocol.secrets) == 0)[None, :] == rolled_back[:, None]
    log_p = np.where(possible, log_p, -np.inf)
    belief = log_p - logsumexp(log_p, axis=1, keepdims=True)
    found = np.take_along_axis(belief, true.astype(int)[:, None], 1) + math.log(protocol.secrets)
    decided = protocol.account() + Account.decision()
    assert protocol.account().information < found.mean() <= decided.information
    right = (belief.argmax(1) == true).mean()
    assert protocol.account().best_guess(protocol.secrets) < right
    assert right <= decided.best_guess(protocol.secrets)
