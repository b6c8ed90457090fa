"""Parties that die: random processes of a running federation are killed, over all that it does.

A round is the life of one run: train, forget, commit, purge. In every verb processes of a random
kind are killed at random moments: of a job or the parent of jobs, at a passive party or at the
server, or the process in which a passive party itself lives. One round without kills says what all
must end with, to the last bit.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from unlabel_bench.registry import BENCHES, Bench

from unlabel.errors import SettingsError, TrainingError

#: What is killed: a party, the hub, and where the engine carries, its processes at both ends.
KINDS = {
    "direct": ("party", "hub"),
    "flare": ("client job", "client parent", "server job", "server parent", "party"),
}
#: How many kills a verb gets in a round.
KILLS = {"train": 4, "forget": 2, "commit": 2, "purge": 2}
#: Seconds after which a recovery counts as failed.
LONGEST = 60.0
LABEL = 3

Say = Callable[[str], None]


@dataclass(frozen=True)
class FaultSettings:
    """How much is killed.

    kills    processes to kill in all
    seed     decides what is killed, and when
    epochs   of the training in each round
    timeout  seconds that a call of a party may take
    workers  federations that run side by side, each with its share of the kills
    kinds    what is killed, by name with spaces as dashes; all kinds by default
    carrier  what carries the messages: direct or flare
    until    the verb with which a round ends
    """

    kills: int = 100
    seed: int = 0
    epochs: int = 30
    timeout: float = 10.0
    workers: int = 1
    kinds: tuple[str, ...] = ()
    carrier: str = "direct"
    until: str = "purge"

    @property
    def verbs(self) -> tuple[str, ...]:
        """What is done in a round, in this order."""
        known = tuple(KILLS)
        return known[: known.index(self.until) + 1]


@dataclass
class Kill:
    """One kill and what came of it.

    after      seconds into the verb at which it came
    noticed    seconds until the loss was noticed; None where the verb went on without a loss
    recovered  seconds from there until all were back on a common version
    """

    round: int
    verb: str
    kind: str
    after: float
    noticed: float | None = None
    recovered: float | None = None


@dataclass
class Life:
    """What a round ended with, by verb: weights and versions of every party, and the time."""

    digests: dict[str, dict[str, str]] = field(default_factory=dict)
    versions: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


def measure(settings: FaultSettings, say: Say) -> dict[str, Any]:
    """Kill processes and return what came of each."""
    if settings.carrier not in KINDS:
        raise SettingsError(f"Expected `carrier` direct or flare but got '{settings.carrier}'.")
    known = [kind.replace(" ", "-") for kind in KINDS[settings.carrier]]
    for kind in settings.kinds:
        if kind not in known:
            raise SettingsError(f"Expected kinds among {', '.join(known)} but got '{kind}'.")
    if settings.until not in KILLS:
        raise SettingsError(f"Expected `until` in {', '.join(KILLS)} but got '{settings.until}'.")
    if settings.workers > 1:
        return _side_by_side(settings, say)
    with tempfile.TemporaryDirectory(prefix="unlabel-faults-") as place:
        return _rounds(settings, Path(place), say)


def _rounds(settings: FaultSettings, place: Path, say: Say) -> dict[str, Any]:
    from stress.fault_round import Town

    draw = random.Random(f"faults/{settings.seed}")
    kinds = [kind.replace("-", " ") for kind in settings.kinds or KINDS[settings.carrier]]
    kills: list[Kill] = []
    wrong: list[str] = []
    with Town(place, settings, say) as town:
        say("a round without kills")
        expected = town.live(settings.verbs, lambda _: [], Life())
        number = 0
        while len(kills) < settings.kills:
            number += 1
            planned: dict[str, list[Kill]] = {}
            left = settings.kills - len(kills)
            for verb in settings.verbs:
                count = KILLS[verb]
                # Within the time that is left of the verb when others have come back from before.
                most = expected.seconds[verb] / count
                some = [
                    Kill(number, verb, draw.choice(kinds), draw.uniform(0.0, most))
                    for _ in range(min(count, left))
                ]
                left -= len(some)
                planned[verb] = some
            say(f"round {number}, {len(kills)} of {settings.kills} kills")
            result = town.live(settings.verbs, planned.__getitem__, Life())
            kills += [kill for some in planned.values() for kill in some]
            wrong += _differences(expected, result, number)
    return _summary(settings, kills, wrong, number)


def _differences(expected: Life, result: Life, number: int) -> list[str]:
    """Return in words where a round ended elsewhere than one without kills."""
    messages = []
    for verb, digests in expected.digests.items():
        for party, digest in digests.items():
            if result.digests.get(verb, {}).get(party) != digest:
                messages.append(f"round {number}, {verb}: {party} has other weights")
        held = result.versions.get(verb, {})
        if len({tuple(versions[-1:]) for versions in held.values()}) != 1:
            messages.append(f"round {number}, {verb}: parties on different versions {held}")
    return messages


def _summary(
    settings: FaultSettings, kills: list[Kill], wrong: list[str], rounds: int
) -> dict[str, Any]:
    noticed = [kill.noticed for kill in kills if kill.noticed is not None]
    recovered = [kill.recovered for kill in kills if kill.recovered is not None]
    return {
        "kills": [asdict(kill) for kill in kills],
        "rounds": rounds,
        "wrong": wrong,
        "by_kind": dict(Counter(kill.kind for kill in kills)),
        "by_verb": dict(Counter(kill.verb for kill in kills)),
        "losses": len(noticed),
        "noticed_median": statistics.median(noticed) if noticed else None,
        "noticed_most": max(noticed, default=None),
        "timeout": settings.timeout,
        "recovered_median": statistics.median(recovered) if recovered else None,
        "recovered_most": max(recovered, default=None),
        "within_a_minute": all(seconds <= LONGEST for seconds in recovered),
    }


def _side_by_side(settings: FaultSettings, say: Say) -> dict[str, Any]:
    """Share the kills out between federations that run at the same time, a process each."""
    share, rest = divmod(settings.kills, settings.workers)
    known = [kind.replace(" ", "-") for kind in KINDS[settings.carrier]]
    parts: dict[int, str] = {}

    def work(worker: int) -> None:
        mine = {"kills": share + (worker < rest), "seed": settings.seed * 1000 + worker}
        words = asdict(settings) | mine | {"workers": 1, "kinds": ",".join(settings.kinds or known)}
        done = subprocess.run(
            [
                *(sys.executable, "-m", "unlabel_bench", "faults"),
                *(f"{name}={value}" for name, value in words.items()),
            ],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        say(f"federation {worker + 1} has ended")
        parts[worker] = done.stdout

    threads = [threading.Thread(target=work, args=(n,)) for n in range(settings.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = [json.loads(text) for _, text in sorted(parts.items()) if text.strip()]
    if len(whole) < settings.workers:
        raise TrainingError("A federation of this bench ended early; its words stand above.")
    kills = [Kill(**kill) for part in whole for kill in part["kills"]]
    wrong = [words for part in whole for words in part["wrong"]]
    rounds = sum(part["rounds"] for part in whole)
    return _summary(settings, kills, wrong, rounds)


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the result as rows for people."""
    rows = [
        ["killed", "times", "noticed (median)", "noticed (most)", "back (median)", "back (most)"]
    ]
    for kind in sorted({kill["kind"] for kill in result["kills"]}):
        some = [kill for kill in result["kills"] if kill["kind"] == kind]
        noticed = [kill["noticed"] for kill in some if kill["noticed"] is not None]
        back = [kill["recovered"] for kill in some if kill["recovered"] is not None]
        rows.append(
            [
                kind,
                str(len(some)),
                *(
                    _seconds(statistics.median(noticed) if noticed else None),
                    _seconds(max(noticed, default=None)),
                ),
                *(
                    _seconds(statistics.median(back) if back else None),
                    _seconds(max(back, default=None)),
                ),
            ]
        )
    rows.append(["ended wrong", str(len(result["wrong"])), "", "", "", ""])
    return rows


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


BENCHES.add(
    "faults",
    Bench("kill processes of a federation and see it return", FaultSettings, measure, table),
)
