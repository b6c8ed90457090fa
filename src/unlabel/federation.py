"""The entry object: a federation with every verb of the command line."""

from __future__ import annotations

import contextlib
import math
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import date
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Self, TypeVar

import torch
from torch import nn

from unlabel import compat
from unlabel.align.normal import forms_of
from unlabel.compat import run_file
from unlabel.config import (
    LOOP_SETTINGS,
    PACE,
    AuditSettings,
    BottomsKind,
    DefendSettings,
    FitSettings,
    LabelFreeSettings,
    Missing,
    ModelSettings,
    Parties,
    RunConfig,
    expect,
)
from unlabel.data import ACTIVE, Features, Rows
from unlabel.data.dataset import Array
from unlabel.data.in_memory import InMemoryTable
from unlabel.errors import (
    CheckpointError,
    ForgetError,
    RunError,
    SettingsError,
    UnlabelError,
    suggestion,
    unknown,
)
from unlabel.files import EXPORTS, write_atomically
from unlabel.forget import (
    ForgetSettings,
    Outcome,
    Queue,
    Slot,
    Status,
    Transaction,
    Work,
    find_labels,
    plan,
    read_ledgers,
    standing,
)
from unlabel.forget import service as forgetting
from unlabel.forget.copies import Copy, copies
from unlabel.forget.deferred import Deferred, defer
from unlabel.forget.exact import plan_exact
from unlabel.forget.names import forgotten_names
from unlabel.forget.plan import has_hidden
from unlabel.forget.privacy_loss import PrivacyLoss
from unlabel.forget.request import as_list
from unlabel.forget.restored import behind, expect_remembered
from unlabel.forget.slots import serve_slots
from unlabel.models import bind
from unlabel.models.registry import model_settings
from unlabel.party import ActiveParty, LedgerEntry, PassiveParty
from unlabel.progress import Watch, watch_nothing
from unlabel.runfolder import (
    CERTIFICATE,
    Overwrite,
    TemporaryFolder,
    certified_version,
    expect_usable,
    finish_swap,
    ledgers_in,
    read_config_of,
    start_folder,
    write_config,
)
from unlabel.train import (
    Evaluation,
    Forgotten,
    Holdings,
    MetricsFile,
    Progress,
    TensorBoard,
    Training,
    VersionFacts,
    Watcher,
    assemble,
    evaluate,
    load_holdings,
)
from unlabel.train.advice import advise
from unlabel.train.assembly import LABEL_FREE
from unlabel.train.checks import check_batch, check_unchanged, deciding_settings, training_settings
from unlabel.train.cleared import LabelTable, expect_clearable
from unlabel.train.epochs import change
from unlabel.train.evaluation import THRESHOLD, check_threshold
from unlabel.train.given import by_party, frames_config, keep_tables
from unlabel.train.label_free import LabelFreeBottoms, read_kept
from unlabel.train.label_record import LABELS, UNKNOWN, LabelRecord, Update
from unlabel.train.loading import label_names
from unlabel.train.notes import rare_labels, uneven_labels, unused_bottoms
from unlabel.train.parts import expect_learnable, known_labels
from unlabel.train.predictions import NewRows, Predictions, new_rows, new_tables
from unlabel.train.top_fit import fit_blind

if TYPE_CHECKING:
    from types import ModuleType

    from unlabel.audit import Verdict
    from unlabel.export.service import Exported
    from unlabel.remote.connect import RemoteFederation
    from unlabel.report.service import Certified, Report

T = TypeVar("T")

NO_SERVER = (
    "Serving needs FastAPI, uvicorn and prometheus-client; run: pip install 'unlabel[serve]'."
)
#: The version of models that nobody has trained yet.
BEGINNING = 0

Model = str | ModelSettings | Callable[..., nn.Module]


class Federation:
    """Parties that share a model: one with labels, the others with features.

    >>> fed = Federation.local("digits", parties=2, model="convnet", epochs=2)
    >>> history = fed.train().history
    >>> fed.evaluate().accuracy > 0.8
    True

    Every verb works on every federation: in a folder, in none (a temporary one that goes with the
    object), and between organisations (`Federation.connect`).
    """

    #: Whether the other parties live elsewhere, with their data.
    is_remote: bool = False
    #: Whether a verb is under way that is done again where a party gets lost.
    is_recovering: bool = False

    def __init__(
        self,
        holdings: Holdings,
        active: ActiveParty,
        passives: Mapping[str, PassiveParty],
        folder: Path | TemporaryFolder,
    ) -> None:
        self.holdings = self._loaded = holdings
        self.active = active
        self.passives = dict(passives)
        self._temporary = folder if isinstance(folder, TemporaryFolder) else None
        self.folder = folder.path if isinstance(folder, TemporaryFolder) else folder
        self.forgotten = Forgotten()
        self.undecided: Outcome | None = None
        self.version: int | None = None
        self.first_version = BEGINNING
        self._updates = 0
        self.privacy_loss = PrivacyLoss(self.folder / ACTIVE)
        self.bottoms: LabelFreeBottoms | None = None
        if active.carrier is not None:
            home = self.folder / ACTIVE / LABEL_FREE
            self.bottoms = LabelFreeBottoms(active.carrier, holdings.rows, self.config, home)
        self._take_embeddings()

    def _take_embeddings(self) -> None:
        """Have a blind run's active party work with the embeddings that it keeps."""
        kept = read_kept(self.folder / ACTIVE / LABEL_FREE) if self.is_blind else {}
        if self.is_blind:
            device = self.active.device
            parts = [kept[name].to(device, torch.float32) for name in self.active.embedded if kept]
            self.active.local_embeddings = {"main": parts} if parts else {}

    def drop_embeddings(self, party: str) -> None:
        """Delete the kept embeddings of a blind run, as a party demands.

        New people are still predicted. Requests and figures of the run's own rows need them:
        `train` asks for them again, where every party allows it, and nothing else is trained.
        """
        if self.bottoms is None or not self.is_blind or self.bottoms.base is None:
            raise SettingsError("No embeddings are kept here; only a trained blind run keeps any.")
        if party not in self.active.embedded or party == ACTIVE:
            others = [name for name in self.active.embedded if name != ACTIVE]
            raise SettingsError(unknown("party", party, others))
        self.bottoms.drop([party])
        self._take_embeddings()

    @property
    def is_blind(self) -> bool:
        """Whether bottoms never see a label: requests concern the label holder alone."""
        return self.config.bottoms == "blind"

    @property
    def is_temporary(self) -> bool:
        """Whether the run is kept in no folder of the user's, and goes with this object."""
        return self._temporary is not None

    @property
    def config(self) -> RunConfig:
        """The configuration of the run."""
        return self.holdings.config

    @property
    def loaded(self) -> Holdings:
        """What the parties hold as it was read, with labels that were forgotten since."""
        return self._loaded

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the data before trusting a figure of it."""
        data, balanced = self.holdings, self.config.train.balance
        uneven = uneven_labels(data.labels, data.names, data.rows.train, balanced)
        rare = rare_labels(data.labels, data.names, data.rows) if self.config.is_label_free else ()
        return (*data.notes, *uneven, *rare, *unused_bottoms(self.config))

    def _keep_notes(self) -> None:
        """Write what a person should know of the data into the label holder's folder."""
        text = "".join(f"{note}\n" for note in self.notes)
        path = self.folder / ACTIVE / "data-notes.txt"
        if text or path.exists():
            write_atomically(path, text.encode(), mode=0o600)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels."""
        return self.holdings.names

    # Beginning and ending

    @classmethod
    def local(
        cls,
        data: str,
        *,
        parties: Parties = 2,
        model: Model = "convnet",
        folder: str | Path | None = None,
        encoded: bool = False,
        record: bool = False,
        active_part: bool = False,
        defend: DefendSettings | None = None,
        bottoms: BottomsKind = "supervised",
        label_free: LabelFreeSettings | None = None,
        fit: FitSettings | None = None,
        **train: Any,
    ) -> Federation:
        """Split a dataset between parties that all live in this process.

        data         a built-in dataset, or an .npz, CSV, Parquet or Arrow file
        parties      how many passive parties, the width of each part, or widths by name
        model        the bottom model: a name, a function or class that makes one, or all settings
        folder       where the run is kept; None keeps it in a temporary folder
        encoded      send every message through the codec, as over a network
        record       keep a transcript of what each passive party saw
        active_part  give the first part of the features to the active party
        defend       what the parties apply to what they send; nothing if None
        bottoms      supervised, blind or tuned: whether bottoms learn from labels, and when
        label_free   how they are made without labels
        fit          how the top of a blind run is fitted
        train        any of `TrainSettings`, by name
        """
        config = RunConfig(
            data=data,
            parties=parties,
            active_part=active_part,
            model=model_settings(model),
            train=training_settings(train),
            defend=defend or DefendSettings(),
            bottoms=bottoms,
            label_free=label_free or LabelFreeSettings(),
            fit=fit or FitSettings(),
        )
        return cls.create(config, folder, encoded=encoded, record=record)

    @classmethod
    def from_frames(
        cls,
        frames: Mapping[str, Any],
        *,
        label: str,
        id: str = "id",
        model: Model = "mlp",
        folder: str | Path | None = None,
        categories: Sequence[str] = (),
        missing: Missing = "refuse",
        encoded: bool = False,
        record: bool = False,
        overwrite: Overwrite = False,
        defend: DefendSettings | None = None,
        bottoms: BottomsKind = "supervised",
        label_free: LabelFreeSettings | None = None,
        fit: FitSettings | None = None,
        **train: Any,
    ) -> Federation:
        """Make a federation of tables: pandas DataFrames, or dicts of numpy arrays, by party.

        frames      a table a party; whose has the label column is the active party
        label       column of labels
        id          column of ids, by which rows are matched; a named index counts as a column
        model       the bottom model: a name, a function or class that makes one, or all settings
        folder      where the run is kept, and the tables with it; None takes a temporary one
        categories  columns whose numbers are codes of categories; text is taken for one anyway
        missing     refuse missing values, take their mean, mark them (flag), or drop their rows
        bottoms     supervised, blind or tuned: whether bottoms learn from labels, and when
        label_free  how they are made without labels
        fit         how the top of a blind run is fitted
        train       any of `TrainSettings`, by name

        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(200, 4))
        >>> ids, y = np.arange(200), np.where(x.sum(1) > 0, "yes", "no")
        >>> bank = {"id": ids, "paid": y, "income": x[:, 0], "age": x[:, 1]}
        >>> fed = Federation.from_frames({"bank": bank, "shop": {"id": ids, "x": x}}, label="paid")
        >>> fed.labels
        ('no', 'yes')
        """
        if folder is not None:
            expect_usable(Path(folder), overwrite=overwrite)
        config, tables = frames_config(
            frames,
            label=label,
            id_column=id,
            categories=categories,
            missing=missing,
            model=model_settings(model),
            train=training_settings(train),
            defend=defend or DefendSettings(),
            bottoms=bottoms,
            label_free=label_free or LabelFreeSettings(),
            fit=fit or FitSettings(),
        )
        holdings = load_holdings(config.under(Path.cwd()), given=tables)
        return cls.of(
            holdings, folder, encoded=encoded, record=record, overwrite=overwrite, tables=tables
        )

    @classmethod
    def create(
        cls,
        config: RunConfig,
        folder: str | Path | None = None,
        *,
        encoded: bool = False,
        record: bool = False,
        overwrite: Overwrite = False,
        watch: Watch | None = None,
    ) -> Federation:
        """Start a run: read the data and build the parties; only then touch the folder.

        watch  called with how far the reading of the data is, where that takes long
        """
        config = config.under(Path.cwd())
        if folder is not None:
            expect_usable(Path(folder), overwrite=overwrite)
        holdings = load_holdings(config, watch=watch or watch_nothing)
        return cls.of(holdings, folder, encoded=encoded, record=record, overwrite=overwrite)

    @classmethod
    def of(
        cls,
        holdings: Holdings,
        folder: str | Path | None = None,
        *,
        encoded: bool = False,
        record: bool = False,
        overwrite: Overwrite = False,
        before: Update | None = None,
        tables: Mapping[str, InMemoryTable] | None = None,
    ) -> Federation:
        """Build the parties of a run from what each of them holds, and begin its folder.

        before  what was forgotten in the run that this one replaces
        tables  from Python, to be kept in the parties' own subfolders
        """
        if holdings.config.is_label_free:  # also where labels were cleared, or are of few people
            expect_learnable(holdings.labels, holdings.names, holdings.rows.train)
        place = TemporaryFolder() if folder is None else Path(folder)
        path = place.path if isinstance(place, TemporaryFolder) else place
        # What lies there is of a run that this one replaces, so it is tried without that first.
        replaced = folder is not None and path.exists()
        home = None if replaced else path
        active, passives = assemble(holdings, folder=home, encoded=encoded, record=record)
        if folder is not None:
            start_folder(path, holdings.config, overwrite=overwrite)
        if replaced:
            active, passives = assemble(holdings, folder=path, encoded=encoded, record=record)
        federation = cls(holdings, active, passives, place)
        if not federation.is_temporary:
            federation._keep_notes()
        holdings.keep_own(path)
        holdings.bind(path / ACTIVE, before)
        if tables:
            kept = keep_tables(federation.config, tables, path)
            federation._keep_config(active=kept.active, passive=kept.passive)
        return federation

    @classmethod
    def from_file(
        cls, path: str | Path, folder: str | Path | None = None, *, overwrite: Overwrite = False
    ) -> Federation:
        """Start the run that a YAML file describes, as `unlabel train FILE --out FOLDER` does."""
        from unlabel.config.loader import read_run

        return cls.create(read_run(Path(path)), folder, overwrite=overwrite)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        record: bool = False,
        resume: bool = False,
        recovering: bool = False,
        device: str = "",
        model: Callable[..., nn.Module] | None = None,
        watch: Watch | None = None,
    ) -> Federation:
        """Open a run that was kept in a folder, on the newest version all parties have.

        resume      a run that has no version yet is fine: training starts at its beginning
        recovering  so is one whose parties a crash left on different versions
        device      where to compute, if not where the run did
        model       the function or class that the run was made with, where no import finds it
        watch       called with how far the reading of the data is
        """
        path = Path(folder)
        finish_swap(path)
        config = read_config_of(path)
        if model is not None:
            bind(config.model.bottom, model)
        if device:
            config = replace(config, train=replace(config.train, device=device))
        holdings = load_holdings(config, folder=path, watch=watch or watch_nothing)
        active, passives = assemble(holdings, folder=path, record=record)
        federation = cls(holdings, active, passives, path)
        federation.load_latest(resume=resume, recovering=recovering)
        return federation

    def copy(self) -> Federation:
        """Return the same federation in a temporary folder of its own, to try something out.

        It gets no keys: what the parties sign there is not signed as them.
        """
        if self.is_remote:
            raise SettingsError("What other parties keep elsewhere cannot be copied from here.")
        place, keys = TemporaryFolder(), shutil.ignore_patterns("signing.key")
        shutil.copytree(self.folder, place.path, dirs_exist_ok=True, ignore=keys)
        holdings = replace(self._loaded, config=replace(self.config, trust={}))
        active, passives = assemble(holdings, folder=place.path)
        other = Federation(holdings, active, passives, place)
        other.load_latest()
        return other

    @staticmethod
    def connect(
        kit: str | Path,
        *,
        resume: bool = False,
        recovering: bool = False,
        fewer: bool = False,
        notify: Callable[[str], None] | None = None,
        watch: Watch | None = None,
    ) -> RemoteFederation:
        """Connect to a federation between organisations, from the kit of its active party.

        Where a party gets lost, another job is started, all return to the last version they share,
        and the verb goes on from there. Use it in a `with` block, or `close` it.

        resume, recovering  as in `open`
        fewer               go on without parties that are down, where all agreed to that
        notify              called with what is waited for; the log by default
        watch               called with how far an alignment has come
        """
        # Imported late: a run in one process needs no engine.
        from unlabel.remote.connect import connect, log

        return connect(
            kit,
            resume=resume,
            recovering=recovering,
            fewer=fewer,
            notify=notify or log.info,
            watch=watch or watch_nothing,
        )

    def close(self) -> None:
        """End the connection to other parties; in one process there is nothing to end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def _take_up(self, facts: VersionFacts) -> None:
        """Go on with what a version has forgotten.

        Where labels are forgotten exactly, the run goes on as one that never had them.
        """
        self.forgotten = facts.forgotten
        if self.config.is_label_free:
            held = self._loaded
            labels, names = known_labels(held.labels, held.names, self.forgotten.rows)
            self.holdings = replace(self.holdings, labels=labels, names=names)
            self.active.labels, self.active.names = labels.to(self.active.device), names

    def load_latest(self, *, resume: bool = False, recovering: bool = False) -> None:
        """Go to the newest version that all parties have; see `open`."""
        versions = self.active.versions
        self._updates = self._count_updates()
        restored: list[str] = []
        if recovering:
            restored = behind(Transaction(self.active))
        else:
            expect_remembered(Transaction(self.active))
            Transaction(self.active).expect_together()
        common = versions.common()
        if not recovering:
            versions.expect_newest(common)
        if common and (resume or recovering or common[-1] > BEGINNING):
            facts = VersionFacts.from_json(versions.facts(common[-1]))
            self._check(facts)
            versions.restore(common[-1])
            self.version = common[-1]
            self._take_up(facts)
        elif not resume and not restored:
            raise CheckpointError(
                f"Run '{self.folder}' has no version that all parties share; resume its training "
                f"first."
            )

    def refresh(self, *, afresh: bool = False) -> None:
        """Take up what another process has made of the run since this object looked at it.

        afresh  return to the newest version in any case, after a decision
        """
        waiting, staged = self.undecided, Transaction(self.active).staged()
        if waiting is not None and (staged is None or staged.id != waiting.result.request):
            waiting.staged, self.undecided, afresh = False, None, True
        versions = self.active.versions
        common = versions.common()
        if common and (afresh or common[-1] != self.version):
            self._expect_same_run()
            facts = VersionFacts.from_json(versions.restore(common[-1]))
            self.version = common[-1]
            self._take_up(facts)

    def _count_updates(self) -> int:
        return sum(each.event == "update" for each in self.active.versions.ledger.entries())

    def _expect_same_run(self) -> None:
        """Raise where the run was updated since it was opened: rows have other numbers since."""
        if self._count_updates() != self._updates:
            raise RunError(f"Run '{self.folder}' was updated since it was opened; open it again.")

    def with_recovery(self, act: Callable[[], T]) -> T:
        """Do something with the parties; where they can get lost, again when they have returned."""
        return act()

    # Training and answers

    def train(
        self,
        *,
        watchers: Sequence[Watcher] = (),
        allow_disclosure: bool = False,
        watch: Watch | None = None,
        **changes: Any,
    ) -> Progress:
        """Train to the end, from where the run stands.

        watch             called with how far bottoms are made without labels
        allow_disclosure  go on even where that shows the partners what a hidden request was about
        changes           `epochs`, `batch` or `patience`, where they differ from the run's
        """
        if changes and self.is_remote:
            names = ", ".join(changes)
            raise SettingsError(f"A federation trains as its parties agreed; leave {names} out.")
        if changes:
            self._change(changes)
        seen = watch or watch_nothing
        return self.with_recovery(lambda: self._train(watchers, allow_disclosure, seen))

    def _train(self, watchers: Sequence[Watcher], allow_disclosure: bool, watch: Watch) -> Progress:
        self.refresh()
        if not self.is_blind and has_hidden(self) and not allow_disclosure:
            raise ForgetError(
                "A hidden request was made, and training leaves out what was forgotten, which "
                "would show the partners what it was about; add --allow-disclosure if they may "
                "know."
            )
        Transaction(self.active).expect_none()
        self.holdings.bind(self.folder / ACTIVE)  # a run of 0.7 has no commitments yet
        watching = list(watchers)
        if not self.is_temporary:
            watching.append(MetricsFile(self.folder / "metrics.jsonl"))
            watching.append(TensorBoard(self.folder / "tensorboard"))
        if self.bottoms is not None:
            expect_learnable(self.holdings.labels, self.labels, self.holdings.rows.train)
            self.bottoms.make(watch)
        if self.is_blind:
            return self._fit(watching, watch)
        settings, rows = self.config.train, self.holdings.rows_without(self.forgotten)
        count, facts = len(self.labels), self.version_facts()
        training = Training(
            self.active,
            rows,
            settings,
            labels=count,
            facts=facts,
            watchers=watching,
            first=self.first_version,
        )
        try:
            progress = training.run()
        except BaseException:
            if not self.is_remote:  # there the next connection does so
                with contextlib.suppress(UnlabelError):
                    self.refresh(afresh=True)  # an epoch that was begun counts for nothing
            raise
        self.version = self.active.versions.common()[-1]
        features = self.holdings.features.get(ACTIVE)
        progress.advice = advise(progress, settings, rows, self.holdings.labels, features)
        return progress

    def _fit(self, watchers: Sequence[Watcher], watch: Watch) -> Progress:
        """Embed every row once, and fit the top of a blind run; where that was done, do nothing."""
        assert self.bottoms is not None
        self.bottoms.embed(watch)
        self.bottoms.attest()
        self._take_embeddings()
        if self.version is not None:
            facts = VersionFacts.from_json(self.active.versions.facts(self.version))
            return facts.progress or Progress(self.version, finished=True)
        version = max(1, self.first_version)
        history = fit_blind(self.active, self.holdings.rows, self.config, watchers=watchers)
        progress = Progress(version, history, finished=True)
        facts = replace(self.version_facts(), progress=progress)
        self.active.versions.save(version, facts.to_json())
        self.version = version
        return progress

    @classmethod
    def update(
        cls,
        folder: str | Path,
        *,
        frames: Mapping[str, Any] | None = None,
        watchers: Sequence[Watcher] = (),
        allow_disclosure: bool = False,
        watch: Watch | None = None,
    ) -> tuple[Federation, Progress]:
        """Train a run anew on its tables as they are now, with rows added, removed or relabelled.

        What was forgotten stays forgotten, by label and by id, also where a table brings it back,
        and requests that wait (`defer`) are carried out. The run is as it was until the training
        has ended, and then replaced; older weights go with it.

        frames  the tables by party, where the run was made from DataFrames
        """
        from unlabel.updating import update

        return update(
            cls,
            Path(folder),
            frames,
            watchers=watchers,
            allow_disclosure=allow_disclosure,
            watch=watch or watch_nothing,
        )

    def defer(self, ids: Sequence[str | int], until: date | str) -> Deferred:
        """Let the request of people wait for the next `update`, and send nothing.

        until  the day by which it has to be done; it stands in the ledger
        """
        self._expect_same_run()
        return defer(self, as_list("ids", ids), until)

    def version_facts(self) -> VersionFacts:
        """Return what is noted with a version that training makes."""
        settings = deciding_settings(self.config.train)
        return VersionFacts(self.holdings.digest(), settings, self.forgotten)

    def evaluate(self, part: str = "test", *, threshold: float = THRESHOLD) -> Evaluation:
        """Return how well the rows of a part (train, validation or test) are predicted.

        threshold  probability of the second of two labels above which it is predicted
        """
        rows = self._rows_of(part)

        def act() -> Evaluation:
            self._expect_trained()
            forgotten, count = self.forgotten.labels, len(self.labels)
            check_threshold(threshold, count - len(forgotten))
            return evaluate(self.active, rows, count, forgotten=forgotten, threshold=threshold)

        return self.with_recovery(act)

    def predict(
        self,
        *,
        tables: Mapping[str, Any] | None = None,
        data: str | None = None,
        part: str = "test",
    ) -> Predictions:
        """Predict new rows through all parties.

        tables  for a run of tables: each party's new rows by name, as a file or a DataFrame
        data    for a run of a dataset: an .npz file whose `x` holds new rows
        part    without either: which of the run's own rows (test, validation, train or public)
        """
        if part != "test" and (tables or data is not None):
            raise SettingsError("`part` names the run's own rows; leave out `tables` and `data`.")
        return self.with_recovery(lambda: self._predict(tables or {}, data, part))

    def _predict(self, tables: Mapping[str, Any], data: str | None, part: str) -> Predictions:
        self._expect_trained()
        if not tables and data is None:
            return self._predict_own(part)
        if data is None:
            return self.predict_tables(tables)
        if self.config.data is None:
            raise SettingsError("This run was made from tables; give tables, not `data`.")
        if tables:
            raise SettingsError("This run was made from a dataset; give `data`, not tables.")
        return self._predict_new(new_rows(self.config, str(data)))

    def predict_tables(self, tables: Mapping[str, Any]) -> Predictions:
        """Predict new rows of tables by the models as they are loaded; see `predict`."""
        if self.config.data is not None:
            raise SettingsError("This run was made from a dataset; give `data`, not tables.")
        given = by_party(self.config, tables)
        return self._predict_new(
            new_tables(self.config, given, self.holdings.encodings, self.labels)
        )

    def _predict_new(self, rows: NewRows) -> Predictions:
        self.hand_over("new", rows.features)
        predictions = self.predict_rows(rows.ids, torch.arange(len(rows.ids)), "new")
        truth = self._truth(rows.ids, rows.labels)
        return replace(predictions, truth=truth, unknown=rows.unknown, notes=rows.notes)

    def _predict_own(self, part: str) -> Predictions:
        """Predict the run's own rows, with their labels beside; what is forgotten is not said."""
        rows = self._rows_of(part)
        ids = self.holdings.ids[rows.numpy()]
        names = [(*self.labels, "")[label] for label in self.holdings.labels[rows].tolist()]
        truth = self._truth(ids, dict(zip(ids.tolist(), names, strict=True)))
        return replace(self.predict_rows(ids, rows, "main"), truth=truth)

    def _truth(self, ids: Array, labels: Mapping[str, str] | None) -> tuple[str, ...] | None:
        """Return the labels of people by their ids, empty where they are forgotten or unknown."""
        if labels is None:
            return None
        forgotten, align = forgotten_names(self), self.config.align
        people = set(forms_of(self.holdings.ids[list(self.forgotten.rows)], align))
        known = dict(zip(forms_of(labels, align), labels.values(), strict=True))
        pairs = ((who, known.get(who, "")) for who in forms_of(ids, align))
        return tuple("" if who in people or label in forgotten else label for who, label in pairs)

    def predict_rows(self, ids: Array, rows: torch.Tensor, table: str) -> Predictions:
        """Return the predictions of rows of a table, by the names of labels and people."""
        active = self.active
        if self.bottoms is not None and self.is_blind and table != "main":
            active = active.with_embeddings(table, self.bottoms.ask(rows, table))
            rows = torch.arange(len(rows))
        logits = active.logits(rows.to(active.device), table=table)
        return Predictions.of(ids, logits, self.labels)

    def serve(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
        token: str | Path | None = None,
        batch: int = 1024,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        """Answer questions for predictions over HTTP until a signal ends it; see docs/serving.md.

        While it lasts, other processes may forget, commit and purge, and this object is the
        server's. `unlabel.serve.app(federation)` is the application alone.

        host, port        to listen on; other addresses than this machine's own need TLS
        certificate, key  PEM files for TLS
        token             file with the token that requests must bring
        batch             rows of a party in one request, at most
        notify            called with the address once it listens
        """
        try:
            from unlabel.serve import Limits, ServedModel
            from unlabel.serve.listening import Address, answer
        except ImportError as error:
            raise RunError(NO_SERVER) from error
        files = [None if path is None else Path(path) for path in (certificate, key)]
        address, secret = Address(host, port, *files), None if token is None else Path(token)
        answer(lambda: ServedModel(self), address, secret, Limits(rows=batch), notify)

    def export(self, path: str | Path) -> Exported:
        """Write the top of a blind run to a *.safetensors or *.onnx file, with a signed note.

        From the next commit on it is revoked: see docs/serving.md.
        """
        from unlabel.export.service import export

        return export(self, Path(path))

    def _exports(self) -> ModuleType | None:
        """Return what looks after exports, None where there are none: it takes time to import."""
        if not (self.folder / EXPORTS).exists():
            return None
        from unlabel.export import service

        return service

    def revoke_exports(self) -> None:
        """Note as revoked what was exported of versions that were superseded."""
        exported = self._exports()
        if exported is not None:
            exported.refresh(self.folder)

    def hand_over(self, table: str, features: Mapping[str, Features]) -> None:
        """Give each party its part of rows that are no part of training, in this process."""
        for name, part in features.items():
            holder = self.active.carrier or self.active
            bottom = holder.bottom if name == ACTIVE else self.passives[name].bottom
            if bottom is None:
                continue
            shape = bottom.tables["main"].shape
            if part.shape != shape:
                raise SettingsError(
                    f"Expected rows of shape {list(shape)} for party '{name}' "
                    f"but got {list(part.shape)}."
                )
            bottom.add_table(table, part)

    def _expect_trained(self) -> None:
        """Go to the newest version; raise where there is none yet."""
        self.refresh()
        if self.version is None:
            raise CheckpointError("Nothing was trained yet; train first.")

    def _rows_of(self, part: str) -> torch.Tensor:
        """Return the rows of a part of the run, which must have some."""
        parts = [field.name for field in fields(Rows)]
        if part not in parts:
            raise SettingsError(unknown("part", part, parts))
        rows: torch.Tensor = getattr(self.holdings.rows, part)
        if len(rows) == 0:
            raise SettingsError(f"This run has no {part} rows.")
        return rows

    # Requests

    def plan(
        self,
        labels: Sequence[str | int] = (),
        *,
        ids: Sequence[str | int] = (),
        settings: ForgetSettings | None = None,
    ) -> Work:
        """Check a request without changing anything: the first step of `forget`."""
        wanted, people = as_list("labels", labels), as_list("ids", ids)
        check = plan_exact if self.config.is_label_free else plan
        return self.with_recovery(lambda: check(self, labels=wanted, ids=people, settings=settings))

    def forget(
        self,
        labels: Sequence[str | int] = (),
        *,
        ids: Sequence[str | int] = (),
        settings: ForgetSettings | None = None,
        watch: Watch | None = None,
    ) -> Outcome:
        """Forget labels, or the labels of people; what that makes is staged until you decide.

        labels    by name or number
        ids       of people whose labels are to be forgotten, in place of whole labels; in a
                  supervised run all models are trained again without them, which takes as long as
                  the training did and shows the partners whose rows are left out
        settings  how; see `ForgetSettings`

        >>> fed = Federation.local("digits", parties=2, epochs=3)
        >>> history = fed.train()
        >>> outcome = fed.forget([3])
        >>> outcome.result.forgotten_accuracy.after
        0.0
        >>> outcome.commit()
        """
        wanted, people = as_list("labels", labels), as_list("ids", ids)
        chosen = self._with_key(settings or ForgetSettings())
        watch = watch or watch_nothing
        return self.with_recovery(
            lambda: forgetting.forget(self, wanted, ids=people, settings=chosen, watch=watch)
        )

    @staticmethod
    def _with_key(settings: ForgetSettings) -> ForgetSettings:
        """Return settings whose draws are decided: a partner that returns sees no others."""
        if settings.key is not None:
            return settings
        return replace(settings, key=secrets.token_hex(32))

    def audit(
        self,
        *,
        retrained: int = 0,
        demand: str | AuditSettings | None = None,
        watch: Watch | None = None,
    ) -> Verdict:
        """Judge the staged request, or the last one committed.

        retrained  models to retrain without the label and to compare with
        demand     the depth to demand, or all thresholds; the run's own by default
        """
        from unlabel.audit import service

        limits = self.config.audit if demand is None else demand
        if isinstance(limits, str):
            limits = AuditSettings(**{**asdict(self.config.audit), "demand": limits})
        watch = watch or watch_nothing
        return self.with_recovery(
            lambda: service.audit(self, retrained=retrained, demand=limits, watch=watch)
        )

    def commit(self, request: str | None = None, *, force: bool = False) -> str:
        """Make the staged request every party's model; return its id.

        One that an audit found below the demanded depth, or whose label is still predicted, is
        committed only by `force`, which is noted in the ledger.
        """
        from unlabel.audit.committable import expect_committable

        wanted = request or forgetting.waiting(self)

        def act() -> str:
            demand = self.config.audit.demand
            audit = expect_committable(self.folder, demand, wanted, force=force)
            return forgetting.commit(self, wanted, force=force, audit=audit)

        return self._once(act, lambda: forgetting.is_decided(self, "commit", wanted), wanted)

    def why_not_committed(self, request: str) -> str:
        """Return why a commit would be refused before anybody is asked, empty where it is not."""
        from unlabel.audit.committable import expect_committable

        try:
            expect_committable(self.folder, self.config.audit.demand, request, force=False)
        except UnlabelError as error:
            return str(error)
        return ""

    @staticmethod
    def expect_committable(folder: str | Path, *, force: bool = False) -> None:
        """Raise where the request that waits in a run's folder would not be committed.

        No partner is asked: a commit tried in vain would show that a hidden request failed.
        """
        from unlabel.audit.committable import expect_committable

        path = Path(folder)
        if run_file(path).is_file():
            expect_committable(path, read_config_of(path).audit.demand, None, force=force)

    def rollback(self, request: str | None = None) -> str:
        """Drop the staged request at every party; return its id."""
        wanted = request or forgetting.waiting(self)
        return self._once(
            lambda: forgetting.rollback(self, wanted),
            lambda: forgetting.is_decided(self, "rollback", wanted),
            wanted,
        )

    @staticmethod
    def rollback_of(folder: str | Path) -> str:
        """Drop the staged request of the run in a folder; its tables are read only at need."""
        from unlabel.unopened import open_standing

        return open_standing(folder, deciding=True).rollback()

    def _once(
        self, act: Callable[[], str], is_done: Callable[[], bool], request: str | None
    ) -> str:
        """Decide on a request; where a party gets lost meanwhile, only what is not decided yet."""
        tries = int(self.is_recovering)

        def attempt() -> str:
            nonlocal tries
            tries += 1
            self._expect_same_run()
            if tries > 1 and request is not None and is_done():
                self.refresh()
                return request
            return act()

        decided = self.with_recovery(attempt)
        self.revoke_exports()
        if self.is_temporary:
            # Nobody returns to older ones, and parties keep only a few; an audit compares two.
            self.active.versions.retain(self.active.versions.common()[-2:])
        return decided

    def purge(self, *, table_out: str | Path | None = None) -> int:
        """Remove what stems from before the last commit, everywhere; return the version left.

        With the commitments to the forgotten labels go all means to check them: from then on the
        run takes them for unknown, and their owner may clear them from every table.

        table_out  file for the label holder's table without them
        """
        target = None if table_out is None else Path(table_out)
        if target is not None:
            expect_clearable(self.config, target)

        def act() -> int:
            # Before anything is removed: what cannot be written stops the purge.
            with self._table_without(target):
                left = forgetting.purge(self)
            record = LabelRecord.read(self.folder / ACTIVE)
            if record is not None:
                past = torch.from_numpy(record.tombstones > 0)
                labels = torch.where(past, UNKNOWN, self.holdings.labels)
                self.holdings = self._loaded = replace(self.holdings, labels=labels)
                self.active.labels = labels.to(self.active.device)
            if self.config.is_label_free:  # no name of a label that went stays in a note
                self._keep_notes()
            return left

        left = self.with_recovery(act)
        self.revoke_exports()
        return left

    @contextlib.contextmanager
    def _table_without(self, target: Path | None) -> Iterator[None]:
        """Write the label holder's table without what is forgotten; take it back on an error."""
        table = None if target is None else LabelTable.of(self.config)
        if target is None or table is None:
            yield
            return
        self.refresh()
        self.holdings.bind(self.folder / ACTIVE)
        record = Transaction(self.active).bury(self.forgotten)
        assert record is not None
        table.write(record, forgotten_names(self), target)
        try:
            yield
        except BaseException:
            target.unlink(missing_ok=True)
            raise

    def recover(self) -> str:
        """Finish what a crash interrupted; return in words what was done."""
        self._expect_same_run()
        done = self.with_recovery(lambda: forgetting.recover(self))
        self.revoke_exports()
        return done

    def status(self) -> Status:
        """Return where every party stands."""

        def act() -> Status:
            self.refresh()
            return standing.status(self)

        return self.with_recovery(act)

    @staticmethod
    def status_of(folder: str | Path) -> Status:
        """Return where the parties of the run in a folder stand; no table is read for it."""
        from unlabel.unopened import open_standing

        return open_standing(folder, resume=True, recovering=True).status()

    def copies(self) -> list[Copy]:
        """List every place at any party where a forgotten label or older weights can lie."""

        def act() -> list[Copy]:
            self.refresh()
            exported = self._exports()
            return [*copies(self), *(exported.copies(self.folder) if exported else ())]

        return self.with_recovery(act)

    def queue(self, labels: Sequence[str | int]) -> int:
        """Let a hidden request wait for a slot, and send nothing; return its place in the queue."""
        wanted = as_list("labels", labels)
        _expect_slots(self.config)
        numbers = find_labels(wanted, self.labels, Forgotten())
        return Queue(self.folder / ACTIVE).append(tuple(self.labels[n] for n in numbers))

    @staticmethod
    def enqueue(folder: str | Path, labels: Sequence[str | int]) -> tuple[tuple[str, ...], int]:
        """Queue a request of the run in a folder, unopened; return its labels and its place."""
        path = Path(folder)
        config = read_config_of(path)
        _expect_slots(config)
        names = label_names(config, path)
        numbers = find_labels(labels, names, Forgotten())
        wanted = tuple(names[number] for number in numbers)
        return wanted, Queue(path / ACTIVE).append(wanted)

    def slots(
        self,
        *,
        every: float,
        count: int,
        pace: float = PACE,
        purge: bool = False,
        watch: Callable[[int, Slot], None] | None = None,
        stop: Event | None = None,
    ) -> list[Slot]:
        """Make a hidden request at fixed times: the next that waits, else one about nothing.

        every  seconds from one slot to the next; one that takes longer delays the next
        pace   seconds of which messages leave at multiples, so that their times tell nothing; work
               between two of them must take less than half of it. 0 lets them leave at once
        purge  remove older versions after every slot; parties keep only a few
        watch  called with the number of a slot and what was done in it
        stop   ends it before the next slot, once it is set
        """
        if count < 1 or every < 0:
            raise SettingsError(
                f"Expected at least 1 slot, 0 seconds or more apart, but got {count} and {every:g}."
            )
        expect("pace", pace, 0 <= pace < math.inf, "0 seconds or more")
        _expect_slots(self.config)
        return serve_slots(
            self,
            every=every,
            count=count,
            pace=pace,
            purge_after=purge,
            settings=ForgetSettings(),
            watch=watch,
            stop=stop,
        )

    # Papers

    @property
    def certificate_note(self) -> str:
        """A sentence where RUN/certificate.json is about another version than the one in use."""
        about = certified_version(self.folder)
        if about in (None, self.version):
            return ""
        return (
            f"'{self.folder / CERTIFICATE}' is about version {about}, and version {self.version} "
            f"is in use: nothing that it says is about this model."
        )

    def ledger(self) -> Mapping[str, list[LedgerEntry]]:
        """Return the parties' ledgers by name: of all in one process, else the active party's."""
        return read_ledgers(self.folder, self.passives)

    @staticmethod
    def report_of(folder: str | Path, path: str | Path | None = None) -> Report:
        """Write the report of the run in a folder; no data and no model is opened for it."""
        from unlabel.report.service import write_report

        home, trouble = Path(folder), ""
        parties: tuple[str, ...] = ()
        if not home.is_dir():
            raise RunError(f"There is no run folder '{home}'; name one that `unlabel train` made.")
        try:
            parties = ledgers_in(home)
        except UnlabelError as error:
            trouble = str(error)
        return write_report(home, parties, None if path is None else Path(path), trouble)

    @staticmethod
    def ledger_of(folder: str | Path) -> Mapping[str, list[LedgerEntry]]:
        """Return the ledgers in the folder of a run; no data and no model is opened for it."""
        return read_ledgers(Path(folder), ledgers_in(Path(folder)))

    def report(self, path: str | Path | None = None) -> Report:
        """Write the last audit as one page for people, RUN/report.html by default."""
        from unlabel.report.service import write_report

        return write_report(self.folder, list(self.passives), None if path is None else Path(path))

    def certificate(
        self,
        path: str | Path | None = None,
        *,
        request: str | None = None,
        received: date | str | None = None,
        auditor_key: str | Path | None = None,
        legal_basis: str | None = None,
        informed: Sequence[str] = (),
        demand: str | Path | None = None,
    ) -> Certified:
        """Have every party sign what it did for a request, and write that down.

        path         of the file; RUN/certificate.json by default. A sealed annex lies beside it
        request      its id; the last one that was committed by default
        received     day on which the demand came in; the day of the commit by default
        auditor_key  an auditor's public key, for whom an annex is sealed; none without it
        legal_basis  why the demand had to be met; for the annex
        informed     parties that know what it is about; for the annex
        demand       file of the demand, whose SHA-256 is signed; it needs `received`

        A federation in no folder signs with keys that go with it, and the certificate says so.
        """
        from unlabel.report.service import annex_for, certify, day_in, digest_of_demand

        annex = annex_for(auditor_key, legal_basis, informed)
        day = day_in(received) if isinstance(received, str) else received
        digest = digest_of_demand(demand, dated=day is not None)
        target = None if path is None else Path(path)
        certified = self.with_recovery(
            lambda: certify(
                self,
                target,
                request=request,
                received=day,
                annex=annex,
                demand=digest,
                temporary=self.is_temporary,
            )
        )
        if certified.newly_trusted:
            self._keep_config(trust={**self.config.trust, **certified.newly_trusted})
        return certified

    # Settings

    def _keep_config(self, **changes: Any) -> None:
        """Change the configuration, here and in the run's folder."""
        self.holdings = replace(self.holdings, config=replace(self.config, **changes))
        if not self.is_temporary:
            write_config(self.folder, replace(read_config_of(self.folder), **changes))

    def _change(self, changes: Mapping[str, Any]) -> None:
        """Change settings of the loop; the others are built into the parties already."""
        for name in changes:
            if name not in LOOP_SETTINGS:
                raise SettingsError(
                    f"train() takes {', '.join(LOOP_SETTINGS)}; `{name}` is set when a federation "
                    f"is made.{suggestion(name, LOOP_SETTINGS)}"
                )
        if self.is_blind:
            raise SettingsError(
                f"A blind run is not trained together, so `{next(iter(changes))}` means nothing to "
                f"it; set `label_free` and `fit` when the federation is made."
            )
        settings = change(self.config.train, changes, self.holdings.rows)
        check_batch(settings.batch, self.holdings.rows.train, self.active.most_rows)
        if self.active.versions.common():
            raise SettingsError("A run that has begun trains with the settings it began with.")
        self._keep_config(train=settings)

    def _check(self, facts: VersionFacts) -> None:
        """Raise where the data or the settings are not those the run was trained with."""
        held = self.holdings
        # A run of 0.6 or 0.7 is bound to the labels themselves, until it has a record of them.
        before = compat.data_digest(held.ids.tolist(), held.labels.numpy().tobytes())
        if not (self.folder / ACTIVE / LABELS).exists() and facts.data != before:
            raise RunError(
                f"The rows or labels behind run '{self.folder}' have changed since it was trained."
            )
        check_unchanged(self.config.train, facts.settings, f"Run '{self.folder}'")

    def __repr__(self) -> str:
        where = "in no folder" if self.is_temporary else f"in '{self.folder}'"
        parties = ", ".join(self.passives or self.active.parties)
        return (
            f"<{type(self).__name__} of {ACTIVE} and {parties}: {len(self.labels)} labels, "
            f"version {self.version}, {where}>"
        )


def _expect_slots(config: RunConfig) -> None:
    """Raise where a run's requests need no slots, or slots would hide nothing of them."""
    if config.bottoms == "blind":
        raise SettingsError(
            "A blind run sends no message for a request, so slots are not needed: forget at once."
        )
    if config.bottoms == "tuned":
        raise SettingsError(
            "Slots are for hidden requests, and in a tuned run all parties train again for each: "
            "forget at once, or choose bottoms blind."
        )
