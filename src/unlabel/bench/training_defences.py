"""The paper's two defences in training and forgetting: what noise and compression leave.

For each level an original is trained whose active party adds Gaussian noise of that variance to
every gradient it sends (the rows are not clipped, as in the paper, so nothing is proved), or sends
only that share of its numbers, the largest. Then a label is forgotten with the defence still on.
Gradients are those of a batch's mean loss, so a row has a norm of about 1 / batch times its error.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unlabel.bench.comparison import every_method, methods_of
from unlabel.bench.comparison_summary import plain_name
from unlabel.bench.comparison_table import markdown, where
from unlabel.bench.measures import spread
from unlabel.bench.pictures import expect_plots, labels_in_words, short_name
from unlabel.bench.recipe import Recipe
from unlabel.bench.registry import BENCHES, Bench
from unlabel.bench.training_defences_picture import draw
from unlabel.bench.trials import Trials
from unlabel.errors import PartyRefused, SettingsError, TrainingError
from unlabel.files import write_atomically
from unlabel.forget.settings import DEFAULT_METHOD
from unlabel.party.optimiser import expect

#: Methods that are tried if none is named: the default, ours, and the paper's own.
TRIED = dict.fromkeys((DEFAULT_METHOD, "renormalise", "mixup-ascent"))
#: What is varied, as it stands in tables and pictures.
TITLES = {"noise": "variance of the noise", "keep": "share of the numbers sent"}


@dataclass(frozen=True)
class TrainingDefencesSettings(Recipe):
    """Settings of the bench.

    noises   variances of Gaussian noise on gradients; 0 is none
    keeps    shares of a message's numbers that are sent; 1 is all
    labels   one request: the labels to forget together
    seeds    how many seeds, from 0 on
    methods  as in `single-label`; none stands for the default, renormalise and mixup-ascent
    budget   seconds after which no new piece of work begins; 0 is no limit
    records  JSONL file of the figures; it is read first, and what is there is not repeated
    picture  PNG file to draw into; needs matplotlib
    page     Markdown file to write the tables into
    note     a sentence for that page, below its introduction
    """

    noises: tuple[float, ...] = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
    keeps: tuple[float, ...] = (1.0, 0.5, 0.1, 0.05, 0.01, 0.002)
    labels: tuple[int, ...] = (0,)
    seeds: int = 1
    methods: tuple[str, ...] = ()
    budget: float = 0.0
    records: str = ""
    picture: str = ""
    page: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if self.seeds < 1 or not self.labels:
            raise SettingsError("Expected at least one label and one seed.")
        expect("noises", self.noises, all(v >= 0 for v in self.noises), "variances of 0 or more")
        expect("keeps", self.keeps, all(0 < k <= 1 for k in self.keeps), "shares from 0 to 1")


def levels(settings: TrainingDefencesSettings) -> Iterator[tuple[str, float, tuple[str, ...]]]:
    """Yield what is varied, how far, and the defence in words."""
    for variance in settings.noises:
        word = f"gaussian:clip=0:sigma={math.sqrt(variance):.12g}"
        yield "noise", variance, (word,) if variance else ()
    for keep in settings.keeps:
        yield "keep", keep, (f"top-k:keep={keep:g}",) if keep < 1 else ()


def run(settings: TrainingDefencesSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Train and forget at every level; return a line a model, and their means."""
    expect_plots(settings.picture)
    if settings.is_defended():
        raise SettingsError(
            "Expected no `defend_gradients` and no `defend_embeddings` but got some; use `noises` "
            "and `keeps`."
        )
    names = methods_of(settings.methods) or _tried(settings)
    ends = time.monotonic() + settings.budget if settings.budget else float("inf")
    records: list[dict[str, Any]] = []
    for what, level, words in levels(settings):
        trials = Trials(
            replace(settings, defend_gradients=words),
            settings.labels,
            settings.records,
            lambda text, of=(what, level): say(f"{of[0]} {of[1]:g}, {text}"),  # type: ignore[misc]
            probed=False,
            ends=ends,
        )
        for seed in range(settings.seeds):
            found = _at(trials, names, seed)
            records += [{**line, "what": what, "level": level} for line in found]
    result = {
        "request": "+".join(map(str, settings.labels)),
        "methods": list(names),
        "levels": {"noise": list(settings.noises), "keep": list(settings.keeps)},
        "summary": summarise(records, ("original", *names)),
        "records": records,
        "about": {
            name: getattr(settings, name)
            for name in ("data", "model", "parties", "epochs", "batch", "seeds", "note")
        },
    }
    if settings.picture:
        draw(result, Path(settings.picture))
    if settings.page:
        write_atomically(Path(settings.page), page(result).encode())
    return result


def _tried(settings: TrainingDefencesSettings) -> tuple[str, ...]:
    shown = {plain_name(name): name for name in every_method(settings, len(settings.labels))}
    return tuple(shown[name] for name in TRIED)


def _at(trials: Trials, names: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """Return the lines of one original; a training that fails at this level is a line too."""
    key = {"kind": "untrained", "request": trials.request, "method": "original", "seed": seed}
    failed = trials.records.find(**key)
    if failed is not None:
        return [failed]
    try:
        lines = [trials.original(seed), *(trials.forget(name, seed) for name in names)]
    except (TrainingError, PartyRefused) as error:
        return [trials.records.add(**key, failed=str(error))]
    return [line for line in lines if line is not None]


def summarise(lines: Sequence[dict[str, Any]], methods: Sequence[str]) -> list[dict[str, Any]]:
    """Return one entry a level and method: D_r and y_u in percent, over seeds."""
    found = []
    for what, level in dict.fromkeys((x["what"], x["level"]) for x in lines):
        here = [x for x in lines if (x["what"], x["level"]) == (what, level)]
        untrained = [x for x in here if x["kind"] == "untrained"]
        for method in methods:
            own = [x for x in here if x["method"] == method and "failed" not in x]
            lost = [x for x in here if x["method"] == method and "failed" in x]
            lost += untrained if method != "original" else []
            entry: dict[str, Any] = {"what": what, "level": level, "method": method}
            for name in ("retained", "forgotten"):
                entry[name] = spread([100 * x[name] for x in own if x[name] is not None])
            found.append({**entry, "runs": len(own), "failed": [x["failed"] for x in lost]})
    return found


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return a row a level and method."""
    rows = [["defence", "level", "model", "D_r", "y_u", "failed"]]
    for entry in result["summary"]:
        cells = [_figure(entry[name]) for name in ("retained", "forgotten")]
        name = short_name(entry["method"])
        failed = str(len(entry["failed"])) if entry["failed"] else ""
        rows.append([entry["what"], f"{entry['level']:g}", name, *cells, failed])
    return rows


def page(result: dict[str, Any]) -> str:
    """Return a page in Markdown: a table a defence, with D_r / y_u a level and model."""
    about = result["about"]
    many = "one seed" if about["seeds"] == 1 else f"{about['seeds']} seeds, mean ± deviation"
    parts = [
        f"# Noise and compression in training, and forgetting {labels_in_words(result['request'])}",
        f"{about['data']}, {about['model']}, {about['parties']} passive parties, "
        f"{about['epochs']} epochs, batches of {about['batch']}, {many}; {where(result)}. The "
        f"active party defends every gradient it sends, in training and in forgetting. Each cell "
        f"is D_r / y_u in %: the accuracy on test rows of the other labels and of the forgotten "
        f"ones. Neither defence comes with a bound here: rows are not clipped before the noise.",
        *([about["note"]] if about["note"] else []),
    ]
    models = ["original", *result["methods"]]
    for what, title in TITLES.items():
        rows = [
            [f"{level:g}", *(_cell(result, what, level, name) for name in models)]
            for level in result["levels"][what]
        ]
        heads = [title, *(short_name(name) for name in models)]
        parts += [f"## By {title}", markdown([heads, *rows])]
    return "\n\n".join(parts) + "\n"


def _cell(result: dict[str, Any], what: str, level: float, method: str) -> str:
    for entry in result["summary"]:
        if (entry["what"], entry["level"], entry["method"]) == (what, level, method):
            if not entry["runs"]:
                return "failed" if entry["failed"] else ""
            lost = f" ({len(entry['failed'])} failed)" if entry["failed"] else ""
            return f"{_figure(entry['retained'])} / {_figure(entry['forgotten'])}{lost}"
    return ""


def _figure(found: dict[str, float] | None) -> str:
    if found is None:
        return ""
    around = f" ± {found['deviation']:.1f}" if found["count"] > 1 else ""
    return f"{found['mean']:.1f}{around}"


BENCHES.add(
    "training-defences",
    Bench(
        "noise and compression in training and forgetting: what stays and what goes",
        TrainingDefencesSettings,
        run,
        table,
    ),
)
