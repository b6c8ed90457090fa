"""The closed set of messages: everything one party can learn from another stands here.

A message is a frozen dataclass with a `step` and fields of five sorts only: whole numbers, finite
numbers, short text, lists of whole numbers, and tensors. A tensor field declares its dtype and
rank, so that the codec can refuse whatever does not fit before any party looks at it. What each
message tells its receiver is written in docs/wire.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, get_args, get_type_hints

import torch
from torch import Tensor

from unlabel.config import Schedule
from unlabel.errors import Refusal, WireError

#: train   gradients will follow; normalisation and dropout behave as in training
#: frozen  gradients will follow; normalisation and dropout behave as in prediction
#: inputs  as frozen, but gradients will move `SyntheticInputs` and no weights
#: pair    gradients will follow; two views of each row, all first ones before all second ones
#: view    nothing will follow; a view of each row, augmented as in training
#: predict nothing will follow
Mode = Literal["train", "frozen", "inputs", "pair", "view", "predict"]

#: How a party may change its weights at once, from its own sums (see `TransformWeights`).
Rule = Literal["begin", "dampen", "noise", "subtract"]

#: How gradients move synthetic inputs: by a step of fixed size against their sign, or by Adam.
InputRule = Literal["sign", "adam"]

#: Floating-point types a tensor of embeddings or gradients may have.
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class TensorField:
    """What a tensor field of a message accepts."""

    dtypes: tuple[torch.dtype, ...]
    rank: int


#: Numbers of rows, [n].
Rows = Annotated[Tensor, TensorField((torch.int64,), 1)]
#: Embeddings or gradients, [n, width].
Matrix = Annotated[Tensor, TensorField(FLOATS, 2)]
#: One figure a layer, [layers].
Figures = Annotated[Tensor, TensorField((torch.float32,), 1)]
#: Masked ids, [n, 33]: a compressed point of the curve P-256 each (docs/alignment.md).
Points = Annotated[Tensor, TensorField((torch.uint8,), 2)]


@dataclass(frozen=True, eq=False)
class Message:
    """Base of all messages; `step` is the training step it belongs to, 0 outside training."""

    step: int


# Requests, from the active party to a passive one.


@dataclass(frozen=True, eq=False)
class Describe(Message):
    """Ask what the party has to offer: how many rows, how wide an embedding, which versions.

    ledger  the last line of the party's ledger that the active party saw, by its hash; empty where
            it saw none
    """

    ledger: str = ""


@dataclass(frozen=True, eq=False)
class Prepare(Message):
    """Announce a training of `steps` steps over `rows`, so that the party can fit its scaling."""

    rows: Rows
    steps: int


@dataclass(frozen=True, eq=False)
class BeginLabelFree(Message):
    """Announce that the bottom is made without labels, over `rows` and in `steps` steps.

    By which objective, the party knows from its own settings.
    """

    rows: Rows
    steps: int


@dataclass(frozen=True, eq=False)
class ContrastAlone(Message):
    """Ask the party for one pass over `rows`, in batches, by its own views and nothing else.

    `step` is the number of the first step.
    """

    rows: Rows


@dataclass(frozen=True, eq=False)
class Freeze(Message):
    """Ask the party to keep its bottom for good, as it was made without labels.

    kept  whether the label holder keeps the embeddings of all rows that it asks for then
    """

    kept: Literal["yes", "no"]


@dataclass(frozen=True, eq=False)
class AttestBase(Message):
    """Ask the party to sign what its own files say of the bottom it keeps for good."""


@dataclass(frozen=True, eq=False)
class Embed(Message):
    """Ask for the embeddings of `rows` of a table: to train on them, or to predict.

    version  that the weights must stem from: the one that was saved or returned to last; -1 where
             none is meant
    """

    rows: Rows
    mode: Mode
    table: str = "main"
    version: int = -1


@dataclass(frozen=True, eq=False)
class Gradients(Message):
    """Send d loss / d embedding for the rows embedded in the same step; the party descends."""

    values: Matrix


@dataclass(frozen=True, eq=False)
class AccumulateFisher(Message):
    """Send d loss / d embedding for the rows embedded in the same step; no weight moves.

    The party adds the squared gradient of each weight to a sum, and `weight` to its divisor.
    """

    values: Matrix
    sum_name: str
    weight: float


@dataclass(frozen=True, eq=False)
class AccumulateUpdates(Message):
    """Ask the party to add what the next step changes in its weights to a sum."""

    sum_name: str


@dataclass(frozen=True, eq=False)
class Save(Message):
    """Ask the party to keep its present state as `version` on its own disk."""

    version: int


@dataclass(frozen=True, eq=False)
class Restore(Message):
    """Ask the party to return to a version it kept: the one of this digest, or any if empty."""

    version: int
    digest: str


@dataclass(frozen=True, eq=False)
class CompareLayers(Message):
    """Ask how alike the party's inner layers are to those of a version it kept, of this digest."""

    version: int
    digest: str


@dataclass(frozen=True, eq=False)
class RetainVersions(Message):
    """Ask the party to drop every version but these."""

    versions: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class BeginRequest(Message):
    """Open a request: the gradients that follow move the weights with a fresh optimiser.

    SGD or Adam with this rate over `steps` steps, momentum and weight decay. With `reinitialise`
    above 0 the party first draws its last layers anew, as many as hold this share of its weights.
    """

    request: str
    steps: int
    lr: float
    schedule: Schedule
    warmup: float
    momentum: float
    nesterov: Literal["yes", "no"]
    weight_decay: float
    reinitialise: float
    optimiser: Literal["sgd", "adam"] = "sgd"


@dataclass(frozen=True, eq=False)
class SyntheticInputs(Message):
    """Ask the party to make inputs of its own, which its model can read and gradients can move.

    They start as copies of `rows`, or as `noise` rows drawn from N(0, 1) where there are none, in
    the units the model reads. They follow the party's own rows in table `synthetic` and never
    leave the party. Gradients in mode `inputs` move them by `rule` at `rate` (for `sign` in units
    of a full range of pixel values, or of standard deviations of a column), and so does the
    gradient of `decay` times their mean squared norm.
    """

    request: str
    rows: Rows
    noise: int
    rule: InputRule
    rate: float
    decay: float


@dataclass(frozen=True, eq=False)
class TransformWeights(Message):
    """Ask the party to change its weights w at once, by a rule and sums it gathered itself.

    With I the mean squared gradient in `sum_name` and J that in `reference`:

    begin     w becomes what it was before any training
    dampen    where I > threshold J, w becomes w min(strength J / I, 1)
    noise     w becomes w + N(0, strength / I), as `party.transform.noise` says in detail
    subtract  w becomes w minus the sum `sum_name` of updates
    """

    request: str
    rule: Rule
    sum_name: str
    reference: str
    threshold: float
    strength: float


@dataclass(frozen=True, eq=False)
class Stage(Message):
    """Ask the party to keep its present weights aside, as what `version` is to become."""

    request: str
    version: int
    note: str


@dataclass(frozen=True, eq=False)
class Commit(Message):
    """Ask the party to make what it staged for a request its version; repeating changes nothing."""

    request: str
    version: int
    digest: str


@dataclass(frozen=True, eq=False)
class Rollback(Message):
    """Ask the party to drop a request and return to the weights it had before."""

    request: str


@dataclass(frozen=True, eq=False)
class Purge(Message):
    """Ask the party to remove all that stems from before `version`."""

    request: str
    version: int


@dataclass(frozen=True, eq=False)
class Status(Message):
    """Ask which versions the party has, what it has staged, and what it remembers."""


@dataclass(frozen=True, eq=False)
class Attest(Message):
    """Ask the party to sign what its own files say of a request that was committed."""

    request: str


@dataclass(frozen=True, eq=False)
class Match(Message):
    """Ask which of the active party's ids the party has too, without telling it the ids.

    Many ids come in several messages. An empty one after the last asks for what is left of `setup`.

    masked  c H(x) for every id x, under a key c that only the active party has
    table   main to train on, or new for people to predict
    first   how many masked ids were sent before these
    more    how many will be sent after these
    """

    table: str
    masked: Points
    first: int = 0
    more: int = 0


@dataclass(frozen=True, eq=False)
class Offer(Message):
    """Ask the party to mask its own ids, so that it can learn which of them all parties share.

    first  how many of them were received before
    """

    table: str
    first: int = 0


@dataclass(frozen=True, eq=False)
class Common(Message):
    """Let the party find the ids that all parties share, in what it offered.

    setup     s H(y) for every common id y, sorted, under a key s that only the active party has
    response  s applied to each id that the party offered, in the order of its offer
    first     how many points of the response were sent before these
    more      how many will be sent after these
    """

    table: str
    setup: Points
    response: Points
    first: int = 0
    more: int = 0


# Answers, from a passive party to the active one.


@dataclass(frozen=True, eq=False)
class Description(Message):
    """What the party has to offer.

    rows      that it shares with all others, 0 before they are aligned
    width     of its embeddings
    versions  on its disk
    max_rows  most rows it serves at a time
    software  what it runs, such as "unlabel 1.2.3"
    agreement digest of what it agreed on when it was set up, empty in one process
    aligned   digest of the ids its rows are in the order of, empty where they have none
    knows     yes, or no where its ledger lacks the line that was asked for
    decided   newest version that its ledger says was committed or left by a purge, 0 if none was
    purged    version that its last purge left, 0 before the first
    """

    rows: int
    width: int
    versions: tuple[int, ...]
    max_rows: int
    software: str = ""
    agreement: str = ""
    aligned: str = ""
    knows: str = "yes"
    decided: int = 0
    purged: int = 0


@dataclass(frozen=True, eq=False)
class Embeddings(Message):
    """The embeddings that were asked for, one row each."""

    values: Matrix


@dataclass(frozen=True, eq=False)
class Saved(Message):
    """The state was kept; the digest binds the versions of all parties together."""

    digest: str


@dataclass(frozen=True, eq=False)
class LayersCompared(Message):
    """Linear CKA of each inner layer with its earlier self, on rows that the party chose."""

    values: Figures


@dataclass(frozen=True, eq=False)
class StatusReply(Message):
    """Where the party stands.

    versions  on its disk
    staged    the request that waits for commit or rollback, empty if none does
    ledger    the hash at the end of its ledger, empty before the first entry
    """

    versions: tuple[int, ...]
    staged: str
    ledger: str


@dataclass(frozen=True, eq=False)
class Attestation(Message):
    """What the party states about a request, under its own signature.

    part       canonical JSON, written by the party (see docs/certificate.md)
    key        its public Ed25519 key, in hexadecimal
    signature  of the bytes of `part`, in hexadecimal
    """

    part: str
    key: str
    signature: str


@dataclass(frozen=True, eq=False)
class Matched(Message):
    """What the active party needs to find the ids that both have.

    setup     s H(y) for every id y of the party, sorted, under a key s that only the party has;
              nothing of it before the last masked id has come
    response  s applied to each id that was asked about, in the order of the request
    more      how many points of the setup are left to ask for
    """

    setup: Points
    response: Points
    more: int = 0


@dataclass(frozen=True, eq=False)
class Offered(Message):
    """The party's own ids, masked: c H(x) for every id x, under a key c that only it has.

    more  how many are left to ask for
    """

    masked: Points
    more: int = 0


@dataclass(frozen=True, eq=False)
class Aligned(Message):
    """The party's rows stand in the agreed order; the digest is that of the common ids.

    For new people it is empty: of a few it would tell who they are.
    """

    rows: int
    digest: str


@dataclass(frozen=True, eq=False)
class Done(Message):
    """The request was carried out and there is nothing to tell."""


@dataclass(frozen=True, eq=False)
class Refused(Message):
    """The request was declined, and why.

    reason  in a sentence, for people
    code    in one word of a closed set, for programs; it tells no more than the reason does
    """

    reason: str
    code: Refusal = "refused"


#: Every kind of message by its name on the wire; a class that is declared elsewhere is none.
MESSAGES: dict[str, type[Message]] = {kind.__name__: kind for kind in Message.__subclasses__()}
_HINTS = {name: get_type_hints(kind, include_extras=True) for name, kind in MESSAGES.items()}
#: The tensors of each kind of message, with what they accept.
TENSORS: dict[str, dict[str, TensorField]] = {
    kind: {n: h.__metadata__[0] for n, h in hints.items() if hasattr(h, "__metadata__")}
    for kind, hints in _HINTS.items()
}
#: The plain (non-tensor) fields of each kind of message, with their declared types.
PLAIN: dict[str, dict[str, object]] = {
    kind: {name: hint for name, hint in hints.items() if name not in TENSORS[kind]}
    for kind, hints in _HINTS.items()
}
MAX_TEXT = 2_000
MAX_LIST = 1_000
_INT64 = 2**63


def kind_of(message: Message) -> str:
    """Return the name of a message's kind, as it stands on the wire."""
    return type(message).__name__


def tensors_of(message: Message) -> dict[str, Tensor]:
    """Return the tensors a message carries, by field."""
    return {name: getattr(message, name) for name in TENSORS[kind_of(message)]}


def check_scalar(where: str, value: object, declared: object) -> object:
    """Return `value` as the declared type of a plain field, or raise `WireError`."""
    if declared is int and type(value) is int and -_INT64 <= value < _INT64:
        return value
    if declared is float and type(value) is float and math.isfinite(value):
        return value
    if declared is str and isinstance(value, str) and len(value) <= MAX_TEXT:
        return value
    if declared == tuple[int, ...] and isinstance(value, list | tuple) and len(value) <= MAX_LIST:
        return tuple(check_scalar(where, item, int) for item in value)
    if get_args(declared) and value in get_args(declared):
        return value
    raise WireError(f"{where} does not accept {str(value)[:40]!r}.")


def check_tensor(where: str, value: Tensor, declared: TensorField) -> None:
    """Raise `WireError` unless `value` has a declared dtype and the declared rank."""
    if value.dtype not in declared.dtypes or value.dim() != declared.rank:
        raise WireError(
            f"{where} must be of rank {declared.rank} and one of "
            f"{', '.join(str(d).removeprefix('torch.') for d in declared.dtypes)}, but is "
            f"{str(value.dtype).removeprefix('torch.')} of shape {list(value.shape)}."
        )
