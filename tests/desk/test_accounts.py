"""Accounts: passwords that are kept and compared, and guesses that get slower."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from unlabel.desk import accounts as module
from unlabel.desk import sessions
from unlabel.desk.accounts import FREE, LONGEST_WAIT, Account, Accounts, SignInRefused
from unlabel.desk.sessions import Sessions
from unlabel.desk.store import Store
from unlabel.errors import RunError, SettingsError, UnlabelError

PASSWORD = "seven brown otters"
#: The same algorithm, for tests.
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


class Clock:
    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "desk" / "desk.sqlite", (module.SCHEMA, sessions.SCHEMA))


@pytest.fixture
def accounts(store: Store, clock: Clock) -> Accounts:
    return Accounts(store, hasher=QUICK, now=clock)


def refused(accounts: Accounts, name: str, password: str, address: str = "a") -> SignInRefused:
    with pytest.raises(SignInRefused) as caught:
        accounts.sign_in(name, password, address)
    return caught.value


def test_an_account_is_opened_by_its_password_and_by_no_other(accounts: Accounts) -> None:
    accounts.add("Ada", "caseworker", PASSWORD)
    assert accounts.sign_in(" ADA ", PASSWORD, "a") == Account("ada", "caseworker")
    for wrong in ("", PASSWORD[:-1], PASSWORD + " ", PASSWORD.upper(), "x" * 100_000, "\udcff"):
        assert refused(accounts, "ada", wrong).wait == 0
        accounts.sign_in("ada", PASSWORD, "a")


def test_a_password_is_the_same_however_a_keyboard_writes_it(accounts: Accounts) -> None:
    accounts.add("ada", "caseworker", "drei gr\u00fcne M\u00f6wen")
    accounts.sign_in("ada", "drei gru\u0308ne Mo\u0308wen", "a")


def test_neither_passwords_nor_what_is_typed_for_a_name_lie_in_the_store(
    accounts: Accounts, store: Store
) -> None:
    accounts.add("ada", "caseworker", PASSWORD)
    refused(accounts, "a password typed as a name", "x")
    kept = b"".join(path.read_bytes() for path in store.path.parent.iterdir())
    assert b"$argon2id$" in kept
    assert PASSWORD.encode() not in kept
    assert b"typed as a name" not in kept
    assert [os.stat(path).st_mode & 0o077 for path in store.path.parent.iterdir()] == [0] * 3


def test_hashes_are_those_that_are_recommended_and_older_ones_are_made_anew(store: Store) -> None:
    hasher = PasswordHasher()
    assert (hasher.memory_cost, hasher.time_cost) >= (64 * 1024, 3)
    Accounts(store, hasher=QUICK).add("ada", "caseworker", PASSWORD)
    Accounts(store).sign_in("ada", PASSWORD, "a")
    (row,) = store.rows("SELECT password FROM accounts")
    assert not hasher.check_needs_rehash(row["password"])
    Accounts(store).sign_in("ada", PASSWORD, "a")


@pytest.mark.parametrize(
    "password",
    [
        "",
        "short",
        "eleven char",
        "aaaaaaaaaaaaaaaa",
        "Password1234",
        "I am ada lovelace",
        "x y" * 99,
    ],
)
def test_a_weak_password_is_refused_and_changes_nothing(accounts: Accounts, password: str) -> None:
    with pytest.raises(SettingsError):
        accounts.add("lovelace", "caseworker", password)
    assert accounts.all() == []


@pytest.mark.parametrize(
    "name", ["", "-ada", "a b", "ada\n", "../ada", "<ada>", "a" * 65, "\u00e4da"]
)
def test_a_name_is_of_plain_letters(accounts: Accounts, name: str) -> None:
    if name == "ada\n":
        assert accounts.add(name, "auditor", PASSWORD).name == "ada"
        return
    with pytest.raises(SettingsError):
        accounts.add(name, "auditor", PASSWORD)


def test_roles_are_three_and_names_are_taken_once(accounts: Accounts) -> None:
    with pytest.raises(SettingsError, match="Did you mean 'approver'"):
        accounts.add("ada", "aprover", PASSWORD)
    accounts.add("ada", "approver", PASSWORD)
    with pytest.raises(RunError, match="already"):
        accounts.add("ADA", "auditor", "four other wild words")
    accounts.sign_in("ada", PASSWORD, "a")
    for act in (accounts.remove, lambda name: accounts.set_password(name, PASSWORD)):
        with pytest.raises(RunError, match="Did you mean 'ada'"):
            act("adaa")


def test_guesses_wait_longer_and_longer_also_for_names_that_nobody_has(
    accounts: Accounts, clock: Clock
) -> None:
    accounts.add("ada", "caseworker", PASSWORD)
    waits: dict[str, list[float]] = {"ada": [], "nobody": []}
    for name, seen in waits.items():
        for attempt in range(FREE["name"] + 12):
            address = f"{name} {attempt}"
            error = refused(accounts, name, "wrong wrong wrong", address)
            while error.wait:
                clock.time += error.wait
                seen.append(error.wait)
                error = refused(accounts, name, "wrong wrong wrong", address)
        assert refused(accounts, name, PASSWORD).wait > 0  # also who knows the password
    assert waits["ada"] == waits["nobody"]
    assert waits["ada"][:4] == [1, 2, 4, 8]
    assert max(waits["ada"]) == LONGEST_WAIT
    accounts.sign_in("ada", PASSWORD, "a")  # failures of long ago are forgotten
    assert refused(accounts, "ada", "wrong wrong wrong").wait == 0


def test_one_address_that_guesses_many_names_waits_and_others_do_not(
    accounts: Accounts, clock: Clock
) -> None:
    accounts.add("ada", "caseworker", PASSWORD)
    for number in range(FREE["address"]):
        assert refused(accounts, f"name{number}", PASSWORD, "elsewhere").wait == 0
    assert refused(accounts, "another", PASSWORD, "elsewhere").wait > 0
    assert refused(accounts, "ada", PASSWORD, "elsewhere").wait > 0
    accounts.sign_in("ada", PASSWORD, "here")
    clock.time += module.FORGET + 1
    accounts.sign_in("ada", PASSWORD, "elsewhere")


def test_signing_in_oneself_does_not_free_an_address_that_guesses(accounts: Accounts) -> None:
    accounts.add("eve", "auditor", PASSWORD)
    for number in range(FREE["address"]):
        accounts.sign_in("eve", PASSWORD, "elsewhere")
        assert refused(accounts, f"name{number}", PASSWORD, "elsewhere").wait == 0
    assert refused(accounts, "eve", PASSWORD, "elsewhere").wait > 0


def test_many_guesses_at_once_are_no_more_than_many_in_turn(accounts: Accounts) -> None:
    accounts.add("ada", "caseworker", PASSWORD)
    waits = []

    def guess(number: int) -> None:
        try:
            accounts.sign_in("ada", f"wrong guess {number}", f"address {number}")
        except UnlabelError as error:
            waits.append(getattr(error, "wait", -1))

    threads = [threading.Thread(target=guess, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(waits) == 24
    assert sum(wait == 0 for wait in waits) == FREE["name"]


def test_a_name_that_nobody_has_costs_the_same_comparison(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts.add("ada", "caseworker", PASSWORD)
    compared = []
    verify = PasswordHasher.verify

    def noted(self: PasswordHasher, hashed: str | bytes, password: str | bytes) -> bool:
        compared.append(str(hashed).rpartition("$")[0].rpartition("$")[0])
        return bool(verify(self, hashed, password))

    monkeypatch.setattr(PasswordHasher, "verify", noted)
    refused(accounts, "ada", "wrong wrong wrong")
    refused(accounts, "nobody", "wrong wrong wrong")
    assert len(compared) == 2
    assert compared[0] == compared[1]


def test_removing_an_account_or_changing_its_password_ends_its_sessions(
    accounts: Accounts, store: Store, clock: Clock
) -> None:
    opened = Sessions(store, now=clock)
    ada, bob = (accounts.add(name, "caseworker", PASSWORD) for name in ("ada", "bob"))
    tokens = {each.name: opened.begin(each) for each in (ada, bob)}
    accounts.set_password("ada", "other words than these")
    assert opened.find(tokens["ada"]) is None
    assert opened.find(tokens["bob"]) is not None
    accounts.remove("bob")
    assert opened.find(tokens["bob"]) is None
    assert accounts.all() == [ada]
    accounts.sign_in("ada", "other words than these", "a")
    refused(accounts, "ada", PASSWORD)
    refused(accounts, "bob", PASSWORD)


def test_a_damaged_hash_opens_nothing(accounts: Accounts, store: Store) -> None:
    accounts.add("ada", "caseworker", PASSWORD)
    with store.transaction() as connection:
        connection.execute("UPDATE accounts SET password = ''")
    with pytest.raises(RunError, match="unlabel account"):
        accounts.sign_in("ada", "", "a")
