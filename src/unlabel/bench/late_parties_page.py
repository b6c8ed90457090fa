"""The figures of `late-parties` for people: accuracy, forgetting and waiting by lateness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unlabel.bench.comparison_table import markdown
from unlabel.bench.measures import spread
from unlabel.bench.pictures import short_name
from unlabel.errors import SettingsError

#: What a figure is a mean of, by the kind of its line.
KEYS = {
    "training": ("kind", "late", "who", "rule"),
    "forget": ("kind", "late", "rule", "method"),
    "request": ("kind", "late", "method"),
}
#: Figures of each kind, all shares.
FIGURES = {
    "training": ("accuracy",),
    "forget": ("retained_before", "retained", "forgotten", "asr"),
    "request": ("retained_before", "retained", "forgotten", "asr"),
}
#: What a training with parties in step is called in every table.
IN_STEP = "0 (in step)"
#: Where the figures stand in a page that says more.
BEGIN, END = "<!-- figures: late-parties -->", "<!-- end -->"


def summarise(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry a kind, lateness, correction and method, over seeds.

    failed  seeds in which the training or the request broke off
    """
    found = []
    for kind, names in KEYS.items():
        own = [line for line in lines if line["kind"] == kind]
        for key in dict.fromkeys(tuple(line[name] for name in names) for line in own):
            same = [line for line in own if tuple(line[name] for name in names) == key]
            done = [line for line in same if "failed" not in line]
            figures = {name: spread([x[name] for x in done]) for name in FIGURES[kind]}
            entry = dict(zip(names, key, strict=True))
            found.append({**entry, "runs": len(same), "failed": len(same) - len(done), **figures})
    return found


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the test accuracies of trainings as rows for people."""
    return trainings(result)


def trainings(result: dict[str, Any]) -> list[list[str]]:
    """Return the test accuracy by lateness, a column a correction and who is late."""
    own = [entry for entry in result["summary"] if entry["kind"] == "training"]
    columns = list(dict.fromkeys((x["who"], x["rule"]) for x in own if x["late"]))
    rows = [["steps late", *(f"{rule}, {_who(who)}" for who, rule in columns)]]
    for late in dict.fromkeys(x["late"] for x in own):
        cells = []
        for who, rule in columns or [("all", "plain")]:
            wanted = ("all", "plain") if late == 0 else (who, rule)
            cells.append(_cell(_only(own, late, who=wanted[0], rule=wanted[1]), "accuracy"))
        rows.append([_steps(late), *cells])
    return rows


def requests(result: dict[str, Any], kind: str, rule: str = "") -> list[list[str]]:
    """Return what forgetting comes to by method and lateness."""
    every = [x for x in result["summary"] if x["kind"] in ("forget", kind)]
    heads = ["method", "steps late", "D_r before", "D_r after", "y_u after", "ASR"]
    rows = [heads]
    for method in dict.fromkeys(x["method"] for x in every):
        for late in dict.fromkeys(x["late"] for x in every):
            # In step there is one line, whatever is compared with it.
            wanted = {"kind": kind} | ({"rule": rule} if rule else {})
            fixed = wanted if late else {"kind": "forget", "rule": "plain"}
            entry = _only(every, late, method=method, **fixed)
            if entry is not None:
                names = FIGURES["forget"]
                cells = [_cell(entry, name) for name in names]
                rows.append([short_name(method).split()[0], _steps(late), *cells])
    return rows


def waits(result: dict[str, Any]) -> list[list[str]]:
    """Return the time of a training beside one in step, by lateness and spread."""
    spreads = list(dict.fromkeys(x["spread"] for x in result["waiting"]))
    rows = [["steps late", *(f"spread {value:g}" for value in spreads)]]
    for late in dict.fromkeys(x["late"] for x in result["waiting"]):
        times = {x["spread"]: x["time"] for x in result["waiting"] if x["late"] == late}
        rows.append([_steps(late), *(f"{100 * times[value]:.0f} %" for value in spreads)])
    return rows


def figures(result: dict[str, Any]) -> str:
    """Return all tables in Markdown, each with what it says."""
    about = result["about"]
    seeds = ", ".join(map(str, about["seeds"]))
    rules = [x["rule"] for x in result["summary"] if x["kind"] == "forget" and x["late"]]
    parts = [
        f"{about['data']}, {about['model']}, {about['parties']} passive parties, "
        f"{about['epochs']} epochs, batches of {about['batch']}, lr {about['lr']:g}, "
        f"seeds {seeds}: means and standard deviations in %; a number in brackets says how many "
        f"seeds broke off.",
        "Test accuracy after a training with late parties:",
        markdown(trainings(result)),
    ]
    for rule in dict.fromkeys(rules):
        parts += [
            f"A label forgotten, in step, by models that were trained so (correction: {rule}):",
            markdown(requests(result, "forget", rule)),
        ]
    if any(x["kind"] == "request" for x in result["summary"]):
        parts += [
            "A label forgotten by a model that was trained in step, while gradients reach the "
            "parties late, which `unlabel` does not let happen:",
            markdown(requests(result, "request")),
        ]
    parts += [
        "Computed, not measured: the time of a training beside one in step, where every answer "
        "takes a log-normal time of the same mean:",
        markdown(waits(result)),
    ]
    return "\n\n".join(parts) + "\n"


def page(result: dict[str, Any], before: str = "") -> str:
    """Return the page in Markdown: what stood there, with the figures between its marks renewed."""
    head, tail = around(before) if before else ("# Late parties\n\n", "\n")
    return f"{head}{BEGIN}\n\n{figures(result)}\n{END}{tail}"


def around(text: str) -> tuple[str, str]:
    """Return what stands before and after the figures; a page without marks is another's.

    >>> around(f"Title {BEGIN} old {END} more")
    ('Title ', ' more')
    """
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SettingsError(f"Expected '{BEGIN}' and '{END}' in the page; name another file.")
    return head, tail


def _only(entries: Sequence[dict[str, Any]], late: int, **wanted: Any) -> dict[str, Any] | None:
    for entry in entries:
        if entry["late"] == late and all(entry.get(k) == v for k, v in wanted.items()):
            return entry
    return None


def _cell(entry: dict[str, Any] | None, name: str) -> str:
    if entry is None:
        return ""
    broke = f" ({entry['failed']})" if entry["failed"] else ""
    found = entry[name]
    if found is None:
        return f"-{broke}"
    return f"{100 * found['mean']:.1f} ± {100 * found['deviation']:.1f}{broke}"


def _steps(late: int) -> str:
    return str(late) if late else IN_STEP


def _who(who: str) -> str:
    return {"all": "all late", "one": "one late"}[who]
