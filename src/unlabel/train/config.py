"""A run as data: who holds which table, which models, how to train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from unlabel.align.settings import AlignSettings
from unlabel.data import FeatureChoice, Parties, SplitKind
from unlabel.data.dataset import Columns, Pictures, is_file_name
from unlabel.data.encoding import Missing
from unlabel.data.splits import ACTIVE, MAX_PARTIES, check_name, part_widths
from unlabel.defend import Defence, DefendSettings
from unlabel.defend.settings import named_defences
from unlabel.errors import SettingsError, unknown
from unlabel.models import ModelSettings
from unlabel.party import Policy, WatchSettings
from unlabel.party.optimiser import one_of
from unlabel.signing import PUBLIC, is_hex
from unlabel.train.demands import AuditSettings
from unlabel.train.settings import TrainSettings

FORBID = {"extra": "forbid"}


def check_trust(trust: Mapping[str, str]) -> None:
    """Raise unless every key of a party is a public Ed25519 key in hexadecimal."""
    for party, key in trust.items():
        if not is_hex(key, PUBLIC):
            raise SettingsError(
                f"Expected `trust.{party}` to be a public key of {PUBLIC} small hexadecimal "
                f"digits but got '{str(key)[:40]}'."
            )


def check_text(text: str | None, features: FeatureChoice, categories: Sequence[str]) -> None:
    """Raise where a table has a column of texts and other features beside it."""
    if text is not None and (features != "rest" or categories):
        raise SettingsError(
            f"Expected no `features` and no `categories` beside `text`, since '{text}' is the one "
            f"feature of such a table; leave them out."
        )


@dataclass(frozen=True)
class ActiveTable:
    """The active party's table.

    table       CSV or Parquet file
    id          column of ids
    label       column of labels
    name        what people call this party; in a run it is `active`
    features    rest (every other column), none, or the names of columns
    categories  columns whose numbers are codes of categories; text is taken for one anyway
    missing     refuse missing values, take their mean, mark them beside (flag), or drop their rows
    text        column of texts, which then is the one feature
    """

    table: Path
    label: str
    id: str = "id"
    features: FeatureChoice = "rest"
    categories: tuple[str, ...] = ()
    missing: Missing = "refuse"
    text: str | None = None
    name: str = ACTIVE

    __pydantic_config__ = FORBID

    def __post_init__(self) -> None:
        check_name(self.name)
        one_of("missing", self.missing, get_args(Missing))
        check_text(self.text, self.features, self.categories)


@dataclass(frozen=True)
class PassiveTable:
    """A passive party's table, model and policy.

    name        name of the party and of its subfolder
    table       CSV or Parquet file; none where the party keeps it on a machine of its own
    id          column of ids
    features    rest (every other column) or the names of columns
    bottom      its bottom model, where it differs from the others'
    policy      its own rules, where they differ from the defaults
    defend      what it applies to the embeddings it sends, where that differs from the others'
    categories  columns whose numbers are codes of categories; text is taken for one anyway
    missing     refuse missing values, take their mean, mark them beside (flag), or drop their rows
    text        column of texts, which then is the one feature
    """

    name: str
    table: Path | None = None
    id: str = "id"
    features: FeatureChoice = "rest"
    bottom: str | None = None
    policy: Policy | None = None
    defend: list[str] | None = None
    categories: tuple[str, ...] = ()
    missing: Missing = "refuse"
    text: str | None = None

    __pydantic_config__ = FORBID

    def __post_init__(self) -> None:
        check_name(self.name)
        one_of("missing", self.missing, get_args(Missing))
        check_text(self.text, self.features, self.categories)
        named_defences("passive.defend", self.defend or [], "embeddings")
        if self.name == ACTIVE:
            raise SettingsError(f"Expected a passive party to have another name than '{ACTIVE}'.")


@dataclass(frozen=True)
class RunConfig:
    """A whole run: either `data` split between simulated parties, or the parties' own tables.

    data         a built-in dataset, or an .npz, CSV or Parquet file
    folder       where that file, or the files of a dataset that cannot be fetched, lie
    columns      what the columns of that CSV or Parquet file are
    pictures     how pictures are made of a folder of images or meshes
    parties      how many passive parties, the width of each part, or widths by name
    split        strips of images, views of objects, columns of a table or stretches of texts; what
                 fits by default
    active_part  give the first part of the features to the active party
    active       the active party's own table
    passive      the passive parties' own tables
    align        how rows of tables are matched
    model        which models
    train        how to train
    policy       the passive parties' rules
    defend       what the parties apply to what they send
    watch        how the active party watches what the others send; nothing is watched without it
    audit        what a request must reach to be committed
    code         folder of your own models' modules; that of the configuration file by default
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
    train: TrainSettings = field(default_factory=TrainSettings)
    policy: Policy = field(default_factory=Policy)
    defend: DefendSettings = field(default_factory=DefendSettings)
    watch: WatchSettings | None = None
    audit: AuditSettings = field(default_factory=AuditSettings)
    code: Path | None = None
    trust: dict[str, str] = field(default_factory=dict)

    __pydantic_config__ = FORBID

    def __post_init__(self) -> None:
        check_trust(self.trust)
        if self.data is not None:
            if self.active is not None or self.passive:
                raise SettingsError(
                    "Expected either `data` or the tables under `active` and `passive`, not both."
                )
            # Counts are wrong whatever the data; widths are checked against it once it is read.
            part_widths(self.parties, 10**9, active_part=self.active_part)
            return
        # Settled once: the run's config.yaml then says how its rows were matched.
        object.__setattr__(self, "align", self.align.settled(together=not self.is_remote()))
        if self.active is None or not self.passive:
            raise SettingsError(
                "Expected `data`, or a table under `active` and at least one under `passive`."
            )
        names = [party.name for party in self.passive]
        if len(set(names)) < len(names):
            raise SettingsError(f"Expected passive parties of different names but got {names}.")
        if len(names) > MAX_PARTIES:
            raise SettingsError(
                f"Expected at most {MAX_PARTIES} passive parties, got {len(names)}."
            )

    def expect_parties(self) -> None:
        """Raise where a model is chosen for a party that there is not."""
        for name in self.model.bottoms:
            if name not in self.party_names():
                raise SettingsError(
                    unknown("party under `model.bottoms`", name, self.party_names())
                )

    def under(self, base: Path) -> RunConfig:
        """Return the same run with relative paths of its data taken from `base`."""
        named = self.data is not None and self.folder is None and is_file_name(self.data)
        return replace(
            self,
            data=str(base / str(self.data)) if named else self.data,
            folder=None if self.folder is None else base / self.folder,
            code=base if self.code is None else base / self.code,
            model=self.model.under(base),
            active=self.active and replace(self.active, table=base / self.active.table),
            passive=[
                replace(party, table=base / party.table) if party.table else party
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
        """Return whether the passive parties keep their tables in houses of their own."""
        return any(party.table is None for party in self.passive)

    def bottom_of(self, party: str) -> str:
        """Return the name of a party's bottom model."""
        own = {p.name: p.bottom for p in self.passive if p.bottom is not None}
        return own.get(party) or self.model.bottom_of(party)

    def policy_of(self, party: str) -> Policy:
        """Return a passive party's policy."""
        own = {p.name: p.policy for p in self.passive if p.policy is not None}
        return own.get(party, self.policy)

    def defences_of(self, party: str) -> tuple[Defence, ...]:
        """Return what a party applies to what it sends, in order."""
        if party == ACTIVE:
            return named_defences("defend.gradients", self.defend.gradients, "gradients")
        own = {p.name: p.defend for p in self.passive if p.defend is not None}
        words = own.get(party, self.defend.embeddings)
        return named_defences("defend.embeddings", words, "embeddings")
