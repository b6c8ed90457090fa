"""The one file that a person writes to set a federation up, and what each party gets of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from unlabel.align.settings import AlignSettings
from unlabel.configfile import parse_settings, read_yaml
from unlabel.data import ACTIVE, FeatureChoice
from unlabel.data.encoding import Missing
from unlabel.defend import DefendSettings
from unlabel.defend.settings import named_defences
from unlabel.errors import SettingsError
from unlabel.models import ModelSettings
from unlabel.operate.agreement import (
    FORBID,
    Agreement,
    PredictSettings,
    ServerSettings,
    check_member,
)
from unlabel.operate.partyfile import PartyFile
from unlabel.party import Policy, WatchSettings
from unlabel.party.optimiser import expect
from unlabel.train import AuditSettings, TrainSettings
from unlabel.train.config import check_text


@dataclass(frozen=True)
class ActiveColumns:
    """The columns of the active party's table.

    label       column of labels
    id          column of ids
    features    rest (every other column), none, or the names of columns
    categories  columns whose numbers are codes of categories; text is taken for one anyway
    missing     refuse missing values, take their mean, mark them beside (flag), or drop their rows
    text        column of texts, which then is the one feature
    """

    label: str
    id: str = "id"
    features: FeatureChoice = "rest"
    categories: tuple[str, ...] = ()
    missing: Missing = "refuse"
    text: str | None = None

    __pydantic_config__ = FORBID

    def __post_init__(self) -> None:
        check_text(self.text, self.features, self.categories)


@dataclass(frozen=True)
class PassiveMember:
    """A passive party, as the one who sets a federation up knows it.

    name        name of the party and of its kit
    id          column of ids
    features    rest (every other column) or the names of columns
    bottom      its bottom model, where it differs from the others'
    policy      rules to begin with; its operator may change them
    defend      what it applies to the embeddings it sends, where that differs from the others'
    categories  columns whose numbers are codes of categories; text is taken for one anyway
    missing     refuse missing values, take their mean, mark them beside (flag), or drop their rows
    text        column of texts, which then is the one feature
    """

    name: str
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
        check_member(self.name)
        check_text(self.text, self.features, self.categories)
        named_defences("passive.defend", self.defend or [], "embeddings")


@dataclass(frozen=True)
class FederationFile:
    """Everything that one person writes to set a federation up.

    active   the active party's columns
    passive  the passive parties
    name     name of the federation
    server   where the parties meet
    model    which models
    train    how to train, without what each party decides for itself
    align    how ids are compared
    defend   what the parties apply to what they send
    watch    how the active party watches what the others send
    audit    what a request must reach to be committed
    timeout  seconds that one call of a party may take
    predict  what `predict` does while a party is down
    days     for how long certificates are valid
    """

    active: ActiveColumns
    passive: list[PassiveMember]
    name: str = "federation"
    server: ServerSettings = field(default_factory=ServerSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    align: AlignSettings = field(default_factory=AlignSettings)
    defend: DefendSettings = field(default_factory=DefendSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    timeout: float = 60.0
    predict: PredictSettings = field(default_factory=PredictSettings)
    days: int = 365

    __pydantic_config__ = FORBID

    def __post_init__(self) -> None:
        self.agreement()
        expect("days", self.days, 1 <= self.days <= 3650, "from 1 to 3650")
        if self.defend.seed is not None:
            raise SettingsError(
                "Expected no `defend.seed`: noise whose seed is known protects nobody; leave it "
                "out."
            )

    def agreement(self) -> Agreement:
        """Return the part that all parties are given."""
        own = {p.name: p.bottom for p in self.passive if p.bottom is not None}
        return Agreement(
            name=self.name,
            server=self.server,
            parties=[ACTIVE, *(party.name for party in self.passive)],
            model=replace(self.model, bottoms={**self.model.bottoms, **own}),
            train=self.train,
            align=self.align,
            timeout=self.timeout,
            predict=self.predict,
        )

    def party_files(self, digest: str) -> dict[str, PartyFile]:
        """Return what each party is given for itself, by its name."""
        files = {
            ACTIVE: PartyFile(
                name=ACTIVE,
                agreement=digest,
                id=self.active.id,
                features=self.active.features,
                categories=self.active.categories,
                missing=self.active.missing,
                text=self.active.text,
                label=self.active.label,
                defend=self.defend.gradients,
                watch=self.watch,
                audit=self.audit,
            )
        }
        for party in self.passive:
            files[party.name] = PartyFile(
                name=party.name,
                agreement=digest,
                id=party.id,
                features=party.features,
                categories=party.categories,
                missing=party.missing,
                text=party.text,
                policy=party.policy,
                defend=self.defend.embeddings if party.defend is None else party.defend,
            )
        return files


def read_federation(path: Path) -> FederationFile:
    """Read what a person wrote to set a federation up."""
    return parse_settings(FederationFile, read_yaml(path), str(path))
