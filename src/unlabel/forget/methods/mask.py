"""The control: the forgotten outputs suppressed, nothing unlearned."""

from __future__ import annotations

from dataclasses import dataclass

from unlabel.defend.accountant import Account
from unlabel.errors import ForgetError
from unlabel.forget.method import METHODS, Disclosure, Method
from unlabel.forget.work import STILL, Work
from unlabel.models.tops import Top


@METHODS.register("mask")
@dataclass(frozen=True)
class Mask(Method):
    """Give the forgotten labels a logit of -10000 and touch nothing else.

    It has forgotten nothing: the bottoms know the label as before, and lifting the mask brings it
    back. It stands in every table to show what accuracy alone is worth.
    """

    about = "control: hides the output, forgets nothing"
    tells_partners = "nothing"
    needs = "nothing"
    disclosure = Disclosure.of("")
    visibility = "hidden"
    aim = "answers"
    is_control = True
    account = Account.nothing()

    def run(self, work: Work) -> None:
        """Mute the outputs."""
        top = work.active.top.module
        if not isinstance(top, Top):
            raise ForgetError("Only a top model that unlabel joined can be masked.")
        # Opens the request with every party, so that commit and rollback have something to decide.
        work.use_optimisers(STILL)
        top.mute(work.forgotten_labels)
