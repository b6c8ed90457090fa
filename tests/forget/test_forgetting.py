"""What forgetting does to a real model: the label goes, the rest stays, and it stays that way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from cli.command_line import one_thread
from coded import coded

from unlabel.cli.forget_shown import show
from unlabel.data import load_dataset
from unlabel.errors import CheckpointError, ForgetDiverged, ForgetError, PartyRefused, SettingsError
from unlabel.federation import Federation
from unlabel.forget import METHODS, ForgetSettings, Forgotten, Method, find_labels, plan, service
from unlabel.forget.methods.ascent import Ascent
from unlabel.forget.methods.deep import Deep
from unlabel.forget.methods.mask import Mask
from unlabel.forget.methods.mixup_ascent import PRESETS, MixupAscent
from unlabel.forget.methods.renormalise import Renormalise
from unlabel.forget.work import STILL, Work
from unlabel.party import keyed_order
from unlabel.train import Epoch, Watcher
from unlabel.wire import Recorder

__all__ = ["one_thread"]  # a fixture for every test here

#: Tests share runs, in which open requests come after hidden ones.
Disclosing = partial(ForgetSettings, allow_disclosure=True)


@pytest.fixture(scope="module")
def trained() -> Federation:
    """Return the digits of the README, trained; every test leaves it as it found it."""
    torch.set_num_threads(1)
    fed = Federation.local("digits", parties=2, model="convnet", epochs=15, seed=0)
    fed.train()
    return fed


class Enough(Exception):
    """Stops a training between two epochs."""


class Stop(Watcher):
    def epoch_ended(self, epoch: Epoch, history: Sequence[Epoch]) -> None:
        if epoch.epoch == 2:
            raise Enough


def train(parties: int = 2, **options: object) -> Federation:
    fed = Federation.local("digits", parties=parties, model="convnet", epochs=6, **options)  # type: ignore[arg-type]
    fed.train()
    return fed


@pytest.mark.parametrize("method", [None, "renormalise"])
@pytest.mark.parametrize("label", range(10))
def test_every_digit_goes_with_default_settings(
    trained: Federation, label: int, method: str | None
) -> None:
    before = trained.evaluate()
    outcome = trained.forget([label], settings=Disclosing(method=method))
    assert outcome.result.method == (method or "hidden")
    after = trained.evaluate()
    outcome.rollback()
    assert after.confusion[label][label] == 0
    assert sum(line[label] for line in after.confusion) == 0  # nor is anything else called by it
    kept = [n for n in range(10) if n != label]
    lost = (before.accuracy_on(kept) or 0) - (after.accuracy_on(kept) or 0)
    assert lost <= 0.02
    assert outcome.result.retained_accuracy.after == after.accuracy_on(kept)
    assert outcome.result.forgotten_accuracy.after == 0.0
    assert trained.evaluate() == before


@pytest.mark.parametrize("parties", [1, 4])
@pytest.mark.parametrize("labels", [[2, 7], [0, 2, 5, 7]])
def test_several_labels_go_at_once_between_any_number_of_parties(
    parties: int, labels: list[int]
) -> None:
    fed = train(parties)
    for method in (None, "renormalise"):
        outcome = fed.forget(labels, settings=Disclosing(method=method))
        result = outcome.result
        assert result.forgotten_accuracy.after == 0.0
        assert (result.retained_accuracy.after or 0) > (result.retained_accuracy.before or 0) - 0.03
        outcome.rollback()


def test_the_control_changes_no_weight(trained: Federation) -> None:
    before = {k: v.clone() for k, v in trained.passives["passive-1"].bottom.state().items()}
    head = {k: v.clone() for k, v in trained.active.top.module.head.state_dict().items()}  # type: ignore[union-attr]
    outcome = trained.forget([4], settings=Disclosing(method="mask"))
    assert outcome.result.forgotten_accuracy.after == 0.0
    for name, value in trained.passives["passive-1"].bottom.state().items():
        assert name.startswith("optimiser/") or torch.equal(value, before[name])
    for name, value in trained.active.top.module.head.state_dict().items():  # type: ignore[union-attr]
        assert torch.equal(value, head[name])
    outcome.rollback()
    assert trained.evaluate().per_label_accuracy[4] == 1.0


def test_drift_of_the_normalisation_is_reported_and_frozen_has_none(trained: Federation) -> None:
    drifting = trained.forget([1], settings=Disclosing(method=MixupAscent.as_printed(2e-7, 20)))
    drifting.rollback()
    still = replace(MixupAscent.as_printed(2e-7, 20), batchnorm="frozen")
    frozen = trained.forget([1], settings=Disclosing(method=still))
    frozen.rollback()
    # At the paper's rate nothing is learned: frozen changes nothing, and all there is is drift.
    fell = drifting.result.forgotten_accuracy
    assert frozen.result.forgotten_accuracy.after == frozen.result.forgotten_accuracy.before
    assert drifting.result.drift_share == (None if fell.after == fell.before else 1.0)
    assert frozen.result.drift_share is None


@pytest.mark.parametrize("samples", ["all", "few"])
@pytest.mark.parametrize("recovery", [False, True])
def test_every_ablation_climbs(trained: Federation, samples: str, recovery: bool) -> None:
    lr = 1e-3 if samples == "all" else 3e-4
    method = Ascent(samples=samples, recovery=recovery, lr=lr, batchnorm="frozen")  # type: ignore[arg-type]
    outcome = trained.forget([1], settings=Disclosing(method=method))
    found = outcome.result.forgotten_accuracy
    outcome.rollback()
    assert (found.after or 0) < (found.before or 0)


def test_a_rate_that_destroys_the_model_is_stopped_and_rolled_back(trained: Federation) -> None:
    before = trained.evaluate()
    for method in (
        Renormalise(top_lr=500.0, bottom_lr=500.0),
        Renormalise(bottom_lr=30.0, look=1),
        Ascent(lr=1e6, batchnorm="frozen"),
    ):
        with pytest.raises(ForgetDiverged) as diverged:
            trained.forget([1], settings=Disclosing(method=method))
        cause = diverged.value.__cause__
        assert isinstance(cause, PartyRefused)
        assert (diverged.value.code, cause.code) == ("not-finite", "gradient-norm")
        assert trained.evaluate() == before


def test_the_papers_tables_are_presets() -> None:
    presets = MixupAscent().presets()
    assert presets.keys() == PRESETS.keys()
    made = presets["resnet18-cifar10"].method
    assert (presets["vgg16-cifar100"].few_shot, presets["vgg16-cifar100"].retained) == (30, 3)
    assert (made.lr, made.epochs, made.momentum, made.weight_decay) == (2e-7, 20, 0.9, 5e-4)  # type: ignore[attr-defined]
    assert made.lambdas == (0.25, 0.5)  # type: ignore[attr-defined]


def test_every_method_says_what_it_is_and_what_it_tells() -> None:
    assert {"ascent", "deep", "hidden", "mask", "mixup-ascent", "renormalise", "retrain"} <= set(
        METHODS.names()
    )
    for name in METHODS.names():
        assert METHODS.get(name).about
        assert METHODS.get(name)().tells_partners


@pytest.mark.parametrize(
    "method",
    [MixupAscent.as_printed(1e-2, 20), Deep(epochs=1, lr=1e-5), Ascent(samples="all", lr=0.1)],
)
def test_no_method_stages_a_model_that_lost_the_rest(trained: Federation, method: Method) -> None:
    before = trained.evaluate()
    with pytest.raises(ForgetError, match="rolled back"):
        trained.forget([1], settings=Disclosing(method=method))
    assert trained.evaluate() == before


@dataclass(frozen=True)
class Undrawn(Mask):
    """Steps on few-shot samples that its disclosure does not have."""

    visibility = "open"  # type: ignore[assignment]

    def run(self, work: Work) -> None:
        work.use_optimisers(STILL)
        work.move_samples(lambda embeddings: embeddings[0].sum())


def test_a_step_on_samples_that_are_not_disclosed_says_what_to_add(trained: Federation) -> None:
    settings = ForgetSettings(method=Undrawn())
    with pytest.raises(
        ForgetError, match=r"takes a step on no rows; add `public` to .*`disclosure`"
    ):
        trained.forget([1], settings=settings)


@pytest.mark.parametrize(
    ("count", "words"), [(1, "1 public sample may"), (2, "2 public samples may")]
)
def test_one_suspect_is_not_several(
    trained: Federation, count: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = trained.forget([1], settings=ForgetSettings(method="mask"))
    outcome.rollback()
    suspect = {"id": "7", "row": 7, "label": "3", "score": 0.99}
    show(replace(outcome.result, suspects=(suspect,) * count), "runs/mine", committed=False)
    assert words in capsys.readouterr().err.replace("\n", " ")


def test_a_control_is_never_committed(trained: Federation) -> None:
    outcome = trained.forget([1], settings=Disclosing(method="mask"))
    with pytest.raises(ForgetError, match="a control that forgets nothing"):
        outcome.commit()
    outcome.rollback()
    assert trained.forgotten == Forgotten()


def test_while_an_outcome_is_undecided_nothing_else_happens_in_memory_either() -> None:
    fed = train()
    outcome = fed.forget([1])
    with pytest.raises(ForgetError, check=coded("request-open")):
        fed.forget([2])
    with pytest.raises(ForgetError, check=coded("request-open")):
        fed.train()
    outcome.commit()
    fed.forget([2]).commit()
    assert fed.forgotten == Forgotten(labels=(1, 2))


# --- what a partner is told ---------------------------------------------------------------------


def test_rows_are_asked_for_in_an_order_that_does_not_depend_on_the_label(
    trained: Federation,
) -> None:
    """Sorted, and chosen under a key: who knows the run's seed cannot try the labels out."""
    plain = trained.active.transport
    chosen = []
    for _ in range(2):
        recorder = Recorder(plain, keep_tensors=True)
        trained.active.transport = recorder
        trained.forget(
            [1], settings=Disclosing(method="renormalise", few_shot=5, secret=True)
        ).rollback()
        trained.active.transport = plain
        entries = recorder.transcripts["passive-1"].entries
        asked = [e.tensors["rows"].tolist() for e in entries if e.kind == "Embed"]
        assert all(rows == sorted(rows) for rows in asked)
        chosen.append(min(asked, key=len))
    assert chosen[0] != chosen[1]


def test_a_secret_request_does_not_use_a_method_that_names_the_rows(trained: Federation) -> None:
    for method in (Deep(), Ascent(samples="all")):
        with pytest.raises(ForgetError, check=coded("not-secret")):
            trained.forget([1], settings=Disclosing(method=method, secret=True))
    trained.forget([1], settings=Disclosing(method=Deep(rows="all"), secret=True)).rollback()


def test_a_label_forgotten_quickly_can_be_forgotten_in_depth() -> None:
    fed = train()
    fed.forget([1], settings=Disclosing(method="renormalise")).commit()
    deeper = fed.forget([1], settings=Disclosing(method=Deep(), deepen=True, robust="drop"))
    assert not [s for s in deeper.result.suspects if s["label"] == "1"]  # it doubts them all now
    deeper.commit()
    assert fed.forgotten == Forgotten(labels=(1,))
    assert fed.evaluate().per_label_accuracy[1] == 0.0


def test_early_stopping_after_a_request_ends_in_weights_that_are_kept(tmp_path: Path) -> None:
    """The best version from before the request knew the label, so it is no longer the best."""
    fed = Federation.local(
        "digits", model="convnet", folder=tmp_path / "run", epochs=12, patience=3, seed=0
    )
    with pytest.raises(Enough):
        fed.train(watchers=[Stop()])
    fed = Federation.open(tmp_path / "run")
    half_way = Disclosing(method="renormalise", allow_unfinished=True)
    fed.forget([1], settings=half_way).commit()
    progress = fed.train()
    assert progress.finished
    repeated = Federation.open(tmp_path / "run")
    assert repeated.evaluate() == fed.evaluate()
    assert repeated.evaluate().per_label_accuracy[1] == 0.0
    assert repeated.active.versions.facts(repeated.active.versions.common()[-1])["progress"][
        "finished"
    ]


# --- one request after another ------------------------------------------------------------------


def test_five_requests_come_to_the_same_as_one_for_five_labels() -> None:
    labels = [1, 4, 6, 8, 9]
    one, five = train(), train()
    together = one.forget(labels)
    together.commit()
    for label in labels:
        five.forget([label]).commit()
    first, second = one.evaluate(), five.evaluate()
    assert one.forgotten == five.forgotten == Forgotten(labels=(1, 4, 6, 8, 9))
    for found in (first, second):
        assert found.accuracy_on(labels) == 0.0
    stays = [n for n in range(10) if n not in labels]
    gap = (first.accuracy_on(stays) or 0) - (second.accuracy_on(stays) or 0)
    assert abs(gap) <= 0.03


def test_what_was_forgotten_is_refused_the_second_time() -> None:
    fed = train()
    fed.forget([1]).commit()
    with pytest.raises(ForgetError, check=coded("already-forgotten")):
        fed.forget(["1"])


def test_later_training_does_not_learn_a_forgotten_label_again() -> None:
    fed = Federation.local("digits", model="convnet", epochs=4, seed=0)
    with pytest.raises(Enough):
        fed.train(watchers=[Stop()])
    half_way = Disclosing(method="renormalise", allow_unfinished=True)
    fed.forget([1], settings=half_way).commit()
    with pytest.raises(SettingsError):
        fed.train(epochs=9)
    assert fed.train().finished
    found = fed.evaluate()
    assert found.per_label_accuracy[1] == 0.0
    assert (found.accuracy_on([n for n in range(10) if n != 1]) or 0) > 0.93


def test_a_training_that_goes_on_after_a_request_keeps_it(tmp_path: Path) -> None:
    """A run that was stopped after two of six epochs, forgets, and then trains to its end."""
    fed = Federation.local("digits", model="convnet", folder=tmp_path / "run", epochs=6, seed=0)

    with pytest.raises(Enough):
        fed.train(watchers=[Stop()])
    fed = Federation.open(tmp_path / "run")
    half_way = Disclosing(method="renormalise", allow_unfinished=True)
    fed.forget([1], settings=half_way).commit()
    fed = Federation.open(tmp_path / "run", resume=True)
    assert fed.forgotten == Forgotten(labels=(1,))
    progress = fed.train()
    assert progress.finished
    assert len(progress.history) == 6
    assert fed.evaluate().per_label_accuracy[1] == 0.0
    assert Federation.open(tmp_path / "run").forgotten == Forgotten(labels=(1,))


# --- the public set -----------------------------------------------------------------------------


def test_public_rows_are_set_aside_and_never_trained_on(trained: Federation) -> None:
    rows = trained.holdings.rows
    aside = set(rows.public.tolist())
    assert aside
    for part in (rows.train, rows.validation, rows.test):
        assert not aside & set(part.tolist())
    labels = trained.holdings.labels
    for label in range(10):
        own = int((labels[rows.public] == label).sum())
        rest = int((labels[rows.train] == label).sum())
        assert 2 <= own <= 0.1 * (own + rest) + 1


def test_without_rows_aside_training_rows_serve_and_are_said_to_be_disclosed() -> None:
    fed = train(public=0)
    outcome = fed.forget([1], settings=Disclosing(method="renormalise"))
    assert outcome.result.disclosed
    assert "training rows" in outcome.result.public
    assert outcome.result.few_shot == 40
    assert outcome.result.forgotten_accuracy.after == 0.0


def test_a_public_set_of_ones_own_is_used(trained: Federation, tmp_path: Path) -> None:
    x = np.concatenate([f.values.numpy() for f in trained.holdings.features.values()], axis=3)
    y, test = trained.holdings.labels.numpy(), trained.holdings.rows.test.numpy()
    np.savez(tmp_path / "public.npz", x=x[test], y=y[test])
    outcome = trained.forget(
        [1],
        settings=Disclosing(method="renormalise", public=tmp_path / "public.npz", few_shot=10),
    )
    outcome.rollback()
    assert outcome.result.few_shot == 10
    assert not outcome.result.disclosed
    assert outcome.result.forgotten_accuracy.after == 0.0


def test_a_sample_that_stands_twice_in_the_public_set_counts_once(
    trained: Federation, tmp_path: Path
) -> None:
    x = np.concatenate([f.values.numpy() for f in trained.holdings.features.values()], axis=3)
    y, test = trained.holdings.labels.numpy(), trained.holdings.rows.test.numpy()[:200]
    twice = np.concatenate([test, test[:30]])
    np.savez(tmp_path / "public.npz", x=x[twice], y=y[twice])
    settings = Disclosing(method="renormalise", public=tmp_path / "public.npz")
    assert plan(trained, labels=[1], settings=settings).samples.duplicates == 30


@pytest.mark.parametrize("robust", ["none", "drop", "weight"])
def test_wrong_labels_are_suspected_and_can_be_left_out(trained: Federation, robust: str) -> None:
    settings = Disclosing(method="renormalise", robust=robust)  # type: ignore[arg-type]
    work = plan(trained, labels=[1], settings=settings)
    labels = work.public.labels.clone()
    wrong = (labels == 2).nonzero()[:5, 0]
    labels[wrong] = 1
    work = replace(work, public=replace(work.public, labels=labels))
    samples = work.samples
    suspected = {s.row for s in samples.suspects}
    assert set(work.public.rows[wrong].tolist()) <= suspected
    used = dict(zip(samples.rows.tolist(), samples.weights.tolist(), strict=True))
    for row in work.public.rows[wrong].tolist():
        if robust == "drop":
            assert row not in used
        elif robust == "weight":
            assert used[row] < 0.1
        else:
            assert used[row] == 1.0
    outcome = service.carry_out(trained, work)
    outcome.rollback()
    assert outcome.result.forgotten_accuracy.after == 0.0


# --- labels of people ---------------------------------------------------------------------------


@pytest.mark.long
def test_peoples_labels_go_and_their_class_stays(tmp_path: Path) -> None:
    """A fifth of the labels is wrong and known by heart; the request names some of these."""
    digits = load_dataset("digits")
    rng = np.random.default_rng(0)
    y = digits.y.copy()
    wrong = rng.random(1300) < 0.2
    y[:1300][wrong] = (y[:1300][wrong] + rng.integers(1, 10, int(wrong.sum()))) % 10
    np.savez(
        tmp_path / "noisy.npz", x_train=digits.x[:1300], y_train=y[:1300],
        x_test=digits.x[1300:], y_test=digits.y[1300:],
    )  # fmt: skip
    fed = Federation.local(
        str(tmp_path / "noisy.npz"), model="convnet", epochs=60, validation=0.0, seed=0
    )
    fed.train()
    train_rows = set(fed.holdings.rows.train.tolist())
    listed = [row for row in np.flatnonzero(wrong).tolist() if row in train_rows][:30]
    outcome = fed.forget(ids=[str(row) for row in listed])
    result = outcome.result
    assert result.people == 30
    assert result.confidence is not None
    assert (result.confidence.before or 0) > 0.7
    assert (result.confidence.after or 1) < 0.2
    assert (result.retained_accuracy.after or 0) > (result.retained_accuracy.before or 0) - 0.03
    outcome.commit()
    assert fed.forgotten.rows == tuple(sorted(listed))
    assert not set(listed) & set(fed.holdings.rows_without(fed.forgotten).train.tolist())
    with pytest.raises(ForgetError, check=coded("already-forgotten")):
        fed.forget(ids=[str(listed[0])])


def test_messages_about_people_name_them_by_leaving_them_out_and_in_no_other_way() -> None:
    """To measure asks for all rows; what moves the models asks for everybody else, and says so."""
    fed = train()
    recorder = Recorder(fed.active.transport, keep_tensors=True)
    fed.active.transport = recorder
    own = fed.holdings.rows
    listed = set(own.train[:20].tolist())
    outcome = fed.forget(ids=[str(row) for row in sorted(listed)])
    assert outcome.result.tells_partners == "the forgotten rows, all of them, by leaving them out"
    assert outcome.result.takes == "as long as the training did"
    outcome.rollback()
    everybody, rest = set(own.train.tolist()), set(own.train.tolist()) - listed
    whole = (everybody, set(own.test.tolist()), set(own.public.tolist()))
    for transcript in recorder.transcripts.values():
        asked: list[set[int]] = []
        moved = set[int]()
        for entry in transcript.entries:
            if entry.kind == "Embed":
                asked.append(set(entry.tensors["rows"].tolist()))
            elif entry.kind == "Gradients":
                moved |= asked.pop()
        assert moved == rest
        assert set().union(*asked) == set().union(*whole)
        assert all(any(rows <= part for part in whole) for rows in asked)
        assert not any(rows <= listed for rows in asked)


def test_people_are_forgotten_whatever_rows_are_public_and_however_many_they_are(
    trained: Federation,
) -> None:
    """What `people` of 0.9 refused: half of the rows, and public samples from training rows."""
    half = trained.holdings.rows.train[::2].tolist()
    trained.forget(ids=[str(row) for row in half], settings=Disclosing()).rollback()
    fed = train(public=0)
    fed.forget(ids=[str(fed.holdings.rows.train[0].item())]).commit()
    assert len(fed.forgotten.rows) == 1


def test_people_whose_label_is_gone_are_named() -> None:
    fed = train()
    fed.forget([1]).commit()
    rows = fed.holdings.rows.train
    row = rows[fed.holdings.labels[rows] == 1][0].item()
    with pytest.raises(ForgetError, check=coded("already-forgotten")):
        fed.forget(ids=[str(row)])


def test_a_number_is_a_name_first_and_no_place_in_a_list_of_numbers() -> None:
    assert find_labels(["2"], ("3", "2", "1", "0"), Forgotten()) == [1]
    assert find_labels(["2"], ("cat", "dog", "owl", "fox"), Forgotten()) == [2]
    with pytest.raises(ForgetError, check=coded("unknown-label")):
        find_labels(["0"], ("1", "2", "3"), Forgotten())


def test_public_files_with_training_rows_in_them_are_disclosed(
    trained: Federation, tmp_path: Path
) -> None:
    x = np.concatenate([f.values.numpy() for f in trained.holdings.features.values()], axis=3)
    y = trained.holdings.labels.numpy()
    for rows, told in ((trained.holdings.rows.test, False), (trained.holdings.rows.train, True)):
        some = rows.numpy()[:200]
        np.savez(tmp_path / "public.npz", x=x[some], y=y[some])
        settings = Disclosing(public=tmp_path / "public.npz")
        assert plan(trained, labels=[1], settings=settings).public.disclosed == told


def test_a_ledger_that_was_cut_off_is_missed(tmp_path: Path) -> None:
    fed = Federation.local("digits", model="mlp", folder=tmp_path / "run", epochs=2)
    fed.train()
    fed.forget([1]).commit()
    fed.purge()
    assert len(fed.ledger()["passive-1"]) == 2
    path = tmp_path / "run/passive-1/ledger.jsonl"
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    with pytest.raises(CheckpointError):
        fed.ledger()
    path.unlink()
    with pytest.raises(CheckpointError):
        fed.ledger()


# --- two who hold the same run ------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fed = Federation.local("digits", model="convnet", folder=tmp_path / "run", epochs=6, seed=0)
    fed.train()
    return tmp_path / "run"


def test_who_opened_a_run_before_a_request_does_not_bring_its_label_back(folder: Path) -> None:
    first, second = Federation.open(folder), Federation.open(folder)
    first.forget([3]).commit()
    second.forget([4]).commit()
    third = Federation.open(folder)
    assert third.forgotten == Forgotten(labels=(3, 4))
    assert third.evaluate().accuracy_on([3, 4]) == 0.0


def test_an_outcome_decides_on_no_request_but_its_own(folder: Path) -> None:
    first = Federation.open(folder)
    outcome = first.forget([3])
    second = Federation.open(folder)
    second.rollback()
    other = second.forget([7])
    for decide in (outcome.commit, outcome.rollback):
        with pytest.raises(ForgetError, check=coded("request-decided")):
            decide()
    other.commit()
    assert Federation.open(folder).forgotten == Forgotten(labels=(7,))
    # The first one finds out for itself, and goes on from there.
    first.forget([3]).commit()
    assert Federation.open(folder).forgotten == Forgotten(labels=(3, 7))


def test_a_decision_from_elsewhere_does_not_lock_an_object(folder: Path) -> None:
    first = Federation.open(folder)
    first.forget([3])
    Federation.open(folder).commit()
    first.forget([4]).rollback()
    assert first.forgotten == Forgotten(labels=(3,))
    assert first.evaluate().per_label_accuracy[3] == 0.0


def test_every_purge_is_noted_also_the_one_after_more_training(folder: Path) -> None:
    fed = Federation.open(folder)
    fed.forget([3]).commit()
    fed.purge()
    fed.purge()
    fed.forget([4]).commit()
    fed.purge()
    events = [(e.event, e.note.get("version")) for e in fed.ledger()["active"]]
    assert events == [("commit", 7), ("purge", 7), ("commit", 8), ("purge", 8)]


# --- hiding -------------------------------------------------------------------------------------


def test_the_order_under_a_key_cannot_be_found_by_trying_seeds() -> None:
    """Keys that agree in their low 32 bits give different orders, and one key gives one order."""
    rows = torch.arange(50)
    one, other = "00" * 28 + "12345678", "01" + "00" * 27 + "12345678"
    assert torch.equal(keyed_order(rows, one), keyed_order(rows, one))
    assert not torch.equal(keyed_order(rows, one), keyed_order(rows, other))
    assert keyed_order(rows, one).sort().values.tolist() == rows.tolist()
    # A row's place depends on the row and not on who stands beside it.
    order = rows[keyed_order(rows, one)]
    some = rows[::3]
    assert torch.equal(some[keyed_order(some, one)], order[torch.isin(order, some)])


def test_no_public_sample_is_left_out_after_its_label_is_gone() -> None:
    fed = train()
    fed.forget([3], settings=Disclosing(method="renormalise", secret=True)).commit()
    recorder = Recorder(fed.active.transport, keep_tensors=True)
    fed.active.transport = recorder
    fed.forget([5], settings=Disclosing(method="renormalise", secret=True)).rollback()
    public = set(fed.holdings.rows.public.tolist())
    entries = recorder.transcripts["passive-1"].entries
    asked = set().union(*(e.tensors["rows"].tolist() for e in entries if e.kind == "Embed"))
    assert public <= asked


def test_a_secret_request_does_not_climb_on_samples_of_the_label_alone(
    trained: Federation,
) -> None:
    with pytest.raises(ForgetError, check=coded("not-secret")):
        trained.forget([1], settings=Disclosing(method="mixup-ascent", secret=True))


def test_where_two_labels_are_left_one_answer_for_all_is_a_collapse(tmp_path: Path) -> None:
    digits = load_dataset("digits")
    few = np.flatnonzero(digits.y < 3)
    np.savez(tmp_path / "three.npz", x=digits.x[few], y=digits.y[few])
    fed = Federation.local(str(tmp_path / "three.npz"), model="mlp", epochs=8, seed=0)
    fed.train()
    for method in (Ascent(samples="all", lr=0.1), Deep(lr=1e-9)):
        with pytest.raises(ForgetError, match="rolled back"):
            fed.forget([0], settings=Disclosing(method=method))
    fed.forget([0], settings=Disclosing(method="renormalise")).commit()


def test_again_is_for_what_is_gone_and_leaves_two_labels() -> None:
    names = tuple("abcd")
    assert find_labels(["a"], names, Forgotten(labels=(0, 1)), deepen=True) == [0]
    with pytest.raises(ForgetError, check=coded("not-forgotten")):
        find_labels(["c"], names, Forgotten(labels=(0, 1)), deepen=True)


def test_a_rate_of_zero_is_a_control_too(trained: Federation) -> None:
    outcome = trained.forget([1], settings=Disclosing(method=Ascent(lr=0.0, batchnorm="frozen")))
    with pytest.raises(ForgetError):
        outcome.commit()
    outcome.rollback()
