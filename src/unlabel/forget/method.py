"""What a method of forgetting is: settings, an algorithm, the data it needs, what it discloses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Literal

from unlabel.config import expect
from unlabel.defend.accountant import Account
from unlabel.errors import ForgetError, SettingsError, why
from unlabel.forget.work import Work
from unlabel.registry import Registry
from unlabel.terms import Depth, Guarantee, Visibility

#: Which data a method must be given: a few public samples, all of them, training rows of the
#: forgotten labels, those of the others, both, or none.
Data = Literal["few-shot", "public", "forgotten", "retained", "all", "nothing"]


@dataclass(frozen=True)
class Disclosure:
    """What a method discloses to every passive party: exactly what the transcript of `run` holds.

    Around it every request asks for public samples and test rows, the same for all labels; and
    a method with a control (`Method.control`) is first run once more at rate 0.

    rows       whose samples are asked for: `forgotten` and `retained` training rows, `public` ones,
               and `synthetic` ones that the party made itself
    gradients  for whose samples gradients are sent
    alone      whether some message asks for samples of the forgotten labels and for no others
    messages   kinds of message, beyond those that ask for embeddings and send gradients
    """

    rows: frozenset[str] = frozenset()
    gradients: frozenset[str] = frozenset()
    alone: bool = False
    messages: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        rows: str,
        gradients: str | None = None,
        messages: str = "BeginRequest",
        *,
        alone: bool = False,
    ) -> Disclosure:
        """Return a disclosure from words; gradients are sent for all rows unless others are named.

        >>> sorted(Disclosure.of("forgotten retained", "retained").rows)
        ['forgotten', 'retained']
        """
        asked = frozenset(rows.split())
        sent = asked if gradients is None else frozenset(gradients.split())
        return cls(asked, sent, alone, frozenset(messages.split()))

    def names_rows(self) -> bool:
        """Return whether the rows that are asked for, or left out, give the forgotten ones away."""
        return self.alone or ("retained" in self.rows and "forgotten" not in self.rows)


class Method(ABC):
    """One way to forget: a frozen dataclass of settings, the algorithm in `run`, and these facts.

    about   one line for people
    people  whether it forgets the labels of people too, and not whole labels alone
    rates   settings without which nothing is learned
    anew    whether it is a whole training: as long as that, and not to agree with the old model
    remedy  what to do where it destroys the rest

    A fact is a class attribute, or a property where it depends on the settings; the properties
    below are facts too, most with the value that most methods have.
    """

    about: ClassVar[str]
    people: ClassVar[bool] = False
    anew: ClassVar[bool] = False
    rates: ClassVar[tuple[str, ...]] = ()
    remedy: ClassVar[str] = "Lower the method's rates or strengths, or take fewer steps."

    @property
    @abstractmethod
    def tells_partners(self) -> str:
        """What passive parties learn beyond what training tells them, in words."""

    @property
    @abstractmethod
    def needs(self) -> Data:
        """Which data it must be given."""

    @property
    @abstractmethod
    def disclosure(self) -> Disclosure:
        """The same as `tells_partners`, as the tests hold it against the transcript."""

    @property
    def takes(self) -> str:
        """How long it takes, in words, where that can be said beforehand."""
        return "as long as the training did" if self.anew else ""

    @property
    def is_control(self) -> bool:
        """Whether all its rates are 0, so that nothing is learned; it cannot be committed then."""
        return bool(self.rates) and not any(getattr(self, name) for name in self.rates)

    @property
    def drifts(self) -> bool:
        """Whether side effects alone forget too: batches of one label move normalisation."""
        return False

    @property
    def shows_rows(self) -> bool:
        """Whether the size of gradients is known to tell the label's samples at a glance.

        False may also mean that it was not examined.
        """
        return False

    @property
    def draws_samples(self) -> bool:
        """Whether a few public samples are drawn for each request, by its label."""
        return "public" in self.disclosure.rows

    @property
    def visibility(self) -> Visibility:
        """Whether partners can tell what is forgotten, beyond what the accountant allows.

        Nobody is taken at their word: `hidden` needs an `account` of what is sent.
        """
        return "open"

    @property
    def aim(self) -> Depth:
        """The depth it aims at; how deep it went is for an audit to say."""
        return "top"

    @property
    def guarantee(self) -> Guarantee:
        """How it is known what a request came to: by an audit, unless the outcome is exact."""
        return "measured"

    @property
    def is_silent(self) -> bool:
        """Whether nothing that partners see or keep depends on what is forgotten.

        Then dropping an outcome can look to them like keeping it: their weights are the same.
        """
        return False

    @property
    def account(self) -> Account | None:
        """What one request can tell all partners together at most; None: nothing is proved."""
        return None

    def presets(self) -> dict[str, Preset]:
        """Return named settings, where there are any."""
        return {}

    @abstractmethod
    def run(self, work: Work) -> None:
        """Forget, by moving the parties' models."""

    def control(self) -> Method | None:
        """Return the same method at rate 0, where side effects alone forget too."""
        if not self.drifts:
            return None
        still = dict.fromkeys((*self.rates, "weight_decay"), 0.0)
        control: Method = replace(self, **still)  # type: ignore[type-var]
        return control

    def expect_at_least(self, **bounds: float) -> None:
        """Raise unless every setting that is named has its bound or more."""
        for name, bound in bounds.items():
            value = getattr(self, name)
            expect(name, value, value >= bound, f"at least {bound}" if bound else "0 or more")


@dataclass(frozen=True)
class Preset:
    """Named settings of a method, and how many samples go with them."""

    method: Method
    few_shot: int
    retained: int


METHODS: Registry[type[Method]] = Registry(
    "method", package="unlabel.forget.methods", plugins="unlabel.methods"
)


def build(name: str) -> Method:
    """Return a method of the registry with its default settings; its facts are there and fit."""
    try:
        method = METHODS.get(name)()
        for fact in ("about", "tells_partners", "needs", "disclosure"):
            getattr(method, fact)
    except (AttributeError, TypeError) as error:
        raise SettingsError(
            f"Method '{name}' is not complete ({why(error)}); give it every fact that `Method` "
            f"asks for, and every setting a default."
        ) from error
    expect_visibility(method, name)
    return method


def expect_visibility(method: Method, name: str) -> None:
    """Raise where a method is called hidden and nothing shows it: certificates say it too."""
    if method.visibility != "hidden":
        return
    account, reason = method.account, ""
    if account is None:
        reason = "has no `account` that bounds what partners can tell"
    elif method.disclosure.gradients and not account.rho:
        reason = "sends gradients that its `account` leaves out"
    elif method.draws_samples:
        reason = "draws samples by the label (`draws_samples`)"
    if reason:
        raise ForgetError(
            f"Method '{name}' is called hidden but {reason}; mend that, or make its `visibility` "
            f"open.",
            code="not-secret",
        )


def settings_of(method: Method) -> dict[str, object]:
    """Return a method's settings as plain data."""
    return {f.name: getattr(method, f.name) for f in fields(method)}  # type: ignore[arg-type]
