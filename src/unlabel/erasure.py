"""A federation's requests to forget: made, decided on, purged, and remembered."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor

from unlabel.auditing import audited
from unlabel.data import ACTIVE, Features
from unlabel.errors import CheckpointError, ForgetError, PartyLost, SettingsError, unknown
from unlabel.files import OWNER_ONLY, writing
from unlabel.forget import (
    CONTROL,
    METHODS,
    STILL_KNOWN,
    Forgotten,
    Method,
    Mode,
    PartyStatus,
    PublicFrom,
    PublicSet,
    Request,
    Result,
    Robust,
    Task,
    Transaction,
    Watch,
    expect_fits,
    expect_mode,
    find_labels,
    find_people,
    forget,
    make_anchors,
    named_by_model,
    public_from_training,
    read_public,
    read_unlabelled,
    take_back,
    watch_nothing,
)
from unlabel.forget.spending import Spent
from unlabel.party import ActiveParty, Ledger, LedgerEntry
from unlabel.wire import Commit

if TYPE_CHECKING:
    from unlabel.federation import Federation

DEFAULT_METHOD = "hidden"
#: What each mode takes where no method is named.
MODE_METHODS = {"open": "renormalise", "deep": "deep", "hidden": "hidden"}
PEOPLE_METHOD = "people"
NO_FILES = (
    "Files of public samples would have to lie with every party; leave `public` out: in a "
    "federation the rows set aside before training are taken."
)
NEEDS_FOLDER = "A federation in memory keeps no versions; give it a folder for this."


@dataclass
class Outcome:
    """What a request made, staged with every party until somebody decides.

    Figures stand in `result`; `commit` makes the new weights everybody's, `rollback` drops them.
    """

    result: Result
    staged: bool
    _federation: Federation
    _gone: Forgotten
    _saved: dict[str, dict[str, Tensor]]
    _silent: bool = False

    def commit(self, *, force: bool = False) -> None:
        """Make it everybody's model; where the labels are still predicted, only by `force`."""
        if not self.staged:
            raise ForgetError("Nothing is staged: this outcome was decided on already.")
        if self.result.control:
            raise ForgetError(self.result.failed or CONTROL)
        if self.result.still_known and not force:
            raise ForgetError(STILL_KNOWN)
        if self._federation.folder is None:
            request = self.result.request
            self._federation.active.transport.ask(Commit(0, request, 0, ""))
            for learner in self._federation.active.learners().values():
                learner.settle()
            self._federation.forgotten = self._gone
            self._federation.hides |= self.result.mode == "hidden"
        else:
            commit(self._federation, self.result.request, force=force)
        self._close()

    def rollback(self) -> None:
        """Drop it; every party is as it was before the request."""
        if not self.staged:
            raise ForgetError("Nothing is staged: this outcome was decided on already.")
        active, request = self._federation.active, self.result.request
        if self._federation.folder is None:
            if self._silent:  # in the words in which it would be kept
                active.transport.ask(Commit(0, request, 0, ""))
                active.load_snapshot(self._saved)
            else:
                take_back(active, request, self._saved)
        else:
            rollback(self._federation, self.result.request)
        self._close()

    def _close(self) -> None:
        self.staged = False
        self._saved = {}
        self._federation.undecided = None

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return {**asdict(self.result), "staged": self.staged}


def make_method(
    method: str | Method | None, people: bool, mode: Mode | None = None
) -> tuple[str, Method]:
    """Return a method by name, or the default for the kind and the mode of a request.

    One that is of another mode is refused, before anything is sent.
    """
    if mode is not None and mode not in MODE_METHODS:
        raise SettingsError(unknown("mode", mode, MODE_METHODS))
    if method is None:
        method = PEOPLE_METHOD if people else MODE_METHODS[mode] if mode else DEFAULT_METHOD
    if isinstance(method, str):
        name, made = method, METHODS.get(method)()
    else:
        known = {METHODS.get(name): name for name in METHODS.names()}
        name, made = known.get(type(method), type(method).__name__), method
    if mode is not None:
        expect_mode(made, name, mode)
    return name, made


def plan(
    federation: Federation,
    *,
    labels: Sequence[str | int] = (),
    ids: Sequence[str] = (),
    public: str | Path | None = None,
    few_shot: int = 40,
    retained: int = 3,
    robust: Robust = "none",
    secret: bool = False,
    cover: int = 0,
    again: bool = False,
    key: str | None = None,
    wreck: bool = False,
    drift: bool = True,
    mode: Mode | None = None,
    dummy: bool = False,
    public_from: PublicFrom = "labelled",
    any_public: bool = False,
) -> tuple[Task, Request]:
    """Check a request against the run, without changing anything.

    public       files of public samples; by default the rows that were set aside before training
    few_shot     public samples a forgotten label
    retained     public samples a retained label
    robust       what to do with samples whose label the model doubts: none, drop or weight
    secret       passive parties' ledgers get a commitment in place of the label
    cover        rows of each cover in which people are asked for; 0 is what suits the data
    again        forget labels once more that were forgotten already, for example in depth
    key          256 bits in hexadecimal that decide every draw of the request; random by default
    wreck        carry on where the method destroys the rest, to see how badly
    drift        first run the same at rate 0, where side effects alone may forget; say how much
    mode         open, deep or hidden: what the partners may be able to tell
    dummy        forget nothing, in the same words as a hidden request
    public_from  labelled: public samples have labels; pseudo: the model names them; anchors: they
                 are made from the means and spreads of the labels' training rows
    any_public   take a public set too whose labels the model does not share
    """
    if bool(labels) + bool(ids) + dummy != 1:
        raise ForgetError("Say what to forget: labels, or the ids of people, and not both.")
    if few_shot < 2 or retained < 1:
        raise SettingsError(
            f"Expected at least 2 few-shot and 1 retained samples but got {few_shot} "
            f"and {retained}."
        )
    _expect_source(public_from, public, people=bool(ids))
    federation.catch_up()
    federation.expect_decided()
    if federation.folder is not None:
        Transaction(federation.active).expect_settled()
    holdings, gone = federation.holdings, federation.forgotten
    names = holdings.names
    numbers = find_labels(labels, names, gone, again=again) if labels else []
    gone = replace(gone, labels=tuple(n for n in gone.labels if n not in numbers))
    known = [str(text) for text in holdings.ids.tolist()]
    rows = find_people(ids, known, holdings.rows.train.tolist()) if ids else []
    past = [r for r in rows if r in gone.rows or int(holdings.labels[r]) in gone.labels]
    if past:
        raise ForgetError(f"The label of '{known[past[0]]}' was already forgotten.")
    request = Request(
        labels=tuple(numbers),
        rows=tuple(rows),
        names=tuple(names[n] for n in numbers),
        ids=tuple(known[row] for row in rows),
        secret=secret or mode == "hidden",
        hidden=mode == "hidden",
        cover=key or _cover_key(federation, rows),
        **({} if key is None else {"key": key}),
    )
    wanted = max(few_shot, retained)
    active, samples = _samples(federation, public, public_from, wanted)
    task = Task(
        active=active,
        train=holdings.rows.train,
        test=holdings.rows.test,
        names=names,
        gone=gone,
        public=samples,
        few_shot=few_shot,
        retained=retained,
        robust=robust,
        training=federation.config.train,
        cover=cover,
        again=again,
        wreck=wreck,
        drift=drift,
        any_public=any_public,
    )
    return task, request


def _expect_source(source: str, public: str | Path | None, *, people: bool) -> None:
    """Raise where a public set without labels is asked for that there is not."""
    if source not in get_args(PublicFrom):
        raise SettingsError(unknown("source of public labels", source, get_args(PublicFrom)))
    if source != "labelled" and people:
        raise ForgetError(
            "The labels of people are held against public samples whose labels are known; leave "
            "--public-from out."
        )
    if source == "anchors" and public is not None:
        raise ForgetError("Anchors are made from the training rows; leave --public out.")


def _samples(
    federation: Federation, path: str | Path | None, source: PublicFrom, per_label: int
) -> tuple[ActiveParty, PublicSet]:
    """Return the public set of a request, and the active party as it sees it."""
    if source == "anchors":
        return make_anchors(
            federation.active,
            federation.holdings.rows.train,
            len(federation.labels),
            seed=federation.config.train.seed,
            unused=federation.forgotten.rows,
            per_label=per_label,
        )
    public = _public(federation, path, per_label, labelled=source == "labelled")
    if source == "pseudo":
        public = named_by_model(federation.active, public)
    return federation.active, public


def run_request(
    federation: Federation,
    task: Task,
    request: Request,
    method: str | Method | None,
    watch: Watch = watch_nothing,
    *,
    reveal: bool = False,
) -> Outcome:
    """Carry a request out and stage what it made.

    reveal  let the partners see what an earlier hidden request was about
    """
    name, made = make_method(method, bool(request.rows), "hidden" if request.hidden else None)
    if made.mode() == "hidden":
        request = replace(request, hidden=True, secret=True)
    expect_fits(task, request, made, name)
    _expect_unrevealing(federation, made, name, reveal=reveal)
    if request.rows:
        federation.keep_cover_secret()
    told = made.account()
    # Counted before anything is sent: what comes of it, the partners have seen.
    total = None if told is None else federation.spending.add(told)
    result, saved, messages = forget(task, request, made, name, watch)
    if total is not None:
        result = replace(result, privacy=_with_total(result.privacy or {}, total))
    gone = task.gone.plus(request.labels, request.rows)
    if federation.folder is not None:
        try:
            Transaction(federation.active).stage(
                request,
                name,
                gone,
                base=federation.version,
                control=result.control,
                still_known=result.still_known,
                silent=made.is_silent(),
                about={**_about(result), "messages": messages},
            )
        except BaseException:
            with contextlib.suppress(PartyLost):  # whoever goes on returns all to a version first
                take_back(federation.active, request.id, saved)
            Transaction(federation.active).drop_key(request.id)
            raise
    federation.undecided = Outcome(result, True, federation, gone, saved, made.is_silent())
    return federation.undecided


def _with_total(own: Mapping[str, Any], total: Spent) -> dict[str, Any]:
    """Return the accountant's figures of a request with those of all hidden requests so far."""
    together = total.to_json(own["labels"])
    alone = own["information"] == together["information"]
    sentence = own["sentence"] if alone else f"{own['sentence']} {together['sentence']}"
    return {**own, "sentence": sentence, "total": together}


def _about(result: Result) -> dict[str, Any]:
    """Return what an audit needs to know of how a request was carried out."""
    names = (
        "mode",
        "settings",
        "privacy",
        "failed",
        "steps",
        "seconds",
        "transcript_bytes",
        "public",
    )
    return {"tells": result.tells_partners, **{name: getattr(result, name) for name in names}}


def dummy(federation: Federation, watch: Watch = watch_nothing) -> str:
    """Forget nothing, so that partners cannot tell from the time of a request that there was one.

    To them it is a hidden request that was committed; the active party drops what it made.
    """
    task, request = plan(federation, dummy=True, mode="hidden")
    outcome = run_request(federation, task, request, None, watch)
    outcome.rollback()
    return outcome.result.request


def _expect_unrevealing(federation: Federation, method: Method, name: str, *, reveal: bool) -> None:
    """Raise where gradients through the top would show what it forgot in a hidden request."""
    quiet = method.mode() == "hidden" or not method.tells().gradients
    if not quiet and not reveal and federation.has_hidden():
        raise ForgetError(
            f"Method '{name}' sends gradients through a top that has forgotten in hiding, which "
            f"would show partners what; use `hidden` again, or add --reveal."
        )


def commit(federation: Federation, request: str | None = None, *, force: bool = False) -> str:
    """Make the staged request everybody's model; return its id.

    One that an audit found below the demanded level is committed only by `force`, which is noted.
    """
    transaction = _transaction(federation)
    waiting = transaction.staged()
    found = audited(federation, str(waiting["request"])) if waiting else None
    if found is not None and not found["passed"] and not force:
        raise ForgetError(
            f"The audit found level '{found['level']}' and '{found['demanded']}' is demanded; roll "
            f"the request back, or commit it with --force."
        )
    said = {"level": found["level"], "demanded": found["demanded"]} if found else {"level": None}
    done = transaction.commit(request, force=force, audit={**said, "forced": force})
    federation.catch_up(afresh=True)
    return done


def commit_once(federation: Federation, request: str | None, *, force: bool = False) -> str:
    """Commit a request, unless that was done already before a party got lost; return its id."""
    if request is not None and is_committed(federation, request):
        return request
    return commit(federation, request, force=force)


def rollback(federation: Federation, request: str | None = None) -> str:
    """Drop the staged request; return its id."""
    done = _transaction(federation).rollback(request)
    federation.catch_up(afresh=True)
    return done


def purge(federation: Federation) -> int:
    """Remove all that stems from before the newest version, everywhere; return its number."""
    transaction = _transaction(federation)
    assert federation.folder is not None
    curves = federation.folder / "tensorboard"

    def remove_curves() -> None:
        with writing(curves):
            if curves.exists():
                shutil.rmtree(curves)

    return transaction.purge(remove_curves)


def recover(federation: Federation) -> str:
    """Finish what a crash interrupted; return in words what was done."""
    done = _transaction(federation).recover()
    federation.catch_up(afresh=True)
    return done


def status(federation: Federation) -> dict[str, PartyStatus]:
    """Return where every party stands, the active one first."""
    transaction = _transaction(federation)
    return {ACTIVE: transaction.own_standing(), **transaction.standing()}


def waiting(federation: Federation) -> str | None:
    """Return the id of the request that waits for commit or rollback, if one does."""
    staged = _transaction(federation).staged()
    return None if staged is None else str(staged["request"])


def is_committed(federation: Federation, request: str) -> bool:
    """Return whether the active party's own ledger has the commit of a request."""
    book = federation.active.ledger
    found = book.entries() if book is not None else []
    return any((entry.event, entry.request) == ("commit", request) for entry in found)


def books(run: Path) -> Mapping[str, list[LedgerEntry]]:
    """Return the active party's ledger from a run's folder, whoever else takes part."""
    return {ACTIVE: Ledger(run / ACTIVE, mode=OWNER_ONLY).entries()}


def ledgers(federation: Federation) -> Mapping[str, list[LedgerEntry]]:
    """Return every party's ledger; one whose chain is broken or cut off raises."""
    own = {ACTIVE: federation.active.ledger}
    others = {name: party.ledger for name, party in federation.passives.items()}
    books = {name: book for name, book in {**own, **others}.items() if book is not None}
    found = {name: book.entries() for name, book in books.items()}
    for entry in found.get(ACTIVE, []):
        for party, head in entry.note.get("heads", {}).items():
            if head and head not in {e.hash for e in found.get(party, [])}:
                raise CheckpointError(
                    f"Ledger '{party}/ledger.jsonl' was cut off: it lacks a line that the active "
                    f"party saw in it at {entry.at}."
                )
    return found


def _transaction(federation: Federation) -> Transaction:
    if federation.folder is None:
        raise ForgetError(NEEDS_FOLDER)
    return Transaction(federation.active)


def _cover_key(federation: Federation, rows: Sequence[int]) -> str:
    """Return the key of the cover of some people: of the run's secret, and always the same.

    Were a refused request tried again under another cover, the people would be what both share.
    """
    text = ",".join(map(str, sorted(rows))).encode()
    return hmac.new(bytes.fromhex(federation.cover_secret()), text, hashlib.sha256).hexdigest()


def _public(
    federation: Federation, path: str | Path | None, per_label: int, *, labelled: bool = True
) -> PublicSet:
    """Return the public set: from files, set aside before training, or from the training rows.

    labelled  whether labels of files are looked at; they may have none
    """
    holdings = federation.holdings
    known = [str(text) for text in holdings.ids.tolist()]
    if path is not None:
        if federation.far:
            raise SettingsError(NO_FILES)
        if labelled:
            features, labels, ids = read_public(
                federation.config, Path(path), holdings.names, holdings.encodings
            )
        else:
            features, ids = read_unlabelled(federation.config, Path(path), holdings.encodings)
            labels = torch.zeros(len(ids), dtype=torch.int64)
        federation.hand_over("public", features)
        rows = torch.arange(len(labels))
        trained = _trained_on(federation, features)
        source = f"the files at {path}" + (", training rows among them" if trained else "")
        return PublicSet("public", rows, labels, ids, trained, source)
    aside = holdings.rows.public
    if len(aside):
        ids = tuple(known[row] for row in aside.tolist())
        source = "rows set aside before training"
        return PublicSet("main", aside, holdings.labels[aside], ids, False, source)
    # Always the same rows: were one left out, and another in its place, that would name it.
    drawn = public_from_training(
        holdings.labels,
        known,
        holdings.rows.train,
        per_label,
        seed=federation.config.train.seed,
    )
    return replace(drawn, gone=torch.isin(drawn.rows, torch.tensor(federation.forgotten.rows)))


def _trained_on(federation: Federation, features: Mapping[str, Features]) -> bool:
    """Return whether some public sample has, at every party, the features of a training row."""
    found: Tensor | None = None
    for name, part in features.items():
        own = federation.holdings.features[name].values[federation.holdings.rows.train]
        rows = {row.tobytes() for row in own.cpu().numpy()}
        same = torch.tensor([row.tobytes() in rows for row in part.values.cpu().numpy()])
        found = same if found is None else found & same
    return found is not None and bool(found.any())
