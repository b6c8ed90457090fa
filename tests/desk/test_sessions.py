"""Sessions: when they end, and what lies in the store."""

from __future__ import annotations

import re

import pytest

from desk.test_accounts import PASSWORD, Clock, accounts, clock, store
from unlabel.desk.accounts import Accounts
from unlabel.desk.sessions import IDLE, LONGEST, MOST, Sessions, draw, fits, form_token
from unlabel.desk.store import Store

__all__ = ["accounts", "clock", "store"]


@pytest.fixture
def sessions(store: Store, clock: Clock) -> Sessions:
    return Sessions(store, now=clock)


@pytest.fixture
def token(sessions: Sessions, accounts: Accounts) -> str:
    return sessions.begin(accounts.add("ada", "approver", PASSWORD))


def test_a_token_stands_for_its_account(sessions: Sessions, token: str) -> None:
    session = sessions.find(token)
    assert session is not None
    assert (session.account.name, session.account.role) == ("ada", "approver")
    assert sessions.find(draw()) is None
    assert sessions.find("") is None
    assert sessions.find(token[:-1]) is None


def test_tokens_have_256_bits_and_are_not_kept(store: Store, token: str) -> None:
    assert re.fullmatch(r"[\w-]{43}", token)
    assert len({draw() for _ in range(100)}) == 100
    kept = b"".join(path.read_bytes() for path in store.path.parent.iterdir())
    assert token.encode() not in kept
    assert form_token(token).encode() not in kept


def test_a_session_ends_after_half_an_hour_in_which_nobody_did_anything(
    sessions: Sessions, token: str, clock: Clock
) -> None:
    for _ in range(3):
        clock.time += IDLE - 1
        assert sessions.find(token)
    for _ in range(2):  # looking on is not doing
        clock.time += IDLE / 2
        live = sessions.find(token, using=False)
    assert live is None
    assert sessions.find(token) is None


def test_a_session_ends_after_twelve_hours_whatever_is_done(
    sessions: Sessions, token: str, clock: Clock
) -> None:
    began = clock.time
    while sessions.find(token):
        clock.time += IDLE / 3
    assert LONGEST <= clock.time - began < LONGEST + IDLE


def test_a_session_that_was_ended_is_not_found(sessions: Sessions, token: str) -> None:
    sessions.end(token)
    assert sessions.find(token) is None
    sessions.end(token)


def test_an_account_has_so_many_sessions_at_once_and_the_oldest_end(
    sessions: Sessions, accounts: Accounts, token: str, clock: Clock
) -> None:
    (account,) = accounts.all()
    tokens = [token]
    for _ in range(MOST):
        clock.time += 1
        tokens.append(sessions.begin(account))
    assert [sessions.find(each) is not None for each in tokens] == [False, *[True] * MOST]


def test_ended_sessions_leave_the_store(
    sessions: Sessions, accounts: Accounts, store: Store, token: str, clock: Clock
) -> None:
    clock.time += IDLE + 1
    sessions.begin(accounts.all()[0])
    assert len(store.rows("SELECT * FROM sessions")) == 1


def test_the_token_of_a_form_fits_its_session_alone(token: str) -> None:
    assert fits(token, form_token(token))
    for brought in ("", token, form_token(draw()), form_token(token)[:-1], "\udcff"):
        assert not fits(token, brought)


def test_a_role_that_changes_changes_in_sessions_that_are_open(
    sessions: Sessions, store: Store, token: str
) -> None:
    with store.transaction() as connection:
        connection.execute("UPDATE accounts SET role = 'auditor'")
    session = sessions.find(token)
    assert session is not None
    assert session.account.role == "auditor"
