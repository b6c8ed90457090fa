"""The figures of `hostile` for people: what was noticed, how soon, the damage, false alarms."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median
from typing import Any

from unlabel.bench.comparison_table import markdown


def summarise(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry an attack, time and model, over seeds."""
    keys = dict.fromkeys((x["attack"], x["when"], x["model"]) for x in records)
    found = []
    for attack, when, model in keys:
        own = [x for x in records if (x["attack"], x["when"], x["model"]) == (attack, when, model)]
        delays = [x["noticed"] for x in own if x["noticed"] is not None]
        found.append(
            {
                "attack": attack,
                "when": when,
                "model": model,
                "runs": len(own),
                "noticed": len(delays),
                "false": sum(x["false"] for x in own),
                "steps": median(delays) if delays else None,
                "most_steps": max(delays) if delays else None,
                "honest": mean(x["honest"] for x in own),
                "unchecked": _mean([x["unchecked"] for x in own]),
                "broke": sum(bool(x["unchecked_error"]) for x in own),
                "stopped_at": _mean([x["stopped_at"] for x in own]),
            }
        )
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


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
        markdown(attacks),
    ]
    if result["honest"]:
        parts += [
            "## Honest runs: every alarm is a false one",
            "Batches are counted once a party; the same figures are judged under each limit.",
            markdown(honest),
        ]
    return "\n\n".join(parts) + "\n"
