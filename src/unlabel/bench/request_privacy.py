"""Can a partner name the label? Hundreds of requests at random, by several methods, attacked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from unlabel.audit.intervals import mean_interval
from unlabel.bench.comparison import methods_of
from unlabel.bench.comparison_table import markdown
from unlabel.bench.measures import key_of
from unlabel.bench.originals import open_original
from unlabel.bench.recipe import Recipe
from unlabel.bench.registry import BENCHES, Bench
from unlabel.bench.request_attacks import Plan, Requests, summary
from unlabel.bench.scenes import Scene
from unlabel.errors import SettingsError
from unlabel.files import write_atomically
from unlabel.party import keyed_order


@dataclass(frozen=True)
class RequestPrivacySettings(Recipe):
    """Settings of the bench.

    methods    NAME, NAME@PRESET or NAME:SETTING=VALUE:...
    requests   requests a method, each about one label at random; half teach the attackers that
               learn about the other half, and the other way round
    originals  independently trained models they are spread over
    few_shot   public samples of the forgotten label, where a method uses so many
    retained   public samples of every other label
    files      make every request to a run in a folder and commit it, so that the attackers also
               read all that lies in a party's folder afterwards
    people     requests for the labels of `listed` people each, to see whether their rows are told
               from the cover they hide in; 0 leaves that out
    kept       JSONL file of the requests; it is read first, and what is there is not repeated
    page       Markdown file to write the tables into
    """

    model: str = "mlp"
    epochs: int = 8
    validation: float = 0.0
    public: int = 12
    methods: tuple[str, ...] = ("renormalise", "hidden", "hidden:noise=1.0", "deep", "mask")
    requests: int = 300
    originals: int = 5
    few_shot: int = 8
    retained: int = 3
    files: bool = False
    people: int = 20
    listed: int = 10
    kept: str = ""
    page: str = ""

    def __post_init__(self) -> None:
        if self.requests < 4 or self.originals < 1:
            raise SettingsError(
                f"Expected at least 4 requests to 1 original but got {self.requests} to "
                f"{self.originals}."
            )


def run(settings: RequestPrivacySettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Make the requests of every method, and attack them."""
    methods = methods_of(settings.methods)
    plan = Plan(
        settings.requests,
        settings.originals,
        settings.few_shot,
        settings.retained,
        settings.files,
    )
    requests = Requests(settings, plan, settings.kept, say)
    found = []
    for method in methods:
        lines = requests.made(method)
        say(f"{method}: attacking")
        found.append(summary(method, lines))
    people = which_people(settings, say) if settings.people else None
    result = {"files": settings.files, "methods": found, "people": people}
    if settings.page:
        write_atomically(Path(settings.page), page(result, settings).encode())
    return result


def which_people(settings: RequestPrivacySettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Return how well people are told from their cover by each score, over all requests (AUC)."""
    found: dict[str, list[float]] = {}
    for origin in range(min(settings.originals, settings.people)):
        numbers = range(origin, settings.people, settings.originals)
        say(f"people: {len(numbers)} requests to original {origin}")
        scene = Scene(open_original(settings, origin, say).federation)
        train = scene.federation.holdings.rows.train
        for number in numbers:
            key = key_of("people", number)
            rows = train[keyed_order(train, key)[: settings.listed]]
            for name, auc in scene.show_people(rows, key=key).items():
                found.setdefault(name, []).append(auc)
    intervals = {name: _interval(values) for name, values in found.items()}
    return {"requests": settings.people, "listed": settings.listed, "auc": intervals}


def _interval(values: list[float]) -> dict[str, float]:
    low, high = mean_interval(values) if len(values) > 1 else (values[0], values[0])
    return {"mean": mean(values), "low": max(0.0, low), "high": min(1.0, high)}


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the figures as rows for people."""
    rows = [
        ["method", "label named", "by chance", "nats told", "bound", "all alike", "D_r", "y_u"],
    ]
    for found in result["methods"]:
        best, told = found["best"], found["information"]
        rows.append(
            [
                found["method"],
                f"{best['value']:.3f} ({best['low']:.3f} to {best['high']:.3f})",
                f"{found['chance']:.3f}",
                f"{told['value']:.3f} ({told['low']:.3f} to {told['high']:.3f})",
                bound_in_words(found["bound"]),
                "yes" if found["alike"] else "no",
                *(share(found["outcome"][name]) for name in ("retained", "forgotten")),
            ]
        )
    return rows


def rows_table(result: dict[str, Any]) -> list[list[str]]:
    """Return what was told about rows, as rows for people."""
    heads = ["public samples", "training rows", "members", "clusters", "clusters by chance"]
    lines = [["method", *heads]]
    for found in result["methods"]:
        values = [found["rows"][name] for name in heads]
        lines.append([found["method"], *("" if v is None else f"{v:.3f}" for v in values)])
    return lines


def bound_in_words(bound: dict[str, Any] | None) -> str:
    """Return the accountant's bound for a table."""
    return "none is proved" if bound is None else f"{bound['information']:.3g}"


def share(value: float | None) -> str:
    """Return a share as a percentage."""
    return "" if value is None else f"{100 * value:.2f}"


def page(result: dict[str, Any], settings: RequestPrivacySettings) -> str:
    """Return the figures as a page."""
    seen = (
        "all it received, its own rows, weights and embeddings before and after, and every file "
        "in its folder once the request was committed"
        if settings.files
        else "all it received, its own rows, and its weights and embeddings before and after"
    )
    chance = result["methods"][0]["chance"]
    attacks = [["method", "who looks and how", "label named"]]
    for found in result["methods"]:
        ranked = sorted(found["attacks"].items(), key=lambda item: -item[1]["value"])
        attacks += [
            [found["method"], name, f"{x['value']:.3f} ({x['low']:.3f} to {x['high']:.3f})"]
            for name, x in ranked[:3]
        ]
    return f"""# Can a partner name the label?

{settings.requests} requests a method, each about one label at random, to {settings.originals}
independently trained models ({settings.data}, {settings.model}, {settings.parties} passive
parties). A partner has {seen}; in the worst case it knows the labels of all public samples. Rules
made by hand and attackers that learn are tried, by one party, by two together, and by one that
knows no labels. Which of them counts is decided on other requests than those it is judged on.
Nats told are a lower bound that such an attacker reaches, the bound is the accountant's; all are
alike where no figure of any request differs from those of other requests to the same model.
Intervals are of 95 %.

{markdown(table(result))}

The three attacks that did best by themselves. The highest of so many is a lucky one's, so it may
lie above chance where nothing is told.

{markdown(attacks)}

What one party could tell about rows: how well gradients tell public samples of the label from
others (AUC), how well training rows of the label are told from others (AUC; 0.5 is a guess), the
share of true members among the rows nearest to the public samples (by chance about
{chance:.2f}), and the share of gradient rows that clusters name rightly (the label's, or others').

{markdown(rows_table(result))}
{_people_in_words(result["people"])}"""


def _people_in_words(people: dict[str, Any] | None) -> str:
    if people is None:
        return ""
    rows = [["score of a row", "AUC"]]
    for name, auc in people["auc"].items():
        rows.append([name, f"{auc['mean']:.3f} ({auc['low']:.3f} to {auc['high']:.3f})"])
    return f"""
Which people: {people["requests"]} requests for the labels of {people["listed"]} people each, by the
method `people`, told by one party from the cover they hide in.

{markdown(rows)}
"""


BENCHES.add(
    "request-privacy",
    Bench(
        "which label was it? attacks on what partners see of hundreds of requests",
        RequestPrivacySettings,
        run,
        table,
    ),
)
