"""What the active party notes with every version of its models, and of the request that made it.

On disk it is plain data in the version's manifest:

    {"data": "..", "settings": {..}, "forgotten": {..}, "progress": {..}, "parties": {..},
     "request": "9f..", "note": {..}, "control": false, .., "about": {..}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from unlabel import compat
from unlabel.party.checkpoint import staged_facts
from unlabel.party.ledger import Event
from unlabel.terms import Depth, Guarantee, Visibility
from unlabel.train.progress import Progress

STILL_KNOWN = (
    "The label is still predicted for many of its test rows, so committing would enter a "
    "forgetting that did not happen; roll the request back, or commit it with --force."
)
CONTROL = "This request is a control that forgets nothing, so it cannot be committed; roll it back."


def why_not(control: bool, failed: str, still_known: bool) -> str:
    """Return why what a request made is not to be committed, empty where it may be."""
    if control:
        return failed or CONTROL
    return STILL_KNOWN if still_known else ""


@dataclass(frozen=True)
class Forgotten:
    """What a federation has forgotten so far; kept with every version of the active party.

    labels  numbers of whole labels
    rows    rows of the training table whose labels were forgotten
    """

    labels: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()

    def plus(self, labels: Iterable[int], rows: Iterable[int]) -> Forgotten:
        """Return what is forgotten after one more request."""
        return Forgotten(tuple(sorted({*self.labels, *labels})), tuple(sorted({*self.rows, *rows})))


@dataclass(frozen=True)
class Conduct:
    """How a request was carried out: what an audit needs to know of it.

    visibility        whether the partners can tell what was forgotten
    aim               the depth that the method aims at; what it reached is for an audit to say
    guarantee         exact where the outcome is, by construction, that of a training without it
    replay            what an exact outcome can be computed again from (`train/replay.py`)
    settings          of the method
    privacy           the accountant's figures, None where nothing is proved
    failed            why the outcome is no use, empty where it is
    steps, seconds    joint steps, and the time they took
    transcript_bytes  that crossed the wire, both ways
    public            where the public samples came from
    tells             what the method tells the passive parties
    messages          when which messages went to each party
    """

    visibility: Visibility = "open"
    aim: Depth = "top"
    guarantee: Guarantee = "measured"
    replay: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    privacy: Mapping[str, Any] | None = None
    failed: str = ""
    steps: int | None = None
    seconds: float | None = None
    transcript_bytes: int | None = None
    public: str = ""
    tells: str = "which label it is about"
    messages: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Conduct:
        """Return what plain data says; what it does not name is as by default."""
        known = {each.name for each in fields(cls)}
        raw = compat.conduct(raw)
        return cls(**{name: value for name, value in raw.items() if name in known})


@dataclass(frozen=True)
class RequestFacts:
    """A request that made a version, or whose outcome is staged as one.

    id           random
    note         the line of the active party's ledger: the method, the labels or people, a
                 commitment to them
    control      nothing was to be learned, so that it cannot be committed
    still_known  the labels are still predicted, so that a commit needs a second word
    silent       others may not see whether it is kept or dropped
    dropped      it was dropped in the words in which it would be kept
    conduct      how it was carried out
    """

    id: str
    note: Mapping[str, Any]
    control: bool = False
    still_known: bool = False
    silent: bool = False
    dropped: bool = False
    conduct: Conduct = field(default_factory=Conduct)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels it is about; none where it is about people or nothing."""
        return tuple(str(name) for name in self.note.get("labels", ()))

    @property
    def is_about_people(self) -> bool:
        """Whether it is about the labels of people."""
        return "people" in self.note

    @property
    def event(self) -> Event:
        """What a version that it made is noted as."""
        return "rollback" if self.dropped else "commit"

    @property
    def method(self) -> str:
        """The name of the method."""
        return str(self.note.get("method", ""))

    def why_not(self, *, force: bool = False) -> str:
        """Return why it is not to be committed, empty where it may be."""
        return why_not(self.control, self.conduct.failed, self.still_known and not force)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as it stands among the facts of a version."""
        return {
            "request": self.id,
            **{name: getattr(self, name) for name in _SWITCHES},
            "about": {} if self.conduct == Conduct() else asdict(self.conduct),
            "note": dict(self.note),
        }


@dataclass(frozen=True)
class VersionFacts:
    """What is known of one version.

    data       digest of the people and labels that it was trained on
    settings   of the training that decide the weights
    forgotten  what it has forgotten
    progress   of the training
    parties    the digest of every passive party's weights
    request    that made it, None where training did
    notes      what the active party itself must find again: its features, its monitoring
    """

    data: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    forgotten: Forgotten = field(default_factory=Forgotten)
    progress: Progress | None = None
    parties: Mapping[str, str] = field(default_factory=dict)
    request: RequestFacts | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> VersionFacts:
        """Return the facts that a manifest holds, also one that version 0.6 wrote."""
        forgotten, progress = raw.get("forgotten", {}), raw.get("progress")
        request = None
        if "request" in raw:
            request = RequestFacts(
                id=str(raw["request"]),
                note=raw.get("note", {}),
                **{name: bool(raw.get(name)) for name in _SWITCHES},
                conduct=Conduct.from_json(raw.get("about", {})),
            )
        return cls(
            data=str(raw.get("data", "")),
            settings=raw.get("settings", {}),
            forgotten=Forgotten().plus(forgotten.get("labels", ()), forgotten.get("rows", ())),
            progress=None if progress is None else Progress.from_facts(progress),
            parties=raw.get("parties", {}),
            request=request,
            notes={name: value for name, value in raw.items() if name not in _OWN},
        )

    def to_json(self) -> dict[str, Any]:
        """Return the plain data of a manifest."""
        return {
            "data": self.data,
            "settings": dict(self.settings),
            "forgotten": asdict(self.forgotten),
            **({} if self.progress is None else {"progress": self.progress.to_facts()}),
            **self.notes,
            "parties": dict(self.parties),
            **({} if self.request is None else self.request.to_json()),
        }


def staged_in(home: Path) -> RequestFacts | None:
    """Return the request that waits in the active party's folder, None where none can be read."""
    facts = staged_facts(home)
    try:
        return None if facts is None else VersionFacts.from_json(facts).request
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


_SWITCHES = ("control", "still_known", "silent", "dropped")
#: Names in a manifest that have a field here; the others are notes.
_OWN = {"data", "settings", "forgotten", "progress", "parties", "request", "note", "about"}
_OWN.update(_SWITCHES)
