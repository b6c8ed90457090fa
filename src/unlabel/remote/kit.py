"""A kit: the one folder from which a party takes part in a federation.

KIT/
  agreement.yaml   what all parties agreed on, the same in every kit
  party.yaml       this party's own settings
  manifest.json    the digests of what the kit's maker put into it, signed
  certificates/    those of the authority and of this party, and the party's key
  secrets/         the key that it signs with, whose public half every kit's agreement names
  state/           made at the first start, readable by its owner only:
    run/             active party: the folder of the run
    PARTY/           passive party: versions, staged weights, ledger, transcript, secrets
    logs/
    secrets/         the seed of this party's random draws
    engine/, admin/  the engine's files, where it carries: written anew at every start
    lock             held by the process that keeps the party running
    serving          the id of that process, while it serves
    command, wanted, predicting   who has the session with the parties (`turns.py`)
"""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from unlabel.config import (
    ActiveTable,
    Agreement,
    AuditSettings,
    DefendSettings,
    MonitorSettings,
    PartyFile,
    PassiveTable,
    Policy,
    RunConfig,
)
from unlabel.config.loader import read_agreement, read_party
from unlabel.data import ACTIVE
from unlabel.defend.defence import check_defences
from unlabel.errors import RunError, SettingsError
from unlabel.files import LOCK, OWNER_ONLY, is_locked, locked, write_atomically, writing
from unlabel.link import links_folder
from unlabel.models.registry import check_models
from unlabel.remote.certificates import check_certificate, expect_private
from unlabel.remote.kit_files import (
    AGREEMENT,
    CERTIFICATES,
    PARTY,
    Credential,
    credentials,
    is_of_old,
)
from unlabel.remote.manifest import check_files
from unlabel.remote.revocation import is_revoked
from unlabel.signing import KEY as SIGNING_KEY
from unlabel.signing import Signer, fingerprint

#: Bits of a secret seed; generators of random numbers take no more.
SEED_BITS = 63


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
            raise RunError(
                f"There is no kit '{folder}'; give the folder you were handed.", code="no-kit"
            )
        for name in (PARTY, AGREEMENT, CERTIFICATES):
            if not (path / name).exists() and not (name == CERTIFICATES and is_of_old(path)):
                raise RunError(
                    f"'{folder}' is not a party's kit: it has no {name}; give the folder that "
                    f"`unlabel federation init` made for this party.",
                    code="no-kit",
                )
        party = read_party(path / PARTY)
        agreement, digest = read_agreement(path / AGREEMENT)
        if party.agreement != digest:
            raise RunError(
                f"'{path / AGREEMENT}' has changed since this kit was made (its digest is "
                f"{digest[:12]}, party.yaml says {str(party.agreement)[:12]}); put the file back.",
                code="kit-changed",
            )
        if party.name not in agreement.parties:
            raise RunError(
                f"'{path / PARTY}' is of party '{party.name}', which is none of the agreement's: "
                f"{', '.join(agreement.parties)}.",
                code="other-party",
            )
        check_names(agreement, party)
        return cls(path, agreement, digest, party)

    def check(self, now: datetime.datetime | None = None) -> None:
        """Raise unless all files are as handed out, and every certificate is this party's now."""
        check_files(self)
        for each in self.credentials():
            shown = check_certificate(each.certificate, each.key, each.root, each.owner, now)
            if is_revoked(self, shown.serial_number):
                raise RunError(
                    f"Certificate '{each.certificate}' was revoked; have the party certified anew "
                    f"(`unlabel federation request`).",
                    code="revoked",
                )
        self._check_signing_key()

    def _check_signing_key(self) -> None:
        """Raise unless the party has the signing key that the agreement names, if it names any."""
        pinned, path = self.agreement.trust.get(self.name), self.folder / SIGNING_KEY
        if pinned is None:
            return
        # A signer would make a key in place of one that is missing.
        if not path.is_file() or Signer(self.folder).public != pinned:
            raise RunError(
                f"Expected the signing key '{path}' to be the one that the agreement names for "
                f"'{self.name}', of fingerprint {fingerprint(pinned)}; put that one there.",
                code="wrong-key",
            )
        expect_private(path)

    def use_signing_key(self) -> None:
        """Have the party sign with the key that the agreement names, if it names any.

        A link, so that there is one key, and state that moves to a new kit signs with the new one.
        """
        link = self.home / SIGNING_KEY
        target = os.path.relpath(self.folder / SIGNING_KEY, link.parent)
        if not self.agreement.trust or (link.is_symlink() and os.readlink(link) == target):
            return
        draft = link.with_name(f"{link.name}.part")
        with writing(link):
            link.parent.mkdir(parents=True, exist_ok=True)
            draft.unlink(missing_ok=True)
            draft.symlink_to(target)
            draft.replace(link)

    def credentials(self) -> list[Credential]:
        """Return where each certificate that the kit must hold lies, the party's own first."""
        return credentials(self.folder, self.name, self.agreement.server)

    @property
    def certificate(self) -> Path:
        """The party's certificate, with those between it and the authority's, if there are any."""
        return self.credentials()[0].certificate

    @property
    def key(self) -> Path:
        """The private key of the party's certificate."""
        return self.credentials()[0].key

    @property
    def root(self) -> Path:
        """The certificate of the authority, under which all others are checked."""
        return self.credentials()[0].root

    @property
    def revoked(self) -> Path:
        """The signed list of revoked certificates, where the party was given one."""
        return self.state / "revoked.pem"

    @property
    def port(self) -> int:
        """The port on which the active party listens."""
        return self.party.port or self.agreement.server.port

    @property
    def name(self) -> str:
        """The name of the party."""
        return self.party.name

    @property
    def is_active(self) -> bool:
        """Whether this is the kit of the party with the labels."""
        return self.party.is_active

    @property
    def state(self) -> Path:
        """Everything that this party keeps."""
        return self.folder / "state"

    @property
    def engine(self) -> Path:
        """The engine's folder for this site, where the engine carries."""
        return self.state / "engine"

    @property
    def admin(self) -> Path:
        """The engine's folder for the user who starts jobs; the active party's alone."""
        return self.state / "admin"

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
        """The folder of the sockets between this party's processes."""
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

    def lock(self, name: str = LOCK) -> contextlib.AbstractContextManager[int]:
        """Hold the kit, so that no second process works on the same state.

        The process that keeps a party running holds `lock`, a command holds `command`.
        """
        self.prepare()
        return locked(
            self.state / name,
            lambda holder: (
                f"This kit is already open in process {holder or 'of an unknown number'}; end that "
                f"one first, or wait for it ('{self.folder}')."
            ),
        )

    def expect_active(self) -> None:
        """Raise unless this is the kit from which commands are given."""
        if not self.is_active:
            raise SettingsError(
                f"'{self.folder}' is the kit of party '{self.name}'; commands are given at the "
                f"active party."
            )

    def is_running(self) -> bool:
        """Return whether a process keeps this party running."""
        return is_locked(self.state / LOCK)

    def expect_running(self) -> None:
        """Raise unless a process keeps this party running, through which others are reached."""
        if not self.is_running():
            raise RunError(
                f"The active party does not run; start it with `unlabel party start "
                f"{self.folder}`, and let it run while commands are given.",
                code="not-running",
            )

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
        if party.is_active:
            assert party.label is not None  # which `PartyFile` checks
            active = ActiveTable(table=table.resolve(), label=party.label, **party.columns())
            defend = DefendSettings(gradients=party.defend)
            passive = [PassiveTable(name=name, table=None) for name in agreed.passive]
        else:
            # Where the labels lie is not known to this party.
            active = ActiveTable(table=Path(), label="", features="none")
            defend = DefendSettings(embeddings=party.defend)
            passive = [PassiveTable(name=self.name, table=table.resolve(), **party.columns())]
        return RunConfig(
            active=active,
            passive=passive,
            model=agreed.model.under(self.folder),
            bottoms=agreed.bottoms,
            label_free=agreed.label_free,
            fit=agreed.fit,
            train=party.training(agreed.train, self.seed()),
            align=agreed.align,
            policy=self.policy,
            defend=defend,
            monitor=(party.monitor or MonitorSettings()) if party.is_active else None,
            audit=party.audit or AuditSettings(),
            trust=agreed.trust,
            code=code,
        )


def check_names(agreement: Agreement, party: PartyFile) -> None:
    """Raise where the name of a model or a defence means nothing."""
    check_models(agreement.model)
    check_defences("defend", party.defend, "gradients" if party.is_active else "embeddings")
