"""Which defences a run applies to what its parties send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from unlabel.defend.defence import Defence, Rows, read_defences
from unlabel.errors import SettingsError
from unlabel.party.optimiser import expect


@dataclass(frozen=True)
class DefendSettings:
    """Defences by words like gaussian:clip=1:sigma=0.1, applied in the order given.

    gradients   what the active party applies to the gradients it sends
    embeddings  what each passive party applies to the embeddings it sends
    seed        names the noise, so that a bench can repeat it; whoever knows the seed can take the
                noise off again, so without one it is drawn from the machine's secret source
    """

    gradients: list[str] = field(default_factory=list)
    embeddings: list[str] = field(default_factory=list)
    seed: int | None = None

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a plain dict that pydantic reads)

    def __post_init__(self) -> None:
        named_defences("defend.gradients", self.gradients, "gradients")
        named_defences("defend.embeddings", self.embeddings, "embeddings")
        expect("defend.seed", self.seed, self.seed is None or self.seed >= 0, "0 or more")


def named_defences(setting: str, words: Sequence[str], rows: Rows) -> tuple[Defence, ...]:
    """Return the defences of a setting, or say in its name what is wrong."""
    try:
        return read_defences(words, rows)
    except SettingsError as error:
        raise SettingsError(f"`{setting}` cannot be {', '.join(words)}: {error}") from error
