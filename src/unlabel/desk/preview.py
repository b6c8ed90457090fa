"""What each way to carry a request out would mean and cost, in plain words and before any is taken.

All of it follows from the plan: nothing is computed, staged or counted, and no partner is sent
anything about the request. Between organisations the parties are asked on which version they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from unlabel.config import ForgetSettings, RunConfig
from unlabel.errors import UnlabelError
from unlabel.federation import Federation
from unlabel.forget import Work
from unlabel.forget.exact_methods import EXACT_NAMES
from unlabel.terms import DEPTH_MEANS, EXACT_DEPTH, GUARANTEE_MEANS, PEOPLE_MEANS, VISIBILITY_MEANS
from unlabel.train import VersionFacts


@dataclass(frozen=True)
class Choice:
    """One way to carry a request out.

    key       in a form
    title     in a few words
    settings  for `Federation.plan` and `Federation.forget`
    """

    key: str
    title: str
    settings: ForgetSettings


@dataclass(frozen=True)
class Preview:
    """What a choice would mean.

    visibility, depth, guarantee  the three words, as far as the plan says them
    means     what each of them means here, a sentence each, in that order
    costs     time, what partners learn, what stays
    warnings  what to think of before it is taken
    discloses whether it tells partners what was hidden from them before, which an approver decides
    trouble   why it cannot be taken, empty where it can
    """

    key: str
    title: str
    visibility: str = ""
    depth: str = ""
    guarantee: str = ""
    means: tuple[str, ...] = ()
    costs: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    discloses: bool = False
    trouble: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Preview:
        """Return what plain data says."""
        values: dict[str, Any] = {}
        for name, value in raw.items():
            values[name] = tuple(value) if isinstance(value, list) else value
        return cls(**values)


RETRAIN = Choice("retrain", "Open, all models trained again", ForgetSettings(method="retrain"))
#: In place of that once a hidden request was made, which it shows.
DISCLOSED = Choice(
    *("disclosed", "Open, all models trained again, which shows what was hidden before"),
    ForgetSettings(method="retrain", allow_disclosure=True),
)
HIDDEN = Choice(
    "hidden", "Hidden from the partners", ForgetSettings(visibility="hidden", depth="top")
)
#: Of whole labels in a supervised run.
FOR_LABELS = (
    HIDDEN,
    Choice("deep", "Open, in all models", ForgetSettings(visibility="open", depth="bottoms")),
    Choice("open", "Open, in our own model", ForgetSettings(visibility="open", depth="top")),
    RETRAIN,
)
#: Of runs whose bottoms were made without labels.
EXACT = {
    "blind": Choice("refit", "Exact, and no partner is asked", ForgetSettings()),
    "tuned": Choice("restart", "Exact, all models trained again", ForgetSettings()),
}

AIMED = "what it aims at, and an audit finds what it reached"
WHY_NOT_HIDDEN = (
    "Not possible for people in this run: its models were trained together with labels, and a "
    "change that partners cannot see would leave these people as easy to find as before."
)
STAGED = "The result is put aside: the model in use stays as it is until somebody decides."
UNTIL_PURGE = "Models from before stay on the parties' disks until a purge."
SHOWS_PEOPLE = "Partners can tell whose labels they are: these rows are left out of the training."
TRAINED_ON = "The public samples are training rows: partners learn that these were trained on."
SHOWS_HIDDEN = (
    "A hidden request was made in this run before. Partners can tell from this training what that "
    "was about: the gradients show what the model has forgotten."
)


def choices(config: RunConfig, *, people: bool, hidden: bool = False) -> tuple[Choice, ...]:
    """Return the ways to carry a request out in a run, the recommended one first.

    people  whether it is about the labels of people, and not about whole labels
    hidden  whether a hidden request was made in the run before
    """
    if config.is_label_free:
        return (EXACT[config.bottoms],)
    return (DISCLOSED if hidden else RETRAIN, HIDDEN) if people else FOR_LABELS


def preview(federation: Federation, choice: Choice, work: Work) -> Preview:
    """Return what a choice would mean.

    work  its plan, by `federation.plan`
    """
    method, people = work.method, bool(work.request.rows)
    exact = method.guarantee == "exact"
    depth = EXACT_DEPTH if exact else (PEOPLE_MEANS if people else DEPTH_MEANS)[method.aim]
    warnings = []
    if people and method.disclosure.names_rows():
        warnings.append(SHOWS_PEOPLE)
    if work.public.disclosed and method.draws_samples:
        warnings.append(TRAINED_ON)
    if choice is DISCLOSED:
        warnings.append(SHOWS_HIDDEN)
    return Preview(
        key=choice.key,
        title=choice.title,
        visibility=method.visibility,
        depth=method.aim,
        guarantee=method.guarantee,
        means=(
            f"Visibility: {VISIBILITY_MEANS[method.visibility]}.",
            f"Depth: {depth}{'' if exact else f' ({AIMED})'}.",
            f"Guarantee: {GUARANTEE_MEANS[method.guarantee]}.",
        ),
        costs=(_time(work, _trained_for(federation)), _partners(work), STAGED, UNTIL_PURGE),
        warnings=tuple(warnings),
        discloses=choice is DISCLOSED,
    )


def impossible(choice: Choice, error: UnlabelError) -> Preview:
    """Return a choice that the plan refused."""
    hides_people = choice.settings.visibility == "hidden" and error.code == "not-secret"
    why = WHY_NOT_HIDDEN if hides_people else str(error)
    return Preview(choice.key, choice.title, trouble=why)


def _time(work: Work, trained: float) -> str:
    """Return how long a request takes, as far as that can be said beforehand.

    trained  seconds that the run's own training took, 0 where that is not known
    """
    took = f" (it took {in_words(trained)})" if trained else ""
    if work.name == EXACT_NAMES["blind"]:
        return f"Time: about as long as fitting the label holder's model did{took}."
    if work.method.anew or work.name == EXACT_NAMES["tuned"]:
        return f"Time: about as long as the joint training of all parties did{took}."
    return f"Time: as a rule less than the joint training of all parties did{took}."


def _partners(work: Work) -> str:
    """Return what a request tells the partners."""
    words, account = f"Partners learn: {work.method.tells_partners}.", work.method.account
    if account is not None and account.rho:
        words += f" Proved bound: {account.guarantee(len(work.names))}."
    return words


def _trained_for(federation: Federation) -> float:
    """Return how many seconds the epochs took that the run's model comes from."""
    if federation.version is None:
        return 0.0
    facts = VersionFacts.from_json(federation.active.versions.facts(federation.version))
    return sum(epoch.seconds for epoch in facts.progress.history) if facts.progress else 0.0


def in_words(seconds: float) -> str:
    """Return a time for people.

    >>> in_words(0.3), in_words(80), in_words(3000), in_words(9000)
    ('less than a second', '80 seconds', '50 minutes', '2.5 hours')
    """
    if seconds < 1:
        return "less than a second"
    if seconds < 1.5:
        return "a second"
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
