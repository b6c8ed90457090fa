"""Small data for what no library brings along: views of objects, and texts with a label.

Both are written on the spot and always the same.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np

from unlabel.data import load_dataset
from unlabel.files import cache_folder, write_atomically

VIEWS, SENTENCES = "digits_two_views.npz", "made_up_sentences.csv"
TOPICS = {
    "cooking": "oven flour simmer garlic recipe saucepan pepper dough roast butter",
    "sailing": "harbour mast anchor tide keel rudder deck sail knot breeze",
    "money": "loan account interest invoice salary savings credit refund payment fee",
    "gardening": "soil seed prune compost shovel tulip hedge weed lawn harvest",
    "music": "violin chorus rhythm piano melody concert tenor drum chord score",
    "astronomy": "planet telescope orbit comet galaxy eclipse lunar star crater dust",
    "health": "fever doctor pulse vaccine clinic allergy sleep muscle diet nurse",
    "chess": "rook gambit castle pawn bishop checkmate opening tempo endgame draw",
}
COMMON = (
    "the a we they often never near after before while with without large small old new some "
    "this that every morning evening people found wanted began almost again because though"
)
#: Sentences a topic, their shortest and longest length, and how many words are of a topic.
COUNT, SHORTEST, LONGEST, TELLING = 120, 10, 16, 0.3
#: Of the words that are of a topic, those that are of another one than the label says.
STRAY = 0.15


def write_small(name: str) -> Path:
    """Write a file into the cache, unless it is there as it should be; return its folder."""
    path = cache_folder() / "paper" / name
    data = _MAKERS[name]()
    if not path.is_file() or path.read_bytes() != data:
        write_atomically(path, data)
    return path.parent


def _views() -> bytes:
    digits = load_dataset("digits")
    upright = digits.x[:, 0]
    both = np.stack([upright, np.rot90(upright, axes=(1, 2))], axis=1)
    file = io.BytesIO()
    np.savez(file, x=both, y=digits.y, classes=np.array(digits.labels))
    return file.getvalue()


def sentences() -> list[tuple[str, str]]:
    """Return labels and sentences: common words among which some are of the label's topic.

    >>> label, text = sentences()[0]
    >>> label, len(text.split()) >= 10
    ('cooking', True)
    """
    rng = np.random.default_rng(0)
    words = {topic: text.split() for topic, text in TOPICS.items()}
    topics, common = list(words), COMMON.split()
    pairs = []
    for topic in topics:
        for _ in range(COUNT):
            drawn = []
            for _ in range(rng.integers(SHORTEST, LONGEST + 1)):
                stray = rng.random() < STRAY
                about = topics[rng.integers(len(topics))] if stray else topic
                pool = words[about] if rng.random() < TELLING else common
                drawn.append(pool[rng.integers(len(pool))])
            pairs.append((topic, " ".join(drawn)))
    return pairs


def _sheet() -> bytes:
    lines = ["label,text", *(f"{label},{text}" for label, text in sentences())]
    return ("\n".join(lines) + "\n").encode()


_MAKERS: dict[str, Callable[[], bytes]] = {VIEWS: _views, SENTENCES: _sheet}
