"""What a lost party must not lead to: a label learned again, a request begun twice."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from unlabel import Federation
from unlabel.errors import CheckpointError, PartyLost
from unlabel.forget import ForgetSettings, noisy_request
from unlabel.forget.methods.hidden import Hidden
from unlabel.report.certificate import issue
from unlabel.wire import Attest, Describe, Embed, Message, Rollback, Stage
from unlabel.wire.linked import LinkedTransport

LOST = PartyLost("Party 'shop' did not answer.", ["shop"])


@pytest.fixture
def trained(tmp_path: Path) -> Federation:
    fed = Federation.local("digits", parties=2, model="mlp", epochs=1, folder=tmp_path / "run")
    fed.train()
    return fed


def test_a_label_that_was_forgotten_is_not_learned_again(trained: Federation) -> None:
    trained.forget([3], settings=ForgetSettings(visibility="open", measure_drift=False)).commit()
    # Training goes on after the commit, so the newest version is one of training.
    assert trained.version is not None
    facts = trained.active.versions.facts(trained.version)
    about = {name: facts[name] for name in ("data", "settings", "forgotten", "progress")}
    trained.active.versions.save(trained.version + 1, about)
    shutil.rmtree(trained.folder / next(iter(trained.passives)) / "versions")
    with pytest.raises(CheckpointError):
        Federation.open(trained.folder, resume=True)
    trained.is_remote = True
    with pytest.raises(CheckpointError):
        trained.train(allow_disclosure=True)
    assert trained.active.versions.store.versions() != ()


def test_who_was_lost_is_known_after_the_first_loss() -> None:
    transport = LinkedTransport(["shop", "bank"], timeout=1.0)
    transport._lose(str(LOST), LOST.parties)
    with pytest.raises(PartyLost, match=r"'shop'") as found:
        transport.ask(Describe(0))
    assert found.value.parties == ("shop",)


def test_an_interrupted_request_is_not_begun_again(
    trained: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = trained.active.transport.exchange

    def broken(requests: Mapping[str, Message]) -> dict[str, Message]:
        message = next(iter(requests.values()))
        if isinstance(message, Embed):
            raise KeyboardInterrupt
        if isinstance(message, Rollback):
            raise LOST
        return exchange(requests)

    monkeypatch.setattr(trained.active.transport, "exchange", broken)
    with pytest.raises(KeyboardInterrupt):  # for a `PartyLost` all would be done again
        trained.forget([3])


def test_a_certificate_waits_for_a_party_that_got_lost(
    trained: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained.forget([3]).commit()
    exchange = trained.active.transport.exchange
    lost: list[bool] = []

    def once(requests: Mapping[str, Message]) -> dict[str, Message]:
        if lost or any(isinstance(message, Attest) for message in requests.values()):
            lost.append(True)
            raise LOST
        return exchange(requests)

    monkeypatch.setattr(trained.active.transport, "exchange", once)
    with pytest.raises(PartyLost):
        issue(trained.active, trust={})


def test_a_request_that_is_repeated_tells_no_second_noisy_row(
    trained: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[Tensor] = []
    draw, left = noisy_request.noisy_row, [3]

    def noted(*given: object) -> Tensor:
        rows.append(draw(*given))  # type: ignore[arg-type]
        return rows[-1]

    monkeypatch.setattr(noisy_request, "noisy_row", noted)
    exchange = trained.active.transport.exchange

    def leaving(requests: Mapping[str, Message]) -> dict[str, Message]:
        if left[0] and any(isinstance(message, Stage) for message in requests.values()):
            left[0] -= 1
            raise LOST
        return exchange(requests)

    monkeypatch.setattr(trained.active.transport, "exchange", leaving)
    key = "ab" * 32  # as a command draws it, once
    for _ in range(4):
        try:
            method = Hidden(noise=2.0, moves=2, steps=5)
            trained.forget([3], settings=ForgetSettings(method=method, key=key))
        except PartyLost:
            trained.refresh(afresh=True)
    assert len(rows) == 4
    assert all(torch.equal(rows[0], row) for row in rows)


def test_an_answer_to_an_earlier_question_is_not_taken_for_one_to_this() -> None:
    from multiprocessing import Pipe

    from unlabel.link import join, pack, unpack
    from unlabel.wire import Done, encode

    transport = LinkedTransport(["shop"], timeout=1.0)
    near, remote = Pipe()
    transport.connect(near)
    remote.send_bytes(pack({"shop": join([encode(Done(0))])}, lost={}, call=0))
    with pytest.raises(PartyLost, match="asked before"):
        transport.ask(Describe(0))
    assert unpack(remote.recv_bytes())[0]["call"] == 1
