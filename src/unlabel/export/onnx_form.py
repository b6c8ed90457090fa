"""A top as an ONNX graph: from each party's embeddings to the logits and the probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from unlabel.errors import RunError, SettingsError
from unlabel.models.tops import Top

if TYPE_CHECKING:
    from unlabel.export.form import Input

#: Of the operators that are used: those of the oldest runtimes in use.
OPSET, IR = 13, 8


def to_onnx(top: Top, inputs: Sequence[Input]) -> bytes:
    """Return the bytes of a graph with an input a party, named as the party is.

    It is written layer by layer, so that nothing but linear layers, ReLU and dropout (which does
    nothing in a prediction) gets in: other tops are refused by name.
    """
    try:
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        raise RunError(
            "ONNX files need the package `onnx`; run: pip install 'unlabel[onnx]'."
        ) from error
    nodes: list[Any] = []
    weights: list[Any] = []

    def constant(name: str, values: Tensor) -> str:
        weights.append(numpy_helper.from_array(values.detach().cpu().float().numpy(), name))
        return name

    names = [each.party for each in inputs]
    if top.combine == "concat":
        nodes.append(helper.make_node("Concat", names, ["/joined"], axis=1))
    else:
        nodes.append(helper.make_node("Sum", names, ["/joined"]))
    now = "/joined"
    for number, layer in enumerate(_layers(top.head)):
        after = f"/layer{number}"
        if isinstance(layer, nn.Linear):
            terms = [now, constant(f"{after}.weight", layer.weight)]
            terms += [constant(f"{after}.bias", layer.bias)] if layer.bias is not None else []
            nodes.append(helper.make_node("Gemm", terms, [after], transB=1))
        elif isinstance(layer, nn.ReLU):
            nodes.append(helper.make_node("Relu", [now], [after]))
        else:
            continue
        now = after
    nodes.append(helper.make_node("Add", [now, constant("/muted", top.muted)], ["logits"]))
    nodes.append(helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1))

    def value(name: str, width: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])

    given = [value(each.party, each.width) for each in inputs]
    answers = [value(name, len(top.muted)) for name in ("logits", "probabilities")]
    graph = helper.make_graph(nodes, "top", given, answers, weights)
    versions = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=versions, ir_version=IR, producer_name="unlabel")
    return bytes(model.SerializeToString(deterministic=True))


def _layers(head: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers of a head in order; raise where there is one that has no place here."""
    if isinstance(head, nn.Sequential):
        for part in head:
            yield from _layers(part)
    elif isinstance(head, nn.Linear | nn.ReLU | nn.Dropout):
        yield head
    else:
        raise SettingsError(
            f"A top with {type(head).__name__} cannot be written as ONNX, which takes the "
            f"built-in ones (linear, mlp, fc3, fc4); export it as safetensors."
        )
