"""Attacks on rows: clusters of gradients, neighbours of public samples, rows that moved."""

from __future__ import annotations

import pytest
import torch
from cli.command_line import one_thread
from torch import Tensor
from unlabel_bench.measures import key_of, read_method
from unlabel_bench.privacy.label_clusters import cluster_leak, label_clusters, matched
from unlabel_bench.privacy.nearest_members import member_leak, nearest_members, singled_out
from unlabel_bench.privacy.partner_view import Held, View, heard_of, hold, listening
from unlabel_bench.privacy.row_attacks import moved_rows, public_auc, which_people

from unlabel.federation import Federation
from unlabel.forget import ForgetSettings
from unlabel.wire import BeginRequest, Embed, Gradients, Message

__all__ = ["one_thread"]  # a fixture for every test here


def seen(messages: list[Message], before: Tensor, after: Tensor | None = None) -> View:
    held = Held({}, {"main": before})
    later = held if after is None else Held({}, {"main": after})
    return View("p", tuple(heard_of(message) for message in messages), held, later)


def joint(rows: Tensor, values: Tensor) -> list[Message]:
    return [Embed(0, rows, "frozen"), Gradients(0, values)]


# --- clusters ----------------------------------------------------------------------------------


def test_clusters_by_hand() -> None:
    # Clusters 0 and 1 stand for labels 1 and 0: five of six rows are right.
    clusters, truth = torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([1, 1, 0, 0, 0, 0])
    assert matched(clusters.numpy(), truth.numpy(), 2) == 5


@pytest.mark.parametrize("count", [1, 2, 4])
def test_directions_of_their_own_give_every_label_away(count: int) -> None:
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(40 * count) % count + 3
    rows = torch.eye(8)[labels - 3] + 0.01 * torch.randn(len(labels), 8, generator=random)
    lengths = 1 + 9 * torch.rand(len(labels), 1, generator=random)
    assert label_clusters(rows * lengths, labels, count, normalised=True) == 1.0


@pytest.mark.parametrize("normalised", [False, True])
def test_gradients_of_noise_give_no_label_away(normalised: bool) -> None:
    random = torch.Generator().manual_seed(0)
    rows = torch.randn(2000, 8, generator=random)
    labels = torch.randint(4, (2000,), generator=random)
    assert label_clusters(rows, labels, 4, normalised=normalised) < 0.32


def test_rows_that_are_all_alike_are_one_cluster() -> None:
    labels = torch.tensor([0, 0, 0, 1])
    assert label_clusters(torch.ones(4, 3), labels, 2, normalised=False) == 0.75


def test_one_label_alone_in_a_message_is_given_away_whole() -> None:
    labels = torch.tensor([2, 2, 5, 5])
    before = torch.zeros(4, 2)
    noise = torch.randn(2, 2, generator=torch.Generator().manual_seed(0))
    alone = cluster_leak(seen(joint(torch.tensor([0, 1]), noise), before), labels, [2])
    assert alone["forgotten"] == alone["all"] == {"share": 1.0, "chance": 1.0}
    # Beside others it takes a second cluster, which here is right too.
    values = torch.tensor([[9.0, 0.0], [9.1, 0.0], [0.1, 0.0], [0.1, 0.1]])
    beside = cluster_leak(seen(joint(torch.arange(4), values), before), labels, [2])
    assert beside["all"] == {"share": 1.0, "chance": 0.5}
    assert cluster_leak(seen([], before), labels, [2]) == {
        "rows": 0,
        "forgotten": None,
        "all": None,
    }
    left_out = cluster_leak(seen(joint(torch.tensor([2, 3]), noise), before), labels, [2])
    assert left_out == {"rows": 2, "forgotten": None, "all": None}


# --- neighbours --------------------------------------------------------------------------------


def test_neighbours_by_hand() -> None:
    rows = torch.tensor([[1.0, 0.0], [9.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
    members = torch.tensor([True, True, False, False])
    sample = torch.tensor([[1.0, 0.0]])
    # |h - m| is 0, 8, 1, 1, so one of the two nearest is a member; the cosines are 1, 1, .7, .7.
    assert nearest_members(rows, sample, members, distance="euclidean") == 0.5
    assert nearest_members(rows, sample, members, distance="cosine") == 1.0


def test_large_gradients_single_samples_out() -> None:
    values = torch.tensor([[0.1, 0.0], [5.0, 0.0], [0.2, 0.0], [0.0, 4.0]])
    view = seen(joint(torch.tensor([2, 3, 5, 7]), values), torch.zeros(9, 2))
    assert sorted(singled_out(view, "main").tolist()) == [3, 7]
    assert singled_out(seen([], torch.zeros(9, 2)), "main").tolist() == []


def test_members_lie_near_the_samples_that_are_singled_out() -> None:
    # Rows 0 to 9 are private, five of each label; 10 and 11 are public, of either label.
    centres = torch.tensor([[0.0, 4.0], [4.0, 0.0]])
    labels = torch.tensor([0] * 5 + [1] * 5 + [0, 1])
    before = centres[labels] + 0.1 * torch.randn(12, 2, generator=torch.Generator().manual_seed(0))
    public = joint(torch.tensor([10, 11]), torch.tensor([[0.01, 0.0], [2.0, 0.0]]))
    private = torch.arange(10)
    result = member_leak(seen(public, before), private, labels[private] == 1)
    singled = {name: share for name, share in result.items() if name.startswith("singled")}
    assert len(singled) == 4
    assert set(singled.values()) == {1.0}
    assert member_leak(seen([], before), private, labels[private] == 1) == {}


# --- rows that moved ---------------------------------------------------------------------------


def test_rows_that_moved_are_named_and_rows_that_all_stayed_are_not() -> None:
    before = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    rows, members = torch.arange(200), torch.arange(200) % 10 == 3
    after = before.clone()
    after[members] += 1.0
    assert moved_rows(seen([], before, after), rows, members)["all"] == 1.0
    stayed = moved_rows(seen([], before), rows, members)
    assert set(stayed.values()) == {0.5}


def test_rows_left_out_are_named_whatever_moves() -> None:
    random = torch.Generator().manual_seed(0)
    before, after = (torch.randn(200, 4, generator=random) for _ in range(2))
    rows, members = torch.arange(200), torch.arange(200) % 10 == 3
    asked = rows[~members]
    view = seen(joint(asked, torch.randn(len(asked), 4, generator=random)), before, after)
    result = moved_rows(view, rows, members)
    assert result["apart"] == result["all"] == 1.0
    assert 0.3 < result["moved"] < 0.7
    # The other way round: asked for alone.
    alone = rows[members]
    view = seen(joint(alone, torch.randn(len(alone), 4, generator=random)), before, after)
    assert moved_rows(view, rows, members)["all"] == 1.0


def test_public_samples_are_told_by_their_norms() -> None:
    values = torch.tensor([[3.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 0.5]])
    view = seen(joint(torch.arange(4), values), torch.zeros(4, 2))
    assert public_auc(view, torch.tensor([0, 1, 0, 1]), [0]) == 1.0
    # One of two pairs is the wrong way round for each sample of label 1: 3 > 2 > 1 > .5.
    assert public_auc(view, torch.tensor([0, 0, 1, 1]), [0]) == 0.75
    assert public_auc(view, torch.tensor([0, 0, 0, 0]), [0]) is None


def test_people_are_looked_for_in_the_messages_of_the_last_phase() -> None:
    steady = BeginRequest(0, "abc", 1, 0.1, "constant", 0.0, 0.0, "no", 0.0, 0.0)
    # A helper is trained on rows 0 to 4, whose gradients are large; then come 5 to 9.
    messages = [
        steady, *joint(torch.arange(5), 9 * torch.ones(5, 2)),
        steady, *joint(torch.arange(5, 10), torch.tensor([[1.0, 0]] * 4 + [[3.0, 0]])),
    ]  # fmt: skip
    view = seen(messages, torch.ones(10, 2))
    last = torch.arange(5, 10)
    result = which_people(view, last, torch.tensor([9]))
    assert (result["push"], result["all"], result["moved"]) == (1.0, 1.0, 0.5)
    assert which_people(view, last, torch.tensor([5]))["push"] == 0.375
    # Row 4 was asked for before the last phase alone: nobody else is left out of that.
    assert which_people(view, torch.arange(4, 10), torch.tensor([4]))["apart"] == 1.0


# --- a real run --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits() -> Federation:
    federation = Federation.local("digits", model="mlp", epochs=8, public=12)
    federation.train()
    return federation


def forgotten(federation: Federation, method: str, labels: list[int]) -> dict[str, View]:
    before = {name: hold(party) for name, party in federation.passives.items()}
    with listening(federation.active) as listener:
        outcome = federation.forget(
            labels,
            settings=ForgetSettings(
                method=read_method(method),
                few_shot=8,
                retained=3,
                allow_collapse=True,
                allow_disclosure=True,
                measure_drift=False,
                key=key_of(method, labels),
            ),
        )
    by_name = {
        name: View(name, tuple(listener.heard[name]), before[name], hold(party, before[name]))
        for name, party in federation.passives.items()
    }
    outcome.rollback()
    return by_name


def test_the_undefended_method_tells_public_samples_and_members(digits: Federation) -> None:
    labels, train = digits.holdings.labels, digits.holdings.rows.train
    for view in forgotten(digits, "renormalise", [3]).values():
        auc = public_auc(view, labels, [3])
        assert auc is not None
        assert auc > 0.99
        members = labels[train] == 3
        result = member_leak(view, train, members)
        assert max(result.values()) > 0.5  # by chance 0.1
        assert moved_rows(view, train, members)["all"] > 0.85


def test_a_mask_tells_nothing_about_rows(digits: Federation) -> None:
    labels, train = digits.holdings.labels, digits.holdings.rows.train
    for view in forgotten(digits, "mask", [3]).values():
        assert public_auc(view, labels, [3]) is None
        assert member_leak(view, train, labels[train] == 3) == {}
        assert set(moved_rows(view, train, labels[train] == 3).values()) == {0.5}
        assert cluster_leak(view, labels, [3])["rows"] == 0


@pytest.mark.parametrize("labels", [[3], [3, 5], [0, 3, 5, 7]])
def test_gradients_of_rows_asked_for_alone_fall_into_clusters(
    digits: Federation, labels: list[int]
) -> None:
    for view in forgotten(digits, "boundary", labels).values():
        result = cluster_leak(view, digits.holdings.labels, labels)["forgotten"]
        assert result["share"] > result["chance"] or result["share"] == 1.0
        assert result["share"] > 0.5


def test_training_rows_left_out_are_all_named(digits: Federation) -> None:
    train = digits.holdings.rows.train
    members = digits.holdings.labels[train] == 6
    view = forgotten(digits, "retrain", [6])["passive-1"]
    result = moved_rows(view, train, members)
    assert result["all"] == 1.0
    assert result["moved"] > 0.8  # and by their movement alone
