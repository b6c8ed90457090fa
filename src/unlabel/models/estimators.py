"""Classifiers of scikit-learn as the head of a top model: `top: sklearn:NAME`.

Such a head is fitted to embeddings that the label holder has, all at once, and passes no gradients
on.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from unlabel.errors import CheckpointError, ModelError, SettingsError, TrainingError, unknown, why
from unlabel.models.estimator_state import NOT_TRUSTED, read, write

#: What the name of such a top model begins with.
PREFIX = "sklearn:"
#: Where classifiers are looked for.
MODULES = (
    *("linear_model", "ensemble", "naive_bayes", "neighbors", "tree", "discriminant_analysis"),
    "neural_network",
)
#: Settings where those of scikit-learn do not serve us.
DEFAULTS: dict[str, dict[str, Any]] = {
    "LogisticRegression": {"max_iter": 1000},
    "LogisticRegressionCV": {"max_iter": 1000},
    "MLPClassifier": {"max_iter": 1000},
    "SGDClassifier": {"loss": "log_loss"},  # the loss of support vectors gives no probabilities
    # A search tree is memory that cannot be checked before it is used.
    "KNeighborsClassifier": {"algorithm": "brute"},
    "RadiusNeighborsClassifier": {"algorithm": "brute"},
}
#: Settings that a user does not give: a fit is the same each time, and so on one core.
RESERVED = frozenset({"n_jobs", "random_state"})
#: The smallest probability of which a logarithm is taken.
LEAST = 1e-12


class EstimatorHead(nn.Module):
    """A classifier of scikit-learn over embeddings x, with the logits

        F(x)_y = ln max(p(y | x), 1e-12)

    where p(y | x) is its `predict_proba`, and 0 for a label that no row of the fit had. Before
    the fit all logits are 0. What is fitted lies in one buffer, as bytes.

    name      of the class, such as LogisticRegression
    settings  of the class; those in `DEFAULTS` stand where none are given
    """

    estimator: Tensor

    def __init__(self, name: str, settings: Mapping[str, Any], inputs: int, labels: int) -> None:
        super().__init__()
        check_estimator(name, settings)
        self.name, self.settings = name, dict(settings)
        self.inputs, self.labels = inputs, labels
        self.register_buffer("estimator", torch.empty(0, dtype=torch.uint8))
        # The classifier that was restored last, with the bytes it came from.
        self._restored: tuple[Tensor, Any] | None = None

    def fit(self, x: Tensor, y: Tensor, *, seed: int, weights: Tensor | None = None) -> None:
        """Fit a fresh classifier to embeddings [n, inputs] and labels [n], on one core.

        The same rows, seed, libraries and kind of processor give the same bytes. Where this
        fails, what was fitted before stays.

        weights  [n], how much each row counts
        """
        from threadpoolctl import threadpool_limits

        title = f"Top model '{PREFIX}{self.name}'"
        count = len(y.unique())
        if count < 2:
            raise TrainingError(
                f"{title} cannot be fitted: a classifier needs rows of at least two labels, but "
                f"these are of {count}."
            )
        estimator = _make(self.name, self.settings)
        if "random_state" in estimator.get_params(deep=False):
            estimator.set_params(random_state=seed % 2**32)
        arguments = {}
        if weights is not None:
            if "sample_weight" not in inspect.signature(estimator.fit).parameters:
                raise TrainingError(f"{title} cannot weigh rows; choose another, or no weights.")
            arguments["sample_weight"] = _array(weights)
        try:
            with threadpool_limits(1):
                estimator.fit(_array(x), y.detach().cpu().numpy(), **arguments)
        except Exception as error:  # settings may not go together, or not with these rows
            raise TrainingError(f"{title} cannot be fitted ({why(error)}).") from error
        try:
            data = write(estimator)
            # What predicts is what a checkpoint will give, so that both give the same.
            restored = self._restore(data)
        except Exception as error:
            raise TrainingError(
                f"{title} cannot be kept in a checkpoint with these settings; choose others."
            ) from error
        fitted = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        self.estimator = fitted.to(self.estimator.device)
        self._restored = (self.estimator, restored)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits [n, labels], without gradients."""
        from threadpoolctl import threadpool_limits

        if not len(self.estimator) or not len(x):
            return torch.zeros(len(x), self.labels, device=x.device)
        if self._restored is None or self._restored[0] is not self.estimator:  # it was moved
            self._restored = (self.estimator, self._restore(_bytes(self.estimator)))
        model = self._restored[1]
        chances = torch.zeros(len(x), self.labels, dtype=torch.float64)
        try:
            with threadpool_limits(1):
                predicted = torch.from_numpy(model.predict_proba(_array(x)))
            chances[:, model.classes_] = predicted.double()
        except Exception as error:  # embeddings may be NaN, or too far from any other
            raise ModelError(
                f"Top model '{PREFIX}{self.name}' cannot predict ({why(error)})."
            ) from error
        return chances.clamp_min(LEAST).log().float().to(x.device)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        """Take bytes of any length, if they are those of such a classifier."""
        saved, restored = state_dict.get(f"{prefix}estimator"), None
        if isinstance(saved, Tensor):
            if saved.dtype != torch.uint8 or saved.dim() != 1:
                raise CheckpointError(NOT_TRUSTED)
            restored = self._restore(_bytes(saved)) if len(saved) else None
            self.estimator = torch.empty_like(saved, device=self.estimator.device)
        super()._load_from_state_dict(state_dict, prefix, *rest)
        self._restored = None if restored is None else (self.estimator, restored)

    def _restore(self, data: bytes) -> Any:
        """Return the classifier that bytes hold, if it is of this name, embeddings and labels."""
        model = read(data, _classifiers()[self.name], self.inputs)
        labels = model.classes_.tolist()
        if len(labels) < 2 or labels != sorted(set(labels) & set(range(self.labels))):
            raise CheckpointError(NOT_TRUSTED)
        return model


def check_estimator(name: str, settings: Mapping[str, Any] | None = None) -> None:
    """Raise `SettingsError` unless scikit-learn has a classifier of this name for these settings.

    >>> check_estimator("LogisticRegression", {"C": 0.1})
    """
    _make(name, settings or {})


def _make(name: str, settings: Mapping[str, Any]) -> Any:
    """Return a classifier that is not fitted yet."""
    classes, title = _classifiers(), f"Top model '{PREFIX}{name}'"
    if name not in classes:
        known = {
            each for each, kind in classes.items() if _gives_chances(kind) and not _needs(kind)
        }
        raise SettingsError(unknown("classifier of scikit-learn", name, known))
    kind = classes[name]
    refusal = f"{title} gives no probabilities; choose another, as '{PREFIX}LogisticRegression'."
    if not _gives_chances(kind):
        raise SettingsError(refusal)
    if _needs(kind):
        raise SettingsError(f"{title} is made of other models, which settings cannot give.")
    known = set(inspect.signature(kind).parameters) - RESERVED
    for setting in settings:
        if setting in RESERVED:
            raise SettingsError(f"{title}: '{setting}' is set by the run itself; leave it out.")
        if setting not in known:
            raise SettingsError(unknown(f"setting of '{PREFIX}{name}'", setting, known))
    estimator = kind(**{**DEFAULTS.get(name, {}), **settings})
    try:
        estimator._validate_params()  # the fit would do so too late
    except ValueError as error:
        raise SettingsError(str(error)) from error
    if not _gives_chances(estimator):
        raise SettingsError(refusal.replace(";", f" with {dict(settings)};"))
    return estimator


def _gives_chances(estimator: Any) -> bool:
    return hasattr(estimator, "predict_proba")


def _needs(kind: Any) -> list[str]:
    """Return the settings without which a classifier cannot be made: the models it is made of."""
    parameters = inspect.signature(kind).parameters
    return [name for name, parameter in parameters.items() if parameter.default is parameter.empty]


@cache
def _classifiers() -> dict[str, Any]:
    """Return the classifiers of scikit-learn by name, also those without probabilities."""
    from sklearn.base import ClassifierMixin

    modules = [importlib.import_module(f"sklearn.{name}") for name in MODULES]
    kinds = {name: getattr(module, name) for module in modules for name in module.__all__}
    return {
        name: kind
        for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, ClassifierMixin)
    }


def _array(values: Tensor) -> Any:
    return values.detach().cpu().double().numpy()


def _bytes(values: Tensor) -> bytes:
    return values.detach().cpu().numpy().tobytes()
