"""Messages that an honest sender might put on the wire, and the odd values that a hostile one uses.

All of them are drawn from a seed; `fuzz_inputs` spoils them and strings them together.
"""

from __future__ import annotations

import functools
import json
import struct
from random import Random

import torch
from torch import Tensor

from unlabel.errors import REFUSALS
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
    ContrastAlone,
    Describe,
    Description,
    Done,
    Embed,
    Embeddings,
    Freeze,
    Gradients,
    LayersCompared,
    Match,
    Matched,
    Message,
    Mode,
    Offer,
    Offered,
    Prepare,
    Purge,
    Refused,
    Restore,
    RetainVersions,
    Rollback,
    Save,
    Saved,
    Stage,
    Status,
    StatusReply,
    SyntheticInputs,
    TransformWeights,
    encode,
)
from unlabel.wire.codec import VERSION

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
#: Stands for the version that follows the newest, or the one that is staged, in the same way.
NEXT = 777
#: Tables of ids, the most ids that one question may name, and the bytes of a masked one.
MATCHED, MOST_IDS, POINT = ("main", "new"), 12, 33
#: The field and the constant of the curve P-256.
PRIME = 2**256 - 2**224 + 2**192 + 2**96 - 1
CURVE_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
#: Names of sums: one more than a party gathers.
SUMS = ("every", "gone", "moved", "s4", "s5")
#: Numbers at the ends of what a float can hold.
ENDS = (-1.0, -0.0, 5e-324, 1e-320, 1e30, 1e308)
#: Rows of noise, mostly few.
NOISES = (1, 2, 4, 4, 4)
ODD_NOISES = (-1, 0, 5, 16_384, 16_385, 2**40, 2**63 - 1, -(2**63))


def frame(header: bytes, body: bytes, *, size: int | None = None, version: int = VERSION) -> bytes:
    """Put a header and tensors behind a prefix, which may lie about the header's length."""
    return struct.pack(">4sHI", b"UNLB", version, len(header) if size is None else size) + (
        header + body
    )


#: What a request is staged with: notes that belong in a ledger, and those that do not.
NOTES = (
    *("{}", '{"labels": ["7"], "method": "x"}', '{"people": 3}', '{"commitment": "ab"}') * 3,
    *('{"commitment": "' + "0f" * 32 + '"}',) * 12,
    *("", "[]", "null", "{", '"a"', "1", "{" * 900, "[" * 1_999, '{"a":' * 300 + "1" + "}" * 300),
    *('{"a": [[1]]}', '{"a": NaN}', '{"a": 1, "a": 2}', '{"a": "\\ud800"}', '{"a": 1e999}'),
    '{"a": ' + "9" * 1_900 + "}",
)


def request_name(rng: Random) -> str:
    """Draw the name of a request, mostly a possible one."""
    return rng.choice(REQUESTS) if rng.random() < 0.8 else rng.choice(ODD_REQUESTS)


def begin_request(rng: Random, request: str, *, oddly: float = 0.2) -> BeginRequest:
    """Draw settings of a fresh optimiser, mostly possible ones."""
    odd = rng.random() < oddly
    huge = (-1.0, 1.0, 2.0, 1e308, -0.0, 5e-324)
    return BeginRequest(
        0,
        request=request,
        steps=rng.choice((-1, -(2**63), 2**63 - 1)) if odd else rng.choice((0, 1, 30)),
        lr=rng.choice(huge) if odd else rng.choice((0.0, 0.01)),
        schedule=rng.choice(("constant", "linear", "cosine")),
        warmup=rng.choice(huge) if odd else rng.choice((0.0, 0.1)),
        momentum=rng.choice(huge) if odd else rng.choice((0.0, 0.9)),
        nesterov=rng.choice(("yes", "no")),
        weight_decay=rng.choice(huge) if odd else rng.choice((0.0, 5e-4)),
        reinitialise=rng.choice(huge) if odd else rng.choice((0.0, 0.0, 0.0, 0.3, 1.0)),
        optimiser=rng.choice(("sgd", "sgd", "adam")),
    )


def accumulate_fisher(rng: Random, step: int, count: int, *, odd: bool = False) -> AccumulateFisher:
    """Draw gradients to be weighed."""
    return AccumulateFisher(
        step,
        values=few_numbers(rng, count, WIDTH),
        sum_name=rng.choice(ODD_REQUESTS if odd and rng.random() < 0.5 else SUMS),
        weight=rng.choice((*ENDS, 0.0)) if odd else rng.choice((1.0, 64.0)),
    )


def synthetic_inputs(rng: Random, request: str, *, odd: bool = False) -> SyntheticInputs:
    """Draw the beginning of inputs that a party makes itself."""
    copies = [rng.randrange(ROWS) for _ in range(rng.choice((0, 0, 1, 4)))]
    noise = 0 if copies else rng.choice(NOISES)
    if odd:
        copies = rng.choice((copies, [ROWS], [-1], [0, 2**63 - 1], [0] * 16_385))
        noise = rng.choice(ODD_NOISES)
    return SyntheticInputs(
        0,
        request=request,
        rows=torch.tensor(copies, dtype=torch.int64),
        noise=noise,
        rule=rng.choice(("sign", "adam")),
        rate=rng.choice(ENDS) if odd else rng.choice((0.0, 0.1)),
        decay=rng.choice(ENDS) if odd else rng.choice((0.0, 0.1)),
    )


def transform_weights(rng: Random, request: str, *, odd: bool = False) -> TransformWeights:
    """Draw a change of the weights at once."""
    return TransformWeights(
        0,
        request=request,
        rule=rng.choice(("begin", "dampen", "noise", "subtract")),
        sum_name=rng.choice((*ODD_REQUESTS, *SUMS)) if odd else rng.choice(SUMS),
        reference=rng.choice((*ODD_REQUESTS, *SUMS)) if odd else rng.choice(SUMS),
        threshold=rng.choice(ENDS) if odd else rng.choice((0.0, 1.0, 10.0)),
        strength=rng.choice(ENDS) if odd else rng.choice((0.0, 1e-7, 1.0)),
    )


def points(rng: Random, count: int, *, width: int = POINT) -> Tensor:
    """Draw points of the curve, now and then with one among them that is none."""
    entries = [rng.choice(_on_curve()) for _ in range(count)]
    if entries and rng.random() < 0.1:
        entries[-1] = rng.randbytes(POINT)
    data = b"".join(entries)[: count * width].ljust(count * width, b"\0")
    return torch.frombuffer(bytearray(data or b"\0"), dtype=torch.uint8)[: len(data)].view(
        count, width
    )


@functools.cache
def _on_curve() -> list[bytes]:
    """Return some points of y^2 = x^3 - 3x + b over the integers modulo p."""
    # Half of all x belong to a point: Euler's criterion tells.
    half = (PRIME - 1) // 2
    known = [x for x in range(1, 200) if pow(x**3 - 3 * x + CURVE_B, half, PRIME) == 1]
    return [sign + x.to_bytes(32, "big") for x in known for sign in (b"\x02", b"\x03")]


def match(rng: Random, *, odd: bool = False) -> Match:
    """Draw a question about masked ids."""
    table = rng.choice(ODD_REQUESTS if odd and rng.random() < 0.5 else MATCHED)
    if rng.random() < 0.3:  # in two pieces, of which either may be missing
        first = rng.choice((0, 2))
        return Match(0, table, points(rng, 2), first, rng.choice((-1, 1, 7)) if odd else 2 - first)
    count = rng.choice((0, 1, MOST_IDS + 1)) if odd else rng.randint(1, MOST_IDS)
    return Match(0, table, points(rng, count, width=rng.choice((0, 1, 32, 33, 34)) if odd else 33))


def common(rng: Random, *, odd: bool = False) -> Common:
    """Draw what a party is to find common ids in."""
    table = rng.choice(ODD_REQUESTS if odd and rng.random() < 0.5 else MATCHED)
    count = rng.choice((0, 1, ROWS - 1, ROWS + 1)) if odd else ROWS
    first = rng.choice((0, 0, 1)) if count > 1 else 0
    more = rng.choice((0, 0, 1 - first)) if not odd else rng.choice((-1, 0, 2**40))
    setup, now = points(rng, rng.randint(0, 3)), max(0, count - first - max(0, min(more, 1)))
    return Common(0, table, setup, points(rng, now), first, more)


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
        *(RetainVersions(0, tuple(rng.sample(range(12), 5))), answer(rng), Status(0)),
        *(begin_request(rng, rng.choice(REQUESTS)), Stage(0, rng.choice(REQUESTS), 12, "{}")),
        *(Commit(0, rng.choice(REQUESTS), NEXT, LAST), Rollback(0, rng.choice(REQUESTS))),
        *(
            Purge(0, rng.choice(REQUESTS), rng.randrange(20)),
            AccumulateUpdates(0, rng.choice(SUMS)),
        ),
        *(
            accumulate_fisher(rng, rng.randrange(8), rng.randint(1, 4)),
            synthetic_inputs(rng, rng.choice(REQUESTS)),
        ),
        *(transform_weights(rng, rng.choice(REQUESTS)), Attest(0, rng.choice(REQUESTS))),
        *(match(rng), Offer(0, rng.choice(MATCHED), rng.choice((0, 0, 1, ROWS))), common(rng)),
        # A party whose bottom learns with labels refuses these.
        *(BeginLabelFree(0, every, 10), ContrastAlone(0, every), Freeze(0, "yes"), AttestBase(0)),
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
    return Gradients(rng.randrange(8), few_numbers(rng, rng.randint(1, 4), WIDTH))


def embeddings(rng: Random) -> Embeddings:
    """Draw embeddings."""
    return Embeddings(0, few_numbers(rng, rng.randint(0, 4), WIDTH))


def answer(rng: Random) -> Message:
    """Draw an answer of a passive party."""
    text = rng.choice(("", "no", "ünïcode \U0001f600", "\ud800", "x" * 2_000))
    refusal = Refused(0, text, REFUSALS[len(text) % len(REFUSALS)])
    every: tuple[Message, ...] = (
        *(Description(0, ROWS, WIDTH, (1, 2), 9), Saved(0, ""), Done(3), refusal),
        *(embeddings(rng), StatusReply(0, (1, 2), rng.choice(REQUESTS), text[:64])),
        *(Attestation(0, text, "ab" * 32, text[:128]), Aligned(0, ROWS, text[:64])),
        *(Matched(0, points(rng, 3), points(rng, 2)), Offered(0, points(rng, 2))),
        LayersCompared(0, torch.tensor([1.0, 0.5])),
    )
    return rng.choice(every)


def few_numbers(rng: Random, *shape: int) -> Tensor:
    """Draw gradients or embeddings, small ones but for a few."""
    generator = torch.Generator().manual_seed(rng.getrandbits(62))
    values = torch.randn(shape, generator=generator)
    norm = ALLOWED_NORM if rng.random() < 0.05 else HONEST_NORM * rng.random()
    return values * (norm / max(float(values.norm()), 1e-6))
