"""Tables between two parties: what bottoms without labels cost, beside what they give away.

On one split of the rows, for every seed and table:

    joined      trees on all columns of both parties, as no one party could train them: the better
                of categories taken as such and as indicators
    alone       trees on the label holder's columns
    supervised  split training of the default model
    blind       the partner sends principal components; the label holder's columns stay as they are
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from unlabel.config import LabelFreeSettings, expect
from unlabel.data.dataset import Array
from unlabel.federation import Federation
from unlabel.train.loading import Holdings
from unlabel_bench import markdown
from unlabel_bench.blind.reconstruction import ATTACKERS, reconstruction
from unlabel_bench.blind.split_tables import (
    PARTNER,
    TABLES,
    TREES,
    SplitTable,
    columns_of,
    joined_cells,
    own_columns,
    read_split,
    sent_by,
)
from unlabel_bench.drawing import Panel, Picture, Series, colour
from unlabel_bench.records import Records
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.summary import grouped, spread, spread_of

#: Points of AUC that the partner's part may cost, by its width.
GOALS = {0.5: 1.5, 1.0: 0.5}
#: Rows on which reconstruction is judged.
JUDGED = 4000
SCALES = ("standard", "quantile")


@dataclass(frozen=True)
class BlindTablesSettings:
    """Settings of the bench.

    tables   FILE:NAME=VALUE:.. with the label, the ids and the columns of the label holder
    folder   where they lie; no part of what is recorded
    widths   of the components, as shares of the partner's columns
    scales   of the partner's columns before that
    tops     that are fitted to the embeddings
    known    people whose columns the attacker has
    rows     rows of each table, 0 for all
    epochs   of supervised training, 0 for as many as suit the table
    seeds    to repeat it with, from 0 on
    records  JSONL file of the figures; it is read first, and what is there is not repeated
    page     Markdown file to write the tables into
    picture  PNG file to draw into; needs matplotlib
    note     a sentence for that page, below what was aimed at
    """

    tables: tuple[str, ...] = TABLES
    folder: str = "."
    widths: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)
    scales: tuple[str, ...] = SCALES
    tops: tuple[str, ...] = (TREES, "mlp")
    known: int = 2000
    rows: int = 0
    epochs: int = 0
    seeds: int = 3
    records: str = ""
    page: str = ""
    picture: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        expect("seeds", self.seeds, self.seeds >= 1, "at least 1")
        for name in ("tables", "widths", "scales", "tops"):
            expect(name, getattr(self, name), len(getattr(self, name)) > 0, "at least one")


def measure(settings: BlindTablesSettings, say: Say) -> Result:
    """Measure every way of training on every table."""
    records = Records(settings.records, f"blind-tables {settings.known} {settings.rows}")
    lines = []
    for words in settings.tables:
        table = read_split(words, settings.folder)
        if settings.rows:
            order = np.random.default_rng(0).permutation(len(table.labels))
            table = table.some(np.sort(order[: settings.rows]))
        for seed in range(settings.seeds):
            lines += _measure(settings, records, table, seed, say)
    return {"lines": lines, "summary": _summary(lines)}


def _measure(
    settings: BlindTablesSettings, records: Records, table: SplitTable, seed: int, say: Say
) -> list[dict[str, Any]]:
    lines = []
    base = {"table": table.name, "seed": seed}
    for name, act in (("beside", _beside), ("supervised", _supervised)):
        line = records.find(**base, kind=name)
        if line is None:
            say(f"{table.name}, seed {seed}: {name}")
            line = records.add(**base, kind=name, **act(settings, table, seed))
        lines.append(line)
    for scale in settings.scales:
        for width in settings.widths:
            key = {**base, "kind": "blind", "scale": scale, "width": width}
            line = records.find(**key)
            if line is None or not set(settings.tops) <= set(line["auc"]):
                say(f"{table.name}, seed {seed}: {scale}, {width} of the width")
                line = records.add(**key, **_blind(settings, table, seed, scale, width))
            lines.append(line)
    return lines


def _label_free(scale: str, width: float) -> LabelFreeSettings:
    return LabelFreeSettings(objective="components", scale=scale, width=width)  # type: ignore[arg-type]


def _beside(settings: BlindTablesSettings, table: SplitTable, seed: int) -> dict[str, Any]:
    """Return AUC of trees on all columns, and on the label holder's alone."""
    held = table.blind(seed, settings.tops[0], _label_free("standard", 1.0)).holdings
    cells, kinds = joined_cells(table, held)
    width = columns_of(held, PARTNER).shape[1]
    return {
        "joined": _trees(cells, held, seed, kinds),
        "joined_encoded": _trees(
            np.concatenate([own_columns(held), columns_of(held, PARTNER)], 1), held, seed
        ),
        "alone": _trees(own_columns(held), held, seed),
        "rows": len(held.ids),
        "holder": len(table.words.holder),
        "partner": len(table.frames[PARTNER]) - 1,
        "partner_numbers": width,
        "positive": float((held.labels == 1).float().mean()),
    }


def _trees(x: Array, held: Holdings, seed: int, kinds: Sequence[bool] | None = None) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    labels, train, test = held.labels.numpy(), held.rows.train.numpy(), held.rows.test.numpy()
    model = HistGradientBoostingClassifier(random_state=seed, categorical_features=kinds)
    model.fit(x[train], labels[train])
    return 100 * float(roc_auc_score(labels[test], model.predict_proba(x[test])[:, 1]))


def auc_of(federation: Federation) -> float:
    """Return the area under the curve of the second of two labels on test rows, in percent."""
    from sklearn.metrics import roc_auc_score

    test = federation.holdings.rows.test
    logits = federation.active.logits(test)
    chances = logits.softmax(1)[:, 1].numpy()
    return 100 * float(roc_auc_score(federation.holdings.labels[test].numpy(), chances))


def _given_away(settings: BlindTablesSettings, federation: Federation, seed: int) -> dict[str, Any]:
    """Return how well the partner's columns follow from what it sends."""
    held = federation.holdings
    draw = np.random.default_rng(seed)
    known = draw.permutation(held.rows.train.numpy())[: settings.known]
    judged = draw.permutation(held.rows.test.numpy())[:JUDGED]
    sent = sent_by(federation).detach().numpy()
    return {
        "sent": sent.shape[1],
        "r2": reconstruction(sent, columns_of(held, PARTNER), known, judged, seed=seed),
    }


def _supervised(settings: BlindTablesSettings, table: SplitTable, seed: int) -> dict[str, Any]:
    rows = table.blind(seed, settings.tops[0], _label_free("standard", 1.0)).holdings.rows
    chosen = {"epochs": settings.epochs} if settings.epochs else {}
    federation = table.supervised(seed, rows, **chosen)
    federation.train()
    return {"auc": auc_of(federation), **_given_away(settings, federation, seed)}


def _blind(
    settings: BlindTablesSettings, table: SplitTable, seed: int, scale: str, width: float
) -> dict[str, Any]:
    figures: dict[str, Any] = {"auc": {}}
    for top in settings.tops:
        federation = table.blind(seed, top, _label_free(scale, width))
        federation.train()
        figures["auc"][top] = auc_of(federation)
    with torch.no_grad():
        return figures | _given_away(settings, federation, seed)


def _summary(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means and deviations over seeds, by table."""
    tables: dict[str, Any] = {}
    for key, group in grouped(lines, "table"):
        by_kind = {kind: [x for x in group if x["kind"] == kind] for kind in ("beside", "blind")}
        names = ("joined", "joined_encoded", "alone")
        means = {name: spread_of(by_kind["beside"], name) for name in names}
        # What is aimed at is the better way to treat categories, whichever that is here.
        aim = max(names[:2], key=lambda name: means[name]["mean"])  # type: ignore[index]
        joined = {x["seed"]: x[aim] for x in by_kind["beside"]}
        facts = ("rows", "holder", "partner", "partner_numbers", "positive")
        entry: dict[str, Any] = {name: by_kind["beside"][0][name] for name in facts}
        entry |= {"joined": means[aim], "alone": means["alone"], "aim": aim}
        supervised = [x for x in group if x["kind"] == "supervised"]
        entry["supervised"] = {
            "auc": spread_of(supervised, "auc"),
            "sent": supervised[0]["sent"],
            "r2": _r2(supervised),
        }
        entry["blind"] = []
        for part, some in grouped(by_kind["blind"], "scale", "width"):
            tops = {
                top: {
                    "auc": spread([x["auc"][top] for x in some]),
                    "cost": spread([joined[x["seed"]] - x["auc"][top] for x in some]),
                }
                for top in some[0]["auc"]
            }
            entry["blind"].append({**part, "sent": some[0]["sent"], "tops": tops, "r2": _r2(some)})
        tables[key["table"]] = entry
    return tables


def _r2(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: spread([x["r2"][name] for x in lines]) for name in (*ATTACKERS, "best")}


def top_name(top: str) -> str:
    """Return what tables call a top model.

    >>> top_name("sklearn:HistGradientBoostingClassifier"), top_name("mlp")
    ('trees', 'mlp')
    """
    return "trees" if top == TREES else top


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the figures as rows for people."""
    tops = next(iter(result["summary"].values()))["blind"][0]["tops"]
    heads = [f"AUC, {top_name(top)}" for top in tops]
    lines = [["table", "what the partner sends", *heads, "R2, ridge", "R2, best"]]
    for name, entry in result["summary"].items():
        blank = [""] * (len(tops) - 1)
        for kind, title in (("joined", "its columns"), ("alone", "nothing")):
            shown = "1" if kind == "joined" else "0"
            auc = markdown.figure(entry[kind])
            lines.append([name, f"{title} (trees)", auc, *blank, shown, shown])
        learned = entry["supervised"]
        lines.append(
            [
                name,
                f"{learned['sent']} learned from labels",
                markdown.figure(learned["auc"]),
                *blank,
                *(markdown.figure(learned["r2"][kind]) for kind in ("ridge", "best")),
            ]
        )
        lines += [
            [
                name,
                f"{part['sent']} components, {part['scale']} ({part['width']:g})",
                *(markdown.figure(part["tops"][top]["auc"]) for top in tops),
                *(markdown.figure(part["r2"][kind]) for kind in ("ridge", "best")),
            ]
            for part in entry["blind"]
        ]
    return lines


def goals(result: dict[str, Any]) -> list[list[str]]:
    """Return what the partner's part costs beside what it may cost, with trees on top."""
    lines = [["table", "width", "scale", "points below the joined table", "allowed", ""]]
    for name, entry in result["summary"].items():
        for part in entry["blind"]:
            allowed = GOALS.get(part["width"])
            if allowed is None or TREES not in part["tops"]:
                continue
            cost = part["tops"][TREES]["cost"]
            word = "reached" if cost["mean"] <= allowed else "missed"
            shown = markdown.figure(cost)
            lines.append([name, f"{part['width']:g}", part["scale"], shown, f"{allowed:g}", word])
    return lines


def page(result: Result) -> str:
    """Return the figures as a page."""
    about = result["settings"]
    splits = [
        f"{name}: {entry['rows']:,} rows, {entry['holder']} columns at the label holder, "
        f"{entry['partner']} at the partner, which are {entry['partner_numbers']} numbers once "
        f"categories are indicators"
        for name, entry in result["summary"].items()
    ]
    return markdown.page(
        "# Blind tables",
        "The label holder keeps its columns as they are. The partner sends whitened principal "
        "components of its columns, of a share of their number, and no label is used for them. "
        "AUC on test rows in percent, "
        f"{markdown.over_seeds(about['seeds'])}, on one split of the rows for all. Trees are "
        "scikit-learn's HistGradientBoostingClassifier as it is by default; on the joined table "
        "they take categories as such or as indicators, whichever is better.",
        markdown.bullets(splits),
        "R2 says how much of the partner's columns follows from what it sends, mean over columns, "
        f"for a receiver that knows the columns of {about['known']:,} people: by ridge regression, "
        "and by the best of that, a small network and boosted trees.",
        markdown.table(table(result)),
        "## What was aimed at",
        "With trees on top, at half and at the full width:",
        markdown.table(goals(result)),
        about.get("note", ""),
    )


def picture(result: Result) -> Picture:
    """Return AUC of trees over what is given away, a panel a table."""
    panels: list[Panel] = []
    for name, entry in result["summary"].items():
        series = []
        for number, scale in enumerate(result["settings"]["scales"]):
            parts = [x for x in entry["blind"] if x["scale"] == scale and TREES in x["tops"]]
            series.append(
                Series(
                    [x["r2"]["best"]["mean"] for x in parts],
                    [x["tops"][TREES]["auc"]["mean"] for x in parts],
                    f"components, {scale}",
                    [x["tops"][TREES]["auc"]["deviation"] for x in parts],
                    options={"marker": "os"[number % 2], "color": colour(number), "capsize": 2},
                )
            )
        learned = entry["supervised"]
        series.append(
            Series(
                [learned["r2"]["best"]["mean"]],
                [learned["auc"]["mean"]],
                "supervised",
                [learned["auc"]["deviation"]],
                options={"marker": "D", "ls": "", "color": colour(2), "capsize": 2},
            )
        )
        panels.append(
            Panel(
                series,
                title=name,
                xlabel="R2 of the partner's columns",
                ylabel="AUC, %" if not panels else "",
                lines=[
                    ("y", entry["joined"]["mean"], {"color": "#000000", "lw": 0.8}),
                    ("y", entry["alone"]["mean"], {"color": "#888888", "lw": 0.8, "ls": "--"}),
                ],
                xlim=(0, 1.03),
                legend={"fontsize": 7} if not panels else None,
            )
        )
    return Picture([panels], (4 * len(panels), 3.4))


BENCHES.add(
    "blind-tables",
    Bench(
        "tables without labels in the bottoms: accuracy beside what the partner gives away",
        BlindTablesSettings,
        measure,
        table,
        page,
        picture,
    ),
)
