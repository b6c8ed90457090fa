"""A party so small that what it does can be worked out by hand, and the words to talk to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from federations import small_holdings
from torch import Tensor, nn

from unlabel.config import OptimiserSettings, Policy
from unlabel.data import Features, Scaling
from unlabel.party import Bottom, CheckpointStore, PassiveParty, Place, Stream
from unlabel.train import build_passive
from unlabel.wire import (
    AccumulateFisher,
    BeginRequest,
    Done,
    Embed,
    Embeddings,
    Gradients,
    Message,
    Mode,
    Prepare,
    Refused,
    SyntheticInputs,
    TransformWeights,
)

CPU = Place(torch.device("cpu"))
NONE = torch.empty(0, dtype=torch.int64)
#: x of the tiny party; its model is h = 2 x_0 - 3 x_1 + 0.5.
X = torch.tensor([[1.0, 2.0], [3.0, 4.0], [0.0, -1.0], [5.0, 5.0], [-2.0, 1.0]])
BEGIN_REQUEST = BeginRequest(0, "9f", 10, 0.1, "constant", 0.0, 0.0, "no", 0.0, 0.0)
COPY = SyntheticInputs(0, "9f", torch.tensor([3, 1]), 0, "sign", 0.25, 0.0)
BEGIN = TransformWeights(0, "9f", "begin", "", "", 0.0, 0.0)


def tiny_party(
    folder: Path | None = None,
    *,
    name: str = "tiny",
    policy: Policy | None = None,
    frozen: tuple[str, ...] = (),
    features: Tensor = X,
) -> PassiveParty:
    """Make a party of five rows and one linear unit, trained by plain SGD at rate 0.1."""
    module = nn.Linear(2, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[2.0, -3.0]]))
        module.bias.fill_(0.5)
    for each in frozen:
        module.get_parameter(each).requires_grad_(False)
    settings = OptimiserSettings(lr=0.1, momentum=0.0, weight_decay=0.0, schedule="constant")
    bottom = Bottom(module, Features(features), settings, stream=Stream(0, name), place=CPU)
    bottom.scaling = Scaling(torch.zeros(1, 2), torch.ones(1, 2))
    store = CheckpointStore(folder, party=name, model="tiny") if folder else None
    return PassiveParty(name, bottom, width=1, policy=policy, store=store)


def image_party(
    folder: Path | None = None, *, bottom: str = "norm_bottom", policy: Policy | None = None
) -> PassiveParty:
    """Make a party of 48 images, prepared on the first 32 and trained for three steps."""
    holdings = small_holdings(2, bottom=f"small_models:{bottom}")
    config = replace(holdings.config, policy=policy or Policy())
    features = holdings.features["passive-1"]
    party = build_passive("passive-1", features, config, CPU, folder=folder)
    done(party.handle(Prepare(0, torch.arange(32), 10)))
    for step in range(3):
        descend(party, torch.arange(8), step=step, mode="train")
    return party


def done(answer: Message) -> None:
    assert isinstance(answer, Done), answer


def refusal(answer: Message) -> str:
    """Return the code with which a party refused; its sentence is for people and may change."""
    assert isinstance(answer, Refused), answer
    return answer.code


def embed(
    party: PassiveParty, rows: Tensor, mode: Mode = "frozen", table: str = "main", step: int = 0
) -> Tensor:
    answer = party.handle(Embed(step, rows, mode, table))
    assert isinstance(answer, Embeddings), answer
    return answer.values


def draw(values: Tensor, step: int) -> Tensor:
    return torch.randn(values.shape, generator=torch.Generator().manual_seed(step))


def descend(
    party: PassiveParty,
    rows: Tensor,
    values: Tensor | None = None,
    *,
    step: int = 0,
    mode: Mode = "frozen",
    table: str = "main",
) -> None:
    found = embed(party, rows, mode, table, step)
    done(party.handle(Gradients(step, draw(found, step) if values is None else values)))


def accumulate_fisher(
    party: PassiveParty, rows: Tensor, values: Tensor, sum_name: str, weight: float = 1.0
) -> None:
    embed(party, rows)
    done(party.handle(AccumulateFisher(0, values, sum_name, weight)))


def gather(party: PassiveParty) -> None:
    """Leave I = ([1, 4], 1) in the sum `gone` and J = ([2.25, 4], 0.25) in the sum `every`."""
    done(party.handle(BEGIN_REQUEST))
    accumulate_fisher(party, torch.tensor([0]), torch.tensor([[1.0]]), "gone")
    accumulate_fisher(party, torch.tensor([1]), torch.tensor([[0.5]]), "every")


def weights(party: PassiveParty) -> list[Tensor]:
    return [each.detach().clone() for each in party.bottom.module.parameters()]


def state(party: PassiveParty) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in party.bottom.state().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)
