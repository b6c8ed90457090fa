"""Requests carried out one after another on the same originals, each a line of the records."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from unlabel.bench.measures import (
    accuracies,
    code_digest,
    figures_of,
    key_of,
    probe,
    read_method,
    samples_of,
    settings_digest,
)
from unlabel.bench.originals import Original, open_original, recipe_digest
from unlabel.bench.provenance import provenance
from unlabel.bench.recipe import Recipe
from unlabel.bench.records import Records
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

#: Seconds from which a request is not repeated: warming up is little beside them.
LONG = 5.0
#: What a line is a figure of; where several lines have the same, the last one counts.
KEY = ("kind", "request", "method", "seed", "settings", "repeats")
#: What a model that a method has left without sense makes of the measurements.
SENSELESS = (UnlabelError, ValueError, LinAlgError)


class Trials:
    """Requests for some labels, on the originals of a recipe.

    records  JSONL file of the figures; what is there is not repeated
    repeats  times each request is made; the last, a warm one, is the one that counts
    probed   whether attack and probes are measured as well
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
        ends: float = float("inf"),
    ) -> None:
        self.recipe = recipe
        self.labels = tuple(labels)
        self.request = "+".join(map(str, labels))
        self.records = Records(records, recipe_digest(recipe))
        self.repeats, self.probed, self.ends = repeats, probed, ends
        self._say = say
        self._open: tuple[int, Original] | None = None
        self._where: dict[str, Any] | None = None

    def lines(self) -> list[dict[str, Any]]:
        """Return the figures of this request: the last of each key, made by the present code."""
        last: dict[tuple[Any, ...], dict[str, Any]] = {}
        for line in self.records.own():
            if line.get("request") == self.request:
                last[tuple(line.get(name) for name in KEY)] = line
        return [line for line in last.values() if fresh(line)]

    def original(self, seed: int) -> dict[str, Any] | None:
        """Measure the model that nobody has asked to forget; None where the time is over."""
        key = {**self._about("forget", "original", seed)}
        found = self._find(key)
        if found is not None or self._over():
            return found
        original = self._original(seed)
        retained, forgotten = accuracies(original.federation, self.labels)
        return self.records.add(
            **key,
            retained=retained,
            forgotten=forgotten,
            **(probe(original.federation, self.labels) if self.probed else {}),
            train_seconds=original.seconds,
            epoch_seconds=original.epoch_seconds,
            where=self._place(original.federation),
        )

    def forget(self, method: str, seed: int, *, tuned: bool = False) -> dict[str, Any] | None:
        """Forget with a method and take it back; None where the time is over.

        A method that fails is a figure too.
        """
        key = {**self._about("forget", method, seed), "repeats": self.repeats}
        found = self._find(key)
        if found is not None or self._over():
            return found
        federation = self._original(seed).federation
        line = {**key, "code": code_digest(method), **facts(read_method(method))}
        line |= {"tuned": True} if tuned else {}
        try:
            outcome, seconds = self._request(federation, method, seed)
            line |= self._figures(federation, outcome) | {"seconds_all": seconds}
        except (ForgetError, PartyRefused, TrainingError) as error:
            line["failed"] = str(error)
        line = self.records.add(**line, where=self._place(federation))
        self._say(f"seed {seed} {method} {self.request}: {in_words(line)}")
        return line

    def judge(self, method: str, seed: int = 0) -> dict[str, Any] | None:
        """Forget and judge on validation rows alone; None where the time is over."""
        key = self._about("sweep", method, seed)
        found = self._find(key)
        if found is not None or self._over():
            return found
        federation = self._original(seed).federation
        line = {**key, "code": code_digest(method)}
        try:
            outcome = self._once(federation, method, seed)
            try:
                stays, gone = accuracies(federation, self.labels, "validation")
                line |= {"retained": stays, "forgotten": gone, "seconds": outcome.result.seconds}
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
        asked = kind if self.probed or kind == "sweep" else "timing"
        key = {"kind": asked, "request": self.request, "method": method, "seed": seed}
        return key if method == "original" else key | {"settings": settings_digest(method)}

    def _find(self, key: dict[str, Any]) -> dict[str, Any] | None:
        """Return the line of a key, unless the method's code has changed since."""
        found = self.records.find(**key)
        return found if found is not None and fresh(found) else None

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
                measure_drift=False,
                **samples_of(method),
            ),
        )

    def _request(
        self, federation: Federation, method: str, seed: int
    ) -> tuple[Outcome, list[float]]:
        """Forget as often as is asked; the last outcome is still to be taken back."""
        seconds: list[float] = []
        while True:
            outcome = self._once(federation, method, seed)
            seconds.append(outcome.result.seconds)
            if len(seconds) >= self.repeats or seconds[-1] > LONG:
                return outcome, seconds
            outcome.rollback()

    def _figures(self, federation: Federation, outcome: Outcome) -> dict[str, Any]:
        """Return what an outcome came to, and take it back."""
        figures = figures_of(outcome.result)
        try:
            return figures | (probe(federation, self.labels) if self.probed else {})
        except SENSELESS as error:
            return {"failed": f"What it left cannot be measured: {why(error)}."}
        finally:
            outcome.rollback()

    def _place(self, federation: Federation) -> dict[str, Any]:
        """Return where figures come from; looked up once."""
        if self._where is None:
            found = provenance(self.recipe)
            machine = found["machine"]
            cpu = f"cpu ({machine['system']}, {machine['threads']} of {machine['cores']} cores)"
            gpu = federation.active.device.type == "cuda"
            self._where = {
                "device": machine["gpu"] if gpu else cpu,
                "torch": found["versions"]["torch"],
                "commit": found["commit"],
            }
        return self._where


def fresh(line: dict[str, Any]) -> bool:
    """Return whether a line was made by the present code of its method.

    A line that does not say, from before lines did, is taken as it is.
    """
    return "code" not in line or bool(line["code"] == code_digest(line["method"]))


def facts(method: Method) -> dict[str, Any]:
    """Return what a method needs and tells, as plain data."""
    told = method.tells()
    return {
        "needs": method.needs(),
        "tells": {
            "rows": sorted(told.rows),
            "gradients": sorted(told.gradients),
            "alone": told.alone,
            "messages": sorted(told.messages),
        },
        "names_rows": method.names_rows(),
        "shows_rows": method.shows_rows(),
        "control": method.is_control(),
    }


def in_words(line: dict[str, Any]) -> str:
    """Return a line for people."""
    if "failed" in line:
        return str(line["failed"])
    stays, gone = (100 * (line[name] or 0) for name in ("retained", "forgotten"))
    return f"D_r {stays:.2f} y_u {gone:.2f} in {line['seconds']:.3f} s"
