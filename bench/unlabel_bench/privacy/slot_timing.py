"""Can partners tell by time which slots were about something? With messages paced, and without.

Every slot starts from a copy of one run, so that nothing differs between two of them but what the
slot is about. The passive parties are processes of their own, so that what the active party has
in its caches is not theirs. They note when each message comes and when they have answered it, and
share what they noted. What they see of the end of a slot is when the next one begins: that is about
nothing, and is cut off after its first message.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unlabel.audit.intervals import bootstrap
from unlabel.audit.ranking import Ranking
from unlabel.data import ACTIVE
from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings, Queue, Slot
from unlabel.forget.methods.hidden import Hidden
from unlabel.forget.slots import serve_slots
from unlabel.party import PassiveParty
from unlabel.train import assemble
from unlabel.wire import LocalTransport, Message, decode, kind_of
from unlabel_bench import markdown
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import BENCHES, Bench, Result, Say

Array = NDArray[np.float64]
Truth = NDArray[np.bool_]
#: What a party noted, and when.
Moment = tuple[str, float]
#: Scores a slot by its intervals: the larger, the likelier it was about something.
Attack = Callable[[Array], Array]

#: Slots before the first that counts, in which the process warms up.
WARM = 10
DRAWS = 2000
#: What the last interval of a slot ends with.
NEXT = "next slot"


@dataclass(frozen=True)
class SlotTimingSettings(Recipe):
    """Settings of the bench.

    slots    for each pace, half of them about a label at random and half about nothing
    pace     seconds of which messages leave at multiples
    every    multiples of the pace from one slot to the next; a slot on digits takes 25
    at_once  seconds from one slot to the next where messages leave at once
    steps    of the new top of a request; its longest work between two messages grows with them
    page     Markdown file to write the table into
    """

    model: str = "mlp"
    epochs: int = 6
    slots: int = 1000
    pace: float = 0.025
    every: int = 28
    at_once: float = 0.3
    steps: int = 20
    page: str = ""

    def __post_init__(self) -> None:
        if self.slots < 40 or self.slots % 4:
            raise SettingsError("Expected `slots` to be a multiple of 4, and at least 40.")
        if self.pace <= 0:
            raise SettingsError("Expected `pace` to be above 0; without one it is measured too.")
        if self.every < 1 or self.at_once <= 0:
            raise SettingsError("Expected `every` and `at_once` to be above 0.")


@dataclass(frozen=True)
class Seen:
    """What the passive parties saw of many slots.

    intervals  seconds, [slots, moments]: from each message or answer to the next, the last of
               them to the first message of the next slot
    names      what ends each interval
    real       whether a slot was about something
    late       messages that were not ready when they were due, by slot
    work       the longest time from an answer to the next message of the slot, by slot
    """

    intervals: Array
    names: list[str]
    real: Truth
    late: NDArray[np.int64]
    work: Array

    def some(self, chosen: Truth) -> tuple[Array, Truth]:
        """Return intervals and truth of some of the slots."""
        return self.intervals[chosen], self.real[chosen]


def measure(settings: SlotTimingSettings, say: Say) -> Result:
    """Run the slots paced and at once, and attack both."""
    torch.set_num_threads(1)  # a process with more of them is not to be copied
    base = settings.federation(0)
    say("training the run that every slot starts from")
    base.train()
    lines = []
    ways = ((settings.pace, settings.every * settings.pace), (0.0, settings.at_once))
    for pace, every in ways:
        seen = _slots(settings, base, pace, every, say)
        say(f"pace {pace:g}: attacking")
        lines.append({"pace": pace, **attacked(seen)})
    return {"paces": lines}


def _slots(
    settings: SlotTimingSettings, base: Federation, pace: float, every: float, say: Say
) -> Seen:
    """Run slots in random order, each on a copy of the run."""
    draw, count = np.random.default_rng(0), settings.slots
    real = draw.permutation(np.arange(WARM + count) % 2 == 0)
    real[WARM:] = draw.permutation(np.arange(count) % 2 == 0)
    method = Hidden(samples="public", steps=settings.steps, batch=64, lr=3e-2)
    forget = ForgetSettings(method=method)
    rows, late, names = [], [], [""]
    for number, about in enumerate(real):
        if number % 50 == 0:
            say(f"pace {pace:g}: slot {number} of {WARM + count}")
        with _copied(base) as federation:
            label = federation.labels[draw.integers(len(federation.labels))]
            queue = Queue(federation.folder / ACTIVE)
            queue.append([label])
            queue.take_off([] if about else [label])  # as much is written for both
            slot, moments = observe(federation, forget, pace, every)
        if slot.kept != about:
            raise SettingsError(f"Label {label} was not forgotten ({slot.why}); give more `steps`.")
        names = [name for name, _ in moments[1:]]
        rows.append(np.diff([at for _, at in moments]))
        late.append(slot.late)
    intervals = np.array(rows[WARM:])
    computed = [not name.startswith(("answer", NEXT)) for name in names]
    work = intervals[:, computed].max(1)
    return Seen(intervals, names, real[WARM:], np.array(late[WARM:]), work)


@contextlib.contextmanager
def _copied(base: Federation) -> Iterator[Federation]:
    """Give a copy of a run, with neither reading nor writing its settings, which takes libraries.

    `Federation.copy` makes a temporary one, which would send other messages.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        shutil.copytree(base.folder, home, dirs_exist_ok=True)
        active, passives = assemble(base.holdings, folder=home)
        federation = Federation(base.holdings, active, passives, home)
        federation.load_latest()
        yield federation


def observe(
    federation: Federation, forget: ForgetSettings, pace: float, every: float
) -> tuple[Slot, list[Moment]]:
    """Run one slot and the first message of the next; return also what the parties noted."""
    apart = {name: Apart(party) for name, party in federation.passives.items()}
    federation.active.transport = LocalTransport(apart, encoded=True)
    done: list[Slot] = []

    def begin_next(_: int, slot: Slot) -> None:
        done.append(slot)
        for party in apart.values():
            party.is_next = True

    with contextlib.suppress(_Cut):
        serve_slots(
            federation,
            every=every,
            count=2,
            pace=pace,
            purge_after=True,
            settings=forget,
            watch=begin_next,
        )
    noted = [moment for party in apart.values() for moment in party.end()]
    *moments, (_, began), _ = sorted(noted, key=lambda moment: moment[1])
    return done[0], [*moments, (NEXT, began)]


class _Cut(Exception):
    """The first message of the next slot was answered."""


class Apart:
    """A passive party in a process of its own, which notes when messages come and are answered.

    is_next  whether the next slot has begun, which is cut off after a message
    """

    def __init__(self, party: PassiveParty) -> None:
        self.is_next = False
        self._line, there = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=_serve, args=(party, there), daemon=True)
        self._process.start()

    def handle(self, message: Message) -> Message:
        """Messages come as bytes only."""
        raise NotImplementedError

    def serve(self, data: bytes) -> bytes:
        """Have the process answer."""
        self._line.send_bytes(data)
        answer = self._line.recv_bytes()
        if self.is_next:
            raise _Cut
        return answer

    def end(self) -> list[Moment]:
        """End the process; return what it noted."""
        self._line.send_bytes(b"")
        moments: list[Moment] = self._line.recv()
        self._process.join()
        self._line.close()
        return moments


def _serve(party: PassiveParty, line: Connection[Any, Any]) -> None:
    moments: list[Moment] = []
    while data := line.recv_bytes():
        came = time.perf_counter()
        answer = party.serve(data)
        answered = time.perf_counter()
        line.send_bytes(answer)
        name = f"{kind_of(decode(data))} at {party.name}"
        moments += [(name, came), (f"answer to {name}", answered)]
    line.send(moments)


def attacked(seen: Seen) -> dict[str, Any]:
    """Return how well attacks tell the slots apart; the first half says which of them counts."""
    first = np.zeros(len(seen.real), dtype=bool)
    for kind in (seen.real, ~seen.real):  # as many of either kind in both halves
        first[np.flatnonzero(kind)[::2]] = True
    learnt, judged = seen.some(first), seen.some(~first)
    attacks = {name: _learnt(kind, learnt) for name, kind in LEARNERS.items()}
    by_name = {name: _crossed(kind, learnt) for name, kind in LEARNERS.items()}
    for name, score in _single(seen.names).items():
        area = _auc(score(learnt[0]), learnt[1])
        attacks[name] = score if area >= 0.5 else _turned(score)
        by_name[name] = max(area, 1 - area)
    best = max(by_name, key=lambda name: by_name[name])
    return {
        "slots": len(seen.real),
        "real": int(seen.real.sum()),
        "best": best,
        "auc": _interval(attacks[best], judged),
        "others": {n: _interval(attacks[n], judged) for n in (*LEARNERS, "total")},
        "first_half": by_name,
        "late": {"messages": int(seen.late.sum()), "slots": int((seen.late > 0).sum())},
        "work": {
            name: {"median": float(np.median(some)), "most": float(some.max())}
            for name, some in (("real", seen.work[seen.real]), ("dummy", seen.work[~seen.real]))
        },
    }


def _single(names: list[str]) -> dict[str, Attack]:
    """Return attacks by one figure: an interval, the time of a message since the first, the sum."""

    def interval(number: int) -> Attack:
        return lambda intervals: intervals[:, number]

    def since(number: int) -> Attack:
        return lambda intervals: intervals[:, : number + 1].sum(1)

    attacks = {f"{n}: until {name}": interval(n) for n, name in enumerate(names)}
    attacks |= {f"{n}: from the first to {name}": since(n) for n, name in enumerate(names)}
    return {**attacks, "total": since(len(names))}


def _turned(score: Attack) -> Attack:
    return lambda intervals: -score(intervals)


def _regression() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import QuantileTransformer

    ranks = QuantileTransformer(n_quantiles=100, output_distribution="normal")
    return make_pipeline(ranks, LogisticRegression(C=0.1, max_iter=1000))


def _boosting() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=100, learning_rate=0.05, random_state=0)


LEARNERS: dict[str, Callable[[], Any]] = {
    "logistic regression": _regression,
    "gradient boosting": _boosting,
}


def _learnt(kind: Callable[[], Any], slots: tuple[Array, Truth]) -> Attack:
    """Return the attack that learns from all intervals of some slots."""
    model = kind().fit(*slots)
    return lambda intervals: np.asarray(model.predict_proba(intervals)[:, 1], dtype=np.float64)


def _crossed(kind: Callable[[], Any], slots: tuple[Array, Truth]) -> float:
    """Return the cross-validated AUC of a learner."""
    from sklearn.model_selection import cross_val_score

    return float(cross_val_score(kind(), *slots, cv=5, scoring="roc_auc").mean())


def _auc(scores: Array, real: Truth) -> float:
    return float(Ranking(scores, real).auc()[0])


def _interval(attack: Attack, slots: tuple[Array, Truth]) -> dict[str, float]:
    """Return the AUC on other slots than those an attack was chosen by, with its interval."""
    ranking = Ranking(attack(slots[0]), slots[1])
    low, high = bootstrap(ranking.auc, slots[1].astype(np.int64), draws=DRAWS)
    return {"value": float(ranking.auc()[0]), "low": low, "high": high}


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the figures as rows for people."""
    heads = ["messages leave", "best attack", "its AUC", *LEARNERS, "total time", "late"]
    rows = [heads]
    for line in result["paces"]:
        others = [markdown.interval(line["others"][name]) for name in (*LEARNERS, "total")]
        leave = f"at multiples of {1000 * line['pace']:g} ms" if line["pace"] else "at once"
        late = f"{line['late']['messages']} messages" if line["pace"] else "-"
        rows.append([leave, line["best"], markdown.interval(line["auc"]), *others, late])
    return rows


def page(result: Result) -> str:
    """Return the figures as a page."""
    about, first = result["settings"], result["paces"][0]
    work = max(kind["most"] for kind in result["paces"][1]["work"].values())
    return f"""# Can partners tell by time which slots were about something?

{first["slots"]} slots each way, {first["real"]} of them about a label at random and all of these
kept, the others about nothing, in random order, each on a copy of one run ({about["data"]},
{about["model"]}, {about["parties"]} passive parties, purged after every slot). The parties, each a
process of its own, share when each message came and when they had answered it, up to the first
message of the next slot. Attacks: every single interval, the time of every message since the first,
the total, and two learners on all intervals. The attack that does best on one half of the slots is
judged on the other; intervals are of 95 %, over resampled slots.
The longest work between two messages took {1000 * work:.1f} ms without pacing.

{markdown.table(table(result))}

Columns right of the best attack are named beforehand, and not chosen. Late messages were not ready
when they were due.
"""


BENCHES.add(
    "slot-timing",
    Bench(
        "whether the times of messages tell real slots from dummies, paced and at once",
        SlotTimingSettings,
        measure,
        table,
        page,
    ),
)
