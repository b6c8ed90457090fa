"""A desk to look around in: a small run, three requests in different states, three accounts."""

from __future__ import annotations

import secrets
import shutil
from datetime import timedelta
from pathlib import Path

from unlabel.cli.demo import demo_config
from unlabel.cli.desk import at_terminal
from unlabel.cli.output import messages, print_table, say
from unlabel.cli.progress import TrainingBars
from unlabel.compat import run_file
from unlabel.desk.accounts import Account, Role
from unlabel.desk.answering import digest, keep_letter, letter_facts, note_sent
from unlabel.desk.demands import Demand
from unlabel.desk.letter import draft
from unlabel.desk.office import Desk
from unlabel.desk.place import Place
from unlabel.desk.worker import Worker
from unlabel.errors import RunError
from unlabel.federation import Federation
from unlabel.files import write_atomically

ACCOUNTS: dict[str, Role] = {"ada": "caseworker", "bert": "approver", "eve": "auditor"}
SETTINGS = """\
two_persons: true
organisation: Example Bank, Data Protection
contact: privacy@example.org
"""
#: Lies in desks of demos alone: the accounts of no other get new passwords.
MARK = "demo"
DEMAND = b"Please forget what you have stored about me.\n"


def prepare(run: Path) -> None:
    """Make the run and its desk where they are not there, and accounts with new passwords."""
    if run_file(run).is_file() and not (Place.of(run).desk / MARK).is_file():
        raise RunError(f"'{run}' is a run already, and none of the demo; name another folder.")
    if not run_file(run).is_file():
        federation = Federation.create(demo_config("blind", seed=0), run)
        with TrainingBars(messages, "training") as bars:
            federation.train(watchers=[bars], watch=bars.watch)
        _requests(run)
    desk = Desk.open(run)
    rows = [["account", "role", "password"]]
    for name, role in ACCOUNTS.items():
        password = "-".join(secrets.token_hex(2) for _ in range(4))
        if name in {each.name for each in desk.accounts.all()}:
            desk.accounts.set_password(name, password)
            desk.trail.add("password changed", None, at_terminal(), account=name)
        else:
            desk.accounts.add(name, role, password)
            desk.trail.add("account added", None, at_terminal(), account=name, role=role)
        rows.append([name, role, password])
    desk.close()
    print_table("Accounts of this demo", rows)


def _requests(run: Path) -> None:
    """Carry one out until its letter was sent, have one wait for a decision, take one up."""
    place = Place.of(run)
    shutil.rmtree(place.desk, ignore_errors=True)
    write_atomically(place.desk / "desk.yaml", SETTINGS.encode(), mode=0o600)
    write_atomically(place.desk / MARK, b"", mode=0o600)
    place.desk.chmod(0o700)
    desk = Desk.open(run)
    worker, today = Worker(desk), desk.today()
    ada, bert = Account("ada", "caseworker"), Account("bert", "approver")

    def work() -> None:
        while worker.work():
            pass

    def receive(
        days: int, reference: str, *, labels: tuple[str, ...] = (), ids: tuple[str, ...] = ()
    ) -> int:
        received, file = today - timedelta(days=days), ("demand.txt", DEMAND)
        number = desk.receive(Demand(labels, ids, received, reference, file=file), ada)
        work()
        return number

    with place.held():
        say("carrying out three requests")
        first = receive(20, "2026/17", ids=("17",))
        desk.start(first, "refit", ada)
        work()
        desk.decide(first, "commit", ada)
        desk.confirm(first, desk.requests.get(first).fact("proposal")["id"], "confirm", bert)
        work()
        desk.purge(first, ada)
        work()
        desk.certify(first, ada)
        work()
        letter = draft(letter_facts(desk, desk.requests.get(first)), "en")
        keep_letter(desk, first, "en", letter, ada)
        note_sent(desk, first, digest(letter), today, ada)
        second = receive(25, "2026/18", labels=("3",))
        receive(2, "2026/19", ids=("42", "108"))
        desk.start(second, "refit", ada)
        work()
    desk.close()
