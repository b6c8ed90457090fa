"""Late parties: the training that the formula says, embeddings never older than the bound."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from federations import small_holdings
from torch import Tensor, nn

from unlabel.errors import PartyRefused, SettingsError
from unlabel.party import REMEMBERED, ActiveParty, PassiveParty, Stream
from unlabel.party.lateness import Backlog, Foresight, Lateness, Pending
from unlabel.train import Holdings, Training, TrainSettings, Watcher, assemble, batches
from unlabel.train.epochs import epochs_of
from unlabel.wire import Embed, Gradients, Recorder

FIRST, SECOND = "passive-1", "passive-2"


def weights(active: ActiveParty, passives: dict[str, PassiveParty]) -> dict[str, Tensor]:
    modules = {"top": active.top.module, **{k: p.bottom.module for k, p in passives.items()}}
    return {f"{who}/{k}": v for who, m in modules.items() for k, v in m.state_dict().items()}


def different(first: dict[str, Tensor], second: dict[str, Tensor]) -> list[str]:
    assert first.keys() == second.keys()
    return [name for name in first if not torch.equal(first[name], second[name])]


def train(holdings: Holdings, *, encoded: bool = False) -> dict[str, Tensor]:
    active, passives = assemble(holdings, encoded=encoded)
    Training(active, holdings.rows, holdings.config.train, labels=4).run()
    return weights(active, passives)


def train_by_hand(holdings: Holdings) -> dict[str, Tensor]:
    """Train as the formula says: each bottom at the weights it had so many updates ago.

    All weights that a bottom had in an epoch are kept, and a copy of it is set to the old ones.
    """
    settings = holdings.config.train
    active, passives = assemble(holdings)  # only for the same initial weights and scaling
    rows = holdings.rows.train
    epochs = epochs_of(settings, len(rows))
    active.prepare(rows, epochs * 4)
    modules: dict[str, nn.Module] = {k: copy.deepcopy(p.bottom.module) for k, p in passives.items()}
    top = copy.deepcopy(active.top.module)
    kind: Any = torch.optim.Adam if settings.optimiser == "adam" else torch.optim.SGD
    more = {} if settings.optimiser == "adam" else {"momentum": settings.momentum}
    optimisers = {
        name: kind(module.parameters(), weight_decay=settings.weight_decay, fused=True, **more)
        for name, module in {**modules, "top": top}.items()
    }
    late = dict.fromkeys(settings.late_parties or modules, settings.late)
    step = 0
    for epoch in range(1, epochs + 1):
        past = {name: [held(module)] for name, module in modules.items()}
        for place, some in enumerate(
            batches(rows, settings.batch, seed=settings.seed, epoch=epoch)
        ):
            embeddings, copies = [], {}
            for name, module in modules.items():
                age = min(place, late.get(name, 0))
                old = past[name][place - age]
                if settings.late_rule == "foresee" and age and place > age:
                    before = past[name][place - age - 1]
                    old = [w + age * (w - b) for w, b in zip(old, before, strict=True)]
                copies[name] = copy.deepcopy(module).train()
                with torch.no_grad():
                    for own, value in zip(copies[name].parameters(), old, strict=True):
                        own.copy_(value)
                torch.manual_seed(Stream(settings.seed, name).number(step))
                scaling = passives[name].bottom.scaling
                assert scaling is not None
                x = (holdings.features[name].values[some].float() - scaling.mean) / scaling.std
                embeddings.append(copies[name](x))
                for buffer, value in zip(module.buffers(), copies[name].buffers(), strict=True):
                    buffer.copy_(value)
            torch.manual_seed(Stream(settings.seed, "active/top").number(step))
            top.zero_grad()
            F.cross_entropy(top.train()(embeddings), holdings.labels[some]).backward()
            for name, module in modules.items():
                for own, value in zip(module.parameters(), copies[name].parameters(), strict=True):
                    own.grad = value.grad
            for optimiser in optimisers.values():
                optimiser.param_groups[0]["lr"] = settings.rate(step, epochs * 4)
                optimiser.step()
            for name, module in modules.items():
                past[name].append(held(module))
            step += 1
    named = {"top": top, **modules}
    return {f"{who}/{k}": v for who, m in named.items() for k, v in m.state_dict().items()}


def held(module: nn.Module) -> list[Tensor]:
    return [w.detach().clone() for w in module.parameters()]


@pytest.mark.parametrize("bottom", ["plain_bottom", "norm_bottom", "dropout_bottom"])
@pytest.mark.parametrize("rule", ["plain", "foresee"])
@pytest.mark.parametrize(
    ("late", "named", "optimiser", "encoded"),
    [
        (0, (), "sgd", False),
        (1, (), "sgd", False),
        (2, (SECOND,), "sgd", True),
        (3, (), "adam", False),
        (9, (), "sgd", False),  # more than an epoch has steps
    ],
)
def test_a_late_training_is_the_one_of_the_formula_bit_for_bit(
    bottom: str, rule: str, late: int, named: tuple[str, ...], optimiser: str, encoded: bool
) -> None:
    holdings = small_holdings(
        2,
        bottom=f"small_models:{bottom}",
        late=late,
        late_parties=named,
        late_rule=rule,
        optimiser=optimiser,
        lr=0.05 if optimiser == "sgd" else 0.01,
    )
    assert different(train(holdings, encoded=encoded), train_by_hand(holdings)) == []


def test_lateness_and_its_rule_change_the_weights() -> None:
    """Without this the comparison above could hold for a training in step."""
    kinds: list[dict[str, Any]] = [
        {"late": 0},
        {"late": 1},
        {"late": 2},
        {"late": 2, "late_parties": (FIRST,)},
        {"late": 2, "late_rule": "plain"},
    ]
    found = [train(small_holdings(2, **kind))[f"{FIRST}/1.weight"] for kind in kinds]
    assert all(
        not torch.equal(one, other) for i, one in enumerate(found) for other in found[i + 1 :]
    )


def test_with_no_lateness_the_rule_is_nothing() -> None:
    first, second = (train(small_holdings(2, late_rule=rule)) for rule in ("plain", "foresee"))
    assert different(first, second) == []


def asked_of(holdings: Holdings) -> dict[str, list[tuple[str, int]]]:
    """Return the training messages each party received, in order."""
    active, _ = assemble(holdings)
    active.transport = Recorder(active.transport)
    Training(active, holdings.rows, holdings.config.train, labels=4).run()
    found = {}
    for party, transcript in active.transport.transcripts.items():
        found[party] = [
            (entry.kind, entry.step)
            for entry in transcript.entries
            if entry.direction == "received" and entry.kind in ("Embed", "Gradients")
        ]
    return found


def test_only_the_named_party_is_asked_ahead_and_never_further_than_the_bound() -> None:
    found = asked_of(small_holdings(2, epochs=1, validation=0.0, late=2, late_parties=(FIRST,)))
    steps = [(kind, step) for step in range(4) for kind in ("Embed", "Gradients")]
    assert found[SECOND][:8] == steps
    # The last steps of an epoch ask for nothing more, so nothing is under way at its end.
    early = "E0 E1 E2 G0 E3 G1 G2 G3"
    assert " ".join(f"{kind[0]}{step}" for kind, step in found[FIRST][:8]) == early


def prepared(late: int, **more: Any) -> tuple[ActiveParty, dict[str, PassiveParty], list[Tensor]]:
    holdings = small_holdings(2, late=late, **more)
    active, passives = assemble(holdings)
    active.prepare(holdings.rows.train, 20)
    return active, passives, list(batches(holdings.rows.train, 8, seed=0, epoch=1))


@pytest.mark.parametrize(("updates", "refused"), [(2, False), (3, True)])
def test_an_answer_older_than_the_bound_is_refused_and_waited_for(
    updates: int, refused: bool, caplog: pytest.LogCaptureFixture
) -> None:
    active, _, planned = prepared(late=2)
    recorder = active.transport = Recorder(active.transport)
    active.ask_ahead(planned[3:], 9)
    for step in range(updates):
        active.step(planned[step], step)
    asked = len(recorder.transcripts[FIRST].entries)
    with caplog.at_level(logging.WARNING, "unlabel.late"):
        active.step(planned[3], 9)
    kinds = [e.kind for e in recorder.transcripts[FIRST].entries[asked:] if e.direction != "sent"]
    assert kinds == (["Embed", "Gradients"] if refused else ["Gradients"])
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == (2 if refused else 0)
    if refused:
        assert said[0] == (
            "What party 'passive-1' sent for step 9 is 3 updates old where 2 are allowed; it is "
            "refused, and the step waits for a new answer."
        )


def test_a_refused_answer_leaves_no_trace_in_the_weights() -> None:
    """After the refusal the step is one in step, to the last bit."""
    found = []
    for ahead in (True, False):
        active, passives, planned = prepared(late=1, late_rule="plain")
        if ahead:
            active.ask_ahead(planned[3:4], 9)
        for step in range(3):
            active.step(planned[step], step)
        active.step(planned[3], 9)
        found.append(weights(active, passives))
    assert different(*found) == []


def test_an_early_answer_serves_no_other_rows_and_no_other_mode() -> None:
    active, _, planned = prepared(late=2)
    active.ask_ahead(planned[:1], 0)
    request = Embed(0, planned[1], "train")
    early = active.lateness._early[0, FIRST].answer
    assert active.lateness.ask(active.transport, request)[FIRST] is not early
    active.ask_ahead(planned[1:2], 1)
    frozen = Embed(1, planned[1], "frozen")
    early = active.lateness._early[1, FIRST].answer
    assert active.lateness.ask(active.transport, frozen)[FIRST] is not early


def test_a_party_keeps_no_more_batches_than_it_agreed_to() -> None:
    _, passives, planned = prepared(late=2)
    party = passives[FIRST]
    for step in range(4):
        party.handle(Embed(step, planned[step], "train"))
    assert len(party.backlog) == 3
    answer: Any = party.handle(Gradients(0, torch.zeros(8, 5)))
    assert answer.reason == "it has sent no embeddings to train on in step 0."
    for step in (1, 3, 2):
        assert not hasattr(party.handle(Gradients(step, torch.zeros(8, 5))), "reason")
    assert len(party.backlog) == 0


def test_a_party_that_did_not_agree_to_be_late_keeps_one_batch() -> None:
    active, passives, planned = prepared(late=0)
    active.lateness = Lateness(1, active.parties)
    active.ask_ahead(planned, 0)
    with pytest.raises(PartyRefused, match="no embeddings to train on in step 0"):
        active.step(planned[0], 0)
    assert len(passives[FIRST].backlog) == 1


def test_a_batch_asked_for_anew_takes_the_place_of_the_old_one() -> None:
    backlog = Backlog(2)
    for step in (0, 1, 0):
        backlog.add(Pending(step, torch.zeros(1, 1)))
    assert len(backlog) == 2
    assert backlog.newest is backlog.find(0)
    backlog.clear()
    assert backlog.newest is None


def test_weights_are_foreseen_along_the_last_update() -> None:
    """With one weight: it was 1, became 3, and will be 7 after two more updates alike."""
    module = nn.Linear(1, 1, bias=False)
    foresight = Foresight(module, foresee=True)
    one = torch.ones(1, 1)
    with torch.no_grad():
        module.weight.fill_(1.0)
        foresight.note(moved=False)
        module.weight.fill_(3.0)
        foresight.note(moved=True)
    out = foresight.run(one, 2)
    assert out.item() == 7.0
    with torch.no_grad():
        module.weight.fill_(100.0)  # what came later is not in the way back
    (2 * out).sum().backward()
    assert module.weight.grad is not None
    assert module.weight.grad.item() == 2.0
    assert foresight.run(one, 0).item() == 100.0
    assert foresight.run(one, 2).item() == 100.0  # nothing is foreseen from before the pause


class Stop(BaseException):
    """A process that dies in the middle of an epoch."""


class Dies(Watcher):
    """Dies after so many steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def stepped(self, rows: int, loss: Tensor, correct: Tensor) -> None:
        self.left -= 1
        if not self.left:
            raise Stop


@pytest.mark.parametrize("rule", ["plain", "foresee"])
def test_a_late_training_that_was_killed_resumes_into_the_same_weights(
    rule: str, tmp_path: Path
) -> None:
    holdings = small_holdings(
        2, bottom="small_models:dropout_bottom", epochs=3, late=2, late_rule=rule
    )
    calm = train(holdings)
    for killed in (6, 3, 0):  # in the second epoch, in the next one, then not
        active, passives = assemble(holdings, folder=tmp_path)
        training = Training(active, holdings.rows, holdings.config.train, labels=4)
        training.watchers = (Dies(killed),) if killed else ()
        try:
            training.run()
        except Stop:
            assert killed
    assert different(weights(active, passives), calm) == []


def test_what_is_remembered_of_a_label_is_what_its_own_batches_changed() -> None:
    """A batch that is asked for early is not the one whose change is kept."""
    holdings = small_holdings(2, epochs=1, batch=2, late=2, remember=(1,))
    active, passives = assemble(holdings)
    bottom = passives[FIRST].bottom
    seen = [held(bottom.module)]

    class Looks(Watcher):
        def stepped(self, rows: int, loss: Tensor, correct: Tensor) -> None:
            seen.append(held(bottom.module))

    settings = holdings.config.train
    Training(active, holdings.rows, settings, labels=4, watchers=[Looks()]).run()
    order = list(batches(holdings.rows.train, 2, seed=settings.seed, epoch=1))
    own = [step for step, rows in enumerate(order) if (holdings.labels[rows] == 1).any()]
    assert 0 < len(own) < len(order) == len(seen) - 1
    for place, total in enumerate(bottom.moves.total(REMEMBERED)):
        expected = sum(seen[step + 1][place] - seen[step][place] for step in own)
        torch.testing.assert_close(total, expected, rtol=0, atol=1e-6)


def test_what_a_broken_training_left_is_dropped_before_the_next() -> None:
    holdings = small_holdings(2, late=2)
    found = []
    for breaks in (False, True):
        active, passives = assemble(holdings)
        start = {k: {n: v.clone() for n, v in p.bottom.module.state_dict().items()}
                 for k, p in passives.items()}  # fmt: skip
        if breaks:
            active.prepare(holdings.rows.train, 8)
            active.ask_ahead(list(batches(holdings.rows.train, 8, seed=0, epoch=1)), 0)
            for name, party in passives.items():
                party.bottom.module.load_state_dict(start[name])
            assert len(passives[FIRST].backlog) == 3
        Training(active, holdings.rows, holdings.config.train, labels=4).run()
        assert len(passives[FIRST].backlog) == 0
        found.append(weights(active, passives))
    assert different(*found) == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"late": -1}, "Expected `late` to be from 0 to 64 but got -1."),
        ({"late": 65}, "Expected `late` to be from 0 to 64 but got 65."),
        ({"late_rule": "forsee"}, "Did you mean 'foresee'"),
        ({"late": 1, "graphs": True, "device": "cuda"}, "only where no party is late"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        TrainSettings(**settings)


def test_a_late_party_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"passive-1, passive-2.* but got 'bank'"):
        assemble(small_holdings(2, late=1, late_parties=("bank",)))
