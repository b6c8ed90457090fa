"""What a method of forgetting is: settings, an algorithm, and what it needs and tells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from unlabel.defend.accountant import Account
from unlabel.forget.work import Work
from unlabel.registry import Registry

#: Which data a method must be given: a few public samples, all of them, training rows of the
#: forgotten labels, those of the others, both, or none.
Data = Literal["few-shot", "public", "forgotten", "retained", "all", "nothing"]

#: What a request is to the partners. open: they can tell what it is about; deep: they can tell, and
#: their bottoms forget too; hidden: they cannot tell, beyond what the accountant allows.
Mode = Literal["open", "deep", "hidden"]

#: Settings that the comparison may try for a method, its published ones among them.
SWEEP = 4


@dataclass(frozen=True)
class Tells:
    """What a method tells every passive party: exactly what the transcript of its run holds.

    Around it every request asks for public samples and test rows, the same for all labels; and
    a method with a control (`Method.control`) is first run once more at rate 0.

    rows       whose samples are asked for: `forgotten` and `retained` training rows, `public` ones,
               and `drafts` that the party made itself
    gradients  for whose samples gradients come
    alone      whether some message asks for samples of the forgotten labels and for no others
    messages   kinds of message, beyond those that ask for embeddings and send gradients
    """

    rows: frozenset[str] = frozenset()
    gradients: frozenset[str] = frozenset()
    alone: bool = False
    messages: frozenset[str] = frozenset()

    @classmethod
    def of(cls, rows: str, gradients: str, messages: str = "Tune", *, alone: bool = False) -> Tells:
        """Return what words say.

        >>> sorted(Tells.of("forgotten retained", "retained").rows)
        ['forgotten', 'retained']
        """
        words = (frozenset(text.split()) for text in (rows, gradients, messages))
        asked, moved, kinds = words
        return cls(asked, moved, alone, kinds)

    def names_rows(self) -> bool:
        """Return whether the forgotten rows can be told by what is asked for, or is not."""
        return self.alone or ("retained" in self.rows and "forgotten" not in self.rows)


class Method(ABC):
    """One way to forget: a frozen dataclass of settings with the algorithm in `run`.

    about      one line for people
    discloses  what it tells the passive parties beyond what training tells them
    people     whether it forgets the labels of people; else it forgets whole labels
    remedy     what to do where it destroys the rest
    """

    about: ClassVar[str]
    discloses: ClassVar[str]
    people: ClassVar[bool] = False
    remedy: ClassVar[str] = "Lower the method's rates or strengths, or take fewer steps."

    @abstractmethod
    def needs(self) -> Data:
        """Return which data it needs."""

    @abstractmethod
    def tells(self) -> Tells:
        """Return what its messages tell every passive party."""

    def sweep(self) -> tuple[Method, ...]:
        """Return the settings that a comparison tries, the present ones first, `SWEEP` at most."""
        return ()

    def is_control(self) -> bool:
        """Return whether nothing is learned on purpose; a control cannot be committed."""
        return False

    def names_rows(self) -> bool:
        """Return whether what is asked for, or is not, tells the label's rows from the others."""
        return self.tells().names_rows()

    def shows_rows(self) -> bool:
        """Return whether the size of gradients is known to tell the label's samples at a glance.

        That nobody has looked is no reason to think that it does not.
        """
        return False

    def draws(self) -> bool:
        """Return whether a few public samples are drawn for each request, by its label."""
        return "public" in self.tells().rows

    def mode(self) -> Mode:
        """Return what the request is to the partners."""
        return "open"

    def is_silent(self) -> bool:
        """Return whether nothing that partners see or keep depends on what is forgotten.

        Then dropping an outcome can look to them like keeping it: their weights are the same.
        """
        return False

    def account(self) -> Account | None:
        """Return what one request can tell the partners at most, all of them together.

        None where nothing is proved.
        """
        return None

    def told(self) -> str:
        """Return in words what it tells the passive parties, with the present settings."""
        return self.discloses

    def presets(self) -> dict[str, Preset]:
        """Return named settings, where there are any."""
        return {}

    @abstractmethod
    def run(self, work: Work) -> None:
        """Forget, by moving the parties' models."""

    def control(self) -> Method | None:
        """Return the same method with nothing learned, where side effects alone also forget."""
        return None


@dataclass(frozen=True)
class Preset:
    """Named settings of a method, and how many samples go with them."""

    method: Method
    few_shot: int
    retained: int


METHODS: Registry[type[Method]] = Registry("method", package="unlabel.forget")


def settings_of(method: Method) -> dict[str, object]:
    """Return a method's settings as plain data."""
    return {f.name: getattr(method, f.name) for f in fields(method)}  # type: ignore[arg-type]
