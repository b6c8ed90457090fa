"""Messages as bytes: what goes in comes out, and nothing else is let in."""

from __future__ import annotations

import ast
import inspect
import io
import json
import pickle
import struct
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from torch import Tensor

from unlabel.errors import REFUSALS, WireError
from unlabel.wire import (
    AccumulateFisher,
    AccumulateUpdates,
    Aligned,
    Attest,
    Attestation,
    AttestBase,
    BeginLabelFree,
    BeginRequest,
    Commit,
    Common,
    CompareLayers,
    ContrastAlone,
    Describe,
    Description,
    Embed,
    Embeddings,
    Freeze,
    Gradients,
    LayersCompared,
    Limits,
    Match,
    Matched,
    Message,
    Offer,
    Offered,
    Prepare,
    Purge,
    Refused,
    RetainVersions,
    Rollback,
    Save,
    Stage,
    Status,
    StatusReply,
    SyntheticInputs,
    TransformWeights,
    codec,
    decode,
    encode,
    messages,
)
from unlabel.wire.codec import encoded_size
from unlabel.wire.messages import FLOATS, MESSAGES, PLAIN, TENSORS, TensorField, tensors_of

INT64 = st.integers(-(2**63), 2**63 - 1)
SAMPLES: tuple[Message, ...] = (
    Describe(0),
    Prepare(0, torch.arange(5), 12),
    Embed(3, torch.tensor([4, 1]), "train", "näw"),
    Gradients(3, torch.randn(2, 3)),
    Save(0, 7),
    MESSAGES["Restore"](0, 7, "ab"),  # type: ignore[call-arg]
    RetainVersions(0, (1, 2)),
    AccumulateFisher(3, torch.randn(2, 3), "every", 0.5),
    AccumulateUpdates(0, "remembered"),
    BeginRequest(0, "9f", 30, 0.05, "linear", 0.1, 0.9, "yes", 5e-4, 0.25, "adam"),
    SyntheticInputs(0, "9f", torch.tensor([4, 1]), 0, "sign", 0.1, 0.0),
    TransformWeights(0, "9f", "dampen", "gone", "every", 10.0, 1.0),
    Stage(0, "9f", 8, '{"labels": ["7"]}'),
    Commit(0, "9f", 8, "ab"),
    Rollback(0, "9f"),
    Purge(0, "9f", 8),
    CompareLayers(0, 7, "ab"),
    LayersCompared(0, torch.tensor([1.0, 0.5])),
    BeginLabelFree(0, torch.arange(3), 12),
    ContrastAlone(24, torch.tensor([2, 0, 1])),
    Freeze(0, "yes"),
    AttestBase(0),
    Status(0),
    Attest(0, "9f"),
    Match(0, "main", torch.arange(66, dtype=torch.uint8).view(2, 33)),
    Offer(0, "new"),
    Common(0, "main", torch.zeros(1, 33, dtype=torch.uint8), torch.ones(2, 33, dtype=torch.uint8)),
    Description(0, 9, 4, (1, 5), 64, "unlabel 1.2.3", "ab", "cd"),
    Embeddings(3, torch.randn(2, 3).double()),
    MESSAGES["Saved"](0, "cd"),  # type: ignore[call-arg]
    StatusReply(0, (7, 8), "9f", "ef"),
    Attestation(0, '{"request":"9f"}', "ab", "cd"),
    Matched(0, torch.zeros(3, 33, dtype=torch.uint8), torch.ones(2, 33, dtype=torch.uint8)),
    Offered(0, torch.zeros(0, 33, dtype=torch.uint8)),
    Aligned(0, 9, "cd"),
    MESSAGES["Done"](3),
    Refused(0, "not today"),
)


def bits(tensor: Tensor) -> bytes:
    """Return the raw bytes, so that NaN equals itself and 0 does not equal -0."""
    flat = tensor.detach().contiguous().view(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def same(one: Message, other: Message) -> bool:
    if type(one) is not type(other):
        return False
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, Tensor):
            if (a.dtype, a.shape, bits(a)) != (b.dtype, b.shape, bits(b)):
                return False
        elif (type(a), a) != (type(b), b):
            return False
    return True


def frame(header: bytes, body: bytes, version: int = codec.VERSION) -> bytes:
    return struct.pack(">4sHI", b"UNLB", version, len(header)) + header + body


def framed(header: object, **tensors: Tensor) -> bytes:
    return frame(json.dumps(header, separators=(",", ":")).encode(), save(tensors))


@st.composite
def tensors(draw: st.DrawFn, declared: TensorField) -> Tensor:
    dtype = draw(st.sampled_from(declared.dtypes))
    shape = draw(st.lists(st.integers(0, 5), min_size=declared.rank, max_size=declared.rank))
    count = int(torch.tensor(shape).prod())
    data = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).view(shape)


def plain(name: str, declared: object) -> st.SearchStrategy[Any]:
    if name == "step":
        return st.integers(0, 2**63 - 1)
    if declared is int:
        return INT64
    if declared is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if declared is str:
        return st.text(st.characters(), max_size=40)  # lone surrogates too
    if declared == tuple[int, ...]:
        return st.lists(INT64, max_size=9).map(tuple)
    return st.sampled_from(get_args(declared))


@st.composite
def any_message(draw: st.DrawFn) -> Message:
    kind = MESSAGES[draw(st.sampled_from(sorted(MESSAGES)))]
    found = {name: draw(plain(name, hint)) for name, hint in PLAIN[kind.__name__].items()}
    found |= {name: draw(tensors(declared)) for name, declared in TENSORS[kind.__name__].items()}
    return kind(**found)


def refused(data: bytes, limits: Limits = codec.DEFAULT_LIMITS) -> str:
    with pytest.raises(WireError) as caught:
        decode(data, limits)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- there and back ------------------------------------------------------------------------


@settings(deadline=None, max_examples=300)
@given(any_message())
def test_every_message_comes_back_to_the_last_bit(message: Message) -> None:
    data = encode(message)
    assert same(decode(data), message)
    assert encode(decode(data)) == data


@settings(deadline=None, max_examples=200)
@given(any_message())
def test_the_size_is_known_without_encoding(message: Message) -> None:
    assert encoded_size(message) == len(encode(message))


@settings(deadline=None, max_examples=200)
@given(any_message())
def test_the_bytes_are_those_that_safetensors_writes_of_pytorch(message: Message) -> None:
    data = encode(message)
    tensors = {name: each.contiguous() for name, each in tensors_of(message).items()}
    assert data.endswith(save(tensors))
    assert len(data) == 10 + struct.unpack_from(">I", data, 6)[0] + len(save(tensors))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(0, 0), (0, 512), (3, 0), (1, 1), (7, 13)], ids=str)
def test_every_declared_dtype_and_shape_travels(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    message = Gradients(1, torch.randn(shape).to(dtype))
    assert same(decode(encode(message)), message)
    assert encoded_size(message) == len(encode(message))


def test_values_that_are_not_finite_travel_as_they_are() -> None:
    values = torch.tensor([[float("nan"), float("inf"), -float("inf"), -0.0]])
    assert bits(tensors_of(decode(encode(Gradients(0, values))))["values"]) == bits(values)


def test_the_layout_of_a_tensor_in_memory_does_not_travel() -> None:
    values = torch.arange(12.0).view(3, 4)
    for odd in (values.T, values[:, ::2], values[:1].expand(5, 4), values.clone().requires_grad_()):
        message = Embeddings(0, odd)
        assert same(decode(encode(message)), message)
        assert encoded_size(message) == len(encode(message))


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_a_decoded_tensor_owns_writable_memory(message: Message) -> None:
    for tensor in tensors_of(decode(encode(message))).values():
        tensor.zero_()


def test_the_samples_cover_every_kind() -> None:
    assert sorted(type(sample).__name__ for sample in SAMPLES) == sorted(MESSAGES)


# --- damage --------------------------------------------------------------------------------


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_a_message_cut_anywhere_is_refused(message: Message) -> None:
    data = encode(message)
    for end in range(len(data)):
        refused(data[:end])
    refused(data + b"\x00")


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_a_flipped_byte_is_refused_or_gives_a_message(message: Message) -> None:
    data = encode(message)
    for position in range(len(data)):
        changed = data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]
        try:
            assert type(decode(changed)).__name__ in MESSAGES
        except WireError as error:
            assert "\n" not in str(error)  # noqa: PT017


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=300), st.sampled_from((b"", b"UNLB", b"UNLB\x00\x01\x00\x00\x00")))
def test_random_bytes_are_refused(data: bytes, head: bytes) -> None:
    refused(head + data)


def test_bytes_of_something_else_are_named_as_such() -> None:
    assert refused(b"") == "A message needs at least 10 bytes, but got 0."
    assert refused(b"GET / HTTP/1.1\r\n\r\n") == "These bytes are not an unlabel message."


def test_another_version_of_the_format_says_what_to_do() -> None:
    good = encode(Describe(0))
    expected = "Wire format 2 is not format 6; upgrade the older side."
    assert refused(good[:4] + b"\x00\x02" + good[6:]) == expected
    assert "Wire format 0" in refused(good[:4] + b"\x00\x00" + good[6:])


def test_a_refusal_has_a_code_of_the_closed_set_and_no_other() -> None:
    for code in REFUSALS:
        found = decode(encode(Refused(0, "not today", code)))
        assert isinstance(found, Refused)
        assert found.code == code
    plain = {"kind": "Refused", "step": 0, "reason": "not today"}
    for strange in ("", "Policy", "label-3", 7, None, ["policy"]):
        assert "Refused.code does not accept" in refused(framed({**plain, "code": strange}))
    assert "has the fields step, reason, code and no others" in refused(framed(plain))
    with pytest.raises(WireError, match=r"'label-3'"):
        encode(Refused(0, "not today", "label-3"))  # type: ignore[arg-type]


# --- limits --------------------------------------------------------------------------------


def test_a_message_may_fill_its_limit_and_no_more() -> None:
    message = Gradients(0, torch.zeros(3, 4))
    size = len(encode(message))
    assert same(decode(encode(message), Limits(message=size)), message)
    expected = f"A message of {size} bytes is over the limit of {size - 1}."
    assert refused(encode(message), Limits(message=size - 1)) == expected


def test_a_header_may_fill_its_limit_and_no_more() -> None:
    message = Refused(0, "x" * 100)
    data = encode(message)
    (size,) = struct.unpack_from(">I", data, 6)
    assert same(decode(data, Limits(header=size)), message)
    expected = f"A header of {size} bytes does not fit in this message."
    assert refused(data, Limits(header=size - 1)) == expected


def test_a_header_longer_than_the_message_is_refused_before_it_is_read() -> None:
    good = encode(Describe(0))
    for size in (len(good) - 9, 2**31, 2**32 - 1):
        assert "does not fit" in refused(good[:6] + struct.pack(">I", size) + good[10:])


def test_no_side_of_a_tensor_exceeds_its_limit() -> None:
    for shape in ((9, 1), (1, 9), (9, 0)):
        data = encode(Gradients(0, torch.zeros(shape)))
        decode(data, Limits(side=9))
        expected = f"Gradients.values has shape {list(shape)}, but no side may exceed 8."
        assert refused(data, Limits(side=8)) == expected
    refused(encode(Embed(0, torch.arange(9), "train")), Limits(side=8))


def test_texts_and_lists_have_a_greatest_length() -> None:
    for good in (Refused(0, "x" * messages.MAX_TEXT), RetainVersions(0, (1,) * messages.MAX_LIST)):
        assert same(decode(encode(good)), good)
    assert "Refused.reason" in refused(
        framed(
            {
                "kind": "Refused",
                "step": 0,
                "reason": "x" * (messages.MAX_TEXT + 1),
                "code": "refused",
            }
        )
    )
    assert "RetainVersions.versions" in refused(
        framed({"kind": "RetainVersions", "step": 0, "versions": [1] * (messages.MAX_LIST + 1)})
    )


# --- the header ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["", "embed", "Message", "Nothing", "__class__", "dict", "x" * 99])
def test_an_unknown_kind_is_refused(kind: str) -> None:
    expected = f"{kind[:40]!r} is not a message of this protocol."
    assert refused(framed({"kind": kind, "step": 0})) == expected


@pytest.mark.parametrize(
    "header", [None, 1, [], {}, "Describe", {"step": 0}, {"kind": 1}, {"kind": None}, {"kind": []}]
)
def test_a_header_must_name_a_kind(header: object) -> None:
    assert refused(framed(header)) == "The message header does not name a kind."


@pytest.mark.parametrize(
    "header",
    [
        *(b"", b"{", b"\xff\xfe", b"\xed\xa0\x80", b"'a'", b"{'kind': 'Describe', 'step': 0}"),
        *(b'{"kind":"Describe","step":' + b"9" * 5_000 + b"}", b"[" * 60_000, b'{"a":' * 9_000),
    ],
)
def test_a_header_must_be_readable_json(header: bytes) -> None:
    assert refused(frame(header, save({}))) == "The message header is not readable JSON."


def test_no_depth_of_nesting_gets_through() -> None:
    for depth in (*range(2, 1_200, 7), *range(900, 1_010)):
        deep = b"[" * depth + b"]" * depth
        for start in (
            b'{"kind":"Describe","step":',
            b'{"kind":"RetainVersions","step":0,"versions":',
        ):
            refused(frame(start + deep + b"}", save({})))


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: type(m).__name__)
def test_a_missing_or_an_extra_field_is_refused(message: Message) -> None:
    data = encode(message)
    (size,) = struct.unpack_from(">I", data, 6)
    header, body = json.loads(data[10 : 10 + size]), data[10 + size :]
    kind = header["kind"]
    for name in header.keys() - {"kind"}:
        less = {key: value for key, value in header.items() if key != name}
        assert refused(frame(json.dumps(less).encode(), body)).startswith(f"{kind} has the fields ")
    more = json.dumps({**header, "extra": 0}).encode()
    assert refused(frame(more, body)).endswith(" and no others.")


@pytest.mark.parametrize(
    "value",
    [True, False, 1.0, "1", None, [], [1], {}, 2**63, -(2**63) - 1, float("nan"), float("inf")],
)
def test_a_whole_number_is_nothing_else(value: object) -> None:
    shown = f"does not accept {str(value)[:40]!r}."
    assert refused(framed({"kind": "Save", "step": 0, "version": value})) == f"Save.version {shown}"
    assert refused(framed({"kind": "Status", "step": value})) == f"Status.step {shown}"
    refused(framed({"kind": "RetainVersions", "step": 0, "versions": [value]}))
    with pytest.raises(WireError):
        encode(Save(0, value))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [1, None, True, [], ["train"], "Train", "", "\ud800", "input"])
def test_a_mode_is_one_of_four_words(value: object) -> None:
    header = {"kind": "Embed", "step": 0, "table": "main", "version": -1, "mode": value}
    assert "Embed.mode does not accept" in refused(framed(header, rows=torch.arange(2)))
    for mode in ("train", "frozen", "inputs", "predict"):
        good = Embed(0, torch.arange(2), mode)
        assert same(decode(encode(good)), good)


@pytest.mark.parametrize(
    ("good", "field", "words"),
    [
        (
            TransformWeights(0, "9f", "begin", "", "", 0.0, 0.0),
            "rule",
            "begin dampen noise subtract",
        ),
        (SyntheticInputs(0, "9f", torch.arange(0), 3, "sign", 0.1, 0.0), "rule", "sign adam"),
        (
            BeginRequest(0, "9f", 1, 0.1, "linear", 0.0, 0.0, "no", 0.0, 0.0),
            "optimiser",
            "sgd adam",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else None,
)
def test_a_rule_is_one_of_few_words(good: Message, field: str, words: str) -> None:
    for word in words.split():
        message = replace(good, **{field: word})  # type: ignore[arg-type]
        assert same(decode(encode(message)), message)
    where = f"{type(good).__name__}.{field}"
    for wrong in ("", "Adam", "add", 1, None, ["sign"]):
        with pytest.raises(WireError, match=rf"{where} does not accept"):
            encode(replace(good, **{field: wrong}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [True, 1, 0, "0.1", None, [], {}, float("nan"), float("inf"), -float("inf"), 2**63],
)
def test_a_finite_number_is_nothing_else(value: object) -> None:
    good = BeginRequest(0, "9f", 30, 0.05, "linear", 0.1, 0.9, "yes", 5e-4, 0.25)
    header = {"kind": "BeginRequest", **vars(good), "lr": value}
    assert refused(framed(header)) == f"BeginRequest.lr does not accept {str(value)[:40]!r}."
    with pytest.raises(WireError, match=r"BeginRequest\.lr"):
        encode(replace(good, lr=value))  # type: ignore[arg-type]


def test_a_number_has_one_form() -> None:
    good = encode(BeginRequest(0, "9f", 30, 0.05, "linear", 0.1, 0.9, "yes", 5e-4, 0.25))
    for other in (b"5e-2", b"0.050", b"0.05000000000000000001"):
        (size,) = struct.unpack_from(">I", good, 6)
        header = good[10 : 10 + size].replace(b'"lr":0.05', b'"lr":' + other)
        assert "belong to none of its fields" in refused(frame(header, save({})))
    assert "does not accept" in refused(
        frame(good[10 : 10 + size].replace(b'"lr":0.05', b'"lr":1e400'), save({}))
    )


def test_steps_are_counted_from_0() -> None:
    expected = "Status.step is -1, but steps are counted from 0."
    assert refused(framed({"kind": "Status", "step": -1})) == expected
    with pytest.raises(WireError):
        encode(Describe(-1))


def test_nothing_hides_in_blanks_repeated_keys_or_metadata() -> None:
    header, rows = {"kind": "Prepare", "step": 0, "steps": 1}, {"rows": torch.arange(2)}
    tight = json.dumps(header, separators=(",", ":"))
    decode(frame(tight.encode(), save(rows)))
    expected = "This Prepare carries bytes that belong to none of its fields."
    for loose in (json.dumps(header), tight + " ", tight.replace("{", '{"step":7,', 1)):
        assert refused(frame(loose.encode(), save(rows))) == expected
    assert refused(frame(tight.encode(), save(rows, metadata={"note": "x"}))) == expected
    turned = '{"step":0,"kind":"Prepare","steps":1}'
    assert refused(frame(turned.encode(), save(rows))) == expected


# --- the tensors ---------------------------------------------------------------------------


def test_exactly_the_declared_tensors_travel() -> None:
    header, rows = {"kind": "Prepare", "step": 0, "steps": 1}, torch.arange(2)
    decode(framed(header, rows=rows))
    expected = "Prepare carries the tensors: rows; and no others."
    assert refused(framed(header)) == expected
    assert refused(framed(header, values=rows)) == expected
    assert refused(framed(header, rows=rows, more=rows.clone())) == expected
    describe = {"kind": "Status", "step": 0}
    assert refused(framed(describe, x=rows)) == "Status carries the tensors: none; and no others."


@pytest.mark.parametrize(
    "wrong",
    [
        *(torch.zeros(2, dtype=dtype) for dtype in (torch.int32, torch.uint8, torch.float32)),
        *(torch.zeros(2, dtype=torch.bool), torch.zeros((), dtype=torch.int64)),
        *(torch.zeros(2, 2, dtype=torch.int64), torch.zeros(2, dtype=torch.complex64)),
    ],
    ids=lambda t: f"{t.dtype} {list(t.shape)}",
)
def test_a_tensor_of_another_dtype_or_rank_is_refused_both_ways(wrong: Tensor) -> None:
    expected = "Embed.rows must be of rank 1 and one of int64, but is "
    header = {"kind": "Embed", "step": 0, "mode": "train", "table": "main", "version": -1}
    assert refused(framed(header, rows=wrong)).startswith(expected)
    for send in (encode, encoded_size):
        with pytest.raises(WireError, match=expected):
            send(Embed(0, wrong, "train"))


def body(table: object, data: bytes = b"") -> bytes:
    text = json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 2**40) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        body({"values": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 8]}}, bytes(8)),
        body({"values": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]}}),
        body({"values": {"dtype": "F32", "shape": [0, 2**63], "data_offsets": [0, 0]}}),
        body({"values": {"dtype": "F32", "shape": [-1, 2], "data_offsets": [0, 8]}}, bytes(8)),
        body({"values": {"dtype": "F32", "shape": [1, 2], "data_offsets": [8, 0]}}, bytes(8)),
        body({"values": {"dtype": "X9", "shape": [1, 2], "data_offsets": [0, 8]}}, bytes(8)),
        body({"values": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}}, bytes(9)),
        body({"values": {}}),
        body(
            {
                "values": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]},
                "again": {"dtype": "F32", "shape": [1, 2], "data_offsets": [4, 12]},
            },
            bytes(12),
        ),
    ],
)
def test_tensors_that_are_laid_out_wrongly_are_refused(hostile: bytes) -> None:
    said = refused(frame(b'{"kind":"Gradients","step":0}', hostile))
    assert said == "The tensors of this message are not in safetensors form."


# --- no code runs --------------------------------------------------------------------------


class Evil:
    """Creates a file as soon as somebody unpickles it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def test_a_pickle_is_refused_and_does_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "it ran"
    evil = pickle.dumps(Evil(mark))
    zipped = io.BytesIO()
    torch.save(Evil(mark), zipped)
    header = b'{"kind":"Gradients","step":0}'
    for data in (evil, zipped.getvalue()):
        refused(data)
        refused(frame(data, save({})))
        refused(frame(header, data))
    assert not mark.exists()
    pickle.loads(evil)  # the bytes are indeed dangerous
    assert mark.exists()


@pytest.mark.parametrize("module", [codec, messages])
def test_the_codec_names_nothing_that_could_run_code(module: ModuleType) -> None:
    tree = ast.parse(inspect.getsource(module))
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    named |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    dangerous = {
        "pickle",
        "marshal",
        "shelve",
        "eval",
        "exec",
        "compile",
        "__import__",
        "importlib",
    }
    assert not (named | imported) & dangerous
    assert not any(
        isinstance(node, ast.Attribute)
        and node.attr == "load"
        and isinstance(node.value, ast.Name)
        and node.value.id == "torch"
        for node in ast.walk(tree)
    )


def test_only_messages_of_the_protocol_are_encoded() -> None:
    class Secret(Message):
        pass

    class Describe(Message):  # the same name does not help
        pass

    for impostor in (Secret(0), Describe(0)):
        with pytest.raises(WireError):
            encode(impostor)
