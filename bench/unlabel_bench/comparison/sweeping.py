"""The sweeps of a comparison alone: every method's settings tried, and one of each chosen.

All are judged on validation rows of seed 0 (`sweep.choose`), so no test row has a say. Every try
is a line of the records; started again, the bench goes on where it stopped, and a comparison takes
the choices by `tuned_from`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unlabel.errors import SettingsError
from unlabel_bench import markdown
from unlabel_bench.comparison.comparison import every_method, methods_of
from unlabel_bench.markdown import labels_in_words
from unlabel_bench.recipe import RecordedRecipe
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.sweep import candidates, sweep
from unlabel_bench.trials import Trials, end_of


@dataclass(frozen=True)
class SweepSettings(RecordedRecipe):
    """Settings of the bench.

    labels   one request: the labels to forget together
    methods  as in the comparison; none stands for all of them
    budget   seconds after which no new piece of work begins; 0 is no limit
    """

    labels: tuple[int, ...] = (0,)
    methods: tuple[str, ...] = ()
    budget: float = 0.0

    def __post_init__(self) -> None:
        if not self.labels:
            raise SettingsError("Expected at least one label but got none.")
        if not self.validation:
            raise SettingsError("Expected `validation` above 0 but got 0: it is judged there.")


def measure(settings: SweepSettings, say: Say) -> Result:
    """Try every candidate of every method that has a sweep; return tries and choices."""
    names = methods_of(settings.methods) or every_method(settings, len(settings.labels))
    ends = end_of(settings.budget)
    trials = Trials(settings, settings.labels, settings.records, say, ends=ends)
    swept = {name: candidates(name) for name in names}
    choices = {name: sweep(trials, name) for name, forms in swept.items() if forms}
    lines = {line["method"]: line for line in trials.lines() if line["kind"] == "sweep"}
    return {
        "request": trials.request,
        "methods": [
            {
                "method": name,
                "chosen": choice["chosen"] if choice else None,
                "tried": [_try(lines[form]) for form in swept[name] if form in lines],
                "forms": len(swept[name]),
            }
            for name, choice in choices.items()
        ],
        "records": list(lines.values()),
        "about": settings.about("data", "model", "parties", "epochs"),
    }


def _try(line: dict[str, Any]) -> dict[str, Any]:
    figures = ("method", "retained", "forgotten", "seconds", "failed")
    return {name: line[name] for name in figures if name in line}


def table(result: Result) -> list[list[str]]:
    """Return a row a try; the chosen one is marked."""
    rows = [["method", "retained", "forgotten", "seconds", ""]]
    for entry in result["methods"]:
        for line in entry["tried"]:
            mark = "chosen" if line["method"] == entry["chosen"] else ""
            cells = [_percent(line.get(name)) for name in ("retained", "forgotten")]
            seconds = "" if "failed" in line else f"{line['seconds']:.2f}"
            rows.append([line["method"], *cells, seconds, "failed" if "failed" in line else mark])
        if len(entry["tried"]) < entry["forms"]:
            left = entry["forms"] - len(entry["tried"])
            rows.append([entry["method"], "", "", "", f"{left} still to try"])
    return rows


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"


def page(result: Result) -> str:
    """Return the page."""
    about = result["about"]
    return markdown.page(
        f"# Settings tried for forgetting {labels_in_words(result['request'])}",
        f"{about['data']}, {about['model']}, {about['parties']} passive parties, "
        f"{about['epochs']} epochs, seed 0; accuracies in percent on validation rows. Of the "
        f"settings with a forgotten accuracy of 1 % or less the one with the highest retained "
        f"accuracy is chosen, else the one with the lowest forgotten accuracy.",
        markdown.in_words(about.get("note", "")),
        markdown.table(table(result)),
    )


BENCHES.add(
    "sweep",
    Bench(
        "settings of every method, tried on validation rows; goes on where it stopped",
        SweepSettings,
        measure,
        table,
        page,
    ),
)
