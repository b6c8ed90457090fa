"""What all requests of a run have told together: nothing that was sent is left out of the sum."""

from __future__ import annotations

import fcntl
import json
import math
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from cli.command_line import nothing_written, one_thread, unlabel
from forget.one_piece import federation
from forget.partner_view import watch
from report.certified import LABELS, make_run

from unlabel.defend.accountant import Account
from unlabel.errors import ForgetError, RunError
from unlabel.forget import ForgetSettings, plan, service
from unlabel.forget.methods.hidden import Hidden
from unlabel.forget.privacy_loss import PrivacyLoss, TotalLoss
from unlabel.party.deciding import updating
from unlabel.wire import Attest, Message, Transport

__all__ = ["one_thread"]  # a fixture for every test here

NOISY = Hidden(noise=2.0, moves=1, steps=5, batch=16, bottom_lr=1e-4)
SILENT = Hidden(steps=5, batch=16)
#: One row of norm 1 under noise 2, by hand, and whether the outcome was kept.
RHO, SENT = 2 / 4, 1 / 8
EACH = SENT + math.log(2)


@pytest.mark.parametrize("in_folder", [False, True])
def test_every_request_with_noise_counts_whatever_became_of_it(
    in_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run" if in_folder else None
    fed = federation(parties=2, epochs=1, folder=folder)
    fed.train()
    path = fed.folder / "active" / "secrets" / "account.json"

    def ask(method: Hidden, requests: int, *, keep: bool = False) -> None:
        outcome = fed.forget([1], settings=ForgetSettings(method=method, allow_collapse=True))
        told = outcome.result.privacy
        assert told is not None
        total = told["total"]
        assert total["requests"] == requests
        assert total["rho"] == pytest.approx(requests * RHO)
        assert total["information"] == pytest.approx(requests * EACH)
        assert total.keys() >= told.keys() - {"total"}
        alone = told["information"] == total["information"]
        assert (total["sentence"] in told["sentence"]) is not alone
        outcome.commit(force=True) if keep else outcome.rollback()

    ask(SILENT, 0)
    assert not path.exists()
    ask(NOISY, 1)
    ask(NOISY, 2)  # tried again
    monkeypatch.setattr(service, "execute", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        fed.forget([1], settings=ForgetSettings(method=NOISY, allow_collapse=True))
    monkeypatch.undo()
    # An open request has none, and adds none.
    assert (
        fed.forget(
            [1],
            settings=ForgetSettings(
                method="renormalise", allow_collapse=True, allow_disclosure=True
            ),
        ).result.privacy
        is None
    )
    assert fed.undecided is not None
    fed.undecided.rollback()
    ask(SILENT, 3)
    ask(NOISY, 4, keep=True)
    if in_folder:
        assert path.stat().st_mode & 0o077 == 0
        fed.purge()
        fed.recover()
        assert PrivacyLoss(fed.folder / "active").total().requests == 4


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_no_request_goes_uncounted_where_several_begin_at_once(tmp_path: Path) -> None:
    def spend() -> None:
        for _ in range(20):
            PrivacyLoss(tmp_path).add(Account(rho=1.0, sent=0.1))

    threads = [threading.Thread(target=spend) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert PrivacyLoss(tmp_path).total().requests == 60


def test_nothing_is_counted_or_signed_while_an_update_replaces_the_run(tmp_path: Path) -> None:
    fed = federation(parties=2, epochs=1, folder=tmp_path / "run")
    fed.train()
    fed.forget([0], settings=ForgetSettings(allow_collapse=True)).commit(force=True)
    before = sorted(path for path in fed.folder.rglob("*") if path.is_file())
    with updating(fed.folder / "active"):
        for act in (fed.certificate, lambda: fed.privacy_loss.add(Account(rho=1.0, sent=0.1))):
            with pytest.raises(RunError, match=r"An update of run .* is under way"):
                act()
    after = {path for path in fed.folder.rglob("*") if path.is_file()}
    assert after - set(before) <= {fed.folder / "active" / "updating"}


def test_an_update_whose_lock_was_removed_meanwhile_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = fcntl.flock

    def late(handle: int, how: int) -> None:  # another update fails, and a third one begins
        if how == fcntl.LOCK_EX | fcntl.LOCK_NB:
            (tmp_path / "updating").unlink()
            (tmp_path / "updating").touch()
        take(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(RunError, match="is under way"), updating(tmp_path):
        pytest.fail("it began")


def test_a_sum_that_reaches_ln_c_is_no_guarantee(tmp_path: Path) -> None:
    spending = PrivacyLoss(tmp_path)
    for _ in range(3):
        total = spending.add(Account(rho=2.0, sent=0.5, decisions=1))
    assert total == spending.total() == TotalLoss(3, Account(6.0, 1.5, 3))
    assert total.to_json(10)["guarantee"] == "no guarantee"  # 1.5 + 3 ln 2 = 3.58 > ln 10 = 2.30
    assert total.to_json(10)["sentence"].endswith(
        "3 of them with noise, tell together: no guarantee."
    )
    assert total.to_json(100)["guarantee"] == "at most 3.579 of 4.605 nats"


def test_who_is_asked_to_sign_for_a_silent_request_sees_that_it_was_kept(tmp_path: Path) -> None:
    fed = federation(parties=2, epochs=1, folder=tmp_path / "run")
    fed.train()

    def ask(method: Hidden, *, keep: bool) -> str:
        settings = ForgetSettings(method=method, allow_collapse=True)
        outcome = fed.forget([len(fed.forgotten.labels)], settings=settings)
        outcome.commit(force=True) if keep else outcome.rollback()
        return outcome.result.request

    first, dropped = ask(SILENT, keep=True), ask(SILENT, keep=False)
    assert fed.privacy_loss.total() == TotalLoss()
    with pytest.raises(ForgetError, match="was rolled back"):
        fed.certificate(request=dropped)
    assert fed.privacy_loss.total() == TotalLoss()

    plain = fed.active.transport
    fed.active.transport = Silenced(plain)
    with pytest.raises(KeyboardInterrupt):
        fed.certificate()
    fed.active.transport = plain
    counted = TotalLoss(0, Account(0.0, 0.0, 1), (first,))
    assert fed.privacy_loss.total() == counted  # before the first message
    certified = fed.certificate()
    assert fed.privacy_loss.total() == counted  # and once
    assert "know that the request was kept" in certified.privacy
    # One decision among the five labels, of which four are left: ln 2 of ln 5.
    assert "0 of them with noise and 1 certified, tell together: at most 0.6931 of 1.609 nats" in (
        certified.privacy
    )
    noisy = ask(NOISY, keep=True)  # that it was kept was seen, and counted, when it was decided
    total = fed.privacy_loss.total()
    assert (total.requests, total.account.decisions, total.certified) == (1, 2, (first,))
    assert fed.certificate(request=noisy).privacy == ""
    assert fed.privacy_loss.total() == total
    told = fed.forget([2], settings=ForgetSettings(method=SILENT, allow_collapse=True))
    assert told.result.privacy is not None
    assert "1 of them with noise and 1 certified" in told.result.privacy["sentence"]


class Silenced(Transport):
    """Dies where a party is to be asked to sign."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner.parties)
        self._inner = inner

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        if any(isinstance(message, Attest) for message in requests.values()):
            raise KeyboardInterrupt
        return self._inner.exchange(requests)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", "[" * 99_999, '{"requests": 1, "rho": "x", "sent": 0, "decisions": 0}'),
        '{"requests": 1, "rho": -1, "sent": 0, "decisions": 0}',
        '{"requests": 1, "rho": NaN, "sent": 0, "decisions": 0}',
        '{"requests": 1, "rho": 1e999, "sent": 0, "decisions": 0}',
        '{"requests": 1, "rho": 1, "sent": 0, "decisions": 0, "certified": 1}',
    ],
)
def test_a_damaged_account_is_named_before_anything_is_sent(text: str, tmp_path: Path) -> None:
    fed = federation(parties=2, epochs=1, folder=tmp_path / "run")
    fed.train()
    path = tmp_path / "run" / "active" / "secrets" / "account.json"
    path.parent.mkdir()
    path.write_text(text)
    watched = watch(fed)
    work = plan(fed, labels=[1], settings=ForgetSettings(method=NOISY))
    asked = len(watched.seen["passive-1"])  # where everybody stands
    with nothing_written(tmp_path), pytest.raises(RunError):
        service.carry_out(fed, work)
    assert len(watched.seen["passive-1"]) == asked


def test_the_command_says_it_and_the_audit_keeps_it(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    words = [*("forget", run, "--label", LABELS[0], "--method", "hidden")]
    words += ["--set", "noise=2", "--set", "moves=1"]
    assert "All hidden requests so far" not in unlabel(*words).err
    assert unlabel("rollback", run).code == 0
    assert "All hidden requests so far, 2 of them with noise" in unlabel(*words).err
    unlabel("audit", run)
    kept = json.loads((run / "active" / "audit.json").read_text())["privacy"]
    assert kept["total"]["information"] == pytest.approx(2 * EACH)
    assert "All hidden requests so far" in kept["sentence"]
    assert unlabel("report", run).code == 0
    assert "All hidden requests so far" in (run / "report.html").read_text()
    assert unlabel("rollback", run).code == 0
    assert unlabel("forget", run, "--label", LABELS[0]).code == 0
    assert unlabel("commit", run, "--force").code == 0
    told = unlabel("certificate", run)
    assert "know that the request was kept" in " ".join(told.err.split())
    assert (
        "2 of them with noise and 1 certified"
        in unlabel("certificate", run, "--json").json["privacy"]
    )
