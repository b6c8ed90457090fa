"""The paper's two defences in training and forgetting: what noise and compression leave.

For each level an original is trained whose active party adds Gaussian noise of that variance to
every gradient it sends (the rows are not clipped, as in the paper, so nothing is proved), or sends
only that share of its numbers, the largest. Then a label is forgotten with the defence still on.
Gradients are those of a batch's mean loss, so a row has a norm of about 1 / batch times its error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unlabel.config import expect
from unlabel.errors import PartyRefused, SettingsError, TrainingError
from unlabel.forget.settings import DEFAULT_METHOD
from unlabel_bench import markdown
from unlabel_bench.comparison.comparison import every_method, methods_of
from unlabel_bench.comparison.page import AXES
from unlabel_bench.drawing import GRID, Panel, Picture, with_deviations
from unlabel_bench.markdown import FIGURES, labels_in_words, plain_name, short_name, where
from unlabel_bench.recipe import RecordedRecipe
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.summary import failures, grouped, spread_of
from unlabel_bench.trials import Trials, end_of

#: Methods that are tried if none is named: the default, ours, and the paper's own.
TRIED = dict.fromkeys((DEFAULT_METHOD, "renormalise", "mixup-ascent"))
#: What is varied, as it stands in tables and pictures.
TITLES = {"noise": "variance of the noise", "keep": "share of the numbers sent"}
UNDER = {
    "noise": "variance of the noise on each gradient",
    "keep": "share of the gradients' numbers that is sent",
}

Line = dict[str, Any]


@dataclass(frozen=True)
class TrainingDefencesSettings(RecordedRecipe):
    """Settings of the bench.

    noises   variances of Gaussian noise on gradients; 0 is none
    keeps    shares of a message's numbers that are sent; 1 is all
    labels   one request: the labels to forget together
    seeds    how many seeds, from 0 on
    methods  as in `single-label`; none stands for the default, renormalise and mixup-ascent
    budget   seconds after which no new piece of work begins; 0 is no limit
    """

    noises: tuple[float, ...] = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
    keeps: tuple[float, ...] = (1.0, 0.5, 0.1, 0.05, 0.01, 0.002)
    labels: tuple[int, ...] = (0,)
    seeds: int = 1
    methods: tuple[str, ...] = ()
    budget: float = 0.0

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


def measure(settings: TrainingDefencesSettings, say: Say) -> Result:
    """Train and forget at every level; return a line a model, and their means."""
    if settings.is_defended():
        raise SettingsError(
            "Expected no `defend_gradients` and no `defend_embeddings` but got some; use `noises` "
            "and `keeps`."
        )
    names = methods_of(settings.methods) or _tried(settings)
    ends = end_of(settings.budget)
    records: list[Line] = []
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
            lines = _at(trials, names, seed)
            records += [{**line, "what": what, "level": level} for line in lines]
    return {
        "request": "+".join(map(str, settings.labels)),
        "methods": list(names),
        "levels": {"noise": list(settings.noises), "keep": list(settings.keeps)},
        "summary": summarise(records, ("original", *names)),
        "records": records,
        "about": settings.about("data", "model", "parties", "epochs", "batch", "seeds"),
    }


def _tried(settings: TrainingDefencesSettings) -> tuple[str, ...]:
    shown = {plain_name(name): name for name in every_method(settings, len(settings.labels))}
    return tuple(shown[name] for name in TRIED)


def _at(trials: Trials, names: Sequence[str], seed: int) -> list[Line]:
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


def summarise(lines: Sequence[Line], methods: Sequence[str]) -> list[Line]:
    """Return one entry a level and method: both accuracies in percent, over seeds."""
    entries = []
    for key, here in grouped(lines, "what", "level"):
        untrained = [x["failed"] for x in here if x["kind"] == "untrained"]
        for method in methods:
            whole, failed = failures([x for x in here if x["method"] == method])
            failed += untrained if method != "original" else []
            figures = {name: spread_of(whole, name, 100) for name in ("retained", "forgotten")}
            entries.append(
                {**key, "method": method, **figures, "runs": len(whole), "failed": failed}
            )
    return entries


def table(result: Result) -> list[list[str]]:
    """Return a row a level and method."""
    rows = [["defence", "level", "model", FIGURES["retained"], FIGURES["forgotten"], "failed"]]
    for entry in result["summary"]:
        cells = [markdown.figure(entry[name], 1) for name in ("retained", "forgotten")]
        failed = str(len(entry["failed"])) if entry["failed"] else ""
        name = short_name(entry["method"])
        rows.append([entry["what"], f"{entry['level']:g}", name, *cells, failed])
    return rows


def page(result: Result) -> str:
    """Return a page in Markdown: a table a defence, with both accuracies a level and model."""
    about = result["about"]
    models = ["original", *result["methods"]]
    tables = []
    for what, title in TITLES.items():
        rows = [
            [f"{level:g}", *(_cell(result, what, level, name) for name in models)]
            for level in result["levels"][what]
        ]
        heads = [title, *map(short_name, models)]
        tables += [f"## By {title}", markdown.table([heads, *rows])]
    return markdown.page(
        f"# Noise and compression in training, and forgetting {labels_in_words(result['request'])}",
        f"{about['data']}, {about['model']}, {about['parties']} passive parties, "
        f"{about['epochs']} epochs, batches of {about['batch']}, "
        f"{markdown.over_seeds(about['seeds'])}; {where(result)}. The "
        f"active party defends every gradient it sends, in training and in forgetting. Each cell "
        f"is retained / forgotten accuracy (D_r / y_u in the paper) in %: on test rows of the "
        f"other labels and of the forgotten ones. Neither defence comes with a bound here: rows "
        f"are not clipped before the noise.",
        about["note"],
        *tables,
    )


def _cell(result: Result, what: str, level: float, method: str) -> str:
    for entry in result["summary"]:
        if (entry["what"], entry["level"], entry["method"]) == (what, level, method):
            if not entry["runs"]:
                return "failed" if entry["failed"] else ""
            lost = f" ({len(entry['failed'])} failed)" if entry["failed"] else ""
            retained, forgotten = (
                markdown.figure(entry[name], 1) for name in ("retained", "forgotten")
            )
            return f"{retained} / {forgotten}{lost}"
    return ""


def picture(result: Result) -> Picture:
    """Return a row of panels a defence: what stays on the left, what goes on the right."""
    about = result["about"]
    return Picture(
        [
            [_panel(result, what, name, under) for name in ("retained", "forgotten")]
            for what, under in UNDER.items()
        ],
        (12.5, 8.6),
        f"{about['data']}, {about['model']}; {labels_in_words(result['request'])} forgotten with "
        f"the defence on",
        legend={"fontsize": 9, "loc": "lower center", "ncol": 4, "frameon": False},
        rect=(0, 0.05, 1, 1),
    )


def _panel(result: Result, what: str, name: str, under: str) -> Panel:
    levels, models = result["levels"][what], ["original", *result["methods"]]
    series = []
    for number, method in enumerate(models):
        entries = [x for x in result["summary"] if (x["what"], x["method"]) == (what, method)]
        # Each a little aside of the others, where several have the same value.
        aside = 0.12 * (number - (len(models) - 1) / 2)
        series.append(
            with_deviations(
                [levels.index(x["level"]) + aside for x in entries],
                [x[name] for x in entries],
                number,
                "before forgetting" if method == "original" else short_name(method),
                ls="--" if method == "original" else "-",
                lw=1.4,
                ms=5,
            )
        )
    # Levels are many powers of ten apart, and the first is 0: side by side.
    ticks = (range(len(levels)), [f"{level:g}" for level in levels])
    return Panel(
        series,
        xlabel=under,
        ylabel=AXES[name],
        xticks=ticks,
        ylim=(-3, 103),
        grid=GRID,
        open=True,
    )


BENCHES.add(
    "training-defences",
    Bench(
        "noise and compression in training and forgetting: what stays and what goes",
        TrainingDefencesSettings,
        measure,
        table,
        page,
        picture,
    ),
)
