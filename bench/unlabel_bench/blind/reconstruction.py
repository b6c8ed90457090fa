"""What embeddings tell of the columns behind them to one who knows the columns of some people."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from unlabel.data.dataset import Array

ATTACKERS = ("ridge", "network", "trees")


def reconstruction(
    sent: Array, columns: Array, known: Array, unknown: Array, *, seed: int = 0
) -> dict[str, float]:
    """Return R2 of three regressions from embeddings to the sender's columns, and the best of them.

    Fitted on the people in `known`, whose columns the attacker has, and judged on those in
    `unknown`, each a list of rows. Over columns j that are not constant, with m_j their means,

        R2 = mean over j of  1 - sum (x_ij - f_j(h_i))^2 / sum (x_ij - m_j)^2

    ridge    linear, of strength 1e-3
    network  one hidden layer of 128, which stops early
    trees    gradient boosting of 50 trees, one model a column

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 2))
    >>> round(reconstruction(x[:, :1], x, np.arange(200), np.arange(200, 300))["ridge"], 1)
    0.5
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Ridge
    from sklearn.neural_network import MLPRegressor

    wanted = np.where(np.isnan(columns), np.nanmean(columns[known], 0), columns).astype(float)
    middle, width = wanted[known].mean(0), wanted[known].std(0)
    varied = (width > 0) & (wanted[unknown].std(0) > 0)
    wanted = ((wanted - middle) / np.where(width > 0, width, 1))[:, varied]
    inputs = sent.astype(float)
    size = inputs[known].std(0)
    inputs = (inputs - inputs[known].mean(0)) / np.where(size > 0, size, 1)
    x, y, tested = inputs[known], wanted[known], wanted[unknown]
    guesses: dict[str, Array] = {"ridge": Ridge(1e-3).fit(x, y).predict(inputs[unknown])}
    network = MLPRegressor(
        hidden_layer_sizes=(128,), early_stopping=True, max_iter=300, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        guesses["network"] = network.fit(x, y.squeeze()).predict(inputs[unknown])
    trees: list[Any] = [HistGradientBoostingRegressor(max_iter=50, random_state=seed) for _ in y.T]
    guesses["trees"] = np.stack(
        [
            tree.fit(x, column).predict(inputs[unknown])
            for tree, column in zip(trees, y.T, strict=True)
        ],
        1,
    )
    shares = {
        name: float(np.mean(_explained(tested, guess.reshape(tested.shape))))
        for name, guess in guesses.items()
    }
    return {**shares, "best": max(shares.values())}


def _explained(truth: Array, guess: Array) -> Array:
    """Return R2 of every column."""
    left = ((truth - guess) ** 2).sum(0)
    return np.asarray(1 - left / ((truth - truth.mean(0)) ** 2).sum(0))
