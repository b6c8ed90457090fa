"""What a request came to, and the decision on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from unlabel.errors import ForgetError
from unlabel.terms import Depth, Visibility
from unlabel.train.facts import why_not

if TYPE_CHECKING:
    from unlabel.forget.run_interface import Run


@dataclass(frozen=True)
class Change:
    """A figure before and after."""

    before: float | None
    after: float | None


@dataclass(frozen=True)
class Result:
    """What forgetting came to, before anybody decided on it.

    retained_accuracy   on test rows of labels that stay (D_r)
    forgotten_accuracy  on test rows of the forgotten labels (y_u); for people, on their own rows
    confidence          mean probability of the people's old labels, None for whole labels
    seconds             from the first to the last message: choosing samples and forgetting,
                        without the measurements here and without staging
    transcript_bytes    both ways, over all parties, of choosing samples and forgetting
    tells_partners      what the method tells the passive parties beyond what training does
    takes               how long that takes, where it is known beforehand
    control             whether nothing was to be learned, so that it cannot be committed
    still_known         whether more than a twentieth of the labels' test rows are still right
    visibility          hidden or open: whether the partners can tell what was forgotten
    aim                 the depth that the method aims at; an audit finds what was reached
    failed              why an outcome is no use, of a hidden request; partners do not learn it
    privacy             the accountant's figures, None where nothing is proved; under `total` those
                        of all hidden requests so far
    drift_share         share of the fall of y_u that the same run at rate 0 has too
    warning             what is odd about the public set, empty where nothing is
    public_agreement    share of the public samples that were predicted rightly before
    """

    request: str
    method: str
    settings: dict[str, Any]
    labels: tuple[str, ...]
    people: int
    steps: int
    seconds: float
    retained_accuracy: Change
    forgotten_accuracy: Change
    confidence: Change | None
    transcript_bytes: int
    few_shot: int
    retained_samples: int
    public: str
    disclosed: bool
    suspects: tuple[dict[str, Any], ...]
    duplicates: int
    drift_share: float | None
    tells_partners: str
    control: bool
    still_known: bool
    visibility: Visibility
    aim: Depth
    failed: str
    privacy: dict[str, Any] | None
    warning: str = ""
    public_agreement: float | None = None
    takes: str = ""


class Outcome:
    """The outcome of a request, staged with every party until it is decided on.

    Figures stand in `result`; `commit` makes the new weights every party's, `rollback` drops them.
    It holds no weights: those from before are in the run's versions, and go with a purge.
    """

    def __init__(self, result: Result, run: Run) -> None:
        self.result = result
        self.staged = True
        self._run = run

    def commit(self, *, force: bool = False) -> None:
        """Make it every party's model; where the labels are still predicted, only by `force`."""
        self._decide(lambda: self._run.commit(self.result.request, force=force))

    def rollback(self) -> None:
        """Drop it; every party is as it was before the request."""
        self._decide(lambda: self._run.rollback(self.result.request))

    def _decide(self, act: Callable[[], str]) -> None:
        # What is done again after a loss may have been decided on before it, by this very outcome.
        if not self.staged and not self._run.is_recovering:
            raise ForgetError(
                "Nothing is staged: this outcome was decided on already.", code="request-decided"
            )
        act()
        self.staged = False

    def why_not(self) -> str:
        """Return why it should not be committed, empty where nothing speaks against it."""
        return why_not(self.result.control, self.result.failed, self.result.still_known)

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return {**asdict(self.result), "staged": self.staged}

    def __repr__(self) -> str:
        result = self.result
        subject = f"{result.people} people" if result.people else ", ".join(result.labels)
        return (
            f"<Outcome of request {result.request}: {result.method}, {subject or 'nothing'}; "
            f"accuracy on what is forgotten {_points(result.forgotten_accuracy)}, on the rest "
            f"{_points(result.retained_accuracy)}; {'staged' if self.staged else 'decided'}>"
        )


def _points(change: Change) -> str:
    before, after = ("-" if v is None else f"{v:.1%}" for v in (change.before, change.after))
    return f"{before} -> {after}"
