"""Mirage's table for our methods: what the answers, the embeddings and the layers still show.

Every model is held against the original of its seed and against models retrained without the label,
on the same rows; these have seeds of their own, since models that begin alike are alike. A line of
the records is a model; a bench that starts again on them repeats none, but trains the retrained
models that it needs once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unlabel.audit.measure import MEASURES, Measure, Models
from unlabel.audit.observation import Observation, observe
from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.train import Forgotten
from unlabel_bench import markdown
from unlabel_bench.comparison.comparison import every_method, methods_of
from unlabel_bench.markdown import labels_in_words, short_name, where
from unlabel_bench.measures import accuracies
from unlabel_bench.originals import open_original
from unlabel_bench.provenance import place_of
from unlabel_bench.recipe import RecordedRecipe
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.rivals import rivals
from unlabel_bench.rivals.ulira import confidences, u_lira
from unlabel_bench.summary import failures, spread, spread_of
from unlabel_bench.trials import Trials, end_of

Line = dict[str, Any]
RETRAINED = "retrained"
#: Seeds of retrained models begin here.
APART = 1000
#: Figures in the order of the columns, as tables name them; shares are shown in percent.
SHARES = {
    "retained": "retained",
    "forgotten": "forgotten",
    "lpr": "LPR",
    "lpr_gap": "LPR gap",
    "resurfacing": "resurfacing",
}
NUMBERS = {
    "cka-original": "CKA original",
    "cka-retrained": "CKA retrained",
    "separability": "separability",
    "idi": "IDI",
    "cmia": "CMIA",
    "three-sample": "three-sample p",
    "u-lira": "U-LiRA",
}
MEANINGS = (
    "*LPR*: balanced accuracy in % of a linear probe of embeddings that tells the label's test "
    "rows from all others; *gap*: points above the mean retrained model. *Resurfacing*: most of "
    "the label, in %, that comes back while a head is tuned on rows of the other labels alone. "
    "*CKA*: alignment of embeddings with the original's and with retrained models'. "
    "*Separability*: squared distance of the label's rows from the others over their scatter. "
    "*IDI*: information of embeddings and the top's hidden layers on the label, 1 as before and 0 "
    "as retrained. *CMIA*: AUC with which answers tell the label's rows from those of its nearest "
    "label. *Three-sample p*: small where answers about the label's rows are nearer to a retrained "
    "model's than to the original's. *U-LiRA*: how often shadow models tell an unlearned model "
    "from a retrained one by its confidence, 0.5 where they cannot. The aim of every column is "
    "what retrained models have. Definitions, and which of them are our reading, stand in "
    "`bench/unlabel_bench/rivals/`."
)


@dataclass(frozen=True)
class MirageSettings(RecordedRecipe):
    """Settings of the bench.

    labels     one request: the labels to forget together
    seeds      how many seeds, from 0 on; they differ in the models, not in the rows
    retrained  models retrained without the labels; each is held against the others
    methods    as in `single-label`; none stands for all of them but `retrain`
    budget     seconds after which no new piece of work begins; 0 is no limit
    """

    top: str = "mlp"
    same_rows: bool = True
    labels: tuple[int, ...] = (0,)
    seeds: int = 3
    retrained: int = 3
    methods: tuple[str, ...] = ()
    budget: float = 0.0

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.retrained < 2 or not self.labels or not self.same_rows:
            raise SettingsError(
                "Expected a label, a seed, two retrained models and `same_rows` at least."
            )


class References:
    """The models that others are held against, made when they are first asked for."""

    def __init__(self, settings: MirageSettings, say: Say) -> None:
        self._settings, self._say = settings, say
        self._originals: dict[int, Observation] = {}
        self._retrained: dict[int, tuple[Observation, Line]] = {}  # by number
        self._measures: Mapping[str, Measure] = {
            **rivals(),
            "resurfacing": MEASURES.get("resurfacing")(),
        }

    def figures(self, federation: Federation, seed: int) -> Line:
        """Return every measure of the model of a federation."""
        return self._measured(seen_of(federation), seed)

    def retrained(self, number: int) -> Line:
        """Return the same of a retrained model beside the others, with its accuracies."""
        seen, line = self._trained(number)
        return line | self._measured(seen, number % self._settings.seeds)

    def _measured(self, seen: Observation, seed: int) -> Line:
        labels = self._settings.labels
        every = [self._trained(number)[0] for number in range(self._settings.retrained)]
        models: Models = {
            "original": [self._original(seed)],
            RETRAINED: [other for other in every if other is not seen],
        }
        figures = {n: m.beside(seen, labels, models) for n, m in self._measures.items()}
        return {name: figure.value for name, figure in figures.items()} | {
            "confidences": confidences(seen, labels)
        }

    def _original(self, seed: int) -> Observation:
        if seed not in self._originals:
            # Opened again: the one that is measured stands at the outcome of a request.
            original = open_original(self._settings, seed, self._say)
            self._originals[seed] = seen_of(original.federation)
        return self._originals[seed]

    def _trained(self, number: int) -> tuple[Observation, Line]:
        if number not in self._retrained:
            self._say(f"training model {number} without the labels")
            federation = self._settings.federation(APART + number)
            federation.forgotten = Forgotten(labels=self._settings.labels)
            history = federation.train().history
            retained, forgotten = accuracies(federation, self._settings.labels)
            line = {"retained": retained, "forgotten": forgotten}
            line["seconds"] = sum(epoch.seconds for epoch in history)
            place = place_of(self._settings, federation.active.device.type)
            self._retrained[number] = seen_of(federation), {**line, "where": place}
        return self._retrained[number]


def seen_of(federation: Federation) -> Observation:
    """Return what an audit sees of a model."""
    return observe(federation.active, federation.holdings.rows, federation.labels)


def measure(settings: MirageSettings, say: Say) -> Result:
    """Measure every model of every seed; return a line each, and their means."""
    names = methods_of(settings.methods) or tuple(
        name for name in every_method(settings, len(settings.labels)) if name != "retrain"
    )
    beside = References(settings, say)
    trials = Trials(
        settings,
        settings.labels,
        settings.records,
        say,
        look=beside.figures,
        ends=end_of(settings.budget),
    )
    about = {"kind": RETRAINED, "request": trials.request, "method": RETRAINED}
    known = trials.records.find(**about)
    if known is not None and known["beside"] != settings.retrained:
        raise SettingsError(
            f"Expected records beside {settings.retrained} retrained models but those in "
            f"'{settings.records}' are beside {known['beside']}; name another file."
        )
    lines: list[Line | None] = []
    for number in range(settings.retrained):
        key = {**about, "seed": number, "beside": settings.retrained}
        line = trials.records.find(**key)
        lines.append(line or trials.records.add(**key, **beside.retrained(number)))
    for seed in range(settings.seeds):
        lines += [trials.original(seed), *(trials.forget(name, seed) for name in names)]
    whole = [line for line in lines if line is not None]
    return {
        "request": trials.request,
        "methods": list(names),
        "summary": summarise(whole, ("original", RETRAINED, *names)),
        "records": [{k: v for k, v in x.items() if k != "confidences"} for x in whole],
        "about": settings.about("data", "model", "top", "parties", "epochs", "seeds", "retrained"),
    }


def summarise(lines: Sequence[Line], names: Sequence[str]) -> list[Line]:
    """Return an entry a model: means and deviations over seeds; `u-lira` with its interval."""
    by_name = {name: failures([x for x in lines if x["method"] == name]) for name in names}
    retrained = by_name[RETRAINED][0]
    aim = spread_of(retrained, "lpr")
    shadows = [x["confidences"] for x in retrained]
    entries = []
    for name, (whole, failed) in by_name.items():
        entry: Line = {"method": name, "runs": len(whole), "failed": failed}
        entry |= {figure: spread_of(whole, figure, 100) for figure in SHARES}
        entry |= {figure: spread_of(whole, figure) for figure in NUMBERS}
        if aim is not None:
            gaps = [100 * (x["lpr"] - aim["mean"]) for x in whole if x.get("lpr") is not None]
            entry["lpr_gap"] = spread(gaps)
        attack = u_lira([x["confidences"] for x in whole], shadows) if whole else None
        if attack is not None and attack.value is not None and name != RETRAINED:
            half = ((attack.high or 0) - (attack.low or 0)) / 2
            entry["u-lira"] = {"mean": attack.value, "deviation": half, "count": len(whole)}
        entries.append(entry)
    return entries


def table(result: Result) -> list[list[str]]:
    """Return the means, a row a model; deviations stand in the page."""
    rows = [["model", *SHARES.values(), *NUMBERS.values()]]
    for entry in result["summary"]:
        cells = [markdown.number(_mean(entry, name), 1) for name in SHARES]
        cells += [markdown.number(_mean(entry, name), 2) for name in NUMBERS]
        rows.append([short_name(entry["method"]), *(cells if entry["runs"] else _failed(cells))])
    return rows


def _mean(entry: Line, name: str) -> float | None:
    return entry[name]["mean"] if entry[name] else None


def _failed(cells: Sequence[str]) -> list[str]:
    return ["failed", *("" for _ in cells[1:])]


def page(result: Result) -> str:
    """Return a page in Markdown: the same figures, with deviations."""
    about = result["about"]
    tables = []
    for title, names, digits in (
        ("Answers and probes, %", SHARES, 1),
        ("Embeddings, information and attacks", NUMBERS, 2),
    ):
        rows = [["model", *names.values()]]
        for entry in result["summary"]:
            cells = [markdown.figure(entry[name], digits) for name in names]
            name = f"`{short_name(entry['method'])}`"
            rows.append([name, *(cells if entry["runs"] else _failed(cells))])
        tables += [f"## {title}", markdown.table(rows)]
    failed = [
        f"`{short_name(entry['method'])}`: {text}"
        for entry in result["summary"]
        for text in dict.fromkeys(entry["failed"])
    ]
    return markdown.page(
        f"# Mirage's measures and others', {labels_in_words(result['request'])} forgotten",
        f"{about['data']}, {about['model']} with top {about['top']}, {about['parties']} passive "
        f"parties, {about['epochs']} epochs, {markdown.over_seeds(about['seeds'])}, "
        f"{about['retrained']} retrained models, all on the same rows; {where(result)}.",
        MEANINGS,
        about["note"],
        *tables,
        *(["## What failed", markdown.bullets(failed)] if failed else []),
    )


BENCHES.add(
    "mirage",
    Bench(
        "rivals' measures of every method: linear-probe recovery, CKA, separability, IDI, ...",
        MirageSettings,
        measure,
        table,
        page,
    ),
)
