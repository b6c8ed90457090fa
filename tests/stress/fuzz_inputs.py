"""Bytes that a hostile or broken sender might put on the wire, drawn from a seed.

A maker draws a short burst of inputs that belong together, such as a request and gradients for
it. Some are honest, so that the parties also reach the states in which more can go wrong.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from stress.fuzz_messages import (
    LAST,
    MATCHED,
    NEXT,
    NOTES,
    ODD_REQUESTS,
    REQUESTS,
    ROWS,
    SUMS,
    WIDTH,
    accumulate_fisher,
    answer,
    begin_request,
    common,
    compact,
    embed,
    embeddings,
    few_numbers,
    frame,
    gradients,
    honest,
    match,
    parts,
    request_name,
    synthetic_inputs,
    transform_weights,
)
from unlabel.wire import (
    AccumulateUpdates,
    Attest,
    Commit,
    CompareLayers,
    Describe,
    Embed,
    Gradients,
    Message,
    Mode,
    Offer,
    Prepare,
    Purge,
    Restore,
    RetainVersions,
    Rollback,
    Save,
    Stage,
    Status,
    encode,
)
from unlabel.wire.codec import VERSION

Maker = Callable[[Random], list[bytes]]


def inputs(count: int, seed: int) -> Iterator[bytes]:
    """Draw `count` inputs."""
    rng = Random(seed)
    left = count
    while left > 0:
        burst = rng.choice(MAKERS)(rng)[:left]
        left -= len(burst)
        yield from burst


def noise(rng: Random) -> list[bytes]:
    """Draw random bytes, some behind a good prefix."""
    data = rng.randbytes(rng.choice((0, 1, 4, 9, 10, 11, 64, 1000, rng.randrange(20_000))))
    head = rng.choice(
        (
            b"",
            b"",
            b"UNLB",
            b"UNLB" + VERSION.to_bytes(2, "big"),
            frame(b"", b"", size=len(data) // 2),
        )
    )
    return [head + data]


def mutated(rng: Random) -> list[bytes]:
    """Draw a good message of any kind and damage it one to three times."""
    data = encode(honest(rng))
    for _ in range(rng.randint(1, 3)):
        data = rng.choice((_flip, _cut, _double, _insert, _splice))(rng, data)
    return [data]


def _flip(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(min(rng.randint(1, 4), len(data))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(rng: Random, data: bytes) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] if rng.random() < 0.5 else data[:start] + data[start + rng.randint(1, 9) :]


def _double(rng: Random, data: bytes) -> bytes:
    start = rng.randrange(len(data) + 1)
    piece = data[start : start + rng.choice((1, 8, len(data)))]
    return data[:start] + piece + data[start:]


def _insert(rng: Random, data: bytes) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + rng.randbytes(rng.randint(1, 16)) + data[start:]


def _splice(rng: Random, data: bytes) -> bytes:
    other = encode(honest(rng))
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def lengths(rng: Random) -> list[bytes]:
    """Draw a good message whose prefix lies: about its length or its version."""
    header, body = parts(honest(rng))
    whole = len(header) + len(body)
    wrong = (0, 1, len(header) - 1, len(header) + 1, whole, whole + 1, 2**16, 2**16 + 1, 2**32 - 1)
    version = rng.choice((0, *[VERSION] * 3, VERSION - 1, VERSION + 1, 2**16 - 1))
    return [frame(header, body, size=rng.choice(wrong), version=version)]


#: JSON that stands where a whole number, a text or a list is expected.
VALUES = (
    *("null", "true", "false", "1.0", "1e400", "-1e400", "NaN", "Infinity", "-0", "-1", '""'),
    *("[]", "{}", "[true]", "[1.5]", '["1"]', "[[1]]", "[null]", '{"a": 1}', "01", "1_0", "0x1"),
    *(str(2**63), str(-(2**63) - 1), str(2**64), "9" * 5_000, "[" + "1," * 2_000 + "1]"),
    *("[" * 500 + "]" * 500, "[" * 30_000, '{"a":' * 900 + "1" + "}" * 900, "[" * 985 + "]" * 985),
    *(r'"\ud800"', r'"\udfff\ud800"', r'"\u0000"', '"train"', '"' + "x" * 3_000 + '"', '"\x00"'),
)
#: Whole headers that are not what a header should be.
HEADERS = (
    *(b"", b"{}", b"[]", b"null", b'"Embed"', b"{", b"\xff\xfe", b"\xef\xbb\xbf{}", b"\xed\xa0"),
    *(b'{"kind": 1}', b'{"kind": null}', b'{"kind": ["Embed"]}', b'{"kind": "Nothing", "step": 0}'),
    *(b'{"kind": "Message", "step": 0}', b'{"kind": "__class__", "step": 0}', b"{" * 60_000),
    *(b'{"kind": "Done", "step": 0, "more": {}}', b'{"kind": "Describe", "step": 0, "step": []}'),
    *(b'{"kind": "Embed", "kind": "Done", "step": 0}', b'{"step": 0}', b'{"kind": "Describe"}'),
    *(b'{"kind": "\xf0\x9f\x98\x80", "step": 0}', b'{"kind": "\\ud800", "step": 0}', b"0" * 70_000),
)


def headers(rng: Random) -> list[bytes]:
    """Draw a good message with one field, or the whole header, replaced by another."""
    header, body = parts(honest(rng))
    if rng.random() < 0.4:
        return [frame(rng.choice(HEADERS), body)]
    fields = {name: json.dumps(value) for name, value in json.loads(header).items()}
    fields[rng.choice([*fields, "extra", ""])] = rng.choice(VALUES)
    if rng.random() < 0.2:
        fields.pop(rng.choice(list(fields)))
    text = ",".join(f"{json.dumps(name)}:{value}" for name, value in fields.items())
    return [frame(b"{" + text.encode() + b"}", body)]


#: Shapes and types that the table of a safetensors body may claim for a tensor.
SHAPES: tuple[Any, ...] = (
    *([], [0], [1], [8], [2, 4], [0, 32], [-1], [2**62, 4], [2**32, 2**32], [0, 2**63], [2**64]),
    *([1.5], ["8"], [[8]], None, [1] * 500, [8, 0, 2**40]),
)
DTYPES: tuple[Any, ...] = (
    *("I64", "I64", "F32", "F32", "F64", "F16", "BF16", "U8", "BOOL", "C64", "F8_E4M3", "F4"),
    *("F8_E8M0", "U64", "X9", "", None, 3, ["F32"]),
)


def bodies(rng: Random) -> list[bytes]:
    """Draw a good header over tensors that are laid out wrongly."""
    header, _ = parts(rng.choice((embed(rng), gradients(rng), embeddings(rng), Describe(0))))
    size = rng.choice((0, 8, 64, 256))
    ends = ([0, size], [0, size], [8, size], [size, 0], [0, 2**63], [-8, 8], [0], [0, 2**70])
    entry = {
        "dtype": rng.choice(DTYPES),
        "shape": rng.choice(SHAPES),
        "data_offsets": rng.choice(ends),
    }
    name = rng.choice(("rows", "values", "values", "rows", "ROWS", "", "\ud800", "__class__"))
    table = {name: entry}
    if rng.random() < 0.3:
        table |= {rng.choice(("rows", "values", "more", "__metadata__")): {**entry}}
    text = compact(table) + b" " * rng.randrange(8)
    wrong = rng.choice((0, len(text) + 1, 100_000_001, 2**32, 2**63, 2**64 - 1))
    message = len(text) if rng.random() < 0.6 else wrong
    return [frame(header, struct.pack("<Q", message) + text + rng.randbytes(size))]


def rows(rng: Random) -> list[bytes]:
    """Draw requests for rows: too many, too few, out of range, of a wrong rank, dtype or table."""
    wrong: tuple[Tensor, ...] = (
        torch.arange(0),
        torch.tensor([ROWS]),
        torch.tensor([-1]),
        torch.tensor([0, 1, -(2**63), 2]),
        torch.tensor([2**63 - 1]),
        torch.arange(ROWS + 1),
        torch.arange(ROWS),
        torch.arange(5),
        torch.zeros(rng.choice((4, ROWS + 1, 1_000, 16_384, 16_385, 20_000)), dtype=torch.int64),
        torch.zeros(2, 2, dtype=torch.int64),
        torch.zeros((), dtype=torch.int64),
        torch.zeros(3, dtype=torch.float32),
        torch.zeros(3, dtype=torch.int32),
        torch.ones(3, dtype=torch.bool),
    )
    tables = ("new", "synthetic", "", "MAIN", "../main", "x" * 2_000, "\ud800\n", "méin")
    table = "main" if rng.random() < 0.4 else rng.choice(tables)
    mode = rng.choice(("train", "frozen", "inputs", "predict"))
    step = rng.choice((0, 1, 7, -1, -(2**63), 2**63 - 1))
    asked: dict[str, Any] = rng.choice(
        (
            {"kind": "Embed", "step": step, "mode": mode, "table": table, "version": min(step, -1)},
            {"kind": "Prepare", "step": step, "steps": rng.choice((-1, 0, 10, 2**63 - 1))},
        )
    )
    return [frame(compact(asked), save({"rows": rng.choice(wrong)}))]


def training(rng: Random) -> list[bytes]:
    """Draw one honest request to train, then gradients for it that are mostly not honest."""
    request = embed(rng, mode=rng.choice(("train", "frozen")))
    shape = (request.rows.numel(), WIDTH)
    return [encode(request)] + [
        frame(*_hostile_gradients(rng, request.step, shape)) for _ in range(rng.randint(1, 3))
    ]


def _hostile_gradients(rng: Random, step: int, shape: tuple[int, int]) -> tuple[bytes, bytes]:
    good = few_numbers(rng, *shape)
    spoilt = good.clone()
    spoilt.view(-1)[rng.randrange(spoilt.numel())] = rng.choice((float("nan"), float("inf"), -1e38))
    large = good / good.norm() * 1_001
    values = (
        *(good, good, good, spoilt, spoilt, large, large * 1e30, large.double() * 1e300, large * 0),
        *(good.half(), good.bfloat16(), good.double(), good.long(), good * float("nan")),
        *(good[:-1], good[:0], good[:, 1:], good.T, good.view(-1), good[None], good.repeat(2, 1)),
    )
    steps = (step,) * 6 + (step + 1, step - 1, 0, -step, -1, 2**63 - 1, -(2**63))
    header = {"kind": "Gradients", "step": rng.choice(steps)}
    return compact(header), save({"values": rng.choice(values).contiguous()})


def versions(rng: Random) -> list[bytes]:
    """Draw requests about versions, known and unknown, possible and not."""
    if rng.random() < 0.1:  # more than anybody keeps
        return [encode(Save(0, version)) for version in range(12)]
    numbers = (*range(12), *range(12), -1, 10**6, 2**31, 2**63 - 1, -(2**63))
    few = [rng.choice(numbers) for _ in range(rng.choice((0, 1, 1, 2, 8)))]
    message: Message = rng.choice(
        (
            Save(0, rng.choice((NEXT, NEXT, rng.choice(numbers)))),
            Restore(0, rng.choice(numbers), rng.choice(("", "", "0" * 64))),
            CompareLayers(0, rng.choice(numbers), rng.choice(("", "", "0" * 64))),
            RetainVersions(0, tuple(few)),
            RetainVersions(0, tuple(range(-500, 500))),
        )
    )
    return [encode(message)]


def forgetting(rng: Random) -> list[bytes]:
    """Draw a request to forget from its beginning to an end, some of it twice, late or odd."""
    name = request_name(rng)
    train = embed(rng, mode="frozen")
    version = rng.choice((*[NEXT] * 20, 0, -1, 12, 2**63 - 1, -(2**63)))
    messages: list[Message] = [
        begin_request(rng, name),
        train,
        Gradients(train.step, few_numbers(rng, train.rows.numel(), WIDTH)),
        Stage(0, name, version, rng.choice(NOTES)),
        rng.choice(
            (
                Status(0),
                begin_request(rng, request_name(rng)),
                Stage(0, request_name(rng), version, "{}"),
            )
        ),
        rng.choice(
            (
                Commit(0, name, version, LAST),
                Commit(0, name, version, LAST),
                Commit(0, name, version, rng.choice(("", "0" * 64))),
                Commit(0, request_name(rng), version, LAST),
                Rollback(0, name),
                Rollback(0, request_name(rng)),
            )
        ),
        Purge(0, name, rng.choice((version, version, rng.randrange(12)))),
        Commit(0, name, version, LAST),
        Attest(0, rng.choice((name, name, request_name(rng)))),
    ]
    # A few are lost on the way, so that requests are given up and left staged.
    return [encode(each) for each in messages if rng.random() < 0.8] or [encode(Status(0))]


def shaping(rng: Random) -> list[bytes]:
    """Draw a request in which a party gathers, drafts and rewrites, some of it odd or too early."""
    name = rng.choice(REQUESTS)
    # Whatever other requests left open or staged is in the way.
    messages: list[Message] = [Rollback(0, each) for each in REQUESTS]
    messages += [Prepare(0, torch.arange(ROWS), 10), begin_request(rng, name, oddly=0.05)]
    for _ in range(rng.randint(1, 6)):
        messages += rng.choice((_tracked, _weighed, _weighed, _drafted, _drafted, _rewritten))(
            rng, name
        )
    ends = (Status(0), Stage(0, name, NEXT, "{}"), *[Rollback(0, name)] * 4)
    messages.append(rng.choice(ends))
    return [encode(each) for each in messages if rng.random() < 0.95]


#: Modes in which a draft is asked for.
MODES: tuple[Mode, ...] = ("inputs", "inputs", "frozen", "train", "predict")


def _odd(rng: Random) -> bool:
    return rng.random() < 0.2


def _tracked(rng: Random, _: str) -> list[Message]:
    train = embed(rng, mode=rng.choice(("train", "frozen")))
    step = Gradients(train.step, few_numbers(rng, train.rows.numel(), WIDTH))
    return [AccumulateUpdates(0, rng.choice(ODD_REQUESTS if _odd(rng) else SUMS)), train, step]


def _weighed(rng: Random, _: str) -> list[Message]:
    train = embed(rng, mode="frozen")
    return [train, accumulate_fisher(rng, train.step, train.rows.numel(), odd=_odd(rng))]


def _drafted(rng: Random, name: str) -> list[Message]:
    """Draw a draft and what is done with it; something else may come in between."""
    first = synthetic_inputs(rng, request_name(rng) if _odd(rng) else name, odd=_odd(rng))
    messages: list[Message] = [first]
    for _ in range(rng.randint(1, 3)):
        last = ROWS + max(1, first.rows.numel() or min(first.noise, 4))
        rows = torch.tensor([rng.randrange(last + _odd(rng)) for _ in range(rng.randint(1, 4))])
        mode = rng.choice(MODES)
        table = "main" if _odd(rng) else "synthetic"
        asked = Embed(rng.randrange(8), rows, mode, table)
        moved = Gradients(asked.step, few_numbers(rng, len(rows), WIDTH))
        weighed = accumulate_fisher(rng, asked.step, len(rows))
        between = [first, transform_weights(rng, name), Rollback(0, name), begin_request(rng, name)]
        messages += [asked, *([rng.choice(between)] if _odd(rng) else [])]
        messages.append(rng.choice((moved, moved, weighed)))
    return messages


def _rewritten(rng: Random, name: str) -> list[Message]:
    """Draw a rewrite, mostly by what was weighed just before."""
    text = transform_weights(rng, request_name(rng) if _odd(rng) else name, odd=_odd(rng))
    before: list[Message] = []
    for sum_name in (text.sum_name, text.reference) if rng.random() < 0.7 else ():
        train = embed(rng, mode="frozen")
        before += [
            train,
            replace(accumulate_fisher(rng, train.step, train.rows.numel()), sum_name=sum_name),
        ]
    return [*before, text]


def matching(rng: Random) -> list[bytes]:
    """Draw an alignment that leads nowhere, since nobody knows the party's ids or its key."""
    table = rng.choice(MATCHED)
    messages: list[Message] = [
        match(rng, odd=_odd(rng)),
        Offer(0, request_name(rng) if _odd(rng) else table),
        common(rng, odd=_odd(rng)),
        common(rng),
    ]
    return [encode(each) for each in messages if rng.random() < 0.8] or [encode(Describe(0))]


def answers(rng: Random) -> list[bytes]:
    """Draw an answer, sent as if it were a request."""
    return [encode(answer(rng))]


def sensible(rng: Random) -> list[bytes]:
    """Draw an honest message of any kind."""
    return [encode(honest(rng))]


#: A request draws many messages at once, so the makers of single ones stand here more often.
MAKERS: tuple[Maker, ...] = (
    *(noise, mutated, mutated, mutated, lengths, headers, headers, bodies, bodies) * 5,
    *(rows, rows, training, training, versions) * 2,
    *(versions, forgetting, forgetting, forgetting, shaping, shaping, matching),
    *(answers, answers, sensible, sensible),
)
