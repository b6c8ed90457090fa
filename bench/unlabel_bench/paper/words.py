"""What of the paper is words: its symbols, its overview, and the table of related methods."""

from __future__ import annotations

from dataclasses import dataclass

from unlabel.config import one_of
from unlabel_bench.paper.related_work import table as related
from unlabel_bench.paper.tables import read
from unlabel_bench.registry import BENCHES, Bench, Result, Say

Rows = list[list[str]]


@dataclass(frozen=True)
class WordsSettings:
    """Settings of the bench.

    which  notation, overview or related-work
    """

    which: str = "notation"

    def __post_init__(self) -> None:
        one_of("which", self.which, ("notation", "overview", "related-work"))


def measure(settings: WordsSettings, say: Say) -> Result:
    """Return the rows."""
    say(settings.which)
    rows = _related() if settings.which == "related-work" else read("words.json")[settings.which]
    return {"which": settings.which, "rows": rows}


def _related() -> Rows:
    heads = ["method", "setting", "forgets", "kind", "protects the request", "here"]
    return [
        heads,
        *([x.name, x.setting, x.target, x.kind, x.protects, x.unlabel] for x in related()),
    ]


def table(result: Result) -> Rows:
    """Return the rows as they are."""
    rows: Rows = result["rows"]
    return rows


BENCHES.add("paper-words", Bench("the paper's words beside ours", WordsSettings, measure, table))
