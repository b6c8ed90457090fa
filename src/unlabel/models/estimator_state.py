"""A fitted classifier of scikit-learn as bytes: the same each time, and safe to read.

They are a file of skops and not of pickle: reading one runs no code that it brings along.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np

from unlabel.errors import CheckpointError

#: Types of fitted classifiers beside those that skops trusts by itself, which are the estimators of
#: scikit-learn and the losses of boosting. `_is_sound` looks into the trees.
TRUSTED = (
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
)
#: What a classifier is made of; skops also knows functions, methods and operators.
LOADERS = frozenset(
    {
        *("DictNode", "JsonNode", "ListNode", "LossNode", "NdArrayNode", "ObjectNode"),
        *("RandomGeneratorNode", "RandomStateNode", "TreeNode", "TupleNode", "TypeNode"),
    }
)
PACKAGES = frozenset({"builtins", "numpy", "sklearn"})
SCHEMA = "schema.json"
NOT_TRUSTED = "the model in it is not one that is trusted."


def write(model: Any) -> bytes:
    """Return a model as bytes that depend on nothing else.

    As skops writes it, objects and arrays are named by their place in memory, and it has a date.
    Here arrays are numbered in the order of the schema, equal ones once, and all else is fixed.
    """
    import skops.io

    with ZipFile(io.BytesIO(skops.io.dumps(model))) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(files[SCHEMA])
    names: dict[bytes, str] = {}
    for node in _nodes(schema):
        node.pop("__id__", None)
        if "file" in node:
            _, _, suffix = node["file"].rpartition(".")
            node["file"] = names.setdefault(files[node["file"]], f"{len(names):06}.{suffix}")
    text = json.dumps(schema, separators=(",", ":")).encode()
    output = io.BytesIO()
    with ZipFile(output, "w") as archive:
        for content, name in {**names, text: SCHEMA}.items():
            entry = ZipInfo(name)  # of 1980, and not compressed
            entry.create_system = 3  # as on Unix, also elsewhere
            archive.writestr(entry, content)
    return output.getvalue()


def read(data: bytes, kind: type[Any], inputs: int) -> Any:
    """Return the model of this class and for so many columns that bytes hold, and nothing else."""
    import skops.io

    try:
        with ZipFile(io.BytesIO(data)) as archive:
            schema = json.loads(archive.read(SCHEMA))
        for node in _nodes(schema):
            package = str(node["__module__"]).partition(".")[0]
            if node["__loader__"] not in LOADERS or package not in PACKAGES:
                raise TypeError(f"{node['__module__']}.{node['__class__']} is not trusted.")
        model: Any = skops.io.loads(data, trusted=list(TRUSTED))
        if type(model) is not kind or model.n_features_in_ != inputs:
            raise TypeError("It is another classifier.")
        if not _is_sound(model, inputs):
            raise ValueError("It would read beyond its memory.")
    except Exception as error:  # bytes may be anything
        raise CheckpointError(NOT_TRUSTED) from error
    return model


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every object that the schema of a file describes."""
    if isinstance(schema, dict):
        if "__loader__" in schema:
            yield schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from _nodes(part)


def _parts(value: Any) -> Iterator[Any]:
    """Yield what a model is made of, the whole before its parts."""
    yield value
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, list | tuple):
        parts = list(value)
    elif isinstance(value, np.ndarray) and value.dtype == np.object_:
        parts = value.ravel().tolist()
    else:
        parts = [] if isinstance(value, type) else list(getattr(value, "__dict__", {}).values())
    for part in parts:
        yield from _parts(part)


def _is_sound(model: Any, inputs: int) -> bool:
    """Tell whether a model reads only memory that it has, which scikit-learn takes for granted.

    Nodes of trees lead on to later nodes of the same tree, and split columns that there are;
    neighbours have labels that there are; boosting has as many trees a round as it has scores.
    """
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
    from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
    from sklearn.tree import BaseDecisionTree

    def leads_on(inner: Any, left: Any, right: Any, columns: Any, limit: int) -> bool:
        count, places = len(inner), np.arange(len(inner))
        fine = (columns >= 0) & (columns < limit)
        for child in (left.astype(np.int64), right.astype(np.int64)):
            fine &= (child > places) & (child < count)
        return count > 0 and bool(fine[inner].all())

    for part in reversed(list(_parts(model))):  # what a part is made of has been looked at before
        sound = True
        if isinstance(part, BaseDecisionTree) and hasattr(part, "tree_"):
            tree, limit = part.tree_, part.n_features_in_
            left, right = tree.children_left, tree.children_right
            sound = tree.n_features == limit and leads_on(
                left != -1, left, right, tree.feature, limit
            )
        elif isinstance(part, TreePredictor):
            nodes = part.nodes
            sound = not nodes["is_categorical"].any() and leads_on(
                nodes["is_leaf"] == 0, nodes["left"], nodes["right"], nodes["feature_idx"], inputs
            )
        elif isinstance(part, KNeighborsClassifier | RadiusNeighborsClassifier):
            labels = np.arange(len(part.classes_))
            sound = (
                part._fit_method == "brute"
                and part._fit_X.shape == (len(part._y), inputs)
                and np.array_equal(np.unique(part._y), labels)
            )
        elif isinstance(part, GradientBoostingClassifier):
            scores = part._raw_predict_init(np.zeros((1, inputs), dtype=np.float32))
            sound = part.estimators_.shape[1:] == scores.shape[1:] and all(
                each.tree_.n_features == inputs for each in part.estimators_.flat
            )
        if not sound:
            return False
    return True
