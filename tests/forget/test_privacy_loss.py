"""What all requests of a run have told together: nothing that was sent is left out of the sum."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from cli.command_line import nothing_written, one_thread, unlabel
from forget.one_piece import federation
from forget.partner_view import watch
from report.certified import LABELS, make_run

from unlabel.defend.accountant import Account
from unlabel.errors import RunError
from unlabel.forget import ForgetSettings, plan, service
from unlabel.forget.methods.hidden import Hidden
from unlabel.forget.privacy_loss import PrivacyLoss, TotalLoss

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
            [1], settings=ForgetSettings(method="renormalise", allow_collapse=True)
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


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", "[" * 99_999, '{"requests": 1, "rho": "x", "sent": 0, "decisions": 0}'),
        '{"requests": 1, "rho": -1, "sent": 0, "decisions": 0}',
        '{"requests": 1, "rho": NaN, "sent": 0, "decisions": 0}',
        '{"requests": 1, "rho": 1e999, "sent": 0, "decisions": 0}',
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
