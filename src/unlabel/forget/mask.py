"""The control: the forgotten outputs suppressed, nothing unlearned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unlabel.defend.accountant import Account
from unlabel.errors import ForgetError
from unlabel.forget.method import METHODS, Data, Method, Mode, Tells
from unlabel.forget.work import Work, steady
from unlabel.models.tops import Top


@METHODS.register("mask")
@dataclass(frozen=True)
class Mask(Method):
    """Give the forgotten labels a logit of -10000 and touch nothing else.

    It has forgotten nothing: the bottoms know the label as before, and lifting the mask brings it
    back. It stands in every table so that everybody sees what accuracy alone is worth.
    """

    about: ClassVar[str] = "control: hides the output, forgets nothing"
    discloses: ClassVar[str] = "nothing"

    def needs(self) -> Data:
        """Return that no data is looked at."""
        return "nothing"

    def tells(self) -> Tells:
        """Return that nothing but the request itself is told."""
        return Tells.of("", "")

    def mode(self) -> Mode:
        """Return that partners see nothing."""
        return "hidden"

    def account(self) -> Account | None:
        """Return that nothing is sent about the request."""
        return Account.nothing()

    def is_control(self) -> bool:
        """Return that nothing is forgotten."""
        return True

    def run(self, work: Work) -> None:
        """Mute the outputs."""
        top = work.active.top.module
        if not isinstance(top, Top):
            raise ForgetError("Only a top model that unlabel joined can be masked.")
        # Opens the request with everybody, so that commit and rollback have something to decide.
        work.tune(steady(0.0, 0.0), steady(0.0, 0.0))
        top.mute(work.gone)
