"""What of the paper is words: its symbols, its overview, and the table of related methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unlabel.bench.registry import BENCHES, Bench
from unlabel.bench.related_work import table as related
from unlabel.party.optimiser import one_of

Rows = list[list[str]]

NOTATION: Rows = [
    ["symbol", "what it is", "here"],
    ["F_w, G_k", "model of the active party, of passive party k", "top, bottom"],
    ["w^u, G_k^u", "the same after forgetting", "the next version in `party/checkpoint.py`"],
    ["K", "number of passive parties", "`parties`"],
    ["lambda", "share of the first sample in a mixed one", "`lambdas`"],
    ["eta", "learning rate", "`lr`"],
    ["N", "epochs of forgetting", "`epochs` of `mixup-ascent`"],
    ["x_k", "features of party k", "`Features`"],
    ["y", "labels of the active party", "`ActiveParty.labels`"],
    ["y^u", "labels to forget", "`labels` of a request"],
    ["x_k^u", "features of the forgotten label", "`Work.rows`"],
    ["x_k^p", "features of public samples", "`Work.shots`"],
    ["H_k", "embeddings of party k", "`Embeddings`"],
    ["mixed H^u, H^r", "mixed embeddings, forgotten and retained", "`forget/mixing.py`"],
]
OVERVIEW: Rows = [
    ["step", "who", "here"],
    ["embeddings of the public samples", "passive parties", "`Work.move` asks for them"],
    ["mixing, loss, gradients of the top", "active party", "`forget/mixup_ascent.py`"],
    ["gradients of each party's own embeddings", "active party", "`ActiveParty.move`"],
    ["a step of each bottom, up and down", "passive parties", "`party/learner.py`"],
    ["audit, commit or rollback", "all", "`forget/transaction.py`"],
]


@dataclass(frozen=True)
class WordsSettings:
    """Settings of the bench.

    which  notation, overview or related-work
    """

    which: str = "notation"

    def __post_init__(self) -> None:
        one_of("which", self.which, ("notation", "overview", "related-work"))


def run(settings: WordsSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Return the rows."""
    say(settings.which)
    rows = {"notation": NOTATION, "overview": OVERVIEW}.get(settings.which) or _related()
    return {"which": settings.which, "rows": rows}


def _related() -> Rows:
    heads = ["method", "setting", "forgets", "kind", "protects the request", "here"]
    return [
        heads,
        *([x.name, x.setting, x.target, x.kind, x.protects, x.unlabel] for x in related()),
    ]


def table(result: dict[str, Any]) -> Rows:
    """Return the rows as they are."""
    rows: Rows = result["rows"]
    return rows


BENCHES.add("paper-words", Bench("the paper's words beside ours", WordsSettings, run, table))
