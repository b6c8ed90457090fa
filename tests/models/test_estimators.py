"""Classifiers of scikit-learn as a head: what they answer, how they are kept, what is refused."""

from __future__ import annotations

import copy
import functools
import hashlib
import math
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from unlabel.config import ModelSettings
from unlabel.errors import CheckpointError, ModelError, SettingsError, TrainingError
from unlabel.models import build_top, join_top
from unlabel.models.estimator_state import write
from unlabel.models.estimators import LEAST, EstimatorHead, check_estimator
from unlabel.models.registry import model_settings
from unlabel.models.tops import Top, last_layer

INPUTS, LABELS = 5, 4
FLOOR = math.log(LEAST)
#: Every classifier that can be a head, with settings where it needs some for these few rows.
CLASSIFIERS: dict[str, dict[str, Any]] = {
    "AdaBoostClassifier": {"n_estimators": 5},
    "BaggingClassifier": {"max_features": 0.5},
    "BernoulliNB": {},
    "CategoricalNB": {},
    "ComplementNB": {},
    "DecisionTreeClassifier": {},
    "ExtraTreeClassifier": {},
    "ExtraTreesClassifier": {"n_estimators": 5},
    "GaussianNB": {},
    "GradientBoostingClassifier": {"n_estimators": 5},
    "HistGradientBoostingClassifier": {"max_iter": 5, "max_features": 0.5},
    "KNeighborsClassifier": {},
    "LinearDiscriminantAnalysis": {},
    "LogisticRegression": {},
    "LogisticRegressionCV": {},
    "MLPClassifier": {"hidden_layer_sizes": [8], "tol": 0.01},
    "MultinomialNB": {},
    "NearestCentroid": {},
    "QuadraticDiscriminantAnalysis": {},
    "RadiusNeighborsClassifier": {"radius": 5.0},
    "RandomForestClassifier": {"n_estimators": 5, "max_leaf_nodes": 9},
    "SGDClassifier": {},
}


def rows(count: int = 200, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Make embeddings, none below 0, and labels that two of their columns decide."""
    x = torch.randn(count, INPUTS, generator=torch.Generator().manual_seed(seed)).abs()
    return x, 2 * (x[:, 0] > 0.7).long() + (x[:, 1] > 0.7).long()


def head(name: str = "LogisticRegression", **settings: Any) -> EstimatorHead:
    return EstimatorHead(name, settings, INPUTS, LABELS)


def fitted(name: str = "LogisticRegression", seed: int = 3, **settings: Any) -> EstimatorHead:
    model = head(name, **settings)
    model.fit(*rows(), seed=seed)
    return model


def digest(model: EstimatorHead) -> str:
    return hashlib.sha256(model.estimator.numpy().tobytes()).hexdigest()


def holding(data: bytes) -> dict[str, Tensor]:
    return {"estimator": torch.frombuffer(bytearray(data), dtype=torch.uint8)}


# --- what it answers -----------------------------------------------------------------------


def test_the_list_above_is_complete() -> None:
    with pytest.raises(SettingsError) as caught:
        check_estimator("-")
    assert str(caught.value).endswith(f"Known: {', '.join(CLASSIFIERS)}.")


@pytest.mark.filterwarnings("ignore::FutureWarning")  # the defaults of one of them will change
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_logits_are_logarithms_of_what_scikit_learn_gives(name: str) -> None:
    from sklearn.utils import all_estimators
    from threadpoolctl import threadpool_limits

    model = fitted(name, **CLASSIFIERS[name])
    expected = dict(all_estimators("classifier"))[name](**CLASSIFIERS[name])
    known = expected.get_params()
    ours = {"random_state": 3, "max_iter": 1000, "loss": "log_loss", "algorithm": "brute"}
    if name.startswith(("Hist", "Gradient")):
        ours = {"random_state": 3}
    expected.set_params(**{key: value for key, value in ours.items() if key in known})
    x, y = rows()
    with threadpool_limits(1):
        chances = expected.fit(x.double().numpy(), y.numpy()).predict_proba(x.double().numpy())
    logits = model(x)
    assert (logits.shape, logits.dtype, logits.requires_grad) == ((200, 4), torch.float32, False)
    torch.testing.assert_close(
        logits.double().exp(), torch.from_numpy(chances).clamp_min(LEAST), rtol=1e-5, atol=1e-9
    )
    torch.testing.assert_close(logits.softmax(1), logits.exp())


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_comes_back_bit_for_bit(name: str) -> None:
    x, _ = rows()
    model, other = fitted(name, **CLASSIFIERS[name]), head(name, **CLASSIFIERS[name])
    other.load_state_dict(load(save(model.state_dict())))
    assert torch.equal(other(x), model(x))
    assert torch.equal(copy.deepcopy(model)(x), model(x))
    assert digest(other) == digest(model) == digest(fitted(name, **CLASSIFIERS[name]))


@pytest.mark.parametrize("name", ["LogisticRegression", "HistGradientBoostingClassifier"])
def test_a_label_that_no_row_has_gets_the_least(name: str) -> None:
    x, y = rows()
    kept = y != 2
    model = head(name)
    model.fit(x[kept], y[kept], seed=0)
    logits = model(x)
    assert torch.equal(logits[:, 2], torch.full((200,), FLOOR))
    torch.testing.assert_close(logits.exp().sum(1), torch.ones(200))
    other = EstimatorHead(name, {}, INPUTS, 3)  # the labels without a gap
    other.fit(x[kept], torch.tensor([0, 1, -1, 2])[y[kept]], seed=0)
    assert torch.equal(other(x), logits[:, [0, 1, 3]])


def test_before_the_fit_no_label_is_preferred() -> None:
    x, _ = rows()
    assert torch.equal(head()(x), torch.zeros(200, LABELS))
    assert head()(x[:0]).shape == fitted()(x[:0]).shape == (0, LABELS)


def test_no_gradients_pass_and_any_precision_is_read() -> None:
    x, _ = rows()
    model = fitted()
    logits = model(x.clone().requires_grad_())
    assert not logits.requires_grad
    assert torch.equal(model(x.double()), logits)
    assert model(x.bfloat16()).dtype == torch.float32


def test_a_second_fit_begins_afresh() -> None:
    x, y = rows()
    model = fitted(warm_start=True)
    model.fit(*rows(seed=1), seed=3)
    assert digest(model) != digest(fitted(warm_start=True))
    model.fit(x, y, seed=3)
    assert digest(model) == digest(fitted(warm_start=True))


def test_the_seed_decides() -> None:
    one, other = (fitted("RandomForestClassifier", seed=seed, n_estimators=3) for seed in (1, 2))
    assert digest(one) != digest(other)
    fitted("RandomForestClassifier", seed=2**40, n_estimators=3)  # more than NumPy takes


def test_rows_are_weighed() -> None:
    from sklearn.linear_model import LogisticRegression

    x, y = rows()
    weights = torch.rand(200)
    model = head(C=0.5)
    model.fit(x, y, seed=0, weights=weights)
    expected = LogisticRegression(C=0.5, max_iter=1000).fit(
        x.double().numpy(), y.numpy(), weights.double().numpy()
    )
    chances = torch.from_numpy(expected.predict_proba(x.double().numpy()))
    torch.testing.assert_close(model(x).double().exp(), chances, rtol=1e-5, atol=1e-6)
    with pytest.raises(TrainingError, match="weigh"):
        head("KNeighborsClassifier").fit(x, y, seed=0, weights=weights)
    with pytest.raises(TrainingError):
        head().fit(x, y, seed=0, weights=torch.ones(LABELS))  # of labels, not of rows


@pytest.mark.parametrize("count", [0, 50])
def test_one_label_is_not_enough(count: int) -> None:
    x, y = rows()
    model = fitted()
    before = digest(model)
    with pytest.raises(TrainingError, match="at least two labels"):
        model.fit(x[:count], torch.zeros_like(y[:count]), seed=0)
    assert digest(model) == before


def test_what_cannot_be_fitted_or_predicted_is_said_in_one_sentence() -> None:
    x, y = rows()
    with pytest.raises(TrainingError, match="'sklearn:MultinomialNB' cannot be fitted"):
        head("MultinomialNB").fit(-x, y, seed=0)
    with pytest.raises(ModelError, match="'sklearn:LogisticRegression' cannot predict"):
        fitted()(x * math.nan)
    with pytest.raises(ModelError):
        fitted()(x[:, 1:])


# --- names and settings --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("LogisticRegresion", {}, "'LogisticRegresion'.*'LogisticRegression'"),
        ("Ridge", {}, "'Ridge'"),  # no classifier
        ("os", {}, "'os'"),
        ("RidgeClassifier", {}, "'sklearn:RidgeClassifier' gives no probabilities"),
        ("SGDClassifier", {"loss": "hinge"}, "no probabilities with.*hinge"),
        ("VotingClassifier", {}, "made of other models"),
        ("LogisticRegression", {"c": 1.0}, "'c'.*Known: C, "),
        ("LogisticRegression", {"C": -1.0}, "'C'"),
        ("LogisticRegression", {"C": "much"}, "'C'"),
        ("LogisticRegression", {"random_state": 1}, "'random_state'.*leave it out"),
        ("RandomForestClassifier", {"n_jobs": 2}, "'n_jobs'.*leave it out"),
    ],
)
def test_names_and_settings_that_cannot_work_are_refused(
    name: str, settings: dict[str, Any], expected: str
) -> None:
    for make in (check_estimator, functools.partial(EstimatorHead, inputs=2, labels=2)):
        with pytest.raises(SettingsError, match=expected) as caught:
            make(name, settings)
        assert "\n" not in str(caught.value)


def test_what_a_checkpoint_could_not_hold_is_refused_at_the_fit() -> None:
    x, y = rows()
    for settings in ({"algorithm": "kd_tree"}, {"weights": np.ones_like}):
        with pytest.raises(TrainingError, match="checkpoint"):
            head("KNeighborsClassifier", **settings).fit(x, y, seed=0)


# --- as part of a top model ----------------------------------------------------------------


def test_a_top_of_this_name_is_built_with_its_settings() -> None:
    top = join_top("sklearn:LogisticRegression", [2, 3], LABELS, settings={"C": 0.1})
    assert isinstance(top.head, EstimatorHead)
    assert (top.head.settings, top.passes_gradients) == ({"C": 0.1}, False)
    x, y = rows()
    parts = [x[:, :2], x[:, 2:]]
    top.head.fit(top.joined(parts), y, seed=0)
    top.mute([1])
    assert set(top(parts).argmax(1).tolist()) <= {0, 2, 3}
    assert (top(parts).argmax(1) == y)[y != 1].float().mean() > 0.7
    assert last_layer(top, [2, 3]) is None
    other = join_top("sklearn:LogisticRegression", [2, 3], LABELS)
    other.load_state_dict(top.state_dict())
    assert torch.equal(other(parts), top(parts))


def test_other_tops_pass_gradients_and_take_no_settings() -> None:
    assert join_top("linear", [2], 2).passes_gradients
    assert isinstance(build_top("sklearn:GaussianNB", 2, 2), EstimatorHead)
    for name in ("linear", "my_models:head"):
        with pytest.raises(SettingsError, match="takes no settings"):
            join_top(name, [2], 2, settings={"C": 0.1})


def test_its_name_is_checked_with_all_other_settings() -> None:
    assert model_settings(ModelSettings(top="sklearn:GaussianNB")).top == "sklearn:GaussianNB"
    expected = "'GausianNB'.*'GaussianNB'"
    with pytest.raises(SettingsError, match=expected):
        model_settings(ModelSettings(top="sklearn:GausianNB"))


# --- state ---------------------------------------------------------------------------------


def test_a_copy_is_a_model_of_its_own() -> None:
    x, y = rows()
    model = fitted()
    other = copy.deepcopy(model)
    assert torch.equal(other(x), model(x))
    before = digest(model)
    other.fit(x, y.flip(0), seed=0)
    assert digest(model) == before != digest(other)


def test_a_state_of_before_the_fit_takes_the_fit_back() -> None:
    x, _ = rows()
    model = fitted()
    model.load_state_dict(head().state_dict())
    assert torch.equal(model(x), torch.zeros(200, LABELS))


def test_a_buffer_that_was_moved_is_read_again() -> None:
    x, _ = rows()
    model = fitted()
    before = model(x)
    model.estimator = model.estimator.clone()
    assert torch.equal(model(x), before)


NAMES = ["LogisticRegression", "HistGradientBoostingClassifier", "RandomForestClassifier"]
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from test_estimators import NAMES, digest, fitted
print(*(digest(fitted(name)) for name in NAMES))
"""


def test_another_process_with_more_threads_gives_the_same_bytes() -> None:
    threads = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).parent)],
        env={**os.environ, "PYTHONHASHSEED": "7", **threads},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [digest(fitted(name)) for name in NAMES]


# --- what is not trusted -------------------------------------------------------------------


def refused(model: EstimatorHead, state: dict[str, Tensor]) -> None:
    """Expect that a state is refused and that the model stays as it was."""
    before = digest(model)
    with pytest.raises(CheckpointError, match="not one that is trusted"):
        model.load_state_dict(state)
    assert digest(model) == before


@pytest.mark.parametrize("name", ["LogisticRegression", "DecisionTreeClassifier"])
def test_a_changed_byte_is_refused_or_changes_nothing(name: str) -> None:
    x, _ = rows()
    model, other = fitted(name), head(name)
    data, expected = model.estimator.numpy().tobytes(), model(x)
    refusals = 0
    for place in random.Random(0).sample(range(len(data)), 300):
        changed = bytearray(data)
        changed[place] ^= 0xFF
        try:
            other.load_state_dict(holding(bytes(changed)))
        except CheckpointError:
            refusals += 1
        else:
            assert torch.equal(other(x), expected), place
    assert refusals > 200


@pytest.mark.parametrize("data", [b"\0", b"PK", b"cos\nsystem\n(S'true'\ntR."])
def test_bytes_that_are_no_model_are_refused(data: bytes) -> None:
    refused(fitted(), holding(data))


def test_half_a_model_and_tensors_of_another_kind_are_refused() -> None:
    model = fitted()
    data = model.estimator
    refused(model, {"estimator": data[: len(data) // 2]})
    refused(model, {"estimator": data.float()})
    refused(model, {"estimator": data[None]})


class Custom:
    """A class that no file may name."""


def with_attribute(value: object) -> Any:
    from sklearn.linear_model import LogisticRegression

    x, y = rows()
    model = LogisticRegression().fit(x.numpy(), y.numpy())
    model.more = value
    return model


def pipeline() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    x, y = rows()
    first = FunctionTransformer(func=np.abs)
    model = make_pipeline(first, LogisticRegression()).fit(x.numpy(), y.numpy())
    return model.set_params(functiontransformer__func=shutil.rmtree)


@pytest.mark.parametrize(
    "make",
    [
        pipeline,
        Custom,
        lambda: with_attribute(Custom()),
        lambda: with_attribute(Custom),
        lambda: with_attribute(shutil.rmtree),
        lambda: with_attribute(functools.partial(shutil.rmtree, "/nowhere")),
        lambda: with_attribute(np.exp),  # which skops would trust
        lambda: with_attribute(b"code"),
    ],
)
def test_a_model_with_anything_else_in_it_is_refused(make: Callable[[], Any]) -> None:
    model = fitted()
    model.load_state_dict(holding(write(with_attribute("a word"))))  # this one is fine
    refused(model, holding(write(make())))


def test_another_classifier_than_the_settings_name_is_refused() -> None:
    x, _ = rows()
    model = fitted()
    refused(model, fitted("GaussianNB").state_dict())
    for inputs, labels in ((INPUTS + 1, LABELS), (INPUTS, LABELS - 1)):
        other = EstimatorHead("LogisticRegression", {}, inputs, labels)
        refused(other, model.state_dict())
    wide = EstimatorHead("LogisticRegression", {}, INPUTS, LABELS + 1)
    wide.load_state_dict(model.state_dict())
    assert torch.equal(wide(x)[:, :LABELS], model(x))


def change_tree(model: Any, field: str, value: int) -> None:
    state = model.tree_.__getstate__()
    state["nodes"] = state["nodes"].copy()
    state["nodes"][field][0] = value
    model.tree_.__setstate__(state)


def trained(kind: type, **settings: Any) -> Any:
    x, y = rows()
    return kind(**settings).fit(x.double().numpy(), y.numpy())


@pytest.mark.parametrize("field", ["left_child", "right_child", "feature"])
@pytest.mark.parametrize("value", [10**6, -5, 0])
def test_a_tree_that_leads_out_of_memory_is_refused(field: str, value: int) -> None:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    if (field, value) == ("feature", 0):
        value = INPUTS  # column 0 is one, a child 0 would go round and round
    tree, forest = trained(DecisionTreeClassifier), trained(RandomForestClassifier, n_estimators=2)
    model, many = fitted("DecisionTreeClassifier"), fitted("RandomForestClassifier")
    model.load_state_dict(holding(write(tree)))
    change_tree(tree, field, value)
    change_tree(forest.estimators_[1], field, value)
    refused(model, holding(write(tree)))
    refused(many, holding(write(forest)))


@pytest.mark.parametrize(
    ("field", "value"),
    [("left", 10**6), ("right", 0), ("feature_idx", INPUTS), ("is_categorical", 1)],
)
def test_a_boosted_tree_that_leads_out_of_memory_is_refused(field: str, value: int) -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    boosted = trained(HistGradientBoostingClassifier, max_iter=2)
    model = fitted("HistGradientBoostingClassifier", max_iter=2)
    model.load_state_dict(holding(write(boosted)))
    boosted._predictors[1][2].nodes[field][0] = value
    refused(model, holding(write(boosted)))


def test_boosting_with_more_trees_than_scores_is_refused() -> None:
    from sklearn.ensemble import GradientBoostingClassifier

    boosted = trained(GradientBoostingClassifier, n_estimators=2)
    model = fitted("GradientBoostingClassifier", n_estimators=2)
    model.load_state_dict(holding(write(boosted)))
    boosted.estimators_ = np.tile(boosted.estimators_, 3)
    refused(model, holding(write(boosted)))


def test_neighbours_with_labels_that_are_not_there_are_refused() -> None:
    from sklearn.neighbors import KNeighborsClassifier

    nearest = trained(KNeighborsClassifier, algorithm="brute")
    model = fitted("KNeighborsClassifier")
    model.load_state_dict(holding(write(nearest)))
    nearest._y[0] = 10**6
    refused(model, holding(write(nearest)))


def test_the_file_is_refused_before_anything_of_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    import skops.io

    monkeypatch.setattr(skops.io, "loads", lambda *_, **__: pytest.fail("it was read"))
    refused(head(), holding(write(pipeline())))


def test_a_top_with_such_a_state_is_refused_as_a_checkpoint() -> None:
    top = Top(fitted(), "concat", LABELS)
    state = {**top.state_dict(), "head.estimator": holding(b"PK")["estimator"]}
    with pytest.raises(CheckpointError):
        top.load_state_dict(state)
