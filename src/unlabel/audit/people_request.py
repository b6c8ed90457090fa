"""An audit of people in a run whose bottoms were trained with their labels: what it looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unlabel.audit.exact import PURGED, Subject
from unlabel.audit.people import people_first
from unlabel.errors import ForgetError
from unlabel.forget import Run

if TYPE_CHECKING:
    from unlabel.audit.case import Case

BESIDE = "People are judged beside models that are trained again without their labels"
NO_REFERENCES = (
    f"{BESIDE}, each for as long as the training took; add --retrained 5, or 2 at least."
)
ELSEWHERE = (
    f"{BESIDE}, which takes all parties' data in one place; between organisations there is no "
    f"audit of people: decide by what `unlabel forget` has said."
)
#: What no audit of people can know.
OF_ONE = (
    "Whether an attack would find one person: that is a share of many tries. What can be set "
    "beside retrained models is how sure the model is of the old label, and where that stands "
    "among strangers."
)
OF_MANY = "Which single person of them an attack still finds: figures are of all together."


def people_subject(run: Run, case: Case) -> Subject:
    """Return what a request about people is about; raise where their labels are gone."""
    held = run.holdings
    asked = set(map(str, case.request.note["people"]))
    rows = tuple(row for row in held.rows.train.tolist() if str(held.ids[row]) in asked)
    if not rows or bool((held.labels[list(rows)] < 0).any()):
        raise ForgetError(PURGED, code="purged")
    parts = people_first(held.rows, rows, held.rows_without(case.facts.forgotten))
    return Subject(held.labels, run.labels, parts, erased=rows)


def unknown_of_people(people: int) -> str:
    """Return what an audit of so many people cannot know."""
    return OF_ONE if people == 1 else OF_MANY
