"""The settings of a desk: `desk.yaml` in its folder, which a person writes and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unlabel.config import expect
from unlabel.config.checks import one_of
from unlabel.config.loader import parse, read_yaml
from unlabel.desk.letter_words import LANGUAGES, Language

FILE = "desk.yaml"


@dataclass(frozen=True)
class DeskSettings:
    """How a desk works.

    two_persons   whether a commit and a rollback need a second person's confirmation
    retrained     models that an audit trains without the labels, to compare with
    organisation  who answers, for the letter to the person
    contact       how to reach them, for the letter
    language      of a letter, where nobody chose another
    """

    two_persons: bool = False
    retrained: int = 0
    organisation: str = ""
    contact: str = ""
    language: Language = "en"

    def __post_init__(self) -> None:
        expect("retrained", self.retrained, 0 <= self.retrained <= 20, "from 0 to 20")
        one_of("language", self.language, LANGUAGES)


def read_settings(folder: Path) -> DeskSettings:
    """Read the settings of the desk in a folder; without a file all are as by default."""
    path = folder / FILE
    return (
        parse(DeskSettings, read_yaml(path) or {}, str(path)) if path.exists() else DeskSettings()
    )
