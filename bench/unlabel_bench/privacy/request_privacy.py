"""Can a partner name the label? Hundreds of requests at random, by several methods, attacked."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean
from typing import Any

from unlabel.audit.intervals import mean_interval
from unlabel.errors import SettingsError
from unlabel.party import keyed_order
from unlabel_bench import markdown
from unlabel_bench.comparison.comparison import methods_of
from unlabel_bench.markdown import FIGURES, interval, number
from unlabel_bench.measures import key_of
from unlabel_bench.originals import open_original
from unlabel_bench.privacy.request_attacks import Plan, Requests, summary
from unlabel_bench.privacy.scenes import Scene
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import BENCHES, Bench, Result, Say


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
               from those of all others; 0 leaves that out
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


def measure(settings: RequestPrivacySettings, say: Say) -> Result:
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
    entries = []
    for method in methods:
        lines = requests.lines(method)
        say(f"{method}: attacking")
        entries.append(summary(method, lines))
    people = which_people(settings, say) if settings.people else None
    return {"files": settings.files, "methods": entries, "people": people}


def which_people(settings: RequestPrivacySettings, say: Say) -> dict[str, Any]:
    """Return how well people are told from all others by each score, over all requests (AUC)."""
    by_score: dict[str, list[float]] = {}
    for origin in range(min(settings.originals, settings.people)):
        numbers = range(origin, settings.people, settings.originals)
        say(f"people: {len(numbers)} requests to original {origin}")
        scene = Scene(open_original(settings, origin, say).federation)
        train = scene.federation.holdings.rows.train
        for place in numbers:
            key = key_of("people", place)
            rows = train[keyed_order(train, key)[: settings.listed]]
            for name, auc in scene.show_people(rows, key=key).items():
                by_score.setdefault(name, []).append(auc)
    intervals = {name: _interval(values) for name, values in by_score.items()}
    return {"requests": settings.people, "listed": settings.listed, "auc": intervals}


def _interval(values: list[float]) -> dict[str, float]:
    low, high = mean_interval(values) if len(values) > 1 else (values[0], values[0])
    return {"mean": mean(values), "low": max(0.0, low), "high": min(1.0, high)}


def table(result: Result) -> list[list[str]]:
    """Return the figures as rows for people."""
    heads = ["method", "label named", "by chance", "nats told", "bound", "all alike"]
    rows = [[*heads, FIGURES["retained"], FIGURES["forgotten"]]]
    for entry in result["methods"]:
        bound = entry["bound"]
        rows.append(
            [
                entry["method"],
                interval(entry["best"]),
                f"{entry['chance']:.3f}",
                interval(entry["information"]),
                "none is proved" if bound is None else f"{bound['information']:.3g}",
                "yes" if entry["alike"] else "no",
                *(number(entry["outcome"][x], scale=100) for x in ("retained", "forgotten")),
            ]
        )
    return rows


def rows_table(result: Result) -> list[list[str]]:
    """Return what partners learn about rows, as rows for people."""
    heads = ["public samples", "training rows", "members", "clusters", "clusters by chance"]
    return [
        ["method", *heads],
        *(
            [entry["method"], *(number(entry["rows"][name], 3) for name in heads)]
            for entry in result["methods"]
        ),
    ]


def page(result: Result) -> str:
    """Return the figures as a page."""
    about = result["settings"]
    seen = (
        "all it received, its own rows, weights and embeddings before and after, and every file "
        "in its folder once the request was committed"
        if about["files"]
        else "all it received, its own rows, and its weights and embeddings before and after"
    )
    chance = result["methods"][0]["chance"]
    attacks = [["method", "who looks and how", "label named"]]
    for entry in result["methods"]:
        ranked = sorted(entry["attacks"].items(), key=lambda item: -item[1]["value"])
        attacks += [[entry["method"], name, interval(share)] for name, share in ranked[:3]]
    return f"""# Can a partner name the label?

{about["requests"]} requests a method, each about one label at random, to {about["originals"]}
independently trained models ({about["data"]}, {about["model"]}, {about["parties"]} passive
parties). A partner has {seen}; in the worst case it knows the labels of all public samples. Rules
made by hand and attackers that learn are tried, by one party, by two together, and by one that
knows no labels. Which of them counts is decided on other requests than those it is judged on.
Nats told are a lower bound that such an attacker reaches, the bound is the accountant's; all are
alike where no figure of any request differs from those of other requests to the same model.
Intervals are of 95 %.

{markdown.table(table(result))}

The three attacks that did best by themselves. The highest of so many is a lucky one's, so it may
lie above chance where nothing is told.

{markdown.table(attacks)}

What one party could tell about rows: how well gradients tell public samples of the label from
others (AUC), how well training rows of the label are told from others (AUC; 0.5 is a guess), the
share of true members among the rows nearest to the public samples (by chance about
{chance:.2f}), and the share of gradient rows that clusters name rightly (the label's, or others').

{markdown.table(rows_table(result))}
{_people_in_words(result["people"])}"""


def _people_in_words(people: dict[str, Any] | None) -> str:
    if people is None:
        return ""
    rows = [["score of a row", "AUC"]]
    for name, auc in people["auc"].items():
        rows.append([name, interval(auc)])
    return f"""
Which people: {people["requests"]} requests for the labels of {people["listed"]} people each, told
by one party from all others that were trained on. All models are trained again without them, so
that they are the rows that are not asked for (`apart`).

{markdown.table(rows)}
"""


BENCHES.add(
    "request-privacy",
    Bench(
        "which label was it? attacks on what partners see of hundreds of requests",
        RequestPrivacySettings,
        measure,
        table,
        page,
    ),
)
