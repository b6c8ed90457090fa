"""The figures of `hostile` for people: what was noticed, how soon, the damage, false alarms."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median
from typing import Any

from unlabel_bench import markdown
from unlabel_bench.drawing import Panel, Picture, Series, colour, mark
from unlabel_bench.summary import grouped, mean_of


def summarise(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry an attack, time and model, over seeds."""
    entries = []
    for key, runs in grouped(records, "attack", "when", "model"):
        delays = [x["noticed"] for x in runs if x["noticed"] is not None]
        entries.append(
            {
                **key,
                "runs": len(runs),
                "noticed": len(delays),
                "false": sum(x["false"] for x in runs),
                "steps": median(delays) if delays else None,
                "most_steps": max(delays) if delays else None,
                "honest": mean(x["honest"] for x in runs),
                "unchecked": mean_of([x["unchecked"] for x in runs]),
                "broke": sum(bool(x["unchecked_error"]) for x in runs),
                "stopped_at": mean_of([x["stopped_at"] for x in runs]),
            }
        )
    return entries


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return a row an attack, time and model, and one an honest scenario."""
    heads = ["attack", "begins", "model", "noticed", "steps", "honest", "unchecked", "stopped at"]
    rows = [heads, *(_row(entry) for entry in result["summary"])]
    for line in result["honest"]:
        wrong = ", ".join(f"{count} at {limit}" for limit, count in line["alarms"].items())
        batches = f"{line['batches']} batches"
        rows.append(["none", "", line["scenario"], f"alarms: {wrong}", batches, "", "", ""])
    return rows


def _row(entry: dict[str, Any]) -> list[str]:
    steps = "" if entry["steps"] is None else f"{entry['steps']:g} (at most {entry['most_steps']})"
    lost = f" ({entry['broke']} broke off)" if entry["broke"] else ""
    return [
        *(entry["attack"], entry["when"], entry["model"]),
        f"{entry['noticed']} of {entry['runs']}",
        steps,
        _percent(entry["honest"]),
        _percent(entry["unchecked"]) + lost,
        _percent(entry["stopped_at"]),
    ]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def page(result: dict[str, Any]) -> str:
    """Return the page in Markdown."""
    about = result["about"]
    models = " and ".join(about["models"])
    rows = table(result)
    attacks = [row for row in rows if row[0] != "none"]
    limits = list(result["honest"][0]["alarms"]) if result["honest"] else []
    honest = [
        ["honest run", "batches", *(f"alarms at limit {limit}" for limit in limits)],
        *(
            [line["scenario"], str(line["batches"]), *(str(n) for n in line["alarms"].values())]
            for line in result["honest"]
        ),
    ]
    parts = [
        "# Hostile parties in a training",
        f"{about['data']}, {models}, {about['parties']} passive parties, {about['epochs']} "
        f"epochs, batches of {about['batch']}, lr {about['lr']:g}, {about['seeds']} seeds each; "
        f"{about['device']}, torch {about['torch']}; {result['seconds']:.0f} s in all.",
        f"The first passive party turns hostile at a random step and stays so: early attacks "
        f"begin in the first pass over the rows, late ones after the second. Steps are counted "
        f"from the first false message; 0 means that it was refused itself. Test accuracies: of "
        f"an honest training, of one under attack without a check, and where the check (limit "
        f"{result['limit']:g}) stopped it. The hostile party predicts honestly, so the damage is "
        f"that to the trained models. Gradients times a factor are an attack by the active "
        f"party, refused by a passive one with `max_gradient_jump` of {about['jump']:g}.",
        markdown.table(attacks),
    ]
    if result["honest"]:
        parts += [
            "## Honest runs: every alarm is a false one",
            "Batches are counted once a party; the same figures are judged under each limit.",
            markdown.table(honest),
        ]
    return markdown.page(*parts)


#: The accuracies that are shown, as they stand in the legend.
SHOWN = {"honest": "no attack", "unchecked": "attacked, no check", "stopped_at": "where it stopped"}


def picture(result: dict[str, Any]) -> Picture:
    """Return a panel a model and time, a row an attack, with how many were noticed."""
    attacks = list(dict.fromkeys(x["attack"] for x in result["summary"]))
    places = {attack: number for number, attack in enumerate(reversed(attacks))}
    panels = [
        _panel(entries, f"{key['model']}, {key['when']}", places, number == 0)
        for number, (key, entries) in enumerate(grouped(result["summary"], "model", "when"))
    ]
    size = (4.2 * len(panels) + 2.2, 1.4 + 0.3 * len(attacks))
    return Picture([panels], size, options={"sharey": True})


def _panel(entries: list[dict[str, Any]], title: str, places: dict[str, int], first: bool) -> Panel:
    series = []
    for number, (name, label) in enumerate(SHOWN.items()):
        known = [x for x in entries if x[name] is not None]
        options = {"marker": mark(number), "ls": "", "color": colour(number), "alpha": 0.8}
        x, y = [100 * x[name] for x in known], [places[x["attack"]] for x in known]
        series.append(Series(x, y, label, options=options))
    return Panel(
        series,
        title=title,
        xlabel="test accuracy in %, and how many were noticed",
        texts=[
            (
                f"{x['noticed']}/{x['runs']}",
                (104, places[x["attack"]]),
                {"va": "center", "fontsize": 8},
            )
            for x in entries
        ],
        yticks=(list(places.values()), list(places)) if first else None,
        xlim=(0, 118),
        grid={"axis": "y", "alpha": 0.3},
        legend={"loc": "lower left", "fontsize": 8} if first else None,
    )
