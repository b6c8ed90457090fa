"""Small parties of a federation: their kits, their tables, and the parties in this process."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unlabel.config import FederationFile
from unlabel.config.loader import dump, read_federation, read_party
from unlabel.data import ACTIVE
from unlabel.errors import PartyLost
from unlabel.progress import Watch
from unlabel.remote import connect
from unlabel.remote.certificates import Authority
from unlabel.remote.kit import Kit
from unlabel.remote.kit_files import PARTY
from unlabel.remote.party_home import PartyHome, open_party
from unlabel.remote.provision import provision, write_kits
from unlabel.wire import LocalTransport, Message

DAYS = 30
NOW = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0)
FEDERATION = """\
active: {label: y}
passive: [{name: shop}, {name: bank}]
"""

PASSIVE = ("shop", "loan")
PARTIES = (ACTIVE, *PASSIVE)
ROWS = 420
#: Names that can be looked for in bytes: no other text holds them.
LABELS = ("quokka", "numbat", "bilby", "potoroo")


@pytest.fixture(scope="session", autouse=True)
def small_keys() -> Iterator[None]:
    """Make keys a third shorter, in a quarter of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unlabel.remote.certificates.KEY_BITS", 2048)
        yield


# --- kits --------------------------------------------------------------------------------------


def settings_of(folder: Path, text: str = FEDERATION) -> FederationFile:
    """Read a federation's file from text."""
    path = folder / "federation.yaml"
    path.write_text(text, encoding="utf-8")
    return read_federation(path)


def provisioned(folder: Path, text: str, *, seed: int | None = None) -> dict[str, Path]:
    """Make the kits of a federation as `unlabel federation init` does; return the parties'.

    seed  from which all parties draw; one of each party's own if None
    """
    parties = settings_of(folder, text).agreement().parties
    kits = provision(folder / "federation.yaml", folder / "kits")
    for path in (kits[name] / PARTY for name in parties if seed is not None):
        path.write_text(dump(replace(read_party(path), seed=seed)), encoding="utf-8")
    return {name: kits[name] for name in parties}


def make_kits(folder: Path, text: str = FEDERATION) -> Authority:
    """Write the kits and the authority as of `NOW`, for `DAYS` days."""
    settings = replace(settings_of(folder, text), days=DAYS)
    authority = write_kits(settings, folder, NOW)
    assert authority is not None
    for path in folder.iterdir():
        if path.is_dir():
            path.chmod(0o700)
    return authority


def secret(path: Path, data: bytes) -> None:
    """Write a file that its owner alone may read."""
    path.write_bytes(data)
    path.chmod(0o600)


# --- tables ------------------------------------------------------------------------------------


def person(number: int) -> str:
    """Return the id of a person."""
    return f"wombat-{number:05d}"


def write_tables(folder: Path) -> dict[str, Path]:
    """Write a table a party: the same people, some missing here and there, in orders of their own.

    Pictures of four digits; the active party has the labels, the others half of the pixels each.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    chosen = np.flatnonzero(digits.target < len(LABELS))[:ROWS]
    pixels, labels = digits.data[chosen] / 16, digits.target[chosen]
    ids = np.array([person(number) for number in range(ROWS)])
    parts = {ACTIVE: pd.DataFrame({"id": ids, "animal": [LABELS[label] for label in labels]})}
    for place, name in enumerate(PASSIVE):
        columns = range(32 * place, 32 * place + 32)
        part = pd.DataFrame(pixels[:, columns], columns=[f"x{column}" for column in columns])
        part.insert(0, "id", ids)
        parts[name] = part.sample(frac=0.95, random_state=place)
    paths = {name: folder / f"{name}.csv" for name in parts}
    for name, part in parts.items():
        part.to_csv(paths[name], index=False)
    return paths


def animals(
    *,
    train: str = "epochs: 2, batch: 32",
    port: int = 8002,
    carrier: str = "direct",
    more: str = "",
) -> str:
    """Return the settings of a federation over `write_tables`."""
    return (
        f"name: small\n"
        f"server: {{host: localhost, port: {port}, carrier: {carrier}}}\n"
        f"active: {{label: animal}}\n"
        f"passive: [{', '.join(f'{{name: {name}}}' for name in PASSIVE)}]\n"
        f"model: {{bottom: mlp}}\n"
        f"train: {{{train}}}\n"
        f"{more}"
    )


# --- parties in this process -------------------------------------------------------------------


@dataclass
class LocalParties:
    """The passive parties of kits, opened in this process.

    kits   every party's, opened
    homes  the passive parties
    down   names of those who do not answer now
    """

    kits: Mapping[str, Kit]
    homes: Mapping[str, PartyHome]
    down: set[str] = field(default_factory=set)


class InterruptibleTransport(LocalTransport):
    """Parties in this process, reached through the codec; some may be down."""

    timeout = 60.0

    def __init__(self, parties: LocalParties) -> None:
        super().__init__({n: home.party for n, home in parties.homes.items()}, encoded=True)
        self.down = parties.down

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        lost = [party for party in requests if party in self.down]
        if lost:
            raise PartyLost(f"Party '{lost[0]}' did not answer.", lost)
        return super().exchange(requests)


class LocalClient:
    """Reaches parties in this process; where fewer will do, without those who are down."""

    def __init__(
        self, parties: LocalParties, *, fewer: bool, notify: Callable[[str], None]
    ) -> None:
        self.transport = self.pipelined = InterruptibleTransport(parties)
        self.sessions = 0
        self.notify = notify
        self.absent: tuple[str, ...] = ()
        self.fewer = fewer

    def connect(self, lost: Sequence[str] = ()) -> None:
        down = tuple(self.transport.down)
        if down and not self.fewer:
            raise PartyLost(f"Party '{down[0]}' is not connected.", down)
        self.absent = down
        self.sessions += 1

    def close(self) -> None:
        pass


@contextlib.contextmanager
def local_parties(kits: Mapping[str, Path], tables: Mapping[str, Path]) -> Iterator[LocalParties]:
    """Open the parties of kits here, and have commands reach them as if all were started."""
    opened = {name: Kit.open(kit) for name, kit in kits.items()}
    active = opened[ACTIVE]
    homes = {n: open_party(kit, tables[n]) for n, kit in opened.items() if n != ACTIVE}
    parties = LocalParties(opened, homes)
    connect.keep_table(active, tables[ACTIVE])

    def client_of(
        _: Kit,
        notify: Callable[[str], None],
        watch: Watch,
        *,
        fewer: bool = False,
        waits: bool = True,
    ) -> LocalClient:
        return LocalClient(parties, fewer=fewer, notify=notify)

    with pytest.MonkeyPatch.context() as patch, active.lock():
        patch.setattr(connect, "client_of", client_of)
        yield parties
