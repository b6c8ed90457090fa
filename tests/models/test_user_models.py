"""Models that users bring as `module:function`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from unlabel.config import ModelSettings
from unlabel.errors import ModelError, SettingsError
from unlabel.models import build_bottom, build_top, embedding_width, join_top
from unlabel.models.registry import model_settings

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
    with pytest.raises(ModelError, match="no weights to train"):
        build_bottom("torch.nn:Identity", (7,))


#: What the sentence says of the reason, beside the name.
REFUSED = {
    "nowhere:f": "No module named 'nowhere'",
    "needs:f": "No module named 'surely_not_installed'",
    "raises:f": "ValueError: half of a thought",
    "my_models:shapd": "'shaped'",
    "my_models:": "''",
    "my_models:_hidden": "'_hidden'",
    "my_models:SOURCE": "'SOURCE'",
    "my_models:nothing": "NoneType",
    "my_models:needy": "'depth'",
    "my_models:raising_at_build": "KeyError: 'no such thing'",
    "my_models:flat": "got [2]",
    "my_models:deep": "[rows, width]",
    "my_models:summed": "got [1, 3]",
    "my_models:paired": "tuple",
    "my_models:weightless": "no weights",
    "my_models:frozen": "no weights",
    "my_models:asserting": "AssertionError",
    "my_models:silent": "RuntimeError",
    "my_models:missing_key": "KeyError: 'layer'",
}


@pytest.mark.parametrize("name", [*REFUSED, ":f", ".my_models:f", "broken:f", "builtins:dict"])
def test_what_cannot_be_a_bottom_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(ModelError) as caught:
        build_bottom(name, (7,))
    assert f"odel '{name}'" in str(caught.value)
    assert REFUSED.get(name, "") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bottom_of_the_wrong_rank_says_what_it_was_given() -> None:
    expected = r"'my_models:fixed' .*\[1, 8, 4\] \(mat1 and"
    with pytest.raises(ModelError, match=expected):
        build_bottom("my_models:fixed", (1, 8, 4))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my_models:fixed_head", r"\[3\] \(mat1 and mat2"),
        ("my_models:silent", r"\[3\] \(mat1 and mat2"),
        ("my_models:nothing", "NoneType"),
    ],
)
def test_what_cannot_be_a_top_is_refused_in_one_sentence(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        join_top(name, [3], labels=2)
    assert "\n" not in str(caught.value)


def test_a_top_is_named_and_not_given_as_a_class() -> None:
    settings: dict[str, Any] = {"top": nn.Linear}
    with pytest.raises(SettingsError, match=r"'torch\.nn\..*Linear' itself.*`module:function`"):
        model_settings(ModelSettings(**settings))


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
    message = rf"'my_models:{name}': .*\[2, 9\] .* {got}"
    with pytest.raises(ModelError, match=message):
        join_top(f"my_models:{name}", [7], labels=9)


def test_a_top_that_fails_silently_is_still_named() -> None:
    for name in ("silent", "asserting", "missing_key"):
        with pytest.raises(ModelError, match=f"'my_models:{name}'"):
            join_top(f"my_models:{name}", [7], labels=2)
