"""What a party gathers about its weights, and what it changes at once, against cases by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from party.tiny import (
    BEGIN,
    BEGIN_REQUEST,
    COPY,
    accumulate_fisher,
    descend,
    done,
    embed,
    gather,
    image_party,
    refusal,
    same,
    state,
    tiny_party,
    weights,
)
from torch import Tensor

from unlabel.config import SERVES, Policy
from unlabel.errors import PartyRefused
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings
from unlabel.party import PassiveParty, Stream
from unlabel.party.policy import DIVERGED, Guard
from unlabel.party.shaping import MAX_SUMS
from unlabel.wire import (
    AccumulateFisher,
    AccumulateUpdates,
    BeginRequest,
    Commit,
    Embed,
    Gradients,
    Message,
    Prepare,
    Refused,
    Restore,
    Rollback,
    Rule,
    Save,
    Saved,
    Stage,
    TransformWeights,
)

ONE = torch.tensor([[1.0]])
FIRST = torch.tensor([0])
OVER = (torch.tensor([0, 1]), torch.tensor([[1.0], [2.0]]))
SUBTRACT = TransformWeights(0, "9f", "subtract", "moved", "", 0.0, 0.0)
DAMPEN = TransformWeights(0, "9f", "dampen", "gone", "every", 0.5, 0.5)
NOISE = TransformWeights(0, "9f", "noise", "gone", "", 0.0, 0.01)


def close(found: list[Tensor], *expected: list[object]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, torch.tensor(other))


# --- weigh ---------------------------------------------------------------------------------


def test_weighing_adds_squared_gradients_and_moves_nothing() -> None:
    party = tiny_party()
    done(party.handle(BEGIN_REQUEST))
    before = state(party)
    accumulate_fisher(
        party, *OVER, sum_name="all", weight=2.0
    )  # d/dw = 1 [1, 2] + 2 [3, 4], d/db = 1 + 2
    assert same(before, state(party))
    close(party.bottom.sums.total("all"), [[49.0, 100.0]], [9.0])
    accumulate_fisher(party, torch.tensor([2]), torch.tensor([[-2.0]]), "all", 3.0)  # [0, 2] and -2
    close(party.bottom.sums.total("all"), [[49.0, 104.0]], [13.0])
    close(party.bottom.sums.mean("all"), [[9.8, 20.8]], [2.6])
    assert all(w.grad is None for w in party.bottom.module.parameters())
    assert same(before, state(party))


def test_sums_have_names_of_their_own_and_end_with_the_request() -> None:
    party = tiny_party()
    gather(party)
    close(party.bottom.sums.mean("gone"), [[1.0, 4.0]], [1.0])
    close(party.bottom.sums.mean("every"), [[2.25, 4.0]], [0.25])
    done(party.handle(BEGIN_REQUEST))  # another phase of the same request
    assert set(party.bottom.sums.named) == {"gone", "every"}
    done(party.handle(replace(BEGIN_REQUEST, request="a1")))
    assert not party.bottom.sums.named


def test_weighing_in_a_real_model_changes_no_weight_and_no_statistic() -> None:
    party = image_party()
    done(party.handle(BEGIN_REQUEST))
    before = state(party)
    values = embed(party, torch.arange(8))
    done(party.handle(AccumulateFisher(0, torch.ones_like(values), "all", 1.0)))
    assert same(before, state(party))
    assert all(float(total.sum()) > 0 for total in party.bottom.sums.total("all")[-2:])


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 65, "ünïcode", "a/b", "\u0661"])
def test_a_sum_has_the_name_of_a_sum(name: str) -> None:
    party = tiny_party()
    done(party.handle(BEGIN_REQUEST))
    embed(party, FIRST)
    assert refusal(party.handle(AccumulateFisher(0, ONE, name, 1.0))) == "wrong-request"
    assert refusal(party.handle(AccumulateUpdates(0, name))) == "wrong-request"


@pytest.mark.parametrize("weight", [0.0, -0.0, -1.0])
def test_a_weight_is_above_0(weight: float) -> None:
    party = tiny_party()
    done(party.handle(BEGIN_REQUEST))
    embed(party, FIRST)
    assert refusal(party.handle(AccumulateFisher(0, ONE, "all", weight))) == "wrong-request"
    done(party.handle(AccumulateFisher(0, ONE, "all", 1.0)))  # what it sent still waits


def test_no_more_sums_than_a_few() -> None:
    party = tiny_party()
    done(party.handle(BEGIN_REQUEST))
    for number in range(MAX_SUMS):
        accumulate_fisher(party, FIRST, ONE, f"s{number}")
        done(party.handle(AccumulateUpdates(0, f"t{number}")))
        descend(party, FIRST, ONE)
    embed(party, FIRST)
    assert refusal(party.handle(AccumulateFisher(0, ONE, "more", 1.0))) == "wrong-request"
    assert refusal(party.handle(AccumulateUpdates(0, "more"))) == "wrong-request"
    done(party.handle(AccumulateFisher(0, ONE, "s0", 1.0)))
    done(party.handle(AccumulateUpdates(0, "t0")))


def test_weighing_needs_a_request_and_embeddings_that_await_it() -> None:
    party = tiny_party()
    embed(party, FIRST)
    assert refusal(party.handle(AccumulateFisher(0, ONE, "all", 1.0))) == "wrong-request"
    done(party.handle(BEGIN_REQUEST))
    assert refusal(party.handle(AccumulateFisher(0, ONE, "all", 1.0))) == "wrong-request"
    embed(party, FIRST, "predict")
    assert refusal(party.handle(AccumulateFisher(0, ONE, "all", 1.0))) == "wrong-request"
    embed(party, FIRST, step=4)
    assert refusal(party.handle(AccumulateFisher(5, ONE, "all", 1.0))) == "wrong-request"
    done(party.handle(AccumulateFisher(4, ONE, "all", 1.0)))
    assert refusal(party.handle(AccumulateFisher(4, ONE, "all", 1.0))) == "wrong-request"
    assert refusal(party.handle(Gradients(4, ONE))) == "wrong-request"
    assert party.bottom.sums.named["all"].weight == 1.0


@pytest.mark.parametrize("values", [ONE * float("nan"), ONE * 1e9, torch.ones(2, 1), ONE.T[:0]])
def test_gradients_that_are_weighed_obey_the_same_rules(values: Tensor) -> None:
    party = tiny_party()
    done(party.handle(BEGIN_REQUEST))
    embed(party, FIRST)
    refusal(party.handle(AccumulateFisher(0, values, "all", 1.0)))
    assert not party.bottom.sums.named


def test_gradients_of_inputs_are_not_weighed() -> None:
    party = tiny_party()
    done(party.handle(BEGIN_REQUEST))
    done(party.handle(COPY))
    embed(party, torch.tensor([5]), "inputs", "synthetic")
    assert refusal(party.handle(AccumulateFisher(0, ONE, "all", 1.0))) == "wrong-request"
    done(party.handle(Gradients(0, ONE)))  # they still move the draft
    assert not party.bottom.sums.named


# --- track ---------------------------------------------------------------------------------


def tracked(party: PassiveParty) -> None:
    """Take three steps at rate 0.1; the first and the last are tracked."""
    done(party.handle(AccumulateUpdates(0, "moved")))
    descend(party, FIRST, ONE, mode="train")  # w -= 0.1 [1, 2], b -= 0.1
    descend(party, torch.tensor([1]), ONE, mode="train")  # w -= 0.1 [3, 4], b -= 0.1
    done(party.handle(AccumulateUpdates(0, "moved")))
    descend(party, torch.tensor([2]), ONE, mode="train")  # w -= 0.1 [0, -1], b -= 0.1


def test_tracking_adds_what_the_next_step_changes_and_only_that() -> None:
    party = tiny_party()
    tracked(party)
    close(weights(party), [[1.6, -3.5]], [0.2])
    close(party.bottom.updates.total("moved"), [[-0.1, -0.1]], [-0.2])


def test_what_was_tracked_survives_on_disk(tmp_path: Path) -> None:
    party = tiny_party(tmp_path)
    tracked(party)
    sums = [each.clone() for each in party.bottom.updates.total("moved")]
    assert isinstance(party.handle(Save(0, 1)), Saved)
    done(party.handle(AccumulateUpdates(0, "moved")))
    descend(party, FIRST, ONE)
    for other in (party, tiny_party(tmp_path)):
        done(other.handle(Restore(0, 1, "")))
        assert all(map(torch.equal, other.bottom.updates.total("moved"), sums))
        descend(other, FIRST, ONE)  # a return ends the wait for the next step
        assert all(map(torch.equal, other.bottom.updates.total("moved"), sums))
        done(other.handle(BEGIN_REQUEST))
        done(other.handle(SUBTRACT))
        close(weights(other), [[1.6, -3.6]], [0.3])


def test_training_goes_on_the_same_whether_it_is_tracked_or_not() -> None:
    one, other = image_party(), image_party()
    for step in range(3, 6):
        done(one.handle(AccumulateUpdates(0, "moved")))
        for party in (one, other):
            descend(party, torch.arange(8), step=step, mode="train")
    assert all(map(torch.equal, weights(one), weights(other)))


# --- rewrite -------------------------------------------------------------------------------


def test_dampening_shrinks_what_matters_more_to_some() -> None:
    party = tiny_party()
    gather(party)
    # 1 > 0.5 x 2.25 does not hold; 4 > 2 gives 0.5 x 4 / 4; 1 > 0.125 gives 0.5 x 0.25 / 1.
    done(party.handle(DAMPEN))
    close(weights(party), [[2.0, -1.5]], [0.0625])


def test_dampening_never_grows_a_weight_and_spares_what_neither_needs() -> None:
    party = tiny_party()
    gather(party)
    before = weights(party)
    done(party.handle(replace(DAMPEN, strength=10.0)))
    assert all(map(torch.equal, before, weights(party)))
    accumulate_fisher(party, FIRST, 0 * ONE, "nothing")
    done(party.handle(replace(DAMPEN, sum_name="nothing", reference="nothing", threshold=0.0)))
    assert all(map(torch.equal, before, weights(party)))


@pytest.mark.parametrize("name", ["tiny", "other"])
def test_noise_is_wider_where_a_weight_matters_less(name: str) -> None:
    party = tiny_party(name=name)
    gather(party)
    source = Stream(0, name).generator(f"noise/{party.bottom.fingerprint()}")
    done(party.handle(NOISE))
    # v = 0.01 (1 + 1/4) / 2 for the unit's weights, 10 x 0.01 for its bias.
    w = torch.tensor([[2.0, -3.0]]) + 0.00625**0.5 * torch.randn(1, 2, generator=source)
    b = torch.tensor([0.5]) + 0.1**0.5 * torch.randn(1, generator=source)
    torch.testing.assert_close(weights(party), [w, b])


def test_noise_on_what_matters_to_nothing_is_bounded() -> None:
    party = tiny_party()
    done(party.handle(BEGIN_REQUEST))
    accumulate_fisher(party, FIRST, 0 * ONE, "gone")
    source = Stream(0, "tiny").generator(f"noise/{party.bottom.fingerprint()}")
    done(party.handle(NOISE))  # v = 0.01 x 1e3, and ten times that for the bias
    w = torch.tensor([[2.0, -3.0]]) + 10**0.5 * torch.randn(1, 2, generator=source)
    b = torch.tensor([0.5]) + 100**0.5 * torch.randn(1, generator=source)
    torch.testing.assert_close(weights(party), [w, b])


def test_subtracting_takes_tracked_changes_back() -> None:
    party = tiny_party()
    tracked(party)
    done(party.handle(BEGIN_REQUEST))
    done(party.handle(SUBTRACT))
    close(weights(party), [[1.7, -3.4]], [0.4])  # as if only the second step had been taken


def test_beginning_again_returns_weights_and_statistics_to_before_training() -> None:
    party = image_party()
    fresh = {k: v.clone() for k, v in party.bottom._initial.items()}
    assert not torch.equal(party.bottom.module.state_dict()["1.running_mean"], torch.zeros(4))
    done(party.handle(BEGIN_REQUEST))
    done(party.handle(BEGIN))
    assert same(fresh, dict(party.bottom.module.state_dict()))
    assert torch.equal(fresh["1.running_mean"], torch.zeros(4))
    for step in range(3):  # and what it began with stays as it is
        descend(party, torch.arange(8), step=step, mode="train")
    done(party.handle(BEGIN))
    assert same(fresh, dict(party.bottom.module.state_dict()))


@pytest.mark.parametrize("message", [BEGIN, DAMPEN, NOISE, SUBTRACT], ids=lambda m: m.rule)
def test_rewriting_needs_the_request_that_is_open(message: TransformWeights) -> None:
    party = tiny_party()
    tracked(party)
    before = weights(party)
    assert refusal(party.handle(message)) == "wrong-request"
    gather(party)
    assert refusal(party.handle(replace(message, request="a1"))) == "wrong-request"
    assert refusal(party.handle(replace(message, request=""))) == "wrong-request"
    assert all(map(torch.equal, before, weights(party)))
    done(party.handle(message))
    assert not all(map(torch.equal, before, weights(party)))


@pytest.mark.parametrize(
    "wrong",
    [
        replace(DAMPEN, sum_name="x"),
        replace(DAMPEN, reference="x"),
        replace(DAMPEN, reference=""),
        replace(NOISE, sum_name="x" * 2_000),
        replace(NOISE, sum_name="moved"),  # it was tracked and not weighed
        replace(SUBTRACT, sum_name="gone"),  # and the other way round
    ],
)
def test_rewriting_needs_sums_that_were_gathered(wrong: TransformWeights) -> None:
    party = tiny_party()
    tracked(party)
    gather(party)
    before = weights(party)
    assert refusal(party.handle(wrong)) == "wrong-request"
    assert all(map(torch.equal, before, weights(party)))


@pytest.mark.parametrize("field", ["threshold", "strength"])
@pytest.mark.parametrize("message", [BEGIN, DAMPEN, NOISE, SUBTRACT], ids=lambda m: m.rule)
def test_rewriting_takes_no_negative_numbers(message: TransformWeights, field: str) -> None:
    party = tiny_party()
    tracked(party)
    gather(party)
    before = weights(party)
    wrong = replace(message, **{field: -1e-9})  # type: ignore[arg-type]
    assert refusal(party.handle(wrong)) == "wrong-request"
    assert all(map(torch.equal, before, weights(party)))


def test_gradients_for_weights_that_were_rewritten_are_refused() -> None:
    party = tiny_party()
    gather(party)
    embed(party, FIRST)
    done(party.handle(DAMPEN))
    assert refusal(party.handle(Gradients(0, ONE))) == "wrong-request"
    embed(party, FIRST)
    refusal(party.handle(replace(DAMPEN, sum_name="x")))  # what was refused changed nothing
    done(party.handle(Gradients(0, ONE)))


@pytest.mark.parametrize("frozen", [("bias",), ("weight",)])
def test_a_weight_that_its_owner_froze_is_never_changed(frozen: tuple[str, ...]) -> None:
    party = tiny_party(frozen=frozen)
    kept = party.bottom.module.get_parameter(frozen[0]).detach().clone()
    moving = next(w for w in party.bottom.module.parameters() if w.requires_grad)
    tracked(party)
    gather(party)
    for message in (NOISE, replace(DAMPEN, threshold=0.0), SUBTRACT, BEGIN):
        before = moving.detach().clone()
        done(party.handle(message))
        assert torch.equal(party.bottom.module.get_parameter(frozen[0]), kept)
        assert not torch.equal(moving, before)


# --- numbers that overflow -----------------------------------------------------------------


@pytest.mark.parametrize("rule", ["dampen", "noise"])
@pytest.mark.parametrize("threshold", [0.0, 1e308])
@pytest.mark.parametrize("strength", [0.0, 1e-320, 1e30, 1e308])
@pytest.mark.parametrize("weight", [5e-324, 1.0, 1e308])
def test_no_number_makes_a_party_send_or_keep_what_is_not_finite(
    tmp_path: Path, rule: Rule, threshold: float, strength: float, weight: float
) -> None:
    party = tiny_party(tmp_path)
    assert isinstance(party.handle(Save(0, 1)), Saved)
    before = state(party)
    done(party.handle(BEGIN_REQUEST))
    accumulate_fisher(party, FIRST, 100 * ONE, "gone", weight)
    accumulate_fisher(party, FIRST, 0 * ONE, "every", weight)  # what divides may be 0
    done(party.handle(TransformWeights(0, "9f", rule, "gone", "every", threshold, strength)))
    finite = all(bool(each.isfinite().all()) for each in weights(party))
    asked: tuple[Message, ...] = (
        Embed(0, FIRST, "predict"),
        Embed(0, FIRST, "frozen"),
        Stage(0, "9f", 2, "{}"),
    )
    for message in asked:
        answer = party.handle(message)
        if isinstance(answer, Refused):
            assert answer.reason == DIVERGED
        else:
            assert finite
            values = getattr(answer, "values", torch.zeros(1))
            assert values.isfinite().all()
    assert finite or not (tmp_path / "staged").exists() or not list((tmp_path / "staged").iterdir())
    done(party.handle(Rollback(0, "9f")))
    assert same(before, state(party))
    assert embed(party, FIRST, "predict").isfinite().all()


def test_a_rewrite_that_overflows_is_neither_sent_nor_staged(tmp_path: Path) -> None:
    party = tiny_party(tmp_path)
    gather(party)
    done(party.handle(replace(NOISE, strength=1e308)))
    assert not weights(party)[0].isfinite().all()
    for message in (Stage(0, "9f", 1, "{}"), Embed(0, FIRST, "predict")):
        assert refusal(party.handle(message)) == "not-finite"


def test_nothing_half_done_is_saved_as_a_version(tmp_path: Path) -> None:
    party = tiny_party(tmp_path)
    done(party.handle(replace(BEGIN_REQUEST, optimiser="adam")))
    descend(party, FIRST, ONE)
    # Its optimiser is not that of the training, so nobody could return to such a version.
    assert refusal(party.handle(Save(0, 1))) == "request-open"
    done(party.handle(Rollback(0, "9f")))
    assert isinstance(party.handle(Save(0, 1)), Saved)
    done(party.handle(Restore(0, 1, "")))


# --- the end of a request ------------------------------------------------------------------


@pytest.mark.parametrize("bottom", ["norm_bottom", "dropout_bottom"])
def test_rollback_after_everything_returns_to_before_bit_for_bit(bottom: str) -> None:
    party, twin = image_party(bottom=bottom), image_party(bottom=bottom)
    for each in (party, twin):
        done(each.handle(AccumulateUpdates(0, "moved")))
        descend(each, torch.arange(8), step=3, mode="train")
    before = state(party)
    assert any(name.startswith("moves/moved/") for name in before)
    rows = torch.arange(8)
    doings: tuple[Message, ...] = (
        NOISE,
        DAMPEN,
        SUBTRACT,
        BEGIN,
        Prepare(0, torch.arange(20, 48), 3),
        AccumulateUpdates(0, "other"),
    )
    for number, message in enumerate((*doings, None)):
        done(party.handle(replace(BEGIN_REQUEST, reinitialise=0.2)))
        for sum_name in ("gone", "every"):
            values = embed(party, rows)
            done(party.handle(AccumulateFisher(0, torch.ones_like(values), sum_name, 1.0)))
        done(party.handle(replace(COPY, rule="adam")))
        descend(party, torch.tensor([48, 49, 0]), step=number, mode="inputs", table="synthetic")
        descend(party, torch.tensor([48, 0]), step=number, mode="train", table="synthetic")
        for doing in doings if message is None else (message,):
            done(party.handle(doing))
            descend(party, rows, step=number, mode="train")
        done(party.handle(Rollback(0, "9f")))
        assert same(before, state(party))
        assert not party.bottom.sums.named
    for step in range(4, 7):  # at the same rates, and what waited to be tracked is not
        for each in (party, twin):
            descend(each, rows, step=step, mode="train")
    assert same(state(twin), state(party))


def test_a_commit_drops_what_was_gathered_and_tracked(tmp_path: Path) -> None:
    party = tiny_party(tmp_path)
    tracked(party)
    gather(party)
    staged = party.handle(Stage(0, "9f", 1, "{}"))
    assert isinstance(staged, Saved)
    done(party.handle(AccumulateUpdates(0, "moved")))
    done(party.handle(Commit(0, "9f", 1, staged.digest)))
    assert not party.bottom.sums.named
    assert not party.bottom.updates.named
    assert not any(name.startswith("moves/") for name in state(party))
    done(party.handle(Restore(0, 1, staged.digest)))
    assert not party.bottom.updates.named
    descend(party, FIRST, ONE)
    assert not party.bottom.updates.named


# --- the policy ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [AccumulateFisher(0, ONE, "all", 1.0), AccumulateUpdates(0, "moved"), COPY, BEGIN],
    ids=lambda m: type(m).__name__,
)
def test_a_policy_decides_on_each_of_them(message: Message) -> None:
    kind = type(message).__name__
    assert kind in SERVES
    party = tiny_party(policy=Policy(serves=tuple(k for k in SERVES if k != kind)))
    done(party.handle(BEGIN_REQUEST))
    embed(party, FIRST)
    before = state(party)
    assert refusal(party.handle(message)) == "policy"
    assert same(before, state(party))
    party.guard = Guard(Policy())
    done(party.handle(message))


@pytest.fixture(scope="module")
def trained() -> Federation:
    """Return a federation that was trained a little."""
    fed = Federation.local("digits", parties=2, model="mlp", epochs=1, seed=0, remember=(3,))
    fed.train()
    return fed


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("ssd", "TransformWeights"),
        ("ssd", "AccumulateFisher"),
        ("fisher", "AccumulateFisher"),
        ("retrain", "TransformWeights"),
        ("retrain", "Prepare"),
        ("unsir", "SyntheticInputs"),
        ("boundary", "SyntheticInputs"),
    ],
)
def test_a_method_that_a_party_does_not_serve_ends_in_one_sentence(
    trained: Federation, method: str, kind: str
) -> None:
    serves = tuple(each for each in SERVES if each != kind)
    parties = trained.passives
    before = {name: state(party) for name, party in parties.items()}
    own = trained.active.versions.snapshot()
    predicted = trained.evaluate()
    parties["passive-2"].guard = Guard(Policy(serves=serves))
    try:
        with pytest.raises(
            PartyRefused, match=rf"^Party 'passive-2' refused: it does not serve '{kind}'\.$"
        ):
            trained.forget([3], settings=ForgetSettings(method=method))
    finally:
        parties["passive-2"].guard = Guard(Policy())
    for name, party in parties.items():
        assert same(before[name], state(party))
        assert party.open_request is None
        assert party.sent_embeddings is None
        assert not party.bottom.sums.named
        assert party.bottom.count("synthetic") == 0
    for half, tensors in trained.active.versions.snapshot().items():
        assert same(own[half], tensors)
    assert trained.evaluate() == predicted


def test_a_tune_may_ask_for_adam() -> None:
    party = tiny_party()
    done(party.handle(BeginRequest(0, "9f", 5, 0.1, "constant", 0.0, 0.0, "no", 0.0, 0.0, "adam")))
    descend(party, FIRST, ONE)  # the first step of Adam is the rate against the sign
    close(weights(party), [[1.9, -3.1]], [0.4])
