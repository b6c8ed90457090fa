"""Inputs that a party makes itself: how they begin, how they move, and when they are gone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from party.tiny import (
    BEGIN,
    BEGIN_REQUEST,
    COPY,
    NONE,
    X,
    accumulate_fisher,
    descend,
    done,
    draw,
    embed,
    image_party,
    refusal,
    same,
    state,
    tiny_party,
)
from torch import Tensor, nn

from unlabel.config import OptimiserSettings, Policy
from unlabel.party import Learner, PassiveParty, Place, Stream
from unlabel.wire import (
    AccumulateFisher,
    Commit,
    Embed,
    Embeddings,
    Gradients,
    Message,
    Prepare,
    Restore,
    Rollback,
    Save,
    Saved,
    Stage,
    SyntheticInputs,
    TransformWeights,
)

#: Where the first two drafts of the tiny party stand, and of the party with images.
TINY, IMAGES = torch.tensor([5, 6]), torch.tensor([48, 49])
NOISE = SyntheticInputs(0, "9f", NONE, 6, "adam", 0.1, 0.0)
ONE = torch.tensor([[1.0]])


def drafts(party: PassiveParty) -> Tensor:
    assert party.bottom._synthetic is not None
    return party.bottom._synthetic.values.detach().clone()


def opened(party: PassiveParty, draft: SyntheticInputs) -> PassiveParty:
    done(party.handle(BEGIN_REQUEST))
    done(party.handle(draft))
    return party


def scaled(party: PassiveParty, rows: Tensor) -> Tensor:
    scaling = party.bottom.scaling
    assert scaling is not None
    return (party.bottom.tables["main"].values[rows].float() - scaling.mean) / scaling.std


# --- how they begin ------------------------------------------------------------------------


def test_copies_are_the_rows_as_the_model_reads_them() -> None:
    party = opened(tiny_party(), COPY)
    assert torch.equal(drafts(party), X[[3, 1]])
    images = opened(image_party(), COPY)
    torch.testing.assert_close(drafts(images), scaled(images, COPY.rows))
    assert drafts(images).abs().max() < 5  # in units of deviations, not of pixels
    assert torch.equal(embed(images, IMAGES, "predict", "synthetic"), embed(images, COPY.rows))


def test_noise_has_the_shape_of_rows_and_is_drawn_from_the_partys_own_stream() -> None:
    found = []
    for name in ("one", "other"):
        party = opened(tiny_party(name=name), NOISE)
        expected = torch.randn(6, 2, generator=Stream(0, name).generator("draft"))
        assert torch.equal(drafts(party), expected)
        found.append(drafts(party))
    assert not torch.equal(*found)
    images = opened(image_party(), replace(NOISE, noise=200))
    values = drafts(images)
    assert values.shape == (200, *images.bottom.tables["main"].shape)
    assert abs(float(values.mean())) < 0.05
    assert abs(float(values.std()) - 1) < 0.05


def test_a_draft_changes_nothing_else_and_the_next_takes_its_place() -> None:
    party = tiny_party()
    done(party.handle(BEGIN_REQUEST))
    before = state(party)
    done(party.handle(COPY))
    assert same(before, state(party))
    assert party.bottom.count("synthetic") == 7
    done(party.handle(NOISE))
    assert party.bottom.count("synthetic") == 11
    beyond = Embed(0, torch.tensor([11]), "predict", "synthetic")
    assert refusal(party.handle(beyond)) == "wrong-request"


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"rows": torch.tensor([5])}, "wrong-request"),
        ({"rows": torch.tensor([-1])}, "wrong-request"),
        ({"rows": torch.tensor([0, 2**62])}, "wrong-request"),
        ({"rows": torch.zeros(9, dtype=torch.int64)}, "policy"),
        ({"rows": NONE}, "wrong-request"),
        ({"noise": 1}, "wrong-request"),
        ({"rows": NONE, "noise": 9}, "policy"),
        ({"rows": NONE, "noise": 2**62}, "policy"),
        ({"rows": NONE, "noise": -1}, "wrong-request"),
        ({"rate": -1e-9}, "wrong-request"),
        ({"decay": -1e-9}, "wrong-request"),
        ({"request": "a1"}, "wrong-request"),
        ({"request": ""}, "wrong-request"),
    ],
)
def test_inputs_that_cannot_be_made_are_refused(wrong: dict[str, object], code: str) -> None:
    party = tiny_party(policy=Policy(max_rows=8))
    assert refusal(party.handle(COPY)) == "wrong-request"
    done(party.handle(BEGIN_REQUEST))
    embed(party, torch.tensor([0]))
    assert refusal(party.handle(replace(COPY, **wrong))) == code  # type: ignore[arg-type]
    assert party.bottom.count("synthetic") == 0
    done(party.handle(Gradients(0, ONE)))  # what was refused disturbs nothing


# --- how they move -------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [TINY, torch.tensor([6, 5]), torch.tensor([5, 0, 6, 3])])
def test_sign_moves_columns_by_the_rate_in_deviations(rows: Tensor) -> None:
    party = opened(tiny_party(), COPY)
    descend(party, rows, torch.ones(len(rows), 1), mode="inputs", table="synthetic")
    # d h / d x = [2, -3]
    assert torch.equal(drafts(party), X[[3, 1]] - 0.25 * torch.tensor([1.0, -1.0]))


def test_a_draft_that_was_not_asked_for_stays() -> None:
    party = opened(tiny_party(), COPY)
    descend(party, TINY[:1], ONE, mode="inputs", table="synthetic")
    assert torch.equal(drafts(party)[1], X[1])
    assert not torch.equal(drafts(party)[0], X[3])


def test_sign_moves_images_by_the_rate_in_ranges_of_a_pixel() -> None:
    party = opened(image_party(), replace(COPY, rate=0.1))
    before, scaling = drafts(party), party.bottom.scaling
    assert scaling is not None
    values = draw(embed(party, IMAGES, "inputs", "synthetic"), 1)
    done(party.handle(Gradients(0, values)))
    x = before.clone().requires_grad_()
    party.bottom.module(x).backward(values)
    assert x.grad is not None
    expected = before - 0.1 * (255 / scaling.std) * x.grad.sign()
    torch.testing.assert_close(drafts(party), expected)
    pixels = (drafts(party) - before) * scaling.std
    torch.testing.assert_close(pixels.abs(), torch.full_like(pixels, 25.5) * x.grad.sign().abs())


@pytest.mark.parametrize("first", [COPY, NOISE], ids=["copies", "noise"])
def test_adam_is_adam_on_the_gradient_and_the_decay(first: SyntheticInputs) -> None:
    party = opened(image_party(), replace(first, rule="adam", rate=0.05, decay=0.3))
    twin = drafts(party).requires_grad_()
    adam = torch.optim.Adam([twin], lr=0.05)
    rows = torch.arange(48, 48 + len(twin))
    party.bottom.module.eval()
    for step in range(4):
        values = draw(embed(party, rows, "inputs", "synthetic", step), step)
        done(party.handle(Gradients(step, values)))
        adam.zero_grad()
        norm = twin.flatten(1).square().sum(1).mean()  # the mean squared norm
        ((party.bottom.module(twin) * values).sum() + 0.3 * norm).backward()
        adam.step()
    torch.testing.assert_close(drafts(party), twin.detach())


def test_decay_alone_pulls_towards_0() -> None:
    party = opened(tiny_party(), replace(COPY, decay=2.0))
    descend(party, TINY, torch.zeros(2, 1), mode="inputs", table="synthetic")
    assert torch.equal(drafts(party), X[[3, 1]] - 0.25)  # all of them are above 0
    still = opened(tiny_party(), COPY)
    descend(still, TINY, torch.zeros(2, 1), mode="inputs", table="synthetic")
    assert torch.equal(drafts(still), X[[3, 1]])


@pytest.mark.parametrize("bottom", ["plain_bottom", "norm_bottom", "dropout_bottom"])
def test_moving_inputs_moves_no_weight_and_no_statistic(bottom: str) -> None:
    party = opened(image_party(bottom=bottom), COPY)
    before = state(party)
    for step in range(3):
        descend(party, IMAGES, step=step, mode="inputs", table="synthetic")
    assert same(before, state(party))
    assert all(w.grad is None for w in party.bottom.module.parameters())
    descend(party, IMAGES, step=3, mode="train", table="synthetic")  # and nothing was left to add
    fresh = opened(image_party(bottom=bottom), COPY)
    assert fresh.bottom._synthetic is not None
    with torch.no_grad():
        fresh.bottom._synthetic.values.copy_(drafts(party))
    descend(fresh, IMAGES, step=3, mode="train", table="synthetic")
    assert same(state(fresh), state(party))


# --- the table of drafts -------------------------------------------------------------------


def test_the_table_holds_the_partys_own_rows_first_and_drafts_after_them() -> None:
    party = opened(tiny_party(), COPY)
    descend(party, TINY, torch.ones(2, 1), mode="inputs", table="synthetic")
    rows = torch.tensor([6, 0, 5, 4, 6, 2])
    x = torch.stack([drafts(party)[1], X[0], drafts(party)[0], X[4], drafts(party)[1], X[2]])
    expected = nn.functional.linear(x, torch.tensor([[2.0, -3.0]]), torch.tensor([0.5]))
    modes = ("predict", "frozen", "inputs", "train")
    for mode in modes:
        found = embed(party, rows, mode, "synthetic")  # type: ignore[arg-type]
        torch.testing.assert_close(found, expected)
    own = torch.tensor([4, 0])
    assert torch.equal(embed(party, own, "predict", "synthetic"), embed(party, own, "predict"))


def test_gradients_for_drafts_move_weights_where_weights_were_asked_for() -> None:
    party = opened(tiny_party(), COPY)
    descend(party, torch.tensor([5, 0]), torch.ones(2, 1), table="synthetic")
    # w - 0.1 ([5, 5] + [1, 2]), b - 0.1 x 2
    moved = party.bottom.module.get_parameter("weight")
    torch.testing.assert_close(moved.detach(), torch.tensor([[1.4, -3.7]]))
    assert torch.equal(drafts(party), X[[3, 1]])
    weighed = embed(party, torch.tensor([5]), "frozen", "synthetic")
    done(party.handle(AccumulateFisher(0, torch.ones_like(weighed), "all", 1.0)))
    torch.testing.assert_close(party.bottom.sums.total("all")[0], torch.tensor([[25.0, 25.0]]))


@pytest.mark.parametrize("table", ["main", "public", "new"])
def test_inputs_of_other_tables_are_not_moved(table: str) -> None:
    party = opened(tiny_party(), COPY)
    for name in ("public", "new"):
        party.bottom.add_table(name, party.bottom.tables["main"])
    assert refusal(party.handle(Embed(0, torch.tensor([0]), "inputs", table))) == "wrong-request"
    assert party.sent_embeddings is None


def test_there_is_no_table_of_drafts_before_one_was_made() -> None:
    party = tiny_party()
    done(party.handle(BEGIN_REQUEST))
    for mode in ("inputs", "frozen", "predict"):
        message = Embed(0, torch.tensor([0]), mode, "synthetic")
        assert refusal(party.handle(message)) == "wrong-request"


# --- the end of them -----------------------------------------------------------------------


@pytest.mark.parametrize("end", ["commit", "rollback", "restore", "another"])
def test_drafts_end_with_their_request(tmp_path: Path, end: str) -> None:
    party = tiny_party(tmp_path)
    assert isinstance(party.handle(Save(0, 1)), Saved)
    before = state(party)
    opened(party, COPY)
    embed(party, TINY, "inputs", "synthetic")
    if end == "commit":
        staged = party.handle(Stage(0, "9f", 2, "{}"))
        assert isinstance(staged, Saved)
        done(party.handle(Commit(0, "9f", 2, staged.digest)))
    ends: dict[str, Message] = {
        "rollback": Rollback(0, "9f"),
        "restore": Restore(0, 1, ""),
        "another": replace(BEGIN_REQUEST, request="a1"),
    }
    if end in ends:
        done(party.handle(ends[end]))
    assert party.bottom.count("synthetic") == 0
    assert refusal(party.handle(Embed(0, TINY, "predict", "synthetic"))) == "wrong-request"
    refusal(party.handle(Gradients(0, torch.ones(2, 1))))
    assert same(before, state(party))
    if end != "another":
        assert refusal(party.handle(COPY)) == "wrong-request"


def test_gradients_for_a_draft_that_is_gone_are_refused_without_alarm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    party = opened(tiny_party(tmp_path), COPY)
    embed(party, TINY, "inputs", "synthetic")
    staged = party.handle(Stage(0, "9f", 1, "{}"))
    assert isinstance(staged, Saved)
    done(party.handle(Commit(0, "9f", 1, staged.digest)))
    refusal(party.handle(Gradients(0, torch.ones(2, 1))))
    assert "failed" not in caplog.text


def test_a_draft_never_reaches_the_disk(tmp_path: Path) -> None:
    party = opened(image_party(tmp_path), COPY)
    before = set(state(party))
    descend(party, IMAGES, step=0, mode="inputs", table="synthetic")
    assert set(state(party)) == before
    assert isinstance(party.handle(Stage(0, "9f", 1, "{}")), Saved)
    sizes = {path.stat().st_size for path in tmp_path.rglob("*.safetensors")}
    weights = sum(each.nbytes for each in party.bottom.model_state().values())
    assert max(sizes) < weights + 4_000


# --- out of order --------------------------------------------------------------------------


def test_a_draft_between_embeddings_and_gradients_drops_them() -> None:
    party = opened(tiny_party(), COPY)
    before = state(party)
    for table, mode in (("main", "frozen"), ("synthetic", "inputs"), ("synthetic", "frozen")):
        embed(party, torch.tensor([0]), mode, table)  # type: ignore[arg-type]
        done(party.handle(COPY))
        assert refusal(party.handle(Gradients(0, ONE))) == "wrong-request"
        assert refusal(party.handle(AccumulateFisher(0, ONE, "all", 1.0))) == "wrong-request"
    assert same(before, state(party))
    assert torch.equal(drafts(party), X[[3, 1]])


def test_a_rewrite_or_another_phase_leaves_the_draft_and_drops_what_waits() -> None:
    party = opened(tiny_party(), COPY)
    for message in (BEGIN, replace(BEGIN_REQUEST, lr=0.2)):
        embed(party, TINY, "inputs", "synthetic")
        done(party.handle(message))
        assert refusal(party.handle(Gradients(0, ONE))) == "wrong-request"
        assert torch.equal(drafts(party), X[[3, 1]])


def test_gradients_of_inputs_obey_the_same_rules() -> None:
    party = opened(tiny_party(), COPY)
    embed(party, TINY, "inputs", "synthetic", step=2)
    for values in (ONE, torch.full((2, 1), float("nan")), torch.full((2, 1), 1e9)):
        refusal(party.handle(Gradients(2, values)))
    refusal(party.handle(Gradients(3, torch.ones(2, 1))))
    assert torch.equal(drafts(party), X[[3, 1]])
    done(party.handle(Gradients(2, torch.ones(2, 1))))
    refusal(party.handle(Gradients(2, torch.ones(2, 1))))


@pytest.mark.parametrize("rule", ["sign", "adam"])
@pytest.mark.parametrize(("rate", "decay"), [(1e308, 0.0), (0.1, 1e308), (1e308, 1e308)])
def test_a_draft_that_overflows_is_never_sent(
    tmp_path: Path, rule: str, rate: float, decay: float
) -> None:
    party = tiny_party(tmp_path)
    before = state(party)
    opened(party, replace(COPY, rule=rule, rate=rate, decay=decay))  # type: ignore[arg-type]
    descend(party, TINY, torch.ones(2, 1), mode="inputs", table="synthetic")
    answer = party.handle(Embed(0, TINY, "frozen", "synthetic"))
    if isinstance(answer, Embeddings):
        assert answer.values.isfinite().all()
        done(party.handle(Gradients(0, torch.ones(2, 1))))
        staged = party.handle(Stage(0, "9f", 1, "{}"))
        assert isinstance(staged, Saved) == party.bottom.is_finite()
    else:
        assert refusal(answer) == "not-finite"
        refusal(party.handle(Stage(0, "9f", 1, "{}")))
    done(party.handle(Rollback(0, "9f")))
    assert same(before, state(party))
    assert embed(party, torch.arange(5), "predict").isfinite().all()


def test_preparing_in_a_request_changes_the_scaling_until_it_is_rolled_back() -> None:
    party = image_party()
    before = state(party)
    done(party.handle(BEGIN_REQUEST))
    done(party.handle(Prepare(0, torch.arange(40, 48), 3)))
    assert not torch.equal(state(party)["scaling/mean"], before["scaling/mean"])
    done(party.handle(COPY))
    torch.testing.assert_close(drafts(party), scaled(party, COPY.rows))
    done(party.handle(Rollback(0, "9f")))
    assert same(before, state(party))


def test_what_was_weighed_stays_while_drafts_come_and_go() -> None:
    party = opened(tiny_party(), COPY)
    accumulate_fisher(party, torch.tensor([0]), ONE, "gone")
    done(party.handle(NOISE))
    done(party.handle(TransformWeights(0, "9f", "noise", "gone", "", 0.0, 1e-6)))
    assert set(party.bottom.sums.named) == {"gone"}


def test_statistics_that_a_draft_made_infinite_are_noticed() -> None:
    norm = nn.BatchNorm1d(2)
    place = Place(torch.device("cpu"))
    learner = Learner(norm, OptimiserSettings(), stream=Stream(0, "x"), place=place)
    assert learner.is_finite()
    assert norm.running_var is not None
    norm.running_var.fill_(float("inf"))
    assert not learner.is_finite()
