"""`run.yaml`: a run in one place. Who holds which table, which models, how to train."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from unlabel.config.audit import AuditSettings
from unlabel.config.checks import check_trust, one_of
from unlabel.config.data import (
    ACTIVE,
    ActiveColumns,
    Columns,
    Parties,
    Pictures,
    SplitKind,
    TableColumns,
    check_count,
    check_name,
    is_file_name,
    part_widths,
)
from unlabel.config.label_free import (
    BOTTOMS_KINDS,
    BottomsKind,
    FitSettings,
    LabelFreeSettings,
)
from unlabel.config.model import ModelSettings
from unlabel.config.party import AlignSettings, DefendSettings, MonitorSettings, Policy
from unlabel.config.train import AUTO, JOINT_SETTINGS, TrainSettings
from unlabel.errors import SettingsError

#: Names of tops that are classifiers of scikit-learn begin so.
SKLEARN = "sklearn:"


@dataclass(frozen=True, kw_only=True)
class ActiveTable(ActiveColumns):
    """The active party's table.

    table  CSV, Parquet or Arrow file
    name   what people call this party; in a run it is `active`
    """

    table: Path
    name: str = ACTIVE

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.name)


@dataclass(frozen=True, kw_only=True)
class PassiveMember(TableColumns):
    """A passive party, as whoever sets up a run or a federation knows it.

    name    name of the party, of its subfolder and of its kit
    bottom  its bottom model, where it differs from the others'
    policy  its rules, where they differ from the others'
    defend  what it applies to the embeddings it sends, where that differs from the others'
    """

    name: str
    bottom: str | None = None
    policy: Policy | None = None
    defend: list[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.name)
        if self.name == ACTIVE:
            raise SettingsError(f"Expected a passive party to have another name than '{ACTIVE}'.")


@dataclass(frozen=True, kw_only=True)
class PassiveTable(PassiveMember):
    """A passive party's table, model and policy.

    table  CSV, Parquet or Arrow file; none where the party keeps it on a machine of its own
    """

    table: Path | None = None


@dataclass(frozen=True)
class RunConfig:
    """A whole run: either `data` split between simulated parties, or the parties' own tables.

    data         a built-in dataset, or an .npz, CSV, Parquet or Arrow file
    folder       where that file, or the files of a dataset that cannot be fetched, lie
    columns      what the columns of that CSV, Parquet or Arrow file are
    pictures     how pictures are made of a folder of images or meshes
    parties      how many passive parties, the width of each part, or widths by name
    split        strips, views, columns or texts; what fits the data by default
    active_part  give the first part of the features to the active party
    active       the active party's own table
    passive      the passive parties' own tables
    align        how rows of tables are matched
    model        which models
    bottoms      supervised, blind or tuned: whether bottoms learn from labels, and when
    label_free   how bottoms are made without labels, where they are blind or tuned
    fit          how the top of a blind run is fitted
    train        how to train together, with labels
    policy       the passive parties' rules
    defend       what the parties apply to what they send
    monitor      how the active party watches for anomalies in what the others send, if at all
    audit        what a request must reach to be committed
    code         folder of your own models' modules; that of run.yaml by default
    trust        public signing keys of the parties by name, against which certificates are checked
    """

    data: str | None = None
    folder: Path | None = None
    columns: Columns = field(default_factory=Columns)
    pictures: Pictures = field(default_factory=Pictures)
    parties: Parties = 2
    split: SplitKind | None = None
    active_part: bool = False
    active: ActiveTable | None = None
    passive: list[PassiveTable] = field(default_factory=list)
    align: AlignSettings = field(default_factory=AlignSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    bottoms: BottomsKind = "supervised"
    label_free: LabelFreeSettings = field(default_factory=LabelFreeSettings)
    fit: FitSettings = field(default_factory=FitSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    policy: Policy = field(default_factory=Policy)
    defend: DefendSettings = field(default_factory=DefendSettings)
    monitor: MonitorSettings | None = None
    audit: AuditSettings = field(default_factory=AuditSettings)
    code: Path | None = None
    trust: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_trust(self.trust)
        check_bottoms(self.bottoms, self.model, self.train)
        check_views(self.bottoms, self.model, self.label_free)
        if self.is_label_free:  # early stopping would tell partners something of the labels
            object.__setattr__(self, "train", replace(self.train, patience=0))
            object.__setattr__(self, "model", with_top(self.model, self.bottoms))
        if self.data is not None:
            if self.active is not None or self.passive:
                raise SettingsError(
                    "Expected either `data` or the tables under `active` and `passive`, not both."
                )
            # Counts are wrong whatever the data; widths are checked against it once it is read.
            part_widths(self.parties, 10**9, active_part=self.active_part)
            return
        # Resolved once: the run's own run.yaml then says how its rows were matched.
        object.__setattr__(self, "align", self.align.resolved(together=not self.is_remote()))
        if self.active is None or not self.passive:
            raise SettingsError(
                "Expected `data`, or a table under `active` and at least one under `passive`."
            )
        names = [party.name for party in self.passive]
        if len(set(names)) < len(names):
            raise SettingsError(f"Expected passive parties of different names but got {names}.")
        check_count(len(names))

    @property
    def is_label_free(self) -> bool:
        """Whether bottoms are made without labels first: blind, and tuned."""
        return self.bottoms != "supervised"

    def under(self, base: Path) -> RunConfig:
        """Return the same run with relative paths of its data taken from `base`."""
        is_file = self.data is not None and self.folder is None and is_file_name(self.data)
        return replace(
            self.with_tables(lambda table: base / table),
            data=str(base / str(self.data)) if is_file else self.data,
            folder=None if self.folder is None else base / self.folder,
            code=base if self.code is None else base / self.code,
            model=self.model.under(base),
        )

    def with_tables(self, path_of: Callable[[Path], Path]) -> RunConfig:
        """Return the same run with the paths of its tables changed."""
        return replace(
            self,
            active=self.active and replace(self.active, table=path_of(self.active.table)),
            passive=[
                replace(party, table=path_of(party.table)) if party.table else party
                for party in self.passive
            ],
        )

    def party_names(self) -> tuple[str, ...]:
        """Return the names of all parties, the active one first.

        >>> RunConfig(data="digits", parties=2).party_names()
        ('active', 'passive-1', 'passive-2')
        """
        if self.data is None:
            return (ACTIVE, *(party.name for party in self.passive))
        parts = part_widths(self.parties, 10**9, active_part=self.active_part)
        return (ACTIVE, *(name for name in parts if name != ACTIVE))

    def views(self) -> int:
        """Return how many views the parties hold together: one each, or what their widths say.

        >>> [RunConfig(data="meshes", parties=parties).views() for parties in (4, [2, 1])]
        [4, 3]
        """
        if isinstance(self.parties, int):
            return self.parties + self.active_part
        widths = self.parties.values() if isinstance(self.parties, Mapping) else self.parties
        return sum(widths)

    def is_remote(self) -> bool:
        """Return whether the passive parties keep their tables on machines of their own."""
        return any(party.table is None for party in self.passive)

    def bottom_of(self, party: str) -> str:
        """Return the name of a party's bottom model."""
        chosen = {p.name: p.bottom for p in self.passive if p.bottom is not None}
        return chosen.get(party) or self.model.bottom_of(party)

    def policy_of(self, party: str) -> Policy:
        """Return a passive party's policy."""
        chosen = {p.name: p.policy for p in self.passive if p.policy is not None}
        return chosen.get(party, self.policy)


def with_top(model: ModelSettings, bottoms: str) -> ModelSettings:
    """Return the models with the top that suits frozen bottoms, where none was chosen."""
    return replace(model, top="mlp") if bottoms == "blind" and model.top is None else model


def check_views(bottoms: str, model: ModelSettings, label_free: LabelFreeSettings) -> None:
    """Raise where views would be asked for that no top is fitted to."""
    if label_free.views and (bottoms != "blind" or (model.top or "").startswith(SKLEARN)):
        what = f"bottoms are {bottoms}" if bottoms != "blind" else f"the top is '{model.top}'"
        raise SettingsError(
            f"Expected no `label_free.views` where {what}: only a top of a blind run that is "
            f"fitted pass by pass can use them."
        )


def check_bottoms(bottoms: str, model: ModelSettings, train: TrainSettings) -> None:
    """Raise where settings of a training together stand beside bottoms that have none."""
    one_of("bottoms", bottoms, BOTTOMS_KINDS)
    if bottoms != "blind" and (model.top or "").startswith(SKLEARN):
        raise SettingsError(
            f"Expected `bottoms` to be blind with top '{model.top}': a classifier of scikit-learn "
            f"passes no gradients on, so that bottoms cannot be trained with it."
        )
    if bottoms == "supervised":
        return
    if train.patience not in (AUTO, 0):
        raise SettingsError(
            f"Expected no `patience` where bottoms are {bottoms}: when a training stops would tell "
            f"partners something of the labels."
        )
    if train.remember:
        raise SettingsError(f"Expected no `remember` where bottoms are {bottoms}; leave it out.")
    default = TrainSettings(seed=train.seed)
    for name in JOINT_SETTINGS if bottoms == "blind" else ():
        if getattr(train, name) != getattr(default, name):
            raise SettingsError(
                f"A blind run is not trained together, so `train.{name}` means nothing to it; set "
                f"`label_free.epochs` and its neighbours for the bottoms, `fit.epochs` and its "
                f"neighbours for the top."
            )
