"""Models that users bring as `module:function`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from unlabel.errors import ModelError
from unlabel.models import build_bottom, build_top, embedding_width, join_top

SOURCE = """
import torch
from torch import nn


def shaped(shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], 5))


def fixed():
    return nn.Linear(7, 4)


def with_default(shape, hidden=6):
    return nn.Linear(shape[0], hidden)


class Mine(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.layer = nn.Linear(shape[0], 3)

    def forward(self, x):
        return self.layer(x)


class Odd(nn.Module):
    def __init__(self, answer):
        super().__init__()
        self.layer, self.answer = nn.Linear(7, 3), answer

    def forward(self, x):
        return self.answer(self.layer(x))


def flat(): return Odd(lambda x: x.sum(1))
def deep(): return Odd(lambda x: x[None])
def single(): return Odd(lambda x: x[:, :1])
def summed(): return Odd(lambda x: x.sum(0, keepdim=True))
def paired(): return Odd(lambda x: (x, x))
def weightless(): return nn.Identity()
def needy(shape, depth): return nn.Linear(7, 3)
def nothing(): return None
def _hidden(): return nn.Linear(7, 3)


def frozen():
    model = nn.Linear(7, 4)
    for weights in model.parameters():
        weights.requires_grad_(False)
    return model


def failing(error):
    def fail(x):
        raise error
    return Odd(fail)


def asserting(): return failing(AssertionError())
def silent(): return failing(RuntimeError())
def missing_key(): return failing(KeyError("layer"))


def head(inputs, labels): return nn.Linear(inputs, labels)
def fixed_head(): return nn.Linear(6, 2)
def paired_head(): return Odd(lambda x: (x, x))
def raising_at_build(): raise KeyError("no such thing")
"""


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in a folder that holds the user's file, and forget it afterwards."""
    (tmp_path / "my_models.py").write_text(SOURCE)
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "needs.py").write_text("import surely_not_installed\n")
    (tmp_path / "raises.py").write_text("raise ValueError('half of a thought')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [part for part in sys.path if part != str(tmp_path)])
    for name in ("my_models", "broken", "needs", "raises"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize(
    ("name", "width"), [("shaped", 5), ("fixed", 4), ("with_default", 6), ("Mine", 3)]
)
def test_a_function_or_class_is_given_what_it_declares(name: str, width: int) -> None:
    model = build_bottom(f"my_models:{name}", (7,))
    assert embedding_width(model, (7,)) == width
    assert model(torch.zeros(2, 7)).shape == (2, width)


def test_a_top_is_given_what_it_declares() -> None:
    assert build_top("my_models:head", 9, 4)(torch.zeros(2, 9)).shape == (2, 4)
    top = join_top("my_models:fixed_head", [4, 2], labels=2)
    assert isinstance(top.head, nn.Linear)


def test_an_installed_module_can_be_named_too() -> None:
    with pytest.raises(ModelError, match="has no weights to train: it would send raw features"):
        build_bottom("torch.nn:Identity", (7,))


REFUSED = {
    "nowhere:f": "Model 'nowhere:f': cannot import 'nowhere' (No module named 'nowhere').",
    "needs:f": "Model 'needs:f': cannot import 'needs' (No module named 'surely_not_installed').",
    "raises:f": "Model 'raises:f': cannot import 'raises' (ValueError: half of a thought).",
    "my_models:shapd": "Model 'my_models:shapd': Unknown function 'shapd'. Did you mean 'shaped'?",
    "my_models:": "Model 'my_models:': Unknown function ''.",
    "my_models:_hidden": "Model 'my_models:_hidden': Unknown function '_hidden'.",
    "my_models:SOURCE": "Model 'my_models:SOURCE': Unknown function 'SOURCE'.",
    "my_models:nothing": (
        "Model 'my_models:nothing' returned NoneType; expected a torch.nn.Module."
    ),
    "my_models:needy": (
        "Model 'my_models:needy' cannot be called with shape: needy() missing 1 required "
        "positional argument: 'depth'."
    ),
    "my_models:raising_at_build": (
        "Model 'my_models:raising_at_build' cannot be called with no arguments: "
        "KeyError: 'no such thing'."
    ),
    "my_models:flat": (
        "Bottom model 'my_models:flat' does not fit: expected embeddings of shape [rows, width] "
        "for 2 rows but got [2]."
    ),
    "my_models:deep": "Bottom model 'my_models:deep' does not fit: expected embeddings of shape",
    "my_models:summed": (
        "Bottom model 'my_models:summed' does not fit: expected embeddings of shape [rows, width] "
        "for 2 rows but got [1, 3]."
    ),
    "my_models:paired": (
        "Bottom model 'my_models:paired' does not fit: expected embeddings of shape [rows, width] "
        "for 2 rows but got tuple."
    ),
    "my_models:weightless": (
        "Bottom model 'my_models:weightless' has no weights to train: it would send raw features."
    ),
    "my_models:frozen": (
        "Bottom model 'my_models:frozen' has no weights to train: it would send raw features."
    ),
    "my_models:asserting": (
        "Bottom model 'my_models:asserting' does not fit: it fails on rows of shape [7] "
        "(AssertionError"
    ),
    "my_models:silent": (
        "Bottom model 'my_models:silent' does not fit: it fails on rows of shape [7] (RuntimeError"
    ),
    "my_models:missing_key": (
        "Bottom model 'my_models:missing_key' does not fit: it fails on rows of shape [7] "
        "(KeyError: 'layer')."
    ),
}


@pytest.mark.parametrize("name", [*REFUSED, ":f", ".my_models:f", "broken:f", "builtins:dict"])
def test_what_cannot_be_a_bottom_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(ModelError) as caught:
        build_bottom(name, (7,))
    assert str(caught.value).startswith(REFUSED.get(name, f"Model '{name}'"))
    assert "\n" not in str(caught.value)


def test_a_bottom_of_the_wrong_rank_says_what_it_was_given() -> None:
    expected = r"'my_models:fixed' does not fit: it fails on rows of shape \[1, 8, 4\] \(mat1 and"
    with pytest.raises(ModelError, match=expected):
        build_bottom("my_models:fixed", (1, 8, 4))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my_models:fixed_head", r"fails on embeddings of widths \[3\] \(mat1 and mat2"),
        ("my_models:silent", r"fails on embeddings of widths \[3\] \(mat1 and mat2"),
        ("my_models:nothing", "returned NoneType"),
    ],
)
def test_what_cannot_be_a_top_is_refused_in_one_sentence(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        join_top(name, [3], labels=2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("fixed", r"\[2, 4\]"),
        ("paired_head", "tuple"),
        ("deep", r"\[1, 2, 3\]"),
        ("single", r"\[2, 1\]"),
    ],
)
def test_logits_of_another_shape_are_refused(name: str, got: str) -> None:
    message = rf"Top model 'my_models:{name}': expected logits of shape \[2, 9\] .* but got {got}\."
    with pytest.raises(ModelError, match=message):
        join_top(f"my_models:{name}", [7], labels=9)


def test_a_top_that_fails_silently_is_still_named() -> None:
    for name in ("silent", "asserting", "missing_key"):
        with pytest.raises(ModelError, match=f"Top model 'my_models:{name}' fails on embeddings"):
            join_top(f"my_models:{name}", [7], labels=2)
