"""The frontier: what a request tells the partners, against what it forgets and what it costs.

Every figure is a line of a JSONL file; a bench that starts again on it repeats nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unlabel.audit import look
from unlabel.audit.probing import LinearProbe
from unlabel.audit.request import RULES, guess_share
from unlabel.audit.traces import Trace, gather
from unlabel.bench.comparison import methods_of
from unlabel.bench.measures import accuracies, code_digest, key_of, samples_of, settings_digest
from unlabel.bench.originals import open_original, recipe_digest
from unlabel.bench.pictures import expect_plots
from unlabel.bench.process_privacy_page import page, table
from unlabel.bench.process_privacy_picture import draw
from unlabel.bench.process_privacy_summary import summarise
from unlabel.bench.recipe import Recipe
from unlabel.bench.records import Records
from unlabel.bench.registry import BENCHES, Bench
from unlabel.bench.request_attacks import Plan, Requests, plain, summary
from unlabel.bench.scenes import Scene
from unlabel.bench.trials import SENSELESS
from unlabel.errors import SettingsError, why
from unlabel.federation import Federation
from unlabel.files import write_atomically

#: The model that never saw the label, which residual knowledge is read against.
REFERENCE = "retrain"


@dataclass(frozen=True)
class ProcessPrivacySettings(Recipe):
    """Settings of the bench.

    methods   NAME, NAME@PRESET or NAME:SETTING=VALUE:...; `retrain` is always measured too
    labels    each is a request of its own
    seeds     originals, from seed 0 on, over which everything is averaged
    requests  further requests a method, at random labels, that the attackers learn from and are
              judged on; 0 leaves that out, and the rules are judged on the requests above
    few_shot  public samples of the forgotten label, where a method uses so many
    retained  public samples of every other label
    records   JSONL file of the figures; it is read first, and what is there is not repeated
    kept      JSONL file of the further requests, likewise
    picture   PNG file to draw into; needs matplotlib
    page      Markdown file to write the table into
    note      a sentence for that page, below its introduction
    """

    methods: tuple[str, ...] = (
        *("renormalise", "hidden", "hidden:noise=4.0", "hidden:noise=2.0", "hidden:noise=1.0"),
        *("hidden:noise=0.5", "deep", "mask", "retrain"),
    )
    labels: tuple[int, ...] = (0, 3, 8)
    seeds: int = 3
    requests: int = 60
    few_shot: int = 40
    retained: int = 3
    records: str = ""
    kept: str = ""
    picture: str = ""
    page: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if self.seeds < 1 or not self.labels:
            raise SettingsError("Expected at least one label and one seed.")
        if self.requests < 0 or 0 < self.requests < 4:
            raise SettingsError(
                f"Expected `requests` to be 0, or at least 4 to learn from, but got "
                f"{self.requests}."
            )


def run(settings: ProcessPrivacySettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure every method on every label and seed, then attack it."""
    expect_plots(settings.picture)
    asked = methods_of(settings.methods)
    methods = asked if REFERENCE in asked else (*asked, REFERENCE)
    frontier = Frontier(settings, say)
    for seed in range(settings.seeds):
        frontier.measure(seed, methods)
    attacked: dict[str, dict[str, Any]] = {}
    if settings.requests:
        plan = Plan(settings.requests, settings.seeds, settings.few_shot, settings.retained)
        requests = Requests(settings, plan, settings.kept, say)
        for method in methods:
            lines = requests.made(method)
            say(f"{method}: attacking")
            attacked[method] = summary(method, lines)
    lines = frontier.lines(methods)
    result = {
        "summary": summarise(lines, methods, attacked),
        "attacks": attacked,
        "records": lines,
        "about": {
            name: getattr(settings, name)
            for name in (
                "data",
                "model",
                "parties",
                "epochs",
                "labels",
                "seeds",
                "requests",
                "note",
            )
        },
    }
    if settings.picture:
        draw(result, Path(settings.picture))
    if settings.page:
        write_atomically(Path(settings.page), page(result).encode())
    return result


class Frontier:
    """One request a label, method and seed, each a line of the records."""

    def __init__(self, settings: ProcessPrivacySettings, say: Callable[[str], None]) -> None:
        self._settings, self._say = settings, say
        about = f"{recipe_digest(settings)} {settings.few_shot} {settings.retained}"
        self.records = Records(settings.records, about)

    def lines(self, methods: tuple[str, ...]) -> list[dict[str, Any]]:
        """Return the lines of these settings, those of the original first."""
        return [
            line
            for method in ("original", *methods)
            for seed in range(self._settings.seeds)
            for label in self._settings.labels
            if (line := self.records.find(**self._key(method, seed, label))) is not None
        ]

    def measure(self, seed: int, methods: tuple[str, ...]) -> None:
        """Measure what is not there yet of one seed."""
        wanted = [
            (method, label)
            for method in ("original", *methods)
            for label in self._settings.labels
            if self.records.find(**self._key(method, seed, label)) is None
        ]
        if not wanted:
            return
        federation = open_original(
            self._settings, seed, self._say, lambda found: _expect(self._settings, found)
        ).federation
        scene = Scene(federation)
        for method, label in wanted:
            self._say(f"seed {seed}, label {label}: {method}")
            if method == "original":
                line = _original(federation, label)
            else:
                line = self._forget(scene, method, seed, label)
            self.records.add(**self._key(method, seed, label), **line)

    def _key(self, method: str, seed: int, label: int) -> dict[str, Any]:
        key = {"kind": "frontier", "method": method, "seed": seed, "label": label}
        if method == "original":
            return key
        return key | {"settings": settings_digest(method), "code": code_digest(method)}

    def _forget(self, scene: Scene, method: str, seed: int, label: int) -> dict[str, Any]:
        options = {"few_shot": self._settings.few_shot, "retained": self._settings.retained}
        try:
            shown = scene.show(
                [label],
                method,
                lambda federation: _probe(federation, label),
                key=key_of("frontier", method, seed, label),
                **{**options, **samples_of(method)},
            )
        except SENSELESS as error:
            return {"failed": why(error)}
        return {
            "outcome": shown.outcome,
            "rows": shown.rows,
            "named": _named(shown.traces["one party"], label),
            "labels": len(scene.names),
            **shown.more,
        }


def _expect(settings: ProcessPrivacySettings, federation: Federation) -> None:
    known = len(federation.labels)
    wrong = [label for label in settings.labels if not 0 <= label < known]
    if wrong:
        raise SettingsError(f"Expected `labels` to be some of 0 to {known - 1} but got {wrong[0]}.")


def _original(federation: Federation, label: int) -> dict[str, Any]:
    """Return what holds before any request."""
    retained, forgotten = accuracies(federation, [label])
    outcome = {"retained": retained, "forgotten": forgotten}
    return {"outcome": outcome, **_probe(federation, label)}


def _probe(federation: Federation, label: int) -> dict[str, Any]:
    """Return what a linear probe with one label a class finds in the embeddings."""
    seen = look(federation.active, federation.holdings.rows, federation.labels)
    found = plain(LinearProbe(brief=True).measure(seen, (label,)))
    return {"probe": {name: found[name] for name in ("value", "low", "high")}}


def _named(trace: Trace, label: int) -> dict[str, float]:
    """Return how likely each rule names the label of one request, by one party's view."""
    one = gather([trace], [label])
    return {rule: float(guess_share(one, rule)[0]) for rule in RULES}


BENCHES.add(
    "process-privacy",
    Bench(
        "what partners are told against what is forgotten and what it costs, by mode and noise",
        ProcessPrivacySettings,
        run,
        table,
    ),
)
