"""The frontier: what a request tells the partners, against what it forgets and what it costs.

Every figure is a line of a JSONL file; a bench that starts again on it repeats nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unlabel.audit import observe
from unlabel.audit.measures.probing import LinearProbe
from unlabel.errors import SettingsError, why
from unlabel.federation import Federation
from unlabel_bench.comparison.comparison import methods_of
from unlabel_bench.measures import accuracies, code_digest, key_of, samples_of, settings_digest
from unlabel_bench.originals import open_original, recipe_digest
from unlabel_bench.privacy.frontier import page, picture, table
from unlabel_bench.privacy.leakage import REFERENCE, summarise
from unlabel_bench.privacy.request_attacks import Plan, Requests, plain, summary
from unlabel_bench.privacy.request_guess import RULES, guess_share
from unlabel_bench.privacy.scenes import Scene
from unlabel_bench.privacy.traces import Trace, gather
from unlabel_bench.recipe import RecordedRecipe
from unlabel_bench.records import Records
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.trials import SENSELESS


@dataclass(frozen=True)
class ProcessPrivacySettings(RecordedRecipe):
    """Settings of the bench.

    methods   NAME, NAME@PRESET or NAME:SETTING=VALUE:...; `retrain` is always measured too
    labels    each is a request of its own
    seeds     originals, from seed 0 on, over which everything is averaged
    requests  further requests a method, at random labels, that the attackers learn from and are
              judged on; 0 leaves that out, and the rules are judged on the requests above
    few_shot  public samples of the forgotten label, where a method uses so many
    retained  public samples of every other label
    kept      JSONL file of the further requests, as `records` is of the others
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
    kept: str = ""

    def __post_init__(self) -> None:
        if self.seeds < 1 or not self.labels:
            raise SettingsError("Expected at least one label and one seed.")
        if self.requests < 0 or 0 < self.requests < 4:
            raise SettingsError(
                f"Expected `requests` to be 0, or at least 4 to learn from, but got "
                f"{self.requests}."
            )


def measure(settings: ProcessPrivacySettings, say: Say) -> Result:
    """Measure every method on every label and seed, then attack it."""
    methods = methods_of((*settings.methods, REFERENCE))
    frontier = Frontier(settings, say)
    for seed in range(settings.seeds):
        frontier.measure(seed, methods)
    attacked: dict[str, dict[str, Any]] = {}
    if settings.requests:
        plan = Plan(settings.requests, settings.seeds, settings.few_shot, settings.retained)
        requests = Requests(settings, plan, settings.kept, say)
        for method in methods:
            lines = requests.lines(method)
            say(f"{method}: attacking")
            attacked[method] = summary(method, lines)
    lines = frontier.lines(methods)
    return {
        "summary": summarise(lines, methods, attacked),
        "attacks": attacked,
        "records": lines,
        "about": settings.about(
            "data", "model", "parties", "epochs", "labels", "seeds", "requests"
        ),
    }


class Frontier:
    """One request a label, method and seed, each a line of the records."""

    def __init__(self, settings: ProcessPrivacySettings, say: Say) -> None:
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
        missing = [
            (method, label)
            for method in ("original", *methods)
            for label in self._settings.labels
            if self.records.find(**self._key(method, seed, label)) is None
        ]
        if not missing:
            return
        federation = open_original(
            self._settings, seed, self._say, lambda original: _expect(self._settings, original)
        ).federation
        scene = Scene(federation)
        for method, label in missing:
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
    seen = observe(federation.active, federation.holdings.rows, federation.labels)
    figure = plain(LinearProbe(brief=True).measure(seen, (label,)))
    return {"probe": {name: figure[name] for name in ("value", "low", "high")}}


def _named(trace: Trace, label: int) -> dict[str, float]:
    """Return how likely each rule names the label of one request, by one party's view."""
    one = gather([trace], [label])
    return {rule: float(guess_share(one, rule)[0]) for rule in RULES}


BENCHES.add(
    "process-privacy",
    Bench(
        "what is disclosed against what is forgotten and what it costs, by mode and noise",
        ProcessPrivacySettings,
        measure,
        table,
        page,
        picture,
    ),
)
