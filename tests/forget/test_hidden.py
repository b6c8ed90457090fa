"""A hidden request: partners see the same whatever it is about, and the new top is what it says."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli.command_line import nothing_written, one_thread
from coded import coded
from forget.one_piece import KEY, NAMES, ROWS, SEED, TRAIN, federation, head_of
from forget.partner_view import expect_same_view, view, watch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from unlabel.defend.accountant import Account, Release
from unlabel.errors import CheckpointError, ForgetError, WireError
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings, Forgotten, noisy_request, plan
from unlabel.forget.methods.deep import Deep
from unlabel.forget.methods.hidden import Hidden
from unlabel.forget.methods.renormalise import Renormalise
from unlabel.forget.noisy_request import belief, noisy_row, public_head
from unlabel.forget.plan import expect_fits, has_hidden
from unlabel.forget.settings import REQUEST_METHODS, choose_method
from unlabel.forget.slots import run_slot
from unlabel.party import ActiveParty, Stream
from unlabel.train.top_refit import refit_recipe, refit_top

__all__ = ["one_thread"]  # a fixture for every test here

QUICK = Hidden(steps=80, batch=64, lr=3e-2)
#: A new top that has learned nothing.
BROKEN = replace(QUICK, steps=1, lr=1e-9, epochs=1)
FORMS = ("all", "public")


def trained(parties: int = 2, **options: Any) -> Federation:
    fed = federation(parties=parties, **options)
    fed.train()
    return fed


# --- what a partner sees ------------------------------------------------------------------------


def keep(*labels: int) -> Callable[[Federation, Any], None]:
    # `allow_collapse`: so small a model is soon said to be destroyed, and that is another way.
    def way(fed: Federation, samples: Any) -> None:
        method = replace(QUICK, samples=samples)
        settings = ForgetSettings(method=method, allow_collapse=True)
        fed.forget(labels, settings=settings).commit(force=True)

    return way


def drop(fed: Federation, samples: Any = "all") -> None:
    settings = ForgetSettings(method=replace(QUICK, samples=samples))
    fed.forget([2], settings=settings).rollback()


def fail(fed: Federation, samples: Any) -> None:
    outcome = fed.forget([1], settings=ForgetSettings(method=replace(BROKEN, samples=samples)))
    assert "destroys the rest" in outcome.result.failed
    with pytest.raises(ForgetError):
        outcome.commit(force=True)
    outcome.rollback()


def nothing(fed: Federation, samples: Any) -> None:
    run_slot(fed, (), ForgetSettings(method=Hidden(samples=samples)))


WAYS: dict[str, Callable[[Federation, Any], None]] = {
    "label 1": keep(1),
    "label 3": keep(3),
    "two labels": keep(0, 4),
    "dropped": drop,
    "failed": fail,
    "dummy": nothing,
}


@pytest.mark.parametrize("samples", FORMS)
@pytest.mark.parametrize("in_folder", [False, True], ids=["memory", "folder"])
@pytest.mark.parametrize(("parties", "active_part"), [(1, True), (2, True), (3, True), (2, False)])
def test_partners_see_the_same_whatever_is_forgotten_and_whatever_becomes_of_it(
    parties: int, active_part: bool, in_folder: bool, samples: Any, tmp_path: Path
) -> None:
    views = {}
    for name, way in WAYS.items():
        folder = tmp_path / name if in_folder else None
        fed = trained(parties, active_part=active_part, folder=folder, epochs=2)
        watched = watch(fed)
        way(fed, samples)
        if in_folder:
            fed.purge()
            fed.status()
        views[name] = view(fed, watched)
    first, *others = views
    for other in others:
        expect_same_view(views[first], views[other], f"{first} and {other}")
    kinds = [entry[0] for entry in views[first]["passive-1/messages"]]
    assert {"BeginRequest", "Embed", "Commit"} <= set(kinds)
    assert not {"Gradients", "Rollback"} & set(kinds)
    assert ("Purge" in kinds) == in_folder


def test_the_view_tells_other_requests_apart(tmp_path: Path) -> None:
    """An open method is seen for what it is, so that the comparison above can fail."""
    views = []
    for label in (1, 3):
        fed = trained(folder=tmp_path / str(label), epochs=2)
        watched = watch(fed)
        method = Renormalise(steps=2)
        fed.forget(
            [label], settings=ForgetSettings(method=method, few_shot=4, retained=2, secret=True)
        ).commit(force=True)
        views.append(view(fed, watched))
    for place in ("messages", "weights", "versions"):
        assert views[0][f"passive-1/{place}"] != views[1][f"passive-1/{place}"]
    with pytest.raises(AssertionError, match="number"):
        expect_same_view(views[0], views[1], "two labels")


def test_weights_of_partners_do_not_move_and_every_weight_of_the_top_does() -> None:
    fed = trained(active_part=True)
    before = {name: _copy(p.bottom.state()) for name, p in fed.passives.items()}
    bottom, top = _copy(fed.active.bottom.state()), _copy(fed.active.top.model_state())  # type: ignore[union-attr]
    fed.forget([1], settings=ForgetSettings(method=QUICK))
    for name, party in fed.passives.items():
        _expect_equal(party.bottom.model_state(), before[name])
    assert fed.active.bottom is not None
    _expect_equal(fed.active.bottom.model_state(), bottom)
    after = fed.active.top.model_state()
    assert not [n for n in top if torch.equal(top[n], after[n]) and "muted" not in n]


# --- the new top --------------------------------------------------------------------------------


def by_hand(fed: Federation, forgotten: tuple[int, ...], method: Hidden, rows: Tensor) -> nn.Module:
    """Return the head that the formula gives: plain loops, Adam written out."""
    labels = rows % len(NAMES)
    embeddings = torch.cat(fed.active.embeddings(rows), 1)
    stay = [n for n in range(len(NAMES)) if n not in forgotten]
    kept = embeddings[[int(label) in stay for label in labels]]
    old = copy.deepcopy(head_of(fed)).eval()
    head = copy.deepcopy(old).train()
    top = Stream(Stream(SEED, "active/refit").number(0), "active/top")
    torch.manual_seed(top.number("renew"))
    for layer in reversed([part for part in head.modules() if isinstance(part, nn.Linear)]):
        layer.reset_parameters()
    weights = list(head.parameters())
    first = [torch.zeros_like(w) for w in weights]
    second = [torch.zeros_like(w) for w in weights]
    draw = Stream(SEED, "hidden").generator(0)
    for step in range(method.steps):
        i, j = torch.randint(len(kept), (2, method.batch), generator=draw)
        share = torch.rand(method.batch, 1, generator=draw)
        mixed = share * kept[i] + (1 - share) * kept[j]
        with torch.no_grad():
            e = old(mixed).double().exp()
            target = torch.zeros_like(e)
            target[:, stay] = e[:, stay] / e[:, stay].sum(1, keepdim=True)
        torch.manual_seed(top.number(step))  # what dropout draws
        logits = head(mixed)
        # KL(q || p) without the entropy of q, which does not move
        logits = logits[:, stay]
        loss = (target[:, stay] * (logits.logsumexp(1, keepdim=True) - logits)).sum() / method.batch
        gradients = torch.autograd.grad(loss, weights)
        rate = method.lr * (1 - (step + 0.5) / method.steps)
        with torch.no_grad():
            for w, g, m, v in zip(weights, gradients, first, second, strict=True):
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                up, down = m / (1 - 0.9 ** (step + 1)), v / (1 - 0.999 ** (step + 1))
                w.sub_(rate * up / (down.sqrt() + 1e-8))
    last = [part for part in head.modules() if isinstance(part, nn.Linear)][-1]
    with torch.no_grad():
        for values in (last.weight, last.bias):
            centre = sum(values[n] for n in stay) / len(stay)
            for label in stay:
                values[label] -= centre
        for label in forgotten:
            last.weight[label], last.bias[label] = 0.0, -10.0
    return head


@pytest.mark.parametrize("top", ["linear", "fc3"])
@pytest.mark.parametrize("active_part", [False, True])
def test_the_top_that_the_old_one_teaches_is_that_of_the_formula(
    top: str, active_part: bool
) -> None:
    fed = trained(top=top, active_part=active_part)
    method = Hidden(samples="public", steps=12, batch=16, lr=1e-3)
    expected = by_hand(fed, (1,), method, fed.holdings.rows.public)
    fed.forget([1], settings=ForgetSettings(method=method, allow_collapse=True))
    for (name, found), wanted in zip(
        head_of(fed).named_parameters(), expected.parameters(), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=2e-5, msg=name)


@pytest.mark.parametrize("active_part", [False, True])
def test_labels_of_all_retained_rows_teach_and_the_old_top_does_not(active_part: bool) -> None:
    """`refit_top` on what stays, whatever the top knew; its formula has a test of its own."""
    fed = trained(active_part=active_part)
    rows = torch.tensor([row for row in range(TRAIN) if row % len(NAMES) != 1])
    seen = [part[rows] for part in fed.active.embeddings(torch.arange(ROWS))]
    recipe = refit_recipe(fed.config.train, TRAIN, epochs=6)
    expected = refit_top(fed.active.top, seen, rows % len(NAMES), [0, 2, 3, 4], recipe)
    with torch.no_grad():
        for weights in fed.active.top.module.parameters():
            weights.neg_()
    settings = ForgetSettings(method=Hidden(epochs=6), allow_collapse=True)
    fed.forget([1], settings=settings)
    _expect_equal(fed.active.top.module.state_dict(), expected.state_dict())


@pytest.mark.parametrize("samples", FORMS)
def test_no_embedding_of_a_forgotten_label_is_used(
    samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tops = []
    for poison in (False, True):
        fed = trained()
        fed.forget([3], settings=ForgetSettings(method=QUICK)).commit(force=True)
        method = replace(QUICK, samples=samples)
        work = plan(fed, labels=[1], settings=ForgetSettings(method=method, key=KEY))
        if poison:
            monkeypatch.setattr(ActiveParty, "embeddings", poisoned(ActiveParty.embeddings, (1, 3)))
        method.run(work)
        monkeypatch.undo()
        tops.append(_copy(fed.active.top.model_state()))
    _expect_equal(*tops)
    assert all(torch.isfinite(tensor).all() for tensor in tops[1].values())


def poisoned(real: Callable[..., list[Tensor]], labels: tuple[int, ...]) -> Callable[..., Any]:
    def embeddings(active: ActiveParty, rows: Tensor, **options: Any) -> list[Tensor]:
        theirs = torch.isin(rows % len(NAMES), torch.tensor(labels))
        assert theirs.any()
        found = real(active, rows, **options)
        return [part.masked_fill(theirs[:, None], torch.nan) for part in found]

    return embeddings


class Stubborn(nn.Module):
    """A head with weights that nobody can draw anew."""

    def __init__(self, inputs: int, labels: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(inputs, labels) / inputs)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weights


def test_a_top_that_cannot_be_drawn_anew_fails_by_name_and_can_only_be_dropped() -> None:
    fed = trained(top="forget.test_hidden:Stubborn")
    before = fed.evaluate()
    outcome = fed.forget([1])
    assert "weights 'head.weights' of the top cannot be drawn anew" in outcome.result.failed
    with pytest.raises(ForgetError):
        outcome.commit(force=True)
    outcome.rollback()
    assert fed.evaluate() == before


@pytest.mark.parametrize("noise", [0.0, 1.5])
@pytest.mark.parametrize("error", [ForgetError("It is no use."), RuntimeError("out of memory")])
def test_an_error_after_the_last_message_looks_to_partners_like_any_dropped_request(
    noise: float, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = replace(NOISY, noise=noise)

    def fails(*_: object) -> None:
        raise error

    views, models = [], []
    for broken in (False, True):
        fed = trained()
        was = _copy(fed.active.versions.model_state())
        watched = watch(fed)
        if broken:
            monkeypatch.setattr(Hidden, "_taught", fails)
        outcome = fed.forget(
            [1], settings=ForgetSettings(method=method, key=KEY, allow_collapse=True)
        )
        assert outcome.result.failed.startswith("Forgetting failed (") == broken
        assert not broken or str(error).rstrip(".") in outcome.result.failed
        outcome.rollback()
        views.append(view(fed, watched))
        models.append(_copy(fed.active.versions.model_state()))
        _expect_equal(models[-1], was)
    expect_same_view(views[0], views[1], "failed")


def test_an_error_on_the_wire_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    fed = trained()

    def fails(*_: object) -> None:
        raise WireError("A party is gone.")

    monkeypatch.setattr(Hidden, "_taught", fails)
    with pytest.raises(WireError, match="is gone"):
        fed.forget([1], settings=ForgetSettings(method=NOISY))


@pytest.mark.parametrize("method", [Hidden(samples="public"), Hidden(noise=2.0)])
def test_a_public_set_without_a_label_is_refused_whichever_is_forgotten(method: Hidden) -> None:
    fed = trained()
    for label in (1, 2):
        work = plan(fed, labels=[label], settings=ForgetSettings(method=method))
        work = replace(work, public=work.public.take(work.public.labels != 2))
        with pytest.raises(ForgetError, match=r"'cedar'"):
            expect_fits(work)
        expect_fits(replace(work, method=Hidden()))  # needs none


# --- with noise ---------------------------------------------------------------------------------

NOISY = Hidden(noise=1.5, moves=3, steps=20, batch=32, bottom_lr=1e-2)


def test_the_row_is_the_label_clipped_to_norm_1_with_noise_of_the_stated_variance() -> None:
    silent = noisy_row((1,), 5, 1e-12, KEY)
    torch.testing.assert_close(silent, torch.tensor([-0.2, 0.8, -0.2, -0.2, -0.2]))
    two = noisy_row((0, 3), 5, 1e-12, KEY)  # of norm sqrt(6 / 5), so that it is clipped
    expected = torch.tensor([0.6, -0.4, -0.4, 0.6, -0.4]) / np.sqrt(1.2)
    torch.testing.assert_close(two, expected.float())
    torch.testing.assert_close(two.norm(), torch.tensor(1.0))
    assert not noisy_row((), 5, 1e-12, KEY).abs().max() > 1e-9
    rows = torch.stack([noisy_row((1,), 5, 1.5, f"{n:064x}") for n in range(4000)])
    noise = rows - silent
    # 20000 draws: deviations of 0.0106 of the mean and 0.0225 of the variance.
    assert abs(noise.mean().item()) < 0.05
    assert abs(noise.var().item() - 2.25) < 0.11
    assert abs(torch.corrcoef(noise.T) - torch.eye(5)).max() < 0.08
    assert torch.equal(rows[7], noisy_row((1,), 5, 1.5, f"{7:064x}"))
    assert len({tuple(row.tolist()) for row in rows}) == len(rows)


def test_the_belief_is_the_posterior_of_equally_likely_labels() -> None:
    sigma, row = 0.9, noisy_row((1,), 5, 0.9, KEY).double()
    means = torch.eye(5, dtype=torch.float64) - 0.2
    likelihood = torch.exp(-(row - means).square().sum(1) / (2 * sigma**2))
    torch.testing.assert_close(
        belief(row.float(), sigma).double(), likelihood / likelihood.sum(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("active_part", [False, True])
def test_what_is_sent_depends_on_the_label_through_the_noisy_row_alone(
    active_part: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two labels whose noisy rows are the same by chance send the same, byte for byte."""
    monkeypatch.setattr(
        noisy_request, "noisy_row", lambda *_: torch.tensor([0.3, -1.0, 1.9, 0.2, -0.7])
    )
    views = []
    for labels in ([1], [3], [0, 4]):
        fed = trained(active_part=active_part)
        # The top of an earlier request knows what that was about; it must not be sent either.
        watched = watch(fed)
        fed.forget(labels, settings=ForgetSettings(method=NOISY, allow_collapse=True)).commit(
            force=True
        )
        views.append(view(fed, watched))
    expect_same_view(views[0], views[1], "labels 1 and 3")
    expect_same_view(views[0], views[2], "labels 1, and 0 and 4")
    assert "Gradients" in [entry[0] for entry in views[0]["passive-1/messages"]]


def test_what_earlier_hidden_requests_were_about_is_not_sent_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        noisy_request, "noisy_row", lambda *_: torch.tensor([0.3, -1.0, 1.9, 0.2, -0.7])
    )
    views = []
    for label in (1, 3):
        fed = trained()
        fed.forget([label], settings=ForgetSettings(method=QUICK)).commit(force=True)
        watched = watch(fed)
        fed.forget([2], settings=ForgetSettings(method=NOISY, allow_collapse=True)).commit(
            force=True
        )
        views.append(view(fed, watched))
    expect_same_view(views[0], views[1], "after labels 1 and 3")


def test_bottoms_move_as_plain_autograd_moves_them() -> None:
    """The joint steps of the noisy request against the objective in one expression."""
    fed = trained(parties=1, epochs=2)
    bottom = next(iter(fed.passives.values())).bottom
    module = copy.deepcopy(bottom.module).eval()
    rows = fed.holdings.rows.public
    inputs: list[Tensor] = []
    hook = bottom.module.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    fed.active.embeddings(rows)
    hook.remove()
    x, labels, sigma = inputs[0].detach(), rows % len(NAMES), NOISY.noise
    start = module(x).detach()
    head = public_head([start], labels, len(NAMES))
    w = (noisy_row((1,), 5, sigma, KEY) / sigma**2).softmax(0)
    target = head(start).softmax(1) * (1 - w)
    target = target / target.sum(1, keepdim=True)
    shares = w[labels] / w[labels].sum() + 1 / len(rows)
    optimiser = torch.optim.SGD(module.parameters(), lr=NOISY.bottom_lr, momentum=0.8)
    for _ in range(NOISY.moves):
        h = module(x)
        kl = (target * (target.log() - head(h).log_softmax(1))).sum(1)
        held = ((1 - w[labels]) * (h - start).square().sum(1)).sum() / start.square().sum()
        optimiser.zero_grad()
        ((shares * kl).sum() + NOISY.hold * held).backward()
        optimiser.step()
    fed.forget([1], settings=ForgetSettings(method=NOISY, key=KEY, allow_collapse=True))
    for found, wanted in zip(bottom.module.parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


def test_repeated_requests_have_noise_of_their_own() -> None:
    """Were it the same, taking back and trying again would be free; it is not, and it counts."""
    sent = []
    for _ in range(2):
        fed = trained()
        watched = watch(fed)
        outcome = fed.forget([1], settings=ForgetSettings(method=NOISY, allow_collapse=True))
        sent.append([e for e in watched.seen["passive-1"] if e[0] == "Gradients"])
        outcome.rollback()
        assert "Rollback" in [entry[0] for entry in watched.seen["passive-1"]]
    assert len(sent[0]) == len(sent[1]) == NOISY.moves
    assert sent[0] != sent[1]
    told = NOISY.account
    assert told is not None
    # One row of norm 1 at most, and whether it was kept.
    assert told.rho == pytest.approx(2 / 1.5**2)
    assert told.information == pytest.approx(0.5 / 1.5**2 + np.log(2))


# --- one request after another ------------------------------------------------------------------


@pytest.mark.parametrize("in_folder", [False, True], ids=["memory", "folder"])
def test_one_hidden_request_after_another_and_what_would_reveal_them(
    in_folder: bool, tmp_path: Path
) -> None:
    fed = trained(folder=tmp_path / "run" if in_folder else None)
    assert not has_hidden(fed)
    run_slot(fed, (), ForgetSettings())
    assert has_hidden(fed)  # about nothing, and yet: who sees no training must learn nothing
    for label in (1, 3):
        fed.forget([label], settings=ForgetSettings(method=QUICK)).commit(force=True)
    assert fed.forgotten == Forgotten(labels=(1, 3))
    assert has_hidden(fed)
    settings = ForgetSettings(method=QUICK, deepen=True)
    outcome = fed.forget([1], settings=settings)
    assert outcome.result.control  # a function of what stays, so it is the top that is there
    outcome.rollback()
    settings = replace(settings, method=replace(QUICK, samples="public"))
    fed.forget([1], settings=settings).commit(force=True)
    assert fed.forgotten == Forgotten(labels=(1, 3))
    deep = Deep(epochs=2)
    with nothing_written(tmp_path):
        with pytest.raises(ForgetError, match="A hidden request was made, and method 'deep'"):
            fed.forget([1], settings=ForgetSettings(method=deep, deepen=True))
        with pytest.raises(ForgetError, match="would show the partners"):
            fed.train()
    fed.forget(
        [1],
        settings=ForgetSettings(
            method=deep, deepen=True, allow_disclosure=True, allow_collapse=True
        ),
    ).commit(force=True)
    assert fed.forgotten == Forgotten(labels=(1, 3))
    if in_folder:
        events = [e.event for e in fed.ledger()["active"]]
        assert events == ["rollback", "commit", "commit", "rollback", "commit", "commit"]
        assert {e.event for e in fed.ledger()["passive-1"]} == {"commit"}
    else:
        fed.train(allow_disclosure=True)


def test_visibility_and_depth_choose_methods_and_refuse_others() -> None:
    fed = trained(epochs=1)
    for (visibility, depth), name in REQUEST_METHODS.items():
        settings = ForgetSettings(visibility=visibility, depth=depth)
        chosen, preset = choose_method(settings, people=False)
        assert chosen == name
        assert visibility in (None, preset.method.visibility)
        assert depth in (None, preset.method.aim)
    assert choose_method(ForgetSettings(visibility="open"), people=True)[0] == "retrain"
    watched = watch(fed)
    with pytest.raises(ForgetError, match="'retrain' is open and cannot be hidden"):
        fed.forget([1], settings=ForgetSettings(method="retrain", visibility="hidden"))
    for settings in (
        ForgetSettings(visibility="hidden", depth="bottoms"),  # nobody can have both
        ForgetSettings(depth="answers"),
        ForgetSettings(method="renormalise", depth="bottoms"),
        ForgetSettings(method="hidden", visibility="open"),
    ):
        with pytest.raises(ForgetError):
            fed.forget([1], settings=settings)
    for method in (None, "hidden", "retrain"):  # measured: it would leave them as easy to find
        with pytest.raises(ForgetError, match=r"0\.924"):
            fed.forget(ids=["3"], settings=ForgetSettings(method=method, visibility="hidden"))
    with pytest.raises(ForgetError, match="Method 'hidden' forgets whole labels"):
        fed.forget(ids=["3"], settings=ForgetSettings(method="hidden"))
    assert watched.seen["passive-1"] == []


class CalledHidden(Renormalise):
    """Sends gradients without noise, on samples of the label, and calls itself hidden."""

    visibility = "hidden"


class CountedAsNothing(CalledHidden):
    account = Account.nothing()


class CountedOnOtherSamples(CalledHidden):
    account = Account.of(Release(rows=1, messages=1, clip=1.0, sigma=1.0))


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (CalledHidden(), "has no `account`"),
        (CountedAsNothing(), "gradients that its `account` leaves out"),
        (CountedOnOtherSamples(), "draws samples by the label"),
    ],
)
def test_a_method_is_not_hidden_because_it_says_so(method: Renormalise, reason: str) -> None:
    fed = trained(epochs=1)
    watched = watch(fed)
    for visibility in (None, "hidden"):
        settings = ForgetSettings(method=method, visibility=visibility)
        with pytest.raises(ForgetError, match=reason, check=coded("not-secret")):
            fed.forget([1], settings=settings)
    assert watched.seen["passive-1"] == []


def test_a_dropped_request_and_a_dummy_leave_the_model_as_it_was(tmp_path: Path) -> None:
    for folder in (None, tmp_path / "run"):
        fed = trained(folder=folder)
        before, weights = fed.evaluate(), _copy(fed.active.versions.model_state())
        drop(fed)
        run_slot(fed, (), ForgetSettings())
        _expect_equal(fed.active.versions.model_state(), weights)
        assert fed.evaluate() == before
        assert fed.forgotten == Forgotten()
        if folder is not None:
            fed.purge()
            assert list((folder / "active" / "secrets").glob("*.json")) == []
            assert fed.recover() == "nothing to recover"
            events = [e.event for e in fed.ledger()["active"]]
            assert events == ["rollback", "rollback", "purge"]
            # A ledger that was cut off after a dropped request is missed like any other.
            book = folder / "passive-1" / "ledger.jsonl"
            book.write_text(book.read_text().splitlines(keepends=True)[0])
            with pytest.raises(CheckpointError):
                fed.ledger()


# --- digits -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits() -> Federation:
    torch.set_num_threads(1)
    fed = Federation.local("digits", parties=2, model="convnet", epochs=15, seed=0)
    fed.train()
    return fed


@pytest.mark.parametrize("label", [0, 3, 8])
def test_a_digit_goes_the_rest_stays_and_its_score_ranks_it_no_more(
    digits: Federation, label: int
) -> None:
    test = digits.holdings.rows.test
    theirs = (digits.holdings.labels[test] == label).numpy()
    assert roc_auc_score(theirs, digits.active.logits(test)[:, label]) > 0.98
    outcome = digits.forget([label])
    score = roc_auc_score(theirs, digits.active.logits(test)[:, label])
    outcome.rollback()
    result = outcome.result
    assert result.forgotten_accuracy.after == 0.0
    assert (result.retained_accuracy.before or 0) - (result.retained_accuracy.after or 0) <= 0.01
    assert 0.3 <= score <= 0.95
    assert not result.failed
    assert result.privacy is not None
    assert result.privacy["best_guess"] == pytest.approx(0.1)


def _copy(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def _expect_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    for name, tensor in found.items():
        assert torch.equal(tensor, expected[name]), name
