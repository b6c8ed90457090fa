"""The entry object: a federation that trains, evaluates, predicts and forgets."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from unlabel import auditing, erasure
from unlabel.audit import Verdict
from unlabel.data import ACTIVE, Features, Parties, Rows
from unlabel.data.dataset import Array
from unlabel.defend import DefendSettings
from unlabel.erasure import Outcome
from unlabel.errors import CheckpointError, ForgetError, RunError, SettingsError, unknown
from unlabel.files import write_atomically
from unlabel.forget import Forgotten, Method, Transaction, Watch, watch_nothing
from unlabel.forget.spending import Spending
from unlabel.models import ModelSettings
from unlabel.party import ActiveParty, PassiveParty
from unlabel.runfolder import expect_usable, start_folder, write_config
from unlabel.train import (
    Evaluation,
    Holdings,
    MetricsFile,
    Progress,
    RunConfig,
    TensorBoard,
    Training,
    TrainSettings,
    Watcher,
    assemble,
    evaluate,
    load_holdings,
)
from unlabel.train.advice import advise
from unlabel.train.epochs import change
from unlabel.train.evaluation import THRESHOLD, check_threshold
from unlabel.train.loading import match_tables, table_features
from unlabel.train.new_rows import new_rows
from unlabel.train.notes import uneven_labels
from unlabel.train.settings import AUTO, check_batch

T = TypeVar("T")

#: The version of models that nobody has trained yet.
BEGINNING = 0

#: Settings that the loop alone reads, so that they may still change before it starts.
LOOP_SETTINGS = ("epochs", "batch", "patience", "save_every")
#: Settings that may differ from sitting to sitting, since they only say where and how to compute.
MACHINE_SETTINGS = ("device", "precision", "graphs", "deterministic", "save_every")
NEEDS_FOLDER = "Early stopping (`patience`) needs a folder, to return to the best version."


@dataclass(frozen=True)
class Predictions:
    """Predicted labels of new rows.

    ids            of the rows
    labels         the predicted label's name a row
    probabilities  [n, C], one column a label
    names          the labels' names
    without        parties that were down, so that others answered for them
    unknown        how many of the people asked for not every party knows
    notes          what their owner should know of how the new rows were read
    """

    ids: Array
    labels: tuple[str, ...]
    probabilities: Array
    names: tuple[str, ...]
    without: tuple[str, ...] = ()
    unknown: int = 0
    notes: tuple[str, ...] = ()


class Federation:
    """Parties that share a model: one with labels, the others with features.

    >>> fed = Federation.local("digits", parties=2, model="convnet", epochs=2)
    >>> history = fed.train().history
    >>> fed.evaluate().accuracy > 0.8
    True
    """

    def __init__(
        self,
        holdings: Holdings,
        active: ActiveParty,
        passives: Mapping[str, PassiveParty],
        folder: Path | None = None,
    ) -> None:
        self.holdings = holdings
        self.active = active
        self.passives = dict(passives)
        self.folder = folder
        self.forgotten = Forgotten()
        self.undecided: Outcome | None = None
        self.version: int | None = None
        self.hides = False
        self.far = False
        self.spending = Spending(None if folder is None else folder / ACTIVE)
        self._cover_secret = ""

    @property
    def config(self) -> RunConfig:
        """The configuration of the run."""
        return self.holdings.config

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the data before trusting a figure of it."""
        held = self.holdings
        balanced = self.config.train.balance
        return (*held.notes, *uneven_labels(held.labels, held.names, held.rows.train, balanced))

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels."""
        return self.holdings.names

    @classmethod
    def local(
        cls,
        data: str,
        *,
        parties: Parties = 2,
        model: str | ModelSettings = "convnet",
        folder: str | Path | None = None,
        encoded: bool = False,
        record: bool = False,
        active_part: bool = False,
        defend: DefendSettings | None = None,
        **train: Any,
    ) -> Federation:
        """Split a dataset between parties that all live in this process.

        data         a built-in dataset or an .npz file
        parties      how many passive parties, the width of each part, or widths by name
        model        the bottom model's name, or all model settings
        folder       where the run is kept; None keeps it in memory only
        encoded      send every message through the codec, as over a network
        record       keep a transcript of what each passive party saw
        active_part  give the first part of the features to the active party
        defend       what the parties apply to what they send; nothing if None
        train        any of `TrainSettings`, by name
        """
        config = RunConfig(
            data=data,
            parties=parties,
            active_part=active_part,
            model=ModelSettings(bottom=model) if isinstance(model, str) else model,
            train=make_settings(train),
            defend=defend or DefendSettings(),
        )
        return cls.create(config, folder, encoded=encoded, record=record)

    @classmethod
    def create(
        cls,
        config: RunConfig,
        folder: str | Path | None = None,
        *,
        encoded: bool = False,
        record: bool = False,
        overwrite: bool = False,
        watch: Watch | None = None,
    ) -> Federation:
        """Start a run: read the data and build the parties; only then touch the folder.

        watch  is told how far the reading of the data is, where that takes long
        """
        path = Path(folder) if folder is not None else None
        config = config.under(Path.cwd())
        if path is not None:
            expect_usable(path, overwrite=overwrite)
        if path is None and config.train.patience == AUTO:
            config = replace(config, train=replace(config.train, patience=0))
        if path is None and config.train.patience:
            raise SettingsError(NEEDS_FOLDER)
        holdings = load_holdings(config, watch=watch or watch_nothing)
        active, passives = assemble(holdings, folder=path, encoded=encoded, record=record)
        if path is not None:
            start_folder(path, holdings.config, overwrite=overwrite)
            holdings.keep_encodings(path)
        federation = cls(holdings, active, passives, path)
        if path is not None and federation.notes:
            text = "".join(f"{note}\n" for note in federation.notes)
            write_atomically(path / ACTIVE / "data-notes.txt", text.encode(), mode=0o600)
        return federation

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        record: bool = False,
        resume: bool = False,
        recovering: bool = False,
        device: str = "",
    ) -> Federation:
        """Open a run that was kept in a folder, on the newest version all parties have.

        With `resume` a run that has no version yet is fine: training starts at its beginning.
        With `recovering` so is one whose parties a crash left on different versions.
        """
        from unlabel.configfile import read_run_config

        path = Path(folder)
        config = read_run_config(path)
        if device:
            config = replace(config, train=replace(config.train, device=device))
        holdings = load_holdings(config, folder=path)
        active, passives = assemble(holdings, folder=path, record=record)
        federation = cls(holdings, active, passives, path)
        federation.take_up(resume=resume, recovering=recovering)
        return federation

    def take_up(self, *, resume: bool = False, recovering: bool = False) -> None:
        """Go to the newest version that all parties have; see `open`."""
        if not recovering:
            Transaction(self.active).expect_together()
        versions = self.active.common_versions()
        if not recovering:
            self.active.expect_newest(versions)
        if versions and (resume or recovering or versions[-1] > BEGINNING):
            facts = self.active.facts(versions[-1])
            self._check(facts)
            self.active.restore(versions[-1])
            self.version = versions[-1]
            self.forgotten = Forgotten.from_facts(facts)
        elif not resume:
            raise CheckpointError(
                f"Run '{self.folder}' has no version that all parties share; resume its training "
                f"first."
            )

    def lasting(self, act: Callable[[], T]) -> T:
        """Do something that parties take part in; where they can get lost, again on their return.

        In one process nobody gets lost.
        """
        return act()

    def train(
        self, *, watchers: Sequence[Watcher] = (), reveal: bool = False, **changes: Any
    ) -> Progress:
        """Train to the end: a run in a folder from where it stands, one in memory once more.

        reveal   go on even where that shows the partners what a hidden request was about
        changes  `epochs`, `batch` or `patience`, where they differ from the run's
        """
        if changes:
            self._change(changes)
        settings = self.config.train
        self.catch_up()
        self.expect_decided()
        if self.has_hidden() and not reveal:
            raise ForgetError(
                "Training leaves out what was forgotten, and would show the partners what a hidden "
                "request was about; add --reveal if they may know."
            )
        if self.folder is not None:
            Transaction(self.active).expect_none()
        watching = list(watchers)
        if self.folder is not None:
            watching.append(MetricsFile(self.folder / "metrics.jsonl"))
            watching.append(TensorBoard(self.folder / "tensorboard"))
        progress = Training(
            self.active,
            self.rows_to_train(),
            settings,
            labels=len(self.labels),
            facts={
                "data": self.holdings.digest(),
                "settings": _deciding(self.config.train),
                "forgotten": asdict(self.forgotten),
            },
            watchers=watching,
            keep_beginning=self.far,
        ).run()
        if self.folder is not None:
            self.version = self.active.common_versions()[-1]
        held = self.holdings
        own = held.features.get(ACTIVE)
        progress.advice = advise(progress, settings, self.rows_to_train(), held.labels, own)
        return progress

    def catch_up(self, *, afresh: bool = False) -> None:
        """Take up what another process has made of the run since this object looked at it.

        afresh  return to the newest version in any case, after a decision
        """
        if self.folder is None:
            return
        waiting = self.undecided
        staged = Transaction(self.active).staged() or {}
        if waiting is not None and staged.get("request") != waiting.result.request:
            waiting.staged, self.undecided, afresh = False, None, True
        versions = self.active.common_versions()
        if versions and (afresh or versions[-1] != self.version):
            facts = self.active.restore(versions[-1])
            self.version = versions[-1]
            self.forgotten = Forgotten.from_facts(facts)

    def cover_secret(self) -> str:
        """Return the secret under which people's covers are drawn, the same as long as the run."""
        path = None if self.folder is None else self.folder / ACTIVE / "secrets" / "cover.key"
        if path is not None and path.exists():
            return path.read_text(encoding="ascii").strip()
        if not self._cover_secret:
            self._cover_secret = secrets.token_hex(32)
        return self._cover_secret

    def keep_cover_secret(self) -> None:
        """Keep that secret with the run, once a request has used it."""
        if self.folder is not None:
            path = self.folder / ACTIVE / "secrets" / "cover.key"
            write_atomically(path, self.cover_secret().encode(), mode=0o600)

    def has_hidden(self) -> bool:
        """Return whether the model has forgotten something that partners are not to know."""
        if self.active.ledger is None or self.folder is None:
            return self.hides
        entries = self.active.ledger.entries()
        return any(e.event == "commit" and e.note.get("hidden") for e in entries)

    def expect_decided(self) -> None:
        """Raise where a request of this federation waits for commit or rollback."""
        if self.undecided is not None:
            raise ForgetError(
                f"Request {self.undecided.result.request} is staged; commit it or roll it back "
                f"first."
            )

    def rows_to_train(self) -> Rows:
        """Return the rows without those that were forgotten: what is gone is not learned again."""
        rows, gone = self.holdings.rows, self.forgotten
        past = torch.isin(self.holdings.labels, torch.tensor(gone.labels))
        past[torch.tensor(gone.rows, dtype=torch.int64)] = True
        return replace(
            rows,
            train=rows.train[~past[rows.train]],
            validation=rows.validation[~past[rows.validation]],
        )

    def forget(
        self,
        labels: Sequence[str | int] = (),
        *,
        ids: Sequence[str] = (),
        method: str | Method | None = None,
        watch: Watch | None = None,
        reveal: bool = False,
        **options: Any,
    ) -> Outcome:
        """Forget labels, or the labels of people; what that makes is staged until you decide.

        labels   by name or number
        ids      of people whose labels are to be forgotten, in place of whole labels
        method   by name or as an object of settings; `hidden` (for people: `people`) if None
        reveal   let the partners see what an earlier hidden request was about
        options  `public`, `few_shot`, `retained`, `robust`, `secret`, `cover`, `again`, `key`,
                 `wreck`, `drift`, `mode`, `public_from`, `any_public`: see `erasure.plan`

        >>> fed = Federation.local("digits", parties=2, epochs=3)
        >>> history = fed.train()
        >>> outcome = fed.forget([3])
        >>> outcome.result.forgotten_accuracy.after
        0.0
        >>> outcome.commit()
        """
        made = erasure.make_method(method, bool(ids), options.get("mode"))[1]
        task, request = erasure.plan(self, labels=labels, ids=ids, **options)
        return erasure.run_request(self, task, request, made, watch or watch_nothing, reveal=reveal)

    def audit(self, *, retrained: int = 0, watch: Watch | None = None) -> Verdict:
        """Judge the staged request, or the last one committed; see `auditing.audit`."""
        return auditing.audit(self, retrained=retrained, watch=watch or watch_nothing)

    def evaluate(self, part: str = "test", *, threshold: float = THRESHOLD) -> Evaluation:
        """Return how well the rows of a part (train, validation or test) are predicted.

        threshold  probability of the second of two labels above which it is predicted
        """
        parts = [field.name for field in fields(self.holdings.rows)]
        if part not in parts:
            raise SettingsError(unknown("part of the data", part, parts))
        rows = getattr(self.holdings.rows, part)
        if len(rows) == 0:
            raise SettingsError(f"This run has no {part} rows.")
        gone = self.forgotten.labels
        check_threshold(threshold, len(self.labels) - len(gone))  # before the parties are asked
        return evaluate(self.active, rows, len(self.labels), forgotten=gone, threshold=threshold)

    def predict(
        self, *, tables: Mapping[str, str | Path] | None = None, data: str | None = None
    ) -> Predictions:
        """Predict new rows through all parties.

        tables  for a run of tables: each party's file of new rows, by name of the party
        data    for a run of a dataset: an .npz file whose `x` holds new rows

        Without either, the run's own test rows are predicted.
        """
        if not tables and data is None:
            rows = self.holdings.rows.test
            return self.named(self.holdings.ids[rows.numpy()], rows, "main")
        if self.config.data is None:
            if data is not None:
                raise SettingsError("This run was made from tables; give tables, not `data`.")
            paths = {name: Path(path) for name, path in (tables or {}).items()}
            new = match_tables(self.config, paths, self.holdings.encodings)
            found = self._predict(next(iter(new.values())).ids, table_features(new))
            return replace(found, notes=tuple(n for table in new.values() for n in table.notes()))
        if tables:
            raise SettingsError("This run was made from a dataset; give `data`, not tables.")
        given = new_rows(self.config, str(data))
        return replace(self._predict(given.ids, given.features), notes=given.notes)

    def _change(self, changes: Mapping[str, Any]) -> None:
        """Change settings of the loop; the others are built into the parties already."""
        for name in changes:
            if name not in LOOP_SETTINGS:
                raise SettingsError(
                    f"`{name}` is set when a federation is made; "
                    f"train() takes {', '.join(LOOP_SETTINGS)}."
                )
        settings = change(self.config.train, changes, self.holdings.rows)
        check_batch(settings.batch, self.holdings.rows.train, self.active.most_rows)
        config = replace(self.config, train=settings)
        if self.folder is not None:
            if self.active.common_versions():
                raise SettingsError("A run that has begun trains with the settings it began with.")
            write_config(self.folder, config)
        elif settings.patience:
            raise SettingsError(NEEDS_FOLDER)
        self.holdings = replace(self.holdings, config=config)

    def _predict(self, ids: Array, features: Mapping[str, Features]) -> Predictions:
        """Hand each party its part of the new rows, and ask for predictions."""
        self.hand_over("new", features)
        return self.named(ids, torch.arange(len(ids)), "new")

    def hand_over(self, table: str, features: Mapping[str, Features]) -> None:
        """Give each party its part of rows that are no part of training, in this process."""
        for name, part in features.items():
            bottom = self.active.own if name == ACTIVE else self.passives[name].bottom
            if bottom is None:
                continue
            own = bottom.tables["main"].shape
            if part.shape != own:
                raise SettingsError(
                    f"Expected rows of shape {list(own)} for party '{name}' "
                    f"but got {list(part.shape)}."
                )
            bottom.add_table(table, part)

    def named(self, ids: Array, rows: torch.Tensor, table: str) -> Predictions:
        """Return the predictions of rows of a table, by the names of labels and people."""
        logits = self.active.logits(rows.to(self.active.device), table=table)
        found = logits.argmax(1).tolist()
        return Predictions(
            ids=ids,
            labels=tuple(self.labels[label] for label in found),
            probabilities=logits.softmax(1).cpu().numpy(),
            names=self.labels,
        )

    def _check(self, facts: dict[str, Any]) -> None:
        """Raise where the data or the settings are not those the run was trained with."""
        if facts.get("data") != self.holdings.digest():
            raise RunError(
                f"The rows or labels behind run '{self.folder}' have changed since it was trained."
            )
        # A run from before a setting existed was trained with what is its default now.
        trained = {**_deciding(TrainSettings()), **facts.get("settings", {})}
        now = _deciding(self.config.train)
        for name in sorted(trained.keys() | now.keys()):
            if trained.get(name) != now.get(name):
                raise RunError(
                    f"Run '{self.folder}' was trained with {name} = {trained.get(name)}, but its "
                    f"config.yaml now says {now.get(name)}; put it back."
                )


def make_settings(given: Mapping[str, Any]) -> TrainSettings:
    """Return training settings from names and values; an unknown name is refused with a hint."""
    known = [field.name for field in fields(TrainSettings)]
    for name in given:
        if name not in known:
            raise SettingsError(unknown("training setting", name, known))
    return TrainSettings(**given)


def _deciding(settings: TrainSettings) -> dict[str, Any]:
    """Return the settings that decide which weights a training ends in, as JSON holds them."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in _as_dict(settings).items()
        if name not in MACHINE_SETTINGS
    }


def _as_dict(settings: TrainSettings) -> dict[str, Any]:
    return {field.name: getattr(settings, field.name) for field in fields(settings)}
