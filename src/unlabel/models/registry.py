"""How a model is found by name, built, and checked before anything depends on it."""

from __future__ import annotations

import copy
import importlib
import inspect
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from unlabel.config import ModelSettings, TextSettings
from unlabel.errors import ModelError, SettingsError, unknown, why
from unlabel.models.estimators import PREFIX, EstimatorHead, check_estimator
from unlabel.registry import Registry

Shape = tuple[int, ...]


@dataclass(frozen=True)
class BottomModel:
    """A bottom model by name.

    build  makes it for rows of a shape: (channels, height, width) or (columns,)
    top    the top model that goes with it unless the user names another
    about  one line for people
    texts  whether it reads texts; `build` is then given their settings too
    bag    whether it weighs the words of a text, and ignores their order
    """

    build: Callable[..., nn.Module]
    top: str
    about: str
    texts: bool = False
    bag: bool = False


BOTTOMS: Registry[BottomModel] = Registry(
    "bottom model", package="unlabel.models", plugins="unlabel.models"
)
TOPS: Registry[Callable[[int, int], nn.Module]] = Registry(
    "top model", package="unlabel.models", plugins="unlabel.models"
)


def build_bottom(
    name: str,
    shape: Shape,
    code: Path | None = None,
    text: TextSettings | None = None,
    *,
    trained: bool = True,
) -> nn.Module:
    """Build a bottom model for rows of `shape`; one that is not `trained` need not be able to.

    `name` is a built-in name or `module:function`; the function may declare the parameters `shape`
    and `text`, and its module lies in the folder `code` or in the working folder. The model must
    turn a batch [n, *shape] into embeddings [n, width].

    >>> embedding_width(build_bottom("mlp", (7,)), (7,))
    32
    """
    text = text or TextSettings()
    if not text.length and not text.frozen and len(shape) == 1:
        text = replace(text, length=shape[0])  # the length that was read
    if ":" in name:
        model = _of_user(name, code, shape=shape, text=text)
    else:
        known = BOTTOMS.get(name)
        model = known.build(shape, text) if known.texts else known.build(shape)
    try:
        if trained:
            rehearse(model, shape)
        else:
            embedding_width(model, shape)
    except ModelError as error:
        raise ModelError(f"Bottom model '{name}' does not fit: {error}") from error
    return model


def build_top(
    name: str,
    inputs: int,
    labels: int,
    code: Path | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
) -> nn.Module:
    """Build a top model from `inputs` embedding columns to `labels` logits.

    `name` is a built-in name, `module:function`, whose function may declare the parameters
    `inputs` and `labels`, or `sklearn:NAME`, a classifier of scikit-learn with `settings`.
    """
    if name.startswith(PREFIX):
        return EstimatorHead(name.removeprefix(PREFIX), settings or {}, inputs, labels)
    if settings:
        raise SettingsError(
            f"Top model '{name}' takes no settings; leave them out, or use '{PREFIX}NAME'."
        )
    if ":" in name:
        return _of_user(name, code, inputs=inputs, labels=labels)
    return TOPS.get(name)(inputs, labels)


def default_top(bottom: str) -> str:
    """Return the top model that goes with a bottom unless the user names another."""
    return "linear" if ":" in bottom else BOTTOMS.get(bottom).top


def top_of(settings: ModelSettings) -> str:
    """Return the name of the top model: the one chosen, or the one that goes with the bottom."""
    return settings.top or default_top(settings.bottom)


def reads_bag(bottom: str, text: TextSettings) -> bool:
    """Return whether a bottom model weighs the words of texts, without regard to their order."""
    return ":" not in bottom and not text.frozen and BOTTOMS.get(bottom).bag


def describe_bottom(bottom: str, text: TextSettings) -> str:
    """Return what checkpoints call a bottom model.

    Up to 0.6 `words` was the mean of word vectors; a checkpoint of that one is refused by name.
    """
    return f"{bottom} by weight" if reads_bag(bottom, text) else bottom


def embedding_width(bottom: nn.Module, shape: Shape) -> int:
    """Return the width of the embeddings a bottom gives for rows of `shape`.

    Two blank rows go through it once, with no effect on its state.
    """
    tensors = chain(bottom.parameters(), bottom.buffers())
    device = next((tensor.device for tensor in tensors), torch.device("cpu"))
    try:
        with predicting(bottom):
            out = bottom(torch.zeros(2, *shape, device=device))
    except Exception as error:
        raise ModelError(f"it fails on rows of shape {list(shape)} ({why(error)}).") from error
    if not isinstance(out, torch.Tensor) or out.dim() != 2 or out.shape[0] != 2:
        got = list(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
        raise ModelError(f"expected embeddings of shape [rows, width] for 2 rows but got {got}.")
    return out.shape[1]


@contextmanager
def predicting(model: nn.Module) -> Iterator[None]:
    """Have a model predict, without gradients, and put each part back into its mode after.

    Part by part: the owner may have frozen some of them.
    """
    modes = {part: part.training for part in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes.items():
            part.training = training


def rehearse(bottom: nn.Module, shape: Shape) -> None:
    """Train a copy on two blank rows, so that what cannot work fails before a run begins."""
    width = embedding_width(bottom, shape)
    if not any(weights.requires_grad for weights in bottom.parameters()):
        raise ModelError("it has no weights to train and would send raw features.")
    try:
        copied = copy.deepcopy(bottom).train()
        out = copied(torch.zeros(2, *shape))
        out.float().sum().backward()
        strange = [key for key, v in copied.state_dict().items() if not isinstance(v, torch.Tensor)]
    except Exception as error:  # a user's model may raise anything
        raise ModelError(f"a step of training fails ({why(error)}).") from error
    if list(out.shape) != [2, width]:
        raise ModelError(
            f"it is {width} wide in prediction but gives {list(out.shape)} in training."
        )
    if any(p.grad is not None and p.grad.is_sparse for p in copied.parameters()):
        raise ModelError("its gradients are sparse; make them dense.")
    if strange:
        raise ModelError(f"its state '{strange[0]}' is not a tensor and could not be kept.")


class Fitted(nn.Module):
    """A part that is fitted once, before training, by its owner and on its owner's rows alone.

    What is fitted lies in buffers, so that it is part of every checkpoint. There are no labels in
    it, and nothing of other parties. Training again without some rows fits it again without them.
    """

    @abstractmethod
    def fit(self, batches: Iterable[Tensor]) -> None:
        """Fit to the training rows, batch by batch as the bottom model reads them."""


def fit_parts(module: nn.Module, batches: Callable[[], Iterable[Tensor]]) -> None:
    """Fit every part of a model that is to be fitted; rows are read only if there is one."""
    for part in module.modules():
        if isinstance(part, Fitted):
            part.fit(batches())


#: Functions and classes that were passed as such, by the name under which a run keeps them.
_BY_NAME: dict[str, Callable[..., nn.Module]] = {}


def name_of(model: Callable[..., nn.Module]) -> str:
    """Return the name, `module:function`, under which a run keeps a function or class.

    In this process the name means what was passed, also where no import would find it (a
    notebook's cell); in another one for what an import finds.
    """
    if not callable(model) or isinstance(model, nn.Module):
        raise SettingsError(
            f"Expected a model's name, or a function or class that makes one, but got "
            f"{type(model).__name__}: every party needs a model of its own."
        )
    base = f"{getattr(model, '__module__', '__main__')}:{getattr(model, '__qualname__', 'model')}"
    name, number = base, 1
    while _BY_NAME.setdefault(name, model) is not model:
        number += 1
        name = f"{base}#{number}"
    return name


def bind(name: str, model: Callable[..., nn.Module]) -> None:
    """Make a name that a run keeps mean this function or class, in this process."""
    if ":" not in name:
        raise SettingsError(f"This run's model is the built-in '{name}'; leave `model` out.")
    name_of(model)  # is it one at all?
    _BY_NAME[name] = model


def model_settings(model: str | ModelSettings | Callable[..., nn.Module]) -> ModelSettings:
    """Return settings from a name, a function or class that makes a bottom, or settings.

    A name that means nothing is refused, before any data is read.
    """
    settings = model if isinstance(model, ModelSettings) else ModelSettings()
    bottom = settings.bottom if isinstance(model, ModelSettings) else model
    if not isinstance(bottom, str):
        bottom = name_of(bottom)
    settings = replace(settings, bottom=bottom)
    check_models(settings)
    return settings


def check_models(settings: ModelSettings) -> None:
    """Raise where a name of a model means nothing."""
    for each in (settings.bottom, settings.top, *settings.bottoms.values()):
        if each is not None and not isinstance(each, str):
            raise SettingsError(
                f"Expected the name of a model but got {name_of(each)!r} itself; in Python only "
                f"`bottom` may be a function or class. Put it into a file and name it as "
                f"`module:function`."
            )
    for bottom in (settings.bottom, *settings.bottoms.values()):
        if ":" not in bottom:
            BOTTOMS.get(bottom)
    if settings.top is not None and settings.top.startswith(PREFIX):
        check_estimator(settings.top.removeprefix(PREFIX))
    elif settings.top is not None and ":" not in settings.top:
        TOPS.get(settings.top)


def _of_user(name: str, code: Path | None, **offered: Any) -> nn.Module:
    """Call the user's `module:function` with those offered arguments that it declares."""
    function = _BY_NAME[name] if name in _BY_NAME else _imported(name, code)
    used: dict[str, Any] = {}
    try:
        declared = inspect.signature(function).parameters
        used = {k: v for k, v in offered.items() if k in declared}
        model = function(**used)
    except Exception as error:
        passed = ", ".join(used) or "no arguments"
        raise ModelError(f"Model '{name}' cannot be called with {passed}: {why(error)}.") from error
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"Model '{name}' returned {type(model).__name__}; expected a torch.nn.Module."
        )
    return model


def _imported(name: str, code: Path | None) -> Callable[..., Any]:
    """Return the function that `module:function` names."""
    module_name, _, function_name = name.partition(":")
    if "<" in function_name or "#" in function_name:  # within a function, or a second of one name
        raise ModelError(_not_here(name))
    for folder in (Path.cwd(), code):
        if folder is not None and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))  # the user's own file is not an installed package
    # No compiled copy beside the source: it would be a file of a kit that nobody has looked at.
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # the user's own code may fail in any way
        raise ModelError(
            f"Model '{name}': cannot import '{module_name}' ({why(error)})."
        ) from error
    finally:
        sys.dont_write_bytecode = writes
    known = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
    if function_name not in known:
        hint = f"Model '{name}': {unknown('function', function_name, known)}"
        raise ModelError(_not_here(name) if module_name == "__main__" else hint)
    return cast("Callable[..., Any]", getattr(module, function_name))


def _not_here(name: str) -> str:
    return (
        f"Model '{name}' was made in a notebook or script that is not here; open the run with "
        f"`Federation.open(folder, model=..)`, or put the model into a file and name it as "
        f"`module:function`."
    )


def need_rank(name: str, shape: Shape, rank: int) -> Shape:
    """Return `shape` if it has the rank that a model reads, or say which model fits."""
    if len(shape) != rank:
        kind, other = ("texts", "convnet") if rank == 1 else ("images", "mlp")
        raise SettingsError(
            f"Model '{name}' reads {kind}, but these rows have shape {list(shape)}; use '{other}'."
        )
    return shape
