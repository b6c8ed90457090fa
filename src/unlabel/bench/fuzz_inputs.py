"""Bytes that a hostile or broken sender might put on the wire, drawn from a seed.

A maker draws a short burst of inputs that belong together, such as a request and gradients for
it. Some are honest, so that the parties also reach the states in which more can go wrong.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from unlabel.wire import (
    Commit,
    Describe,
    Description,
    Done,
    Embed,
    Embeddings,
    Gradients,
    Keep,
    Message,
    Mode,
    Prepare,
    Purge,
    Refused,
    Restore,
    Rollback,
    Save,
    Saved,
    Stage,
    Standing,
    Status,
    Tune,
    encode,
)

#: What the parties under test hold.
ROWS, COLUMNS, WIDTH = 40, 6, 32
TABLES = ("main", "new", "public")
#: Norm of honest gradients, and of those that the policy just allows: a few of them make a model
#: diverge, and then the party must neither send nor keep what has become of it.
HONEST_NORM, ALLOWED_NORM = 0.05, 99.0

#: Names of requests: those that are used again and again, and those that name something else.
REQUESTS = ("9f", "a1b2c3", "7" * 64)
ODD_REQUESTS = (
    *("", "x" * 65, "x" * 2_000, "..", "../9f", "/tmp/9f", "9f/../../x", "9f.json", "versions"),
    *("a b", "9f\n", "\x00", "\ud800", "ünïcode", "\u0661", "~", "C:\\9f", "{}"),
)
#: Stands for the digest of what a party staged last, which only its own answer tells.
LAST = "last"

Maker = Callable[[Random], list[bytes]]


def inputs(count: int, seed: int) -> Iterator[bytes]:
    """Draw `count` inputs."""
    rng = Random(seed)
    left = count
    while left > 0:
        burst = rng.choice(MAKERS)(rng)[:left]
        left -= len(burst)
        yield from burst


def frame(header: bytes, body: bytes, *, size: int | None = None, version: int = 1) -> bytes:
    """Put a header and tensors behind a prefix, which may lie about the header's length."""
    return struct.pack(">4sHI", b"UNLB", version, len(header) if size is None else size) + (
        header + body
    )


def noise(rng: Random) -> list[bytes]:
    """Draw random bytes, some behind a good prefix."""
    data = rng.randbytes(rng.choice((0, 1, 4, 9, 10, 11, 64, 1000, rng.randrange(20_000))))
    head = rng.choice((b"", b"", b"UNLB", b"UNLB\x00\x01", frame(b"", b"", size=len(data) // 2)))
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
    version = rng.choice((0, 1, 1, 1, 2, 2**16 - 1))
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
    told = len(text) if rng.random() < 0.6 else wrong
    return [frame(header, struct.pack("<Q", told) + text + rng.randbytes(size))]


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
    tables = ("new", "", "MAIN", "../main", "x" * 2_000, "\ud800\n", "méin")
    table = "main" if rng.random() < 0.4 else rng.choice(tables)
    mode = rng.choice(("train", "frozen", "predict"))
    step = rng.choice((0, 1, 7, -1, -(2**63), 2**63 - 1))
    asked: dict[str, Any] = rng.choice(
        (
            {"kind": "Embed", "step": step, "mode": mode, "table": table},
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
    good = _random(rng, *shape)
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
        return [encode(Save(0, version)) for version in rng.sample(range(12), 10)]
    numbers = (*range(12), *range(12), -1, 10**6, 2**31, 2**63 - 1, -(2**63))
    few = [rng.choice(numbers) for _ in range(rng.choice((0, 1, 1, 2, 8)))]
    message: Message = rng.choice(
        (
            Save(0, rng.choice(numbers)),
            Restore(0, rng.choice(numbers), rng.choice(("", "", "0" * 64))),
            Restore(0, rng.choice(numbers), rng.choice(("", "", "0" * 64))),
            Keep(0, tuple(few)),
            Keep(0, tuple(range(-500, 500))),
        )
    )
    return [encode(message)]


def forgetting(rng: Random) -> list[bytes]:
    """Draw a request to forget from its beginning to an end, some of it twice, late or odd."""
    name = _request(rng)
    train = embed(rng, mode="frozen")
    version = rng.choice((*range(8, 20), *range(8, 20), 0, -1, 2**63 - 1, -(2**63)))
    told: list[Message] = [
        tune(rng, name),
        train,
        Gradients(train.step, _random(rng, train.rows.numel(), WIDTH)),
        Stage(0, name, version, rng.choice(NOTES)),
        rng.choice((Status(0), tune(rng, _request(rng)), Stage(0, _request(rng), version, "{}"))),
        rng.choice(
            (
                Commit(0, name, version, LAST),
                Commit(0, name, version, LAST),
                Commit(0, name, version, rng.choice(("", "0" * 64))),
                Commit(0, _request(rng), version, LAST),
                Rollback(0, name),
                Rollback(0, _request(rng)),
            )
        ),
        Purge(0, name, rng.choice((version, version, rng.randrange(12)))),
        Commit(0, name, version, LAST),
    ]
    # A few are lost on the way, so that requests are given up and left staged.
    return [encode(each) for each in told if rng.random() < 0.8] or [encode(Status(0))]


#: What a request is staged with: notes that belong in a ledger, and those that do not.
NOTES = (
    *("{}", '{"labels": ["7"], "method": "x"}', '{"people": 3}', '{"commitment": "ab"}') * 3,
    *("", "[]", "null", "{", '"a"', "1", "{" * 900, "[" * 1_999, '{"a":' * 300 + "1" + "}" * 300),
    *('{"a": [[1]]}', '{"a": NaN}', '{"a": 1, "a": 2}', '{"a": "\\ud800"}', '{"a": 1e999}'),
    '{"a": ' + "9" * 1_900 + "}",
)


def _request(rng: Random) -> str:
    return rng.choice(REQUESTS) if rng.random() < 0.8 else rng.choice(ODD_REQUESTS)


def tune(rng: Random, request: str) -> Tune:
    """Draw settings of a fresh optimiser, mostly possible ones."""
    odd = rng.random() < 0.2
    huge = (-1.0, 1.0, 2.0, 1e308, -0.0, 5e-324)
    return Tune(
        0,
        request=request,
        steps=rng.choice((-1, -(2**63), 2**63 - 1)) if odd else rng.choice((0, 1, 30)),
        lr=rng.choice(huge) if odd else rng.choice((0.0, 0.01)),
        schedule=rng.choice(("constant", "linear", "cosine")),
        warmup=rng.choice(huge) if odd else rng.choice((0.0, 0.1)),
        momentum=rng.choice(huge) if odd else rng.choice((0.0, 0.9)),
        nesterov=rng.choice(("yes", "no")),
        weight_decay=rng.choice(huge) if odd else rng.choice((0.0, 5e-4)),
        renew=rng.choice(huge) if odd else rng.choice((0.0, 0.0, 0.0, 0.3, 1.0)),
    )


def answers(rng: Random) -> list[bytes]:
    """Draw an answer, sent as if it were a request."""
    return [encode(_answer(rng))]


def sensible(rng: Random) -> list[bytes]:
    """Draw an honest message of any kind."""
    return [encode(honest(rng))]


MAKERS: tuple[Maker, ...] = (
    *(noise, mutated, mutated, mutated, lengths, headers, headers, bodies, bodies),
    *(rows, rows, training, training, versions, forgetting, answers, sensible),
)


def compact(header: object) -> bytes:
    """Return a header in the one form that is read at all."""
    return json.dumps(header, separators=(",", ":")).encode()


def parts(message: Message) -> tuple[bytes, bytes]:
    """Return the header and the tensors of a good message."""
    data = encode(message)
    end = 10 + struct.unpack_from(">I", data, 6)[0]
    return data[10:end], data[end:]


def honest(rng: Random) -> Message:
    """Draw a message that breaks no rule of the protocol."""
    every = torch.arange(ROWS)
    requests: tuple[Message, ...] = (
        *(Describe(0), Prepare(0, every, rng.choice((0, 10, 10_000))), embed(rng), embed(rng)),
        *(gradients(rng), Save(0, rng.randrange(12)), Restore(0, rng.randrange(12), "")),
        *(Keep(0, tuple(rng.sample(range(12), 5))), _answer(rng), Status(0)),
        *(tune(rng, rng.choice(REQUESTS)), Stage(0, rng.choice(REQUESTS), 12, "{}")),
        *(Commit(0, rng.choice(REQUESTS), 12, LAST), Rollback(0, rng.choice(REQUESTS))),
        Purge(0, rng.choice(REQUESTS), rng.randrange(20)),
    )
    return rng.choice(requests)


def embed(rng: Random, mode: Mode | None = None) -> Embed:
    """Draw a request for a few rows."""
    few = torch.tensor([rng.randrange(ROWS) for _ in range(rng.randint(1, 4))])
    modes: tuple[Mode, ...] = ("train", "frozen", "predict") if mode is None else (mode,)
    table = rng.choice(("main", "main", "public"))
    return Embed(rng.randrange(8), few, rng.choice(modes), table)


def gradients(rng: Random) -> Gradients:
    """Draw small gradients, which may fit what was sent last."""
    return Gradients(rng.randrange(8), _random(rng, rng.randint(1, 4), WIDTH))


def embeddings(rng: Random) -> Embeddings:
    """Draw embeddings."""
    return Embeddings(0, _random(rng, rng.randint(0, 4), WIDTH))


def _answer(rng: Random) -> Message:
    text = rng.choice(("", "no", "ünïcode \U0001f600", "\ud800", "x" * 2_000))
    every: tuple[Message, ...] = (
        *(Description(0, ROWS, WIDTH, (1, 2), 9), Saved(0, ""), Done(3), Refused(0, text)),
        *(embeddings(rng), Standing(0, (1, 2), rng.choice(REQUESTS), text[:64])),
    )
    return rng.choice(every)


def _random(rng: Random, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(rng.getrandbits(62))
    values = torch.randn(shape, generator=generator)
    norm = ALLOWED_NORM if rng.random() < 0.05 else HONEST_NORM * rng.random()
    return values * (norm / max(float(values.norm()), 1e-6))
