"""Yahoo! Answers: questions of people and the best answers, ten topics, from the user's folder."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from unlabel.data.cache import Parts
from unlabel.data.dataset import SOURCES, Array, Dataset, Source
from unlabel.data.folders import reading
from unlabel.errors import DataError
from unlabel_bench.published import Published, read_label_names

CLASSES = 10
NAMES = "classes.txt"
#: The official files hold 140,000 and 6,000 rows of each label; the paper takes the first of them.
TRAINED, TESTED = 5_000, 2_000
#: Fields of a line: number of the class, title, body of the question, best answer.
FIELDS = 4
OFFICIAL = Published(
    "yahoo-answers",
    "download 'yahoo_answers_csv' of the text classification datasets by Zhang, Zhao and LeCun "
    "(2015, 'Character-level Convolutional Networks for Text Classification'), unpack it, and pass "
    f"the folder that holds train.csv, test.csv and {NAMES} with `--folder`",
)


def load(folder: Path | None = None) -> Dataset:
    """Read the official files from the folder: 5,000 rows of each label to train, 2,000 to test."""
    folder = OFFICIAL.folder(folder)
    labels = read_label_names(folder, NAMES, CLASSES)
    parts = Parts.join(_read(folder / "train.csv", TRAINED), _read(folder / "test.csv", TESTED))
    return Dataset("yahoo-answers", parts.x, parts.y, labels, "text", parts.test)


def _read(path: Path, most: int) -> tuple[Array, Array]:
    """Return texts and labels: the first `most` rows of each label, in the order of the file."""
    texts: list[str] = []
    labels: list[int] = []
    taken = [0] * CLASSES
    for number, line in _lines(path):
        label = _label(path, number, line)
        text = join_fields(line[1:])
        # A question without a word in any field, of which the files have a few, says nothing.
        if taken[label] < most and text:
            taken[label] += 1
            texts.append(text)
            labels.append(label)
        if min(taken) == most:
            break
    if 0 in taken:
        raise DataError(
            f"File '{path}' has no rows of class {taken.index(0) + 1}; get the whole file again."
        )
    return np.array(texts, dtype=object), np.array(labels, dtype=np.int64)


def join_fields(fields: list[str]) -> str:
    r"""Return title, question and answer in one line; the files write a new line as \n.

    >>> join_fields(["why?", "", r"so\nthat "])
    'why? so that'
    """
    return " ".join(word for field in fields for word in field.replace("\\n", " ").split())


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of a file with their numbers; quotes inside of quotes are doubled."""
    try:
        with reading(path), path.open(encoding="utf-8-sig", newline="") as file:
            yield from enumerate(csv.reader(file, strict=True), start=1)
    except (csv.Error, ValueError) as error:
        raise DataError(
            f"File '{path}' is no CSV file of the official form ({error}): get it again."
        ) from error


def _label(path: Path, number: int, line: list[str]) -> int:
    if len(line) != FIELDS:
        raise DataError(
            f"File '{path}', line {number}: expected {FIELDS} fields (class, title, question, best "
            f"answer) but got {len(line)}."
        )
    known = line[0].strip()
    if not known.isdecimal() or not 1 <= int(known) <= CLASSES:
        raise DataError(
            f"File '{path}', line {number}: expected a class from 1 to {CLASSES} but got "
            f"'{known[:20]}'."
        )
    return int(known) - 1


ABOUT = "questions and answers, 10 topics, 50000 + 20000 texts (own copy)"
SOURCES.add("yahoo-answers", Source(ABOUT, load))
