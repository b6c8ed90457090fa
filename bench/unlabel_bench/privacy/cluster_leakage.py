"""Do gradients fall into clusters, one a label? For one, two and four labels, by every method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unlabel.errors import SettingsError, why
from unlabel_bench import markdown
from unlabel_bench.comparison.comparison import every_method, methods_of
from unlabel_bench.markdown import labels_in_words
from unlabel_bench.measures import (
    code_digest,
    key_of,
    labels_of,
    read_method,
    samples_of,
    settings_digest,
)
from unlabel_bench.originals import open_original, recipe_digest
from unlabel_bench.privacy.scenes import Scene
from unlabel_bench.recipe import Recipe
from unlabel_bench.records import Records
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.summary import failures, spread_of
from unlabel_bench.trials import SENSELESS

FIGURES = (
    *("clusters among forgotten", "among forgotten by chance"),
    *("clusters", "clusters by chance"),
)


@dataclass(frozen=True)
class ClusterLeakageSettings(Recipe):
    """Settings of the bench.

    requests  each the labels to forget together, joined by +
    methods   NAME, NAME@PRESET or NAME:SETTING=VALUE:...; none stands for all that send gradients
    seeds     originals, from seed 0 on
    few_shot  public samples of a forgotten label, where a method uses so many
    retained  public samples of every other label
    records   JSONL file of the figures; it is read first, and what is there is not repeated
    page      Markdown file to write the table into
    """

    requests: tuple[str, ...] = ("0", "0+2", "0+2+5+7")
    methods: tuple[str, ...] = ()
    seeds: int = 3
    few_shot: int = 40
    retained: int = 3
    records: str = ""
    page: str = ""

    def __post_init__(self) -> None:
        if self.seeds < 1 or not self.requests:
            raise SettingsError("Expected at least one request and one seed.")


def measure(settings: ClusterLeakageSettings, say: Say) -> Result:
    """Forget by every method, and cluster what one party received."""
    names = methods_of(settings.methods) or tuple(
        name for name in every_method(settings, 1) if read_method(name).disclosure.gradients
    )
    about = f"{recipe_digest(settings)} {settings.few_shot} {settings.retained}"
    records = Records(settings.records, about)
    lines = []
    for seed in range(settings.seeds):
        scene: Scene | None = None
        for request in settings.requests:
            for name in names:
                key = {"kind": "clusters", "method": name, "seed": seed, "request": request}
                key |= {"settings": settings_digest(name), "code": code_digest(name)}
                line = records.find(**key)
                if line is None:
                    say(f"seed {seed}, {labels_in_words(request)}: {name}")
                    scene = scene or Scene(open_original(settings, seed, say).federation)
                    line = records.add(**key, **_forget(scene, settings, name, request, seed))
                lines.append(line)
    return {"summary": _summary(lines, names, settings.requests), "records": lines}


def _forget(
    scene: Scene, settings: ClusterLeakageSettings, method: str, request: str, seed: int
) -> dict[str, Any]:
    samples = {"few_shot": settings.few_shot, "retained": settings.retained, **samples_of(method)}
    try:
        key = key_of("clusters", method, seed, request)
        shown = scene.show(labels_of(request), method, key=key, **samples)
    except SENSELESS as error:
        return {"failed": why(error)}
    return {"rows": {name: shown.rows[name] for name in FIGURES}}


def _summary(
    lines: list[dict[str, Any]], methods: tuple[str, ...], requests: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return the means over seeds, one entry a method and request."""
    entries = []
    for method in methods:
        for request in requests:
            whole, failed = failures(
                [x for x in lines if (x["method"], x["request"]) == (method, request)]
            )
            rows = [line["rows"] for line in whole]
            figures = {name: spread_of(rows, name) for name in FIGURES}
            entries.append({"method": method, "request": request, "failed": len(failed), **figures})
    return entries


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the figures as rows for people: a share, and in brackets what chance gives."""
    rows = [["method", "labels", "among the forgotten rows, %", "among all rows, %"]]
    for entry in result["summary"]:
        cells = [_cell(entry[a], entry[b]) for a, b in (FIGURES[:2], FIGURES[2:])]
        rows.append([entry["method"], entry["request"].replace("+", ", "), *cells])
    return rows


def _cell(share: dict[str, float] | None, chance: dict[str, float] | None) -> str:
    if share is None or chance is None:
        return "no such rows came"
    return f"{100 * share['mean']:.1f} ({100 * chance['mean']:.1f})"


def page(result: Result) -> str:
    """Return the figures as a page."""
    about = result["settings"]
    return f"""# Do the gradients that a party receives fall into clusters, one a label?

{about["data"]}, {about["model"]}, {about["parties"]} passive parties, {about["seeds"]} seeds. One
party clusters the gradient rows it received (k-means, raw or of unit length, whichever does
better), and clusters are matched with labels one to one; in brackets what always naming the most
frequent label would give. First among the rows of forgotten labels alone, as many clusters as
labels: with one label there is nothing to divide, and to be in the message is to be named. Then
among all rows that came, with one more cluster for those of other labels.

{markdown.table(table(result))}
"""


BENCHES.add(
    "label-clusters",
    Bench(
        "clusters of received gradients against labels, for one, two and four of them",
        ClusterLeakageSettings,
        measure,
        table,
        page,
    ),
)
