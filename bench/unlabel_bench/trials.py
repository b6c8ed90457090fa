"""Requests carried out one after another on the same originals, each a line of the records."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from unlabel.errors import (
    ForgetError,
    PartyRefused,
    SettingsError,
    TrainingError,
    UnlabelError,
    why,
)
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings, Method, Outcome
from unlabel_bench.measures import (
    accuracies,
    code_digest,
    figures_of,
    key_of,
    probe,
    read_method,
    samples_of,
    settings_digest,
)
from unlabel_bench.originals import Original, open_original, recipe_digest
from unlabel_bench.provenance import place_of
from unlabel_bench.recipe import Recipe
from unlabel_bench.records import Records

#: Seconds from which a request is not repeated: warming up is little beside them.
LONG = 5.0
#: What a line is a figure of; where several lines have the same, the last one counts.
KEY = ("kind", "request", "method", "seed", "settings", "repeats")
#: What a model that a method has left without sense makes of the measurements.
SENSELESS = (UnlabelError, ValueError, LinAlgError)
#: Returns figures of the model of a federation, which is that of a seed.
Look = Callable[[Federation, int], dict[str, Any]]


def end_of(budget: float) -> float:
    """Return when no new piece of work begins, by `time.monotonic`; a budget of 0 has no end."""
    return time.monotonic() + budget if budget else float("inf")


class Trials:
    """Requests for some labels, on the originals of a recipe.

    records  JSONL file of the figures; what is there is not repeated
    repeats  times each request is made; the last, a warm one, is the one that counts
    probed   whether attack and probes are measured as well
    look     what is measured of a model of a seed in their place
    ends     when no new piece of work begins, by `time.monotonic`
    """

    def __init__(
        self,
        recipe: Recipe,
        labels: Sequence[int],
        records: str,
        say: Callable[[str], None],
        *,
        repeats: int = 1,
        probed: bool = True,
        look: Look | None = None,
        ends: float = float("inf"),
    ) -> None:
        self.recipe = recipe
        self.labels = tuple(labels)
        self.request = "+".join(map(str, labels))
        self.records = Records(records, recipe_digest(recipe))
        self.repeats, self.probed, self.ends = repeats, probed, ends
        self._say, self._look = say, look
        self._open: tuple[int, Original] | None = None
        self._where: dict[str, Any] | None = None

    def lines(self) -> list[dict[str, Any]]:
        """Return the figures of this request: the last of each key, made by the present code."""
        last: dict[tuple[Any, ...], dict[str, Any]] = {}
        for line in self.records.of_recipe():
            if line.get("request") == self.request:
                last[tuple(line.get(name) for name in KEY)] = line
        return [line for line in last.values() if fresh(line)]

    def original(self, seed: int) -> dict[str, Any] | None:
        """Measure the model that nobody has asked to forget; None where the time is over."""
        key = {**self._about("forget", "original", seed)}
        known = self._find(key)
        if known is not None or self._over():
            return known
        original = self._original(seed)
        retained, forgotten = accuracies(original.federation, self.labels)
        return self.records.add(
            **key,
            retained=retained,
            forgotten=forgotten,
            **self._probe(original.federation, seed),
            train_seconds=original.seconds,
            epoch_seconds=original.epoch_seconds,
            where=self._place(original.federation),
        )

    def forget(self, method: str, seed: int, *, tuned: bool = False) -> dict[str, Any] | None:
        """Forget with a method and take it back; None where the time is over.

        A method that fails is a figure too.
        """
        key = {**self._about("forget", method, seed), "repeats": self.repeats}
        known = self._find(key)
        if known is not None or self._over():
            return known
        federation = self._original(seed).federation
        line = {**key, "code": code_digest(method), **facts(read_method(method))}
        line |= {"tuned": True} if tuned else {}
        try:
            outcome, seconds = self._request(federation, method, seed)
            line |= self._figures(federation, outcome, seed) | {"seconds_all": seconds}
        except (ForgetError, PartyRefused, TrainingError) as error:
            line["failed"] = str(error)
        line = self.records.add(**line, where=self._place(federation))
        self._say(f"seed {seed} {method} {self.request}: {in_words(line)}")
        return line

    def judge(self, method: str, seed: int = 0) -> dict[str, Any] | None:
        """Forget and judge on validation rows alone; None where the time is over."""
        key = self._about("sweep", method, seed)
        known = self._find(key)
        if known is not None or self._over():
            return known
        federation = self._original(seed).federation
        line = {**key, "code": code_digest(method)}
        try:
            outcome = self._once(federation, method, seed)
            try:
                retained, forgotten = accuracies(federation, self.labels, "validation")
                line |= {"retained": retained, "forgotten": forgotten}
                line["seconds"] = outcome.result.seconds
            except SENSELESS as error:
                line["failed"] = f"What it left cannot be measured: {why(error)}."
            finally:
                outcome.rollback()
        except (ForgetError, PartyRefused, TrainingError) as error:
            line["failed"] = str(error)
        line = self.records.add(**line, where=self._place(federation))
        self._say(f"sweep {method} {self.request}: {in_words(line)}")
        return line

    def _about(self, kind: str, method: str, seed: int) -> dict[str, Any]:
        """Return what a line is a figure of; a method whose defaults changed is another one."""
        named = kind if self.probed or kind == "sweep" else "timing"
        key = {"kind": named, "request": self.request, "method": method, "seed": seed}
        return key if method == "original" else key | {"settings": settings_digest(method)}

    def _find(self, key: dict[str, Any]) -> dict[str, Any] | None:
        """Return the line of a key, unless the method's code has changed since."""
        line = self.records.find(**key)
        return line if line is not None and fresh(line) else None

    def _over(self) -> bool:
        return time.monotonic() > self.ends

    def _original(self, seed: int) -> Original:
        """Return the original of a seed; one at a time, since a large one fills a device."""
        if self._open is None or self._open[0] != seed:
            self._open = None
            self._open = (seed, open_original(self.recipe, seed, self._say, self._expect_labels))
        return self._open[1]

    def _expect_labels(self, federation: Federation) -> None:
        known = len(federation.labels)
        wrong = [label for label in self.labels if not 0 <= label < known]
        if wrong or len(set(self.labels)) < len(self.labels) or len(self.labels) >= known:
            raise SettingsError(
                f"Expected `labels` to be some of 0 to {known - 1}, each once and not all, "
                f"but got {','.join(map(str, self.labels))}."
            )

    def _once(self, federation: Federation, method: str, seed: int) -> Outcome:
        return federation.forget(
            self.labels,
            settings=ForgetSettings(
                method=read_method(method),
                key=key_of(seed, self.request),
                allow_collapse=True,
                allow_disclosure=True,
                measure_drift=False,
                **samples_of(method),
            ),
        )

    def _request(
        self, federation: Federation, method: str, seed: int
    ) -> tuple[Outcome, list[float]]:
        """Forget `repeats` times; the last outcome is still to be rolled back."""
        seconds: list[float] = []
        while True:
            outcome = self._once(federation, method, seed)
            seconds.append(outcome.result.seconds)
            if len(seconds) >= self.repeats or seconds[-1] > LONG:
                return outcome, seconds
            outcome.rollback()

    def _probe(self, federation: Federation, seed: int) -> dict[str, Any]:
        """Return what is measured of a model beside its accuracies."""
        if self._look is not None:
            return self._look(federation, seed)
        return dict(probe(federation, self.labels)) if self.probed else {}

    def _figures(self, federation: Federation, outcome: Outcome, seed: int) -> dict[str, Any]:
        """Return what an outcome came to, and take it back."""
        figures = figures_of(outcome.result)
        try:
            return figures | self._probe(federation, seed)
        except SENSELESS as error:
            return {"failed": f"What it left cannot be measured: {why(error)}."}
        finally:
            outcome.rollback()

    def _place(self, federation: Federation) -> dict[str, Any]:
        """Return where figures come from; looked up once."""
        if self._where is None:
            self._where = place_of(self.recipe, federation.active.device.type)
        return self._where


def fresh(line: dict[str, Any]) -> bool:
    """Return whether a line was made by the present code of its method.

    A line that does not say, from before lines did, is taken as it is.
    """
    return "code" not in line or bool(line["code"] == code_digest(line["method"]))


def facts(method: Method) -> dict[str, Any]:
    """Return what a method needs and tells, as plain data."""
    tells = method.disclosure
    return {
        "needs": method.needs,
        "tells": {
            "rows": sorted(tells.rows),
            "gradients": sorted(tells.gradients),
            "alone": tells.alone,
            "messages": sorted(tells.messages),
        },
        "names_rows": method.disclosure.names_rows(),
        "shows_rows": method.shows_rows,
        "control": method.is_control,
    }


def in_words(line: dict[str, Any]) -> str:
    """Return a line for people."""
    if "failed" in line:
        return str(line["failed"])
    retained, forgotten = (100 * (line[name] or 0) for name in ("retained", "forgotten"))
    return f"retained {retained:.2f}, forgotten {forgotten:.2f} in {line['seconds']:.3f} s"
