"""A kit: the one folder from which a party takes part in a federation.

KIT/
  agreement.yaml   what all parties agreed on, the same in every kit
  party.yaml       this party's own settings
  engine/          the engine's files for this site: certificate, key, rules
  admin/           those of the user who starts jobs; at the active party only
  state/           made at the first start, readable by its owner only:
    run/             active party: the folder of the run
    PARTY/           passive party: versions, staged weights, ledger, transcript, secrets
    logs/
    secrets/         the seed of this party's random draws
    lock             held by the process that keeps the party running
    serving          the id of that process, while it serves
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unlabel.data import ACTIVE
from unlabel.defend import DefendSettings
from unlabel.errors import RunError, SettingsError
from unlabel.files import OWNER_ONLY, write_atomically, writing
from unlabel.link import links_folder
from unlabel.operate.agreement import Agreement, read_agreement
from unlabel.operate.certificates import ROLE, Identity, check_certificate
from unlabel.operate.partyfile import PartyFile, read_party
from unlabel.operate.rules import place_storage
from unlabel.party import Policy, WatchSettings
from unlabel.train import AuditSettings, RunConfig
from unlabel.train.config import ActiveTable, PassiveTable

AGREEMENT, PARTY = "agreement.yaml", "party.yaml"
ROOT = "rootCA.pem"
#: Bits of a secret seed; generators of random numbers take no more.
SEED_BITS = 63
#: The name of the user who starts jobs; the engine wants the form of an e-mail address.
LEAD = f"{ROLE}@{ACTIVE}.unlabel"


@dataclass(frozen=True)
class Kit:
    """A party's kit.

    folder     where it lies
    agreement  what all parties agreed on
    digest     of the agreement
    party      what this party decides for itself
    """

    folder: Path
    agreement: Agreement
    digest: str
    party: PartyFile

    @classmethod
    def open(cls, folder: str | Path, now: datetime.datetime | None = None) -> Kit:
        """Open a kit that can be used now: whole, of one party, with a valid certificate."""
        kit = cls.read(folder)
        kit.check(now)
        return kit

    @classmethod
    def read(cls, folder: str | Path) -> Kit:
        """Read a kit's files, whether its certificate is valid or not."""
        path = Path(folder).resolve()
        if not path.is_dir():
            raise RunError(f"There is no kit '{folder}'; give the folder you were handed.")
        for name in (PARTY, AGREEMENT, "engine/startup"):
            if not (path / name).exists():
                raise RunError(
                    f"'{folder}' is not a party's kit: it has no {name}; give the folder that "
                    f"`unlabel federation init` made for this party."
                )
        party = read_party(path / PARTY)
        agreement, digest = read_agreement(path / AGREEMENT)
        if party.agreement != digest:
            raise RunError(
                f"'{path / AGREEMENT}' has changed since this kit was made (its digest is "
                f"{digest[:12]}, party.yaml says {str(party.agreement)[:12]}); put the file back."
            )
        if party.name not in agreement.parties:
            raise RunError(
                f"'{path / PARTY}' is of party '{party.name}', which is none of the agreement's: "
                f"{', '.join(agreement.parties)}."
            )
        return cls(path, agreement, digest, party)

    def check(self, now: datetime.datetime | None = None) -> None:
        """Raise unless every certificate in the kit is this party's and valid now."""
        for folder, base, identity in self.certificates():
            check_certificate(
                folder / f"{base}.crt",
                folder / f"{base}.key",
                folder / ROOT,
                identity,
                now,
            )

    def certificates(self) -> list[tuple[Path, str, Identity]]:
        """Return folder, base name and owner of each certificate that the kit must hold."""
        startup = self.engine / "startup"
        if not self.is_active:
            return [(startup, "client", member_identity(self.name))]
        return [
            (startup, "server", server_identity(self.agreement.server.host)),
            (self.admin / "startup", "client", lead_identity()),
        ]

    @property
    def name(self) -> str:
        """The name of the party."""
        return self.party.name

    @property
    def is_active(self) -> bool:
        """Whether this is the kit of the party with the labels."""
        return self.party.is_active

    @property
    def engine(self) -> Path:
        """The engine's folder for this site."""
        return self.folder / "engine"

    @property
    def admin(self) -> Path:
        """The engine's folder for the user who starts jobs; the active party's alone."""
        return self.folder / "admin"

    @property
    def state(self) -> Path:
        """Everything that this party keeps."""
        return self.folder / "state"

    @property
    def run(self) -> Path:
        """The folder of the run; the active party's alone."""
        return self.state / "run"

    @property
    def home(self) -> Path:
        """The party's own folder of versions, ledger and secrets."""
        return self.run / ACTIVE if self.is_active else self.state / self.name

    @property
    def links(self) -> Path:
        """The folder of the lines between processes of this house."""
        return links_folder(self.state, self.name)

    @property
    def logs(self) -> Path:
        """The folder of logs."""
        return self.state / "logs"

    @property
    def policy(self) -> Policy:
        """What a passive party serves."""
        return self.party.policy or Policy()

    def prepare(self) -> None:
        """Make the folder of the party's state, which nobody else may read."""
        with writing(self.state):
            for folder in (self.state, self.logs):
                folder.mkdir(exist_ok=True)
                folder.chmod(0o700)
        if self.is_active:
            place_storage(self.engine / "local", self.state)

    @contextlib.contextmanager
    def lock(self, name: str = "lock") -> Iterator[None]:
        """Hold the kit, so that no second process works on the same state.

        The process that keeps a party running holds `lock`, a command holds `command`.
        """
        self.prepare()
        path = self.state / name
        with writing(path):
            # Opened without cutting it off: it tells who holds the kit.
            handle = os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
                raise RunError(
                    f"This kit is already open in process {holder or 'of an unknown number'}; "
                    f"end that one first, or wait for it ('{self.folder}')."
                ) from error
            with writing(path):
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(handle)  # which also lets the lock go

    def expect_active(self) -> None:
        """Raise unless this is the kit from which commands are given."""
        if not self.is_active:
            raise SettingsError(
                f"'{self.folder}' is the kit of party '{self.name}'; commands are given at the "
                f"active party."
            )

    def is_running(self) -> bool:
        """Return whether a process keeps this party running."""
        try:
            handle = os.open(self.state / "lock", os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def seed(self) -> int:
        """Return the seed of this party's random draws: its own choice, or a secret one."""
        if self.party.seed is not None:
            return self.party.seed
        path = self.state / "secrets" / "seed"
        if not path.exists():
            self.prepare()
            with writing(path):
                path.parent.mkdir(mode=0o700, exist_ok=True)
            write_atomically(path, f"{secrets.randbits(SEED_BITS)}\n".encode(), mode=OWNER_ONLY)
        try:
            return int(path.read_text(encoding="ascii"))
        except (OSError, ValueError) as error:
            raise RunError(
                f"The secret seed '{path}' cannot be read; restore it from a backup."
            ) from error

    def run_config(self, table: Path) -> RunConfig:
        """Return this party's side of the run as settings, with its own table only."""
        party, agreed = self.party, self.agreement
        code = self.folder if party.code is None else self.folder / party.code
        train = party.training(agreed.train, self.seed())
        if party.is_active:
            assert party.label is not None  # `PartyFile` has seen to it
            return RunConfig(
                active=ActiveTable(
                    table.resolve(),
                    party.label,
                    party.id,
                    party.features,
                    party.categories,
                    party.missing,
                    party.text,
                ),
                passive=[PassiveTable(name=name, table=None) for name in agreed.passive],
                model=agreed.model.under(self.folder),
                train=train,
                align=agreed.align,
                defend=DefendSettings(gradients=party.defend),
                watch=party.watch or WatchSettings(),
                audit=party.audit or AuditSettings(),
                code=code,
            )
        return RunConfig(
            # Where the labels lie is not this party's to know.
            active=ActiveTable(table=Path(), label="", features="none"),
            passive=[
                PassiveTable(
                    self.name,
                    table.resolve(),
                    party.id,
                    party.features,
                    categories=party.categories,
                    missing=party.missing,
                    text=party.text,
                )
            ],
            model=agreed.model.under(self.folder),
            train=train,
            align=agreed.align,
            policy=self.policy,
            defend=DefendSettings(embeddings=party.defend),
            code=code,
        )


def server_identity(host: str) -> Identity:
    """Return whom the server's certificate is for."""
    return Identity(host, ACTIVE, host=host)


def lead_identity() -> Identity:
    """Return whom the certificate of the user who starts jobs is for."""
    return Identity(LEAD, ACTIVE, role=ROLE)


def member_identity(name: str) -> Identity:
    """Return whom a passive party's certificate is for."""
    return Identity(name, name)
