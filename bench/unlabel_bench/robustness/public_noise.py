"""What wrong labels in the public set do to forgetting, and whether they are noticed.

A share of the public labels is made wrong in one of three ways before a request is made:

    any   that share of all samples, each called another label at random
    into  that share of the samples called the forgotten label is of other labels, so the method
          forgets what it should keep
    out   that share of the forgotten label's samples is called something retained, so the method
          keeps what it should forget; of the other labels only as many samples are left as a
          request uses, so that the wrong ones are among them
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import torch

from unlabel.config import expect, one_of
from unlabel.config.forget import Robust
from unlabel.errors import UnlabelError
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings, PublicSet, plan, service
from unlabel.forget.plan import expect_fits
from unlabel.party import Stream
from unlabel_bench.markdown import FIGURES, number
from unlabel_bench.measures import key_of, read_method
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.summary import grouped, mean_of

WAYS = ("any", "into", "out")
#: Rates at which the paper's method forgets 29 of 30 labels of digits; its own forget none.
ASCENT = "mixup-ascent@resnet18-cifar10:lr=1e-3:recovery_lr=2e-2"


@dataclass(frozen=True)
class PublicNoiseSettings(Recipe):
    """Settings of the bench.

    labels    forgotten, one at a time, from the same weights
    shares    of wrong labels
    ways      any, into, out
    robust    none, drop, weight: what a request does about suspects
    methods   as in the bench `forgetting`
    public    rows a label set aside before training; 0 takes training rows
    few_shot  samples of the forgotten label a request uses at most
    retained  samples of each other label
    """

    seeds: tuple[int, ...] = (0,)
    labels: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
    shares: tuple[float, ...] = (0.0, 0.1, 0.2, 0.4)
    ways: tuple[str, ...] = WAYS
    robust: tuple[str, ...] = get_args(Robust)
    methods: tuple[str, ...] = ("renormalise", ASCENT)
    few_shot: int = 40
    retained: int = 3

    def __post_init__(self) -> None:
        expect("shares", self.shares, all(0 <= x < 1 for x in self.shares), "from 0 to below 1")
        for way in self.ways:
            one_of("ways", way, WAYS)
        for robust in self.robust:
            one_of("robust", robust, get_args(Robust))


def measure(settings: PublicNoiseSettings, say: Say) -> Result:
    """Forget with every public set and method; return a line a request, and summaries."""
    runs = []
    for seed in settings.seeds:
        say(f"seed {seed}: training")
        federation = settings.federation(seed)
        federation.train()
        for label in settings.labels:
            for way in settings.ways:
                say(f"seed {seed}: label {label}, {way}")
                for share in settings.shares:
                    if share == 0 and way == "into" and "any" in settings.ways:
                        continue  # the same set
                    key = {"seed": seed, "label": label, "way": way, "share": share}
                    runs += [{**key, **line} for line in _forget(federation, settings, key)]
    entries = summary(runs)
    return {"runs": runs, "summary": entries, "says": says(entries)}


def make_wrong(
    public: PublicSet, label: int, share: float, way: str, *, count: int, keep: int, seed: int
) -> PublicSet:
    """Return the set with a share of its labels wrong, in one of the ways above.

    label  to be forgotten
    count  how many labels there are
    keep   samples of each other label that are left, in the way `out`

    >>> rows = torch.arange(8)
    >>> public = PublicSet("main", rows, rows // 4, tuple("abcdefgh"), False, "an example")
    >>> make_wrong(public, 0, 0.5, "out", count=2, keep=1, seed=0).labels.sort().values.tolist()
    [0, 0, 1, 1, 1]
    """
    random = Stream(seed, "wrong labels").generator(f"{label}/{share}/{way}")
    order = torch.randperm(len(public), generator=random)
    labels = public.labels.clone()
    members, others = order[labels[order] == label], order[labels[order] != label]
    if way == "into":
        # k of k + members are to be wrong.
        labels[others[: round(len(members) * share / (1 - share))]] = label
        return replace(public, labels=labels)
    among = members if way == "out" else order
    wrong = among[: round(share * len(among))]
    shift = torch.randint(1, count, (len(wrong),), generator=random)
    labels[wrong] = (labels[wrong] + shift) % count
    changed = replace(public, labels=labels)
    if way == "any":
        return changed
    left = [others[public.labels[others] == each][:keep] for each in range(count)]
    return changed.take(torch.cat([members, *left]))


def _forget(
    federation: Federation, settings: PublicNoiseSettings, key: dict[str, Any]
) -> list[dict[str, Any]]:
    """Forget from one public set with every method and robust option."""
    truth = federation.holdings.labels
    lines = []
    for robust in settings.robust:
        request = ForgetSettings(
            few_shot=settings.few_shot,
            retained=settings.retained,
            robust=robust,  # type: ignore[arg-type]
            key=key_of(key["seed"], key["label"]),
            allow_disclosure=True,
        )
        public = make_wrong(
            plan(federation, labels=[key["label"]], settings=request).public,
            key["label"],
            key["share"],
            key["way"],
            count=len(federation.labels),
            keep=settings.retained,
            seed=key["seed"],
        )
        wrong = set(public.rows[public.labels != truth[public.rows]].tolist())
        for method in settings.methods:
            line: dict[str, Any] = {"method": method, "robust": robust, "wrong": len(wrong)}
            try:
                chosen = replace(request, method=read_method(method))
                work = plan(federation, labels=[key["label"]], settings=chosen)
                work = replace(work, public=public)
                expect_fits(work)
                few_shot = work.samples
                outcome = service.carry_out(federation, work)
            except UnlabelError as error:
                lines.append({**line, "refused": str(error)})
                continue
            outcome.rollback()
            result = outcome.result
            reported = {suspect["row"] for suspect in result.suspects}
            used, labels = few_shot.rows.cpu(), few_shot.labels.cpu()
            bad = labels != truth[used]
            before, after = result.retained_accuracy.before, result.retained_accuracy.after
            lines.append(
                line
                | {
                    "refused": None,
                    "retained_before": before,
                    "retained": after,
                    "forgotten": result.forgotten_accuracy.after,
                    "steps": result.steps,
                    "used_forgotten": few_shot.forgotten,
                    "used_forgotten_wrong": int(bad[: few_shot.forgotten].sum()),
                    "used_retained": len(used) - few_shot.forgotten,
                    "used_retained_wrong": int(bad[few_shot.forgotten :].sum()),
                    "reported": len(reported),
                    "reported_wrong": len(reported & wrong),
                }
            )
    return lines


def summary(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one line a method, way, share and robust option, over labels and seeds.

    found  share of the wrong samples of the public set that were reported as suspects
    right  share of the reported samples that are truly wrong
    """
    lines = []
    for key, every in grouped(runs, "method", "way", "share", "robust"):
        done = [x for x in every if x["refused"] is None]
        changes = [100 * (x["retained"] - x["retained_before"]) for x in done]
        left = [100 * x["forgotten"] for x in done]
        caught = sum(x["reported_wrong"] for x in done)
        lines.append(
            key
            | {
                "runs": len(every),
                "refused": len(every) - len(done),
                "retained_change": mean_of(changes),
                "retained_change_worst": min(changes, default=None),
                "forgotten": mean_of(left),
                "forgotten_worst": max(left, default=None),
                "not_forgotten": sum(value > 5 for value in left),
                "used_wrong": _share(
                    sum(x["used_forgotten_wrong"] + x["used_retained_wrong"] for x in done),
                    sum(x["used_forgotten"] + x["used_retained"] for x in done),
                ),
                "found": _share(caught, sum(x["wrong"] for x in done)),
                "right": _share(caught, sum(x["reported"] for x in done)),
                "reported": mean_of([x["reported"] for x in done]),
            }
        )
    return lines


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def says(entries: Sequence[dict[str, Any]]) -> list[str]:
    """Return in sentences what the most noise does, beside none."""
    sentences = []
    for key, lines in grouped(entries, "method", "way"):
        most = max(x["share"] for x in lines)
        words = [
            f"{x['robust']} {_change(x)}"
            + (f" ({x['refused']} of {x['runs']} refused)" if x["refused"] else "")
            for x in lines
            if x["share"] == most
        ]
        clean = next((x for x in lines if x["share"] == 0 and x["robust"] == "none"), None)
        beside = f"; without wrong labels {_change(clean)}" if clean else ""
        sentences.append(
            f"{key['method']}, {100 * most:.0f} % wrong ({key['way']}), change of "
            f"retained accuracy in points / forgotten accuracy in %: {', '.join(words)}{beside}."
        )
    return sentences


def _change(line: dict[str, Any]) -> str:
    changed, left = (
        number(line[name], 1, missing="-") for name in ("retained_change", "forgotten")
    )
    return f"{changed} / {left}"


def table(result: Result) -> list[list[str]]:
    """Return the summaries as rows for people."""
    changed, left = f"{FIGURES['retained']} change", FIGURES["forgotten"]
    heads = ["method", "way", "wrong", "robust", "refused", changed, "worst", left, "worst"]
    rows = [[*heads, "wrong in use", "found", "right"]]
    for x in result["summary"]:
        figures = ("retained_change", "retained_change_worst", "forgotten", "forgotten_worst")
        shares = [x["used_wrong"], x["found"], x["right"]]
        rows.append(
            [x["method"].partition(":")[0], x["way"], f"{100 * x['share']:.0f} %", x["robust"]]
            + [f"{x['refused']}/{x['runs']}"]
            + [number(x[name], 1, missing="-") for name in figures]
            + ["-" if share is None else f"{100 * share:.0f} %" for share in shares]
        )
    return rows


BENCHES.add(
    "public-noise",
    Bench(
        "what wrong labels in the public set do to forgetting, and whether they are noticed",
        PublicNoiseSettings,
        measure,
        table,
    ),
)
