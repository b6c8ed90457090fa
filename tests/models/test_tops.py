"""The active party's model: how embeddings are joined, and what is refused."""

from __future__ import annotations

import pytest
import torch

from unlabel.config import ModelSettings
from unlabel.errors import ModelError, SettingsError
from unlabel.models import join_top
from unlabel.models.registry import model_settings, top_of


@pytest.mark.parametrize("name", ["linear", "fc3"])
def test_concatenated_embeddings_keep_the_order_of_the_parties(name: str) -> None:
    top = join_top(name, [2, 3, 1], labels=4).eval()
    parts = [torch.randn(5, width) for width in (2, 3, 1)]
    assert torch.equal(top(parts), top.head(torch.cat(parts, dim=1)))
    assert top(parts).shape == (5, 4)


def test_summed_embeddings_do_not_depend_on_their_order() -> None:
    top = join_top("linear", [3, 3], labels=2, combine="sum")
    one, other = torch.randn(2, 4, 3)
    torch.testing.assert_close(top([one, other]), top.head(one + other))
    assert torch.equal(top([one, other]), top([other, one]))


@pytest.mark.parametrize("combine", ["concat", "sum"])
def test_a_single_party_needs_no_joining(combine: str) -> None:
    top = join_top("linear", [3], labels=2, combine=combine)  # type: ignore[arg-type]
    x = torch.randn(4, 3)
    assert torch.equal(top([x]), top.head(x))


@pytest.mark.parametrize("combine", ["concat", "sum"])
def test_gradients_reach_every_party_and_every_weight(combine: str) -> None:
    torch.manual_seed(0)
    top = join_top("fc3", [6, 6], labels=3, combine=combine)  # type: ignore[arg-type]
    parts = [torch.randn(8, 6, requires_grad=True) for _ in range(2)]
    (top(parts) * torch.randn(8, 3)).sum().backward()
    for tensor in (*parts, *top.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.any()


def test_a_muted_label_never_wins_and_the_others_are_as_before() -> None:
    top = join_top("linear", [6], labels=4)
    x = torch.randn(50, 6) * 100
    before = top([x])
    top.mute([1, 3])
    after = top([x])
    assert torch.equal(after[:, [0, 2]], before[:, [0, 2]])
    assert set(after.argmax(1).tolist()) <= {0, 2}
    assert torch.equal(after.softmax(1)[:, [1, 3]], torch.zeros(50, 2))
    top.mute([])
    assert torch.equal(top([x]), after)
    other = join_top("linear", [6], labels=4)
    other.load_state_dict(top.state_dict())  # it is part of the model
    assert torch.equal(other([x]), after)


def test_a_top_is_built_ready_to_train() -> None:
    assert join_top("fc3", [2], labels=2).training


def test_embeddings_of_two_widths_cannot_be_summed() -> None:
    expected = r"\[4, 3\] .*'concat'"
    with pytest.raises(ModelError, match=expected):
        join_top("linear", [4, 3], labels=2, combine="sum")


def test_an_unknown_way_to_combine_is_named_with_the_nearest() -> None:
    expected = "'concut'.*'concat'"
    with pytest.raises(SettingsError, match=expected):
        join_top("linear", [4], labels=2, combine="concut")  # type: ignore[arg-type]


# --- settings ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"bottom": "resnet81"}, r"'resnet81'.*'resnet18'.* bert, convnet, mlp, resnet18, vgg16, "),
        ({"bottom": "zzz"}, r"'zzz'.* bert, convnet, mlp, resnet18, vgg16, words"),
        ({"bottoms": {"a": "vgg61"}}, r"'vgg61'.*'vgg16'"),
        ({"top": "liner"}, r"'liner'.*'linear'.* fc3, fc4, linear"),
    ],
)
def test_an_unknown_name_is_refused_before_anything_is_built(
    given: dict[str, object], expected: str
) -> None:
    with pytest.raises(SettingsError, match=expected):
        model_settings(ModelSettings(**given))  # type: ignore[arg-type]


def test_settings_know_each_party_s_bottom_and_the_top() -> None:
    settings = ModelSettings(bottom="vgg16", bottoms={"clinic": "mlp"})
    assert (settings.bottom_of("clinic"), settings.bottom_of("bank")) == ("mlp", "vgg16")
    assert top_of(settings) == "fc3"
    assert top_of(ModelSettings(bottom="vgg16", top="linear")) == "linear"
