"""Public samples from the training rows: always the same, whoever of them was forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from cli.command_line import one_thread
from forget.one_piece import KEY, NAMES, federation
from forget.partner_view import watch

from unlabel.federation import Federation
from unlabel.forget import ForgetSettings, Forgotten, PublicSet, plan
from unlabel.forget.methods.hidden import Hidden

__all__ = ["one_thread"]  # a fixture for every test here


def without_public_rows() -> Federation:
    """Return a trained federation that set no public rows aside."""
    fed = federation(parties=2, epochs=1)
    none = torch.empty(0, dtype=torch.int64)
    rows = replace(fed.holdings.rows, public=none)
    fed = Federation.of(replace(fed.holdings, rows=rows))
    fed.train()
    return fed


@pytest.fixture(scope="module")
def fed() -> Federation:
    torch.set_num_threads(1)
    return without_public_rows()


def public(fed: Federation, *forgotten: int) -> PublicSet:
    fed.forgotten = Forgotten(rows=forgotten)
    try:
        return plan(fed, labels=[1], settings=ForgetSettings(few_shot=5)).public
    finally:
        fed.forgotten = Forgotten()


def test_whoever_was_forgotten_the_same_rows_are_asked_for(fed: Federation) -> None:
    first = public(fed)
    assert len(first) == 5 * len(NAMES)
    assert not first.left_out().any()
    for place, row in enumerate(first.rows.tolist()):
        found = public(fed, row)
        assert torch.equal(found.rows, first.rows)
        assert torch.equal(found.balanced().rows, first.balanced().rows)
        assert found.left_out().nonzero()[:, 0].tolist() == [place]
    elsewhere = next(r for r in fed.holdings.rows.train.tolist() if r not in first.rows)
    assert not public(fed, elsewhere).left_out().any()


@pytest.mark.parametrize("method", [Hidden(steps=5, batch=16), Hidden(noise=9.0, moves=1, steps=5)])
def test_partners_of_a_hidden_request_cannot_tell_who_was_forgotten_before(
    method: Hidden,
) -> None:
    seen: list[Any] = []
    for forgotten in ((), (3,), (4, 8)):
        fed = without_public_rows()
        fed.forgotten = Forgotten(rows=forgotten)
        assert public_rows(fed) >= set(forgotten)
        watched = watch(fed)
        fed.forget(
            [1], settings=ForgetSettings(method=method, key=KEY, few_shot=14, allow_collapse=True)
        )
        # Embeddings may differ once the bottoms have moved; what is asked for may not.
        asked = [(kind, size) for kind, size, _, _ in watched.seen["passive-1"]]
        rows = [t.get("rows") for kind, _, _, t in watched.seen["passive-1"] if kind == "Embed"]
        assert rows
        seen.append((asked, rows))
    assert seen[0] == seen[1] == seen[2]


def public_rows(fed: Federation) -> set[int]:
    return set(plan(fed, labels=[1], settings=ForgetSettings(few_shot=14)).public.rows.tolist())


def test_few_shot_samples_are_never_those_of_people_who_were_forgotten(fed: Federation) -> None:
    first = public(fed)
    forgotten = tuple(first.rows[first.labels == 1][:3].tolist())
    fed.forgotten = Forgotten(rows=forgotten)
    settings = ForgetSettings(method="renormalise", few_shot=5, key=KEY)
    work = plan(fed, labels=[1], settings=settings)
    fed.forgotten = Forgotten()
    samples = work.samples
    assert not set(samples.rows.tolist()) & set(forgotten)
    assert samples.forgotten == 2  # of five


def test_what_looks_at_all_samples_alike_does_not_learn_the_labels_of_such_people() -> None:
    rows = torch.arange(10)
    sets = []
    for label in (0, 1):  # of the person in row 4
        labels = rows % 2
        labels[4] = label
        forgotten = rows == 4
        sets.append(
            PublicSet("main", rows, labels, tuple("abcdefghij"), True, "", forgotten).balanced()
        )
    assert torch.equal(sets[0].labels, sets[1].labels)
    assert torch.equal(sets[0].rows, rows)
    others = rows != 4
    assert torch.equal(sets[0].labels[others], (rows % 2)[others])
