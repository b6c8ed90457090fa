"""The run that a desk works on, in a folder or between organisations, and where the desk lies.

A run's desk lies beside its folder (`RUN.desk`), since an update puts another folder in its place;
that of a federation in the label holder's kit (`KIT/state/desk`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unlabel.compat import run_file
from unlabel.data import ACTIVE
from unlabel.desk.store import FOLDER_MODE
from unlabel.errors import CheckpointError, RunError
from unlabel.federation import Federation
from unlabel.files import OWNER_ONLY, locked, writing
from unlabel.party import Ledger, LedgerEntry
from unlabel.progress import Watch

LOCK, FILES, STORE = "desk.lock", "files", "desk.sqlite"


@dataclass(frozen=True)
class Place:
    """Where the run and its desk lie.

    run   folder of the run, at the label holder
    desk  folder of the desk
    kit   of the label holder, where the other parties live elsewhere
    """

    run: Path
    desk: Path
    kit: Path | None = None

    @classmethod
    def of(cls, run: Path | None, kit: Path | None = None) -> Place:
        """Return the place of the desk of a run, or of a federation; there must be one."""
        if kit is not None:
            from unlabel.remote.kit import Kit

            party = Kit.read(kit)
            party.expect_active()
            return cls(party.run, party.state / "desk", kit)
        assert run is not None
        if not run_file(run).is_file():
            raise RunError(
                f"'{run}' is not a run folder; name one that `unlabel train` made, or a kit with "
                f"--federation."
            )
        whole = run.resolve()
        return cls(run, whole.with_name(f"{whole.name}.desk"))

    @property
    def home(self) -> Path:
        """The label holder's own folder."""
        return self.run / ACTIVE

    def ledger(self) -> list[LedgerEntry]:
        """Return the lines of the label holder's ledger."""
        return Ledger(self.home, mode=OWNER_ONLY).entries()

    def __str__(self) -> str:
        return str(self.run) if self.kit is None else f"--federation {self.kit}"

    def files(self, request: int) -> Path:
        """Return the folder of a request's papers."""
        return self.desk / FILES / str(request)

    @contextlib.contextmanager
    def open(self, watch: Watch, *, afresh: bool = False) -> Iterator[Federation]:
        """Open the run, or connect to the parties; what a crash interrupted is finished first.

        afresh  finish it in any case: the desk itself was interrupted
        """
        try:
            with self._opened(watch, recovering=afresh) as federation:
                if afresh:
                    federation.recover()
                yield federation
                return
        except CheckpointError as error:
            if error.code != "interrupted" or afresh:
                raise
        with self._opened(watch, recovering=True) as federation:
            federation.recover()
            yield federation

    def _opened(self, watch: Watch, *, recovering: bool) -> Federation:
        if self.kit is None:
            return Federation.open(self.run, recovering=recovering, watch=watch)
        return Federation.connect(self.kit, recovering=recovering, watch=watch)

    def held(self) -> contextlib.AbstractContextManager[int]:
        """Hold the desk: two processes at once would do everything twice."""
        path = self.desk / LOCK
        with writing(path):
            self.desk.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        return locked(
            path, lambda _: f"A desk of '{self.run}' runs already; use that one, or stop it first."
        )
