"""Parties that answer late: what age does to a training and to forgetting, and what bounds it.

    training   parties are asked s batches ahead (`train.late`), so that their embeddings are s
               updates old; the test accuracy, and a label forgotten afterwards, in step
    request    a model trained in step forgets a label while gradients reach the parties s steps
               late, which no request of ours allows: what the bound keeps away
    waiting    the time of a training in which parties take random time, beside one in step

Corrections of a training: plain (none), foresee (`late_rule`), slow (the rate divided by the root
of 1 + s) and both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from unlabel.bench.fuzz_wire import one_thread
from unlabel.bench.late_parties_link import Behind, draw_delays, time_of
from unlabel.bench.late_parties_page import around, page, summarise, table
from unlabel.bench.late_parties_picture import draw
from unlabel.bench.measures import accuracies, figures_of, key_of, probe, read_method
from unlabel.bench.originals import recipe_digest
from unlabel.bench.pictures import expect_plots
from unlabel.bench.public_noise import ASCENT
from unlabel.bench.recipe import Recipe
from unlabel.bench.records import Records
from unlabel.bench.registry import BENCHES, Bench
from unlabel.errors import UnlabelError
from unlabel.federation import Federation
from unlabel.files import write_atomically
from unlabel.forget import ForgetSettings
from unlabel.party.lateness import LateRule
from unlabel.party.optimiser import expect, one_of
from unlabel.wire import LocalTransport

#: Corrections by name: what late parties embed with, and whether the rate is lowered.
CORRECTIONS: dict[str, tuple[LateRule, bool]] = {
    "plain": ("plain", False),
    "foresee": ("foresee", False),
    "slow": ("plain", True),
    "both": ("foresee", True),
}
#: Who is late: every passive party, or the first alone.
WHO = ("all", "one")
#: Steps, draws and the active party's own time of the waiting that is computed.
WAITED_STEPS, WAITED_DRAWS, OWN_TIME = 500, 3, 0.5


@dataclass(frozen=True)
class LatePartiesSettings(Recipe):
    """Settings of the bench.

    lates        steps that parties are late
    corrections  plain, foresee, slow, both
    who          all, or one: the first party is late and the others are not, for corrections
                 whose models are asked to forget
    label        that is forgotten
    methods      as in the bench `forgetting`; none forgets nothing
    forgets      corrections whose models are asked to forget
    spreads      of the logarithm of the time an answer takes, where waiting is computed
    budget       seconds after which no new piece of work begins; 0 is no limit
    records      JSONL file of the figures; it is read first, and what is there is not repeated
    page         Markdown file to write the tables into; of one that is there, only the figures
    picture      PNG file to draw into; needs matplotlib
    """

    seeds: tuple[int, ...] = (0, 1, 2)
    lates: tuple[int, ...] = (0, 1, 2, 3, 4, 8)
    corrections: tuple[str, ...] = tuple(CORRECTIONS)
    who: tuple[str, ...] = WHO
    label: int = 0
    methods: tuple[str, ...] = ("hidden", "renormalise", ASCENT, "retrain")
    forgets: tuple[str, ...] = ("plain", "both")
    spreads: tuple[float, ...] = (0.0, 0.5, 1.0)
    budget: float = 0.0
    records: str = ""
    page: str = ""
    picture: str = ""

    def __post_init__(self) -> None:
        expect("lates", self.lates, all(n >= 0 for n in self.lates), "0 or more")
        expect("label", self.label, self.label >= 0, "0 or more")
        for correction in (*self.corrections, *self.forgets):
            one_of("corrections", correction, tuple(CORRECTIONS))
        for who in self.who:
            one_of("who", who, WHO)
        for method in self.methods:
            read_method(method)


def run(settings: LatePartiesSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Train and forget with late parties; return figures and summaries."""
    expect_plots(settings.picture)
    before = _read(settings.page)
    if before:
        around(before)  # says now what would be wrong with it in the end
    records = Records(settings.records, recipe_digest(settings))
    ends = time.monotonic() + settings.budget if settings.budget else float("inf")
    with one_thread():
        for seed in settings.seeds:
            study = Study(settings, records, seed, say)
            for piece in study.pieces():
                if time.monotonic() > ends:
                    break
                piece()
    result: dict[str, Any] = {
        "summary": summarise(records.own()),
        "waiting": waiting(settings),
        "records": records.own(),
        "about": {
            **{name: getattr(settings, name) for name in ("data", "model", "parties", "epochs")},
            **{name: getattr(settings, name) for name in ("batch", "lr", "seeds", "label")},
        },
    }
    if settings.page:
        write_atomically(Path(settings.page), page(result, before).encode())
    if settings.picture:
        draw(result, Path(settings.picture))
    return result


def _read(path: str) -> str:
    """Return the page that is there, or nothing."""
    return Path(path).read_text(encoding="utf-8") if path and Path(path).is_file() else ""


class Study:
    """The trainings and requests of one seed; each finished piece is a line of the records."""

    def __init__(
        self, settings: LatePartiesSettings, records: Records, seed: int, say: Callable[[str], None]
    ) -> None:
        self.settings = settings
        self.records = records
        self.seed = seed
        self.say = say
        self._base: Federation | None = None
        self._in_step: Federation | None = None

    def pieces(self) -> Iterator[Callable[[], None]]:
        """Yield what is left to do, the training in step first."""
        settings = self.settings
        for late in settings.lates:
            for who in settings.who if late else ("all",):
                rules = settings.corrections if who == "all" else settings.forgets
                for correction in rules if late else ("plain",):
                    yield lambda n=late, w=who, c=correction: self.train(n, w, c)  # type: ignore[misc]
            if late:
                for method in settings.methods:
                    if method != "retrain":  # it leaves nothing of the model it is asked of
                        yield lambda n=late, m=method: self.request(n, m)  # type: ignore[misc]

    def train(self, late: int, who: str, correction: str) -> None:
        """Train with late parties, and let the model forget a label in step."""
        key = {"kind": "training", "seed": self.seed, "late": late, "who": who, "rule": correction}
        asked = late == 0 or (correction in self.settings.forgets and who == "all")
        # Trained again without the label is the same model however the original was trained.
        methods = [m for m in self.settings.methods if asked and (late == 0 or m != "retrain")]
        trained = self.records.find(**key)
        left = [
            m for m in methods if self.records.find(**key | {"kind": "forget"}, method=m) is None
        ]
        if trained is not None and ("failed" in trained or not left):
            return
        federation = self._build(late, who, correction)
        line: dict[str, Any] = {}
        try:
            federation.train()
            line["accuracy"] = federation.evaluate().accuracy
        except UnlabelError as error:
            line["failed"] = str(error)
        if trained is None:
            self.records.add(**key, **line)
            self.say(f"seed {self.seed}: {late} late ({who}), {correction}: {line}")
        if late == 0 and "failed" not in line:
            self._in_step = federation
        for method in left if "failed" not in line else ():
            self.records.add(
                **key | {"kind": "forget"}, method=method, **self._forget(federation, method)
            )

    def request(self, late: int, method: str) -> None:
        """Let a model that was trained in step forget while gradients come late."""
        key = {"kind": "request", "seed": self.seed, "late": late, "method": method}
        if self.records.find(**key) is not None:
            return
        original = self._trained_in_step()
        federation = self._build(late, "all", "plain")
        federation.active.versions.load_snapshot(original.active.versions.snapshot())
        for name, party in federation.passives.items():
            state = original.passives[name].bottom.state()
            party.bottom.load_state({k: v.clone() for k, v in state.items()})
            party.bottom.steps = original.passives[name].bottom.steps
        federation.keep_models()
        links = {name: Behind(party, late) for name, party in federation.passives.items()}
        federation.active.transport = LocalTransport(links)
        line = self._forget(federation, method)
        self.records.add(**key, **line)
        self.say(f"seed {self.seed}: {method} with gradients {late} late: {line}")

    def _forget(self, federation: Federation, method: str) -> dict[str, Any]:
        """Forget the label and take it back; a method that fails is a figure too."""
        label = self.settings.label
        before = accuracies(federation, [label])
        try:
            outcome = federation.forget(
                [label],
                settings=ForgetSettings(
                    method=read_method(method),
                    key=key_of(self.seed, label),
                    allow_collapse=True,
                    measure_drift=False,
                ),
            )
        except UnlabelError as error:
            return {"failed": str(error), "retained_before": before[0]}
        try:
            return figures_of(outcome.result) | probe(federation, [label])
        except (UnlabelError, ValueError) as error:
            return {"failed": str(error), "retained_before": before[0]}
        finally:
            outcome.rollback()

    def _trained_in_step(self) -> Federation:
        if self._in_step is None:
            self._in_step = self._build(0, "all", "plain")
            self._in_step.train()
        return self._in_step

    def _build(self, late: int, who: str, correction: str) -> Federation:
        """Return an untrained federation whose parties may be late; the data is read once."""
        if self._base is None:
            self._base = self.settings.federation(self.seed)
        holdings = self._base.holdings
        rule, slow = CORRECTIONS[correction]
        train = replace(
            holdings.config.train,
            late=late,
            late_parties=tuple(self._base.passives)[:1] if who == "one" else (),
            late_rule=rule,
            lr=self.settings.lr / (1 + late) ** 0.5 if slow else self.settings.lr,
        )
        holdings = replace(holdings, config=replace(holdings.config, train=train))
        return Federation.of(holdings)


def waiting(settings: LatePartiesSettings) -> list[dict[str, Any]]:
    """Return how much shorter a training gets where parties take random time, by lateness."""
    found = []
    for spread in settings.spreads:
        draws = [
            draw_delays(settings.parties, WAITED_STEPS, spread=spread, seed=seed)
            for seed in range(WAITED_DRAWS)
        ]
        in_step = [time_of(delays, 0, OWN_TIME) for delays in draws]
        for late in settings.lates:
            times = [time_of(delays, late, OWN_TIME) for delays in draws]
            share = mean(now / before for now, before in zip(times, in_step, strict=True))
            found.append({"spread": spread, "late": late, "time": share})
    return found


BENCHES.add(
    "late-parties",
    Bench("what late answers do to training and forgetting", LatePartiesSettings, run, table),
)
