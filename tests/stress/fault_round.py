"""One town of parties for the bench of faults: a federation whose processes can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stress.faults import LABEL, FaultSettings, Kill, Life
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings

if TYPE_CHECKING:
    from unlabel.remote.connect import RemoteFederation

#: Every draw of the request, so that it is the same in every round.
KEY = "5f" * 32
PASSIVE = ("left", "right")


class Town:
    """An active and two passive parties on this machine, over and over from one beginning."""

    def __init__(self, place: Path, of: FaultSettings, say: Callable[[str], None]) -> None:
        self.place = place
        self.say = say
        self.epochs = of.epochs
        self.timeout = of.timeout
        self.carrier = of.carrier

    def __enter__(self) -> Town:
        from unlabel.remote.example import settings, tables_in, write_tables
        from unlabel.remote.local_cluster import LocalCluster, free_port
        from unlabel.remote.provision import provision

        write_tables(self.place)
        tables = tables_in(self.place)
        file = self.place / "federation.yaml"
        more = f"timeout: {self.timeout}\n"
        text = settings(free_port(), epochs=self.epochs, more=more)
        text = text.replace("port:", f"carrier: {self.carrier}, port:")
        file.write_text(text, encoding="utf-8")
        kits = provision(file, self.place / "kits")
        self.kits = {name: kits[name] for name in tables}
        self.cluster = LocalCluster(self.kits, tables)
        self.cluster.__enter__()
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.stop()

    def _begin(self) -> None:
        """Align the rows and keep what every party has then; each round starts from it."""

        with Federation.connect(self.kits["active"], resume=True):
            pass
        self.cluster.stop()
        for name, kit in self.kits.items():
            beginning = self.place / "beginning" / name
            shutil.copytree(kit / "state", beginning, ignore=shutil.ignore_patterns("links"))

    def live(self, verbs: Sequence[str], planned: Callable[[str], list[Kill]], life: Life) -> Life:
        """Live one round of some verbs, in their order."""

        self.cluster.stop()
        for name, kit in self.kits.items():
            shutil.rmtree(kit / "state")
            shutil.copytree(self.place / "beginning" / name, kit / "state")
        self.cluster.__enter__()
        acts: dict[str, Callable[[Federation], object]] = {
            "train": lambda fed: fed.train(),
            "forget": lambda fed: fed.forget([LABEL], settings=ForgetSettings(key=KEY)),
            "commit": lambda fed: fed.commit(force=True),
            "purge": lambda fed: fed.purge(),
        }
        for verb in verbs:
            self._verb(verb, planned, life, acts[verb])
        return life

    def _verb(
        self,
        verb: str,
        planned: Callable[[str], list[Kill]],
        life: Life,
        act: Callable[[Any], Any],
    ) -> None:

        # A command is refused where the hub does not run, and it may have been killed last.
        self.cluster.wait("active")
        with Federation.connect(self.kits["active"], resume=True) as fed:
            killer = Killer(self, fed, planned(verb))
            killer.start()
            began = time.monotonic()
            try:
                act(fed)
                life.seconds[verb] = time.monotonic() - began
            finally:
                killer.finish()
        life.digests[verb] = {name: self._digest(name) for name in self.kits}
        life.versions[verb] = {name: self._versions(name) for name in self.kits}

    def _versions(self, party: str) -> list[int]:
        return sorted(int(path.stem) for path in self._shelf(party).glob("*.json"))

    def _digest(self, party: str) -> str:
        """Return the digest of a party's newest weights, as its own file has them."""
        from unlabel.files import sha256

        newest = self._shelf(party) / f"{self._versions(party)[-1]:06d}.safetensors"
        return sha256(newest.read_bytes())

    def _shelf(self, party: str) -> Path:
        inside = "run/active" if party == "active" else party
        return self.kits[party] / "state" / inside / "versions"

    def find(self, kind: str, draw: random.Random) -> tuple[str, int] | None:
        """Return a party and the process of it that is to be killed, if there is one."""
        from unlabel.remote.engine import processes_of

        passive = draw.choice(PASSIVE)
        if kind in ("party", "hub"):
            party = passive if kind == "party" else "active"
            return party, self.cluster.processes[party].pid
        where, what = kind.split()
        party = "active" if where == "server" else passive
        numbers = processes_of(self.kits[party] / "state" / "engine")[what]
        return (party, numbers[0]) if numbers else None

    def restart(self, party: str) -> None:
        """Start a killed party again, as a service manager does."""
        self.cluster.processes[party].wait()
        self.cluster.start(party)


class Killer(threading.Thread):
    """Kills what is planned while a verb runs, one after the other, and times what follows."""

    def __init__(self, town: Town, fed: RemoteFederation, plan: list[Kill]) -> None:
        super().__init__(daemon=True)
        self.town = town
        self.fed = fed
        self.plan = plan
        self.over = threading.Event()

    def run(self) -> None:
        """Kill, and wait until the federation has come back before the next."""
        for kill in self.plan:
            draw = random.Random(f"{kill.round}/{kill.verb}/{kill.after}")
            began = time.monotonic()
            while (result := self.town.find(kill.kind, draw)) is None:
                time.sleep(0.1)
            # One that comes when the verb is over still kills: the next verb has to cope.
            self.over.wait(max(0.0, kill.after - (time.monotonic() - began)))
            losses, back = len(self.fed.losses), len(self.fed.recoveries)
            struck = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                os.kill(result[1], signal.SIGKILL)
            if kill.kind in ("party", "hub"):
                self.town.restart(result[0])
            while len(self.fed.recoveries) == back and not self.over.is_set():
                time.sleep(0.05)
            if len(self.fed.losses) > losses:
                kill.noticed = self.fed.losses[losses] - struck
            if len(self.fed.recoveries) > back:
                kill.recovered = self.fed.recoveries[back]
            self.town.say(json.dumps(asdict(kill)))

    def finish(self) -> None:
        """Wait for the last kill."""
        self.over.set()
        self.join()
