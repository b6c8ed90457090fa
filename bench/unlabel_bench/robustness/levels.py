"""What the benches of robustness share: one request under circumstances that get harder by levels.

A level is a recipe, options of the request, and what is done to its public set. At every level and
seed each method forgets the same labels from the same trained original, is measured, and is taken
back. A method that looks at no public sample is the same at all levels of a recipe, and is measured
once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unlabel.config import expect
from unlabel.errors import ForgetError, PublicMismatch, SettingsError, TrainingError, why
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings, Outcome, PublicSet, plan, service
from unlabel.forget.plan import expect_fits
from unlabel_bench.measures import (
    accuracies,
    code_digest,
    figures_of,
    key_of,
    probe,
    read_method,
    settings_digest,
)
from unlabel_bench.originals import Original, open_original, recipe_digest
from unlabel_bench.provenance import place_of
from unlabel_bench.recipe import Recipe, RecordedRecipe
from unlabel_bench.records import Records
from unlabel_bench.robustness.public_noise import ASCENT
from unlabel_bench.trials import SENSELESS

#: Methods that are tried if none is named: ours for each mode, the hidden one in the form that
#: public samples teach, the paper's at rates at which it forgets, and what all are held against.
TRIED = ("hidden:samples=public", "renormalise", ASCENT, "deep", "mask", "retrain")
#: The level of a method that no level changes.
ANY = "any"

Change = Callable[[Federation, PublicSet, int], PublicSet]


def keep(federation: Federation, public: PublicSet, seed: int) -> PublicSet:  # noqa: ARG001
    """Leave a public set as it is."""
    return public


@dataclass(frozen=True)
class RobustnessSettings(RecordedRecipe):
    """Settings of the bench.

    labels   one request: the labels to forget together
    seeds    how many seeds, from 0 on
    methods  as in the bench `forgetting`; none stands for hidden:samples=public, renormalise,
             the paper's at rates at which it forgets, deep, mask and retrain
    """

    labels: tuple[int, ...] = (0,)
    seeds: int = 3
    methods: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        expect("seeds", self.seeds, self.seeds >= 1, "at least 1")
        if not self.labels:
            raise SettingsError("Expected at least one label but got none.")
        for name in self.methods:
            read_method(name)

    def tried(self) -> tuple[str, ...]:
        """Return the methods, each once."""
        return tuple(dict.fromkeys(self.methods or TRIED))


@dataclass(frozen=True)
class Circumstance:
    """Circumstances under which a request is made.

    name     as it stands in tables
    recipe   of the original
    options  of the request
    change   what is done to its public set, which is given the federation and the seed
    """

    name: str
    recipe: Recipe
    options: Mapping[str, Any] = field(default_factory=dict)
    change: Change = keep


class Ladder:
    """The levels of one bench, climbed by every method.

    bench  name of the bench, part of the key of every figure
    apart  levels have originals of their own, so that no method is the same at two of them
    """

    def __init__(
        self,
        bench: str,
        settings: RobustnessSettings,
        say: Callable[[str], None],
        *,
        apart: bool = False,
    ) -> None:
        self.bench, self.settings, self.say, self._apart = bench, settings, say, apart
        self.request = "+".join(map(str, settings.labels))
        self._open: tuple[str, int, Original] | None = None
        self._records: dict[str, Records] = {}
        self._where: dict[str, Any] | None = None

    def climb(self, levels: Sequence[Circumstance]) -> list[dict[str, Any]]:
        """Return a line a level, method and seed, the untouched original being a method too."""
        lines: dict[str, dict[str, Any]] = {}
        for seed in range(self.settings.seeds):
            for level in levels:
                for method in ("original", *self.settings.tried()):
                    line = self.measure(level, method, seed)
                    lines[repr((line["recipe"], line["level"], method, seed))] = line
        return list(lines.values())

    def measure(self, level: Circumstance, method: str, seed: int) -> dict[str, Any]:
        """Return the figures of a method at a level, measuring what the records do not have."""
        name = level.name if self._apart or looks(method) else ANY
        key = self.key(name, method, seed, self.request)
        records = self.records(level.recipe)
        known = records.find(**key)
        if known is not None:
            return known
        federation = self.original(level.recipe, seed)
        figures = self._figures(federation, level, method, seed)
        text = figures.get("failed") or _in_words(figures)
        self.say(f"seed {seed}, {name}, {method}: {text}")
        return records.add(**key, **figures, where=self.where())

    def key(self, level: str, method: str, seed: int, request: str) -> dict[str, Any]:
        """Return what a line is a figure of; a method that has changed is another one."""
        key: dict[str, Any] = {"bench": self.bench, "level": level, "request": request}
        key |= {"method": method, "seed": seed}
        if method == "original":
            return key
        return key | {"settings": settings_digest(method), "code": code_digest(method)}

    def records(self, recipe: Recipe) -> Records:
        """Return the records of a recipe."""
        digest = recipe_digest(recipe)
        if digest not in self._records:
            self._records[digest] = Records(self.settings.records, digest)
        return self._records[digest]

    def original(self, recipe: Recipe, seed: int) -> Federation:
        """Return the original of a recipe and a seed; the last one is kept open."""
        digest = recipe_digest(recipe)
        if self._open is None or self._open[:2] != (digest, seed):
            self._open = None
            self._open = (digest, seed, open_original(recipe, seed, self.say))
        return self._open[2].federation

    def where(self) -> dict[str, Any]:
        """Return where figures come from; looked up once."""
        if self._where is None:
            self._where = place_of(self.settings, self.settings.device)
        return self._where

    def _figures(
        self, federation: Federation, level: Circumstance, method: str, seed: int
    ) -> dict[str, Any]:
        """Forget and take it back; a method that fails is a figure too."""
        labels = self.settings.labels
        if method == "original":
            retained, forgotten = accuracies(federation, labels)
            return {"retained": retained, "forgotten": forgotten, **probe(federation, labels)}
        try:
            outcome, refused = self._forget(federation, level, method, seed)
        except (ForgetError, TrainingError) as error:
            return {"failed": str(error)}
        result = outcome.result
        figures = {
            **figures_of(result),
            "agreement": result.public_agreement,
            "warning": result.warning,
            "refused": refused,
        }
        try:
            return figures | probe(federation, labels)
        except SENSELESS as error:
            return {"failed": f"What it left cannot be measured: {why(error)}."}
        finally:
            outcome.rollback()

    def _forget(
        self, federation: Federation, level: Circumstance, method: str, seed: int
    ) -> tuple[Outcome, str]:
        """Return the outcome, and why it was refused before it was forced, if it was."""
        refused = ""
        while True:
            work = plan(
                federation,
                labels=self.settings.labels,
                settings=ForgetSettings(
                    method=read_method(method),
                    key=key_of(seed, self.request),
                    allow_collapse=True,
                    allow_disclosure=True,
                    measure_drift=False,
                    any_public=bool(refused),
                    **level.options,
                ),
            )
            work = replace(work, public=level.change(federation, work.public, seed))
            try:
                expect_fits(work)
                return service.carry_out(federation, work), refused
            except PublicMismatch as error:
                if refused:
                    raise
                refused = str(error)


def looks(method: str) -> bool:
    """Return whether a method looks at public samples; the untouched original does not."""
    return method != "original" and "public" in read_method(method).disclosure.rows


def _in_words(figures: Mapping[str, Any]) -> str:
    retained, forgotten = (100 * (figures[name] or 0) for name in ("retained", "forgotten"))
    return f"retained {retained:.2f}, forgotten {forgotten:.2f}"
