"""Where the served models come from: a run's folder, or the parties of a federation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from unlabel.errors import RunError
from unlabel.federation import Federation
from unlabel.remote.connect import RemoteFederation, connect
from unlabel.remote.turns import PREDICTING, is_wanted
from unlabel.train.predictions import Predictions


class RunSource:
    """A run in a folder."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation

    def federation(self) -> Federation:
        """Return the run as it is open."""
        return self._federation

    def reopen(self) -> Federation:
        """Open the run that an update has put in its place."""
        folder, device = self._federation.folder, self._federation.config.train.device
        self._federation = Federation.open(folder, recovering=True, device=device)
        return self._federation

    def give_way(self) -> bool:
        """Give way to a command that waits; in one process none has to."""
        return False

    def lose(self) -> None:
        """Give up a session with the parties, of which there is none."""

    def predict_tables(self, tables: Mapping[str, object]) -> Predictions:
        """Predict new rows."""
        return self._federation.predict_tables(tables)

    def close(self) -> None:
        """End it."""


class FederationSource(RunSource):
    """A federation between organisations, whose session is given up where a command wants it.

    A trained blind run needs no session for people it knows: commands and answers go on side by
    side. For new people, and for every other run, one session at a time reaches the parties.
    """

    def __init__(self, federation: RemoteFederation) -> None:
        super().__init__(federation)
        self._remote = federation
        self._kit = federation.kit
        self._folder = Path(federation.kit.folder)
        self._needs_session = federation.lazy is None
        self._serving = self._kit.lock(PREDICTING)
        self._serving.__enter__()
        self._is_open = True
        if not self._needs_session:
            federation.release()

    def federation(self) -> Federation:
        """Return the federation, connected anew where its session was given up or lost."""
        if self._needs_session and not self._is_open:
            self._remote = connect(self._folder, recovering=True, waits=False)
            self._federation, self._is_open = self._remote, True
        return self._federation

    def reopen(self) -> Federation:
        """Return what there is: a federation is not updated."""
        return self._federation

    def give_way(self) -> bool:
        """End the session where a command waits for it; return whether one does."""
        wanted = self._needs_session and is_wanted(self._kit)
        if wanted:
            self.lose()
        return wanted

    def lose(self) -> None:
        """Give the session up, whatever is left of it."""
        if self._is_open and self._needs_session:
            self._is_open = False
            self._remote.release()

    def predict_tables(self, tables: Mapping[str, object]) -> Predictions:
        """Predict new people, with a session for this question where there is none."""
        if self._needs_session:
            return self._federation.predict_tables(tables)
        with connect(self._folder, recovering=True, waits=False) as federation:
            if federation.version != self._federation.version:
                raise RunError("Another version was decided on; ask again.", code="deciding")
            return federation.predict_tables(tables)

    def close(self) -> None:
        """End the session."""
        self.lose()
        self._serving.__exit__(None, None, None)


def source_of(federation: Federation) -> RunSource:
    """Return where the models of a federation come from."""
    if isinstance(federation, RemoteFederation):
        return FederationSource(federation)
    return RunSource(federation)
