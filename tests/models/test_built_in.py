"""The built-in models: their layers, their sizes and what they compute."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unlabel.config.data import part_widths
from unlabel.errors import SettingsError
from unlabel.models import BOTTOMS, TOPS, build_bottom, build_top, default_top, embedding_width

WIDTHS = {"mlp": 32, "convnet": 64, "resnet18": 512, "vgg16": 512}
#: Every shape a party can hold of a colour image of 28 or 32 pixels that 1 to 8 parties share.
STRIPS = sorted(
    {
        (3, size, width)
        for size in (28, 32)
        for parties in range(1, 9)
        for width in part_widths(parties, size).values()
    }
)


def count(model: nn.Module, kind: type[nn.Module]) -> int:
    return sum(isinstance(module, kind) for module in model.modules())


def parameters(model: nn.Module) -> int:
    return sum(weights.numel() for weights in model.parameters())


def conv(inputs: int, outputs: int, size: int = 3) -> int:
    """Return the weights of a convolution without bias and of the normalisation after it."""
    return size * size * inputs * outputs + 2 * outputs


@pytest.fixture(scope="module")
def resnet() -> nn.Module:
    torch.manual_seed(0)
    return build_bottom("resnet18", (3, 32, 32))


@pytest.fixture(scope="module")
def vgg() -> nn.Module:
    torch.manual_seed(0)
    return build_bottom("vgg16", (3, 32, 32))


def test_every_model_is_registered_and_says_what_it_is() -> None:
    assert set(WIDTHS) <= set(BOTTOMS.names())
    assert {"linear", "fc3"} <= set(TOPS.names())
    for name in BOTTOMS.names():
        assert BOTTOMS.get(name).about
        assert BOTTOMS.get(name).top in TOPS


def test_resnet18_has_the_layers_of_the_paper(resnet: nn.Module) -> None:
    assert count(resnet, nn.Conv2d) == 20
    assert count(resnet, nn.BatchNorm2d) == 20
    assert count(resnet, nn.Linear) == 0
    assert embedding_width(resnet, (3, 32, 32)) == 512


def test_resnet18_has_as_many_weights_as_the_paper_says(resnet: nn.Module) -> None:
    expected = conv(3, 64) + 4 * conv(64, 64)
    for inputs in (64, 128, 256):
        outputs = 2 * inputs
        expected += conv(inputs, outputs) + 3 * conv(outputs, outputs) + conv(inputs, outputs, 1)
    assert parameters(resnet) == expected == 11_168_832


def test_vgg16_has_the_layers_of_the_paper(vgg: nn.Module) -> None:
    assert count(vgg, nn.Conv2d) == 13
    assert count(vgg, nn.MaxPool2d) == 5
    channels = [3, 64, 64, 128, 128, 256, 256, 256, *[512] * 6]
    assert parameters(vgg) == sum(map(conv, channels, channels[1:])) == 14_718_912
    assert embedding_width(vgg, (3, 32, 32)) == 512


def test_fc3_has_three_layers() -> None:
    top = build_top("fc3", 1024, 10)
    assert [(m.in_features, m.out_features) for m in top.modules() if isinstance(m, nn.Linear)] == [
        (1024, 512),
        (512, 512),
        (512, 10),
    ]
    assert count(top, nn.Dropout) == 2
    assert count(build_top("linear", 7, 3), nn.Linear) == 1


def test_the_top_mlp_has_one_hidden_layer() -> None:
    kinds = [type(layer) for layer in build_top("mlp", 24, 3).children()]
    assert kinds == [nn.Linear, nn.ReLU, nn.Dropout, nn.Linear]
    assert parameters(build_top("mlp", 24, 3)) == 25 * 512 + 513 * 3


def test_each_bottom_has_its_top() -> None:
    tops = {name: default_top(name) for name in WIDTHS}
    assert tops == {"mlp": "linear", "convnet": "linear", "resnet18": "linear", "vgg16": "fc3"}
    assert default_top("mine:bottom") == "linear"


@pytest.mark.parametrize("name", WIDTHS)
def test_every_model_fits_every_strip(name: str) -> None:
    assert len(STRIPS) == 18
    for shape in STRIPS:
        with torch.device("meta"):  # shapes without arithmetic
            model = build_bottom(name, shape)
            assert embedding_width(model, shape) == WIDTHS[name], shape


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("shape", [(1, 28, 3), (3, 32, 4)], ids=str)
def test_gradients_reach_every_weight_of_the_narrowest_strips(
    name: str, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    model = build_bottom(name, shape).train()
    out = model(torch.randn(4, *shape))
    assert out.shape == (4, WIDTHS[name])
    (out * torch.randn_like(out)).sum().backward()
    for weights_name, weights in model.named_parameters():
        assert weights.grad is not None, weights_name
        assert weights.grad.isfinite().all(), weights_name
        assert weights.grad.any(), weights_name


@pytest.mark.parametrize("name", ["convnet", "resnet18", "vgg16"])
def test_a_model_for_images_sends_tables_elsewhere(name: str) -> None:
    message = rf"'{name}' .*\[7\]; .*'mlp'"
    with pytest.raises(SettingsError, match=message):
        build_bottom(name, (7,))


def test_mlp_reads_tables_and_images() -> None:
    for shape in ((1,), (7,), (3, 4, 5)):
        assert embedding_width(build_bottom("mlp", shape), shape) == 32


def test_models_are_built_ready_to_train() -> None:
    assert all(build_bottom(name, (1, 8, 8)).training for name in ("mlp", "convnet"))


def test_measuring_the_width_leaves_no_trace() -> None:
    model = build_bottom("convnet", (1, 8, 4))
    for training in (True, False):
        model.train(training)
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        embedding_width(model, (1, 8, 4))
        assert all(module.training == training for module in model.modules())
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, before[name]), name


# --- an independent computation ------------------------------------------------------------


def normed(x: Tensor, state: dict[str, Tensor], name: str, *, training: bool) -> Tensor:
    """Normalise by the definition: (x - mean) / sqrt(variance + 1e-5) * weight + bias."""
    if training:
        mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
    else:
        mean, variance = state[f"{name}.running_mean"], state[f"{name}.running_var"]
    weight = state[f"{name}.weight"] / (variance + 1e-5).sqrt()
    return (x - mean[:, None, None]) * weight[:, None, None] + state[f"{name}.bias"][:, None, None]


def resnet18_by_hand(x: Tensor, state: dict[str, Tensor], *, training: bool) -> Tensor:
    def layer(x: Tensor, conv: str, norm: str, stride: int, padding: int = 1) -> Tensor:
        y = F.conv2d(x, state[f"{conv}.weight"], stride=stride, padding=padding)
        return normed(y, state, norm, training=training)

    x = F.relu(layer(x, "0", "1", 1))
    for block, stride in zip(range(3, 11), (1, 1, 2, 1, 2, 1, 2, 1), strict=True):
        y = F.relu(layer(x, f"{block}.conv1", f"{block}.norm1", stride))
        y = layer(y, f"{block}.conv2", f"{block}.norm2", 1)
        if f"{block}.shortcut.0.weight" in state:
            x = layer(x, f"{block}.shortcut.0", f"{block}.shortcut.1", stride, padding=0)
        x = F.relu(y + x)
    return x.mean((2, 3))


@pytest.mark.parametrize("training", [True, False])
def test_resnet18_computes_what_its_definition_says(resnet: nn.Module, training: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for module in resnet.modules():
            if isinstance(module, nn.BatchNorm2d):  # none of them the identity
                for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
                    assert tensor is not None
                    tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
    exact = build_bottom("resnet18", (3, 8, 5)).double()
    exact.load_state_dict(resnet.state_dict())
    state = {name: tensor.clone() for name, tensor in exact.state_dict().items()}
    x = torch.randn(3, 3, 8, 5, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        found = exact.train(training)(x)
        expected = resnet18_by_hand(x, state, training=training)
    assert found.std() > 0
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
