"""`federation.yaml`: a federation between organisations, and what each party gets of it.

    federation.yaml  what the one person writes who sets the federation up
    agreement.yaml   the same in every kit: who meets where, which models, how to train
    party.yaml       a party's own, shown to nobody: its columns, policy, defences, seed and machine

Parties show each other the agreement's digest, so that no two train under different ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal, get_args

from unlabel.config.audit import AuditSettings
from unlabel.config.checks import check_trust, expect, one_of
from unlabel.config.data import ACTIVE, ActiveColumns, TableColumns, check_count, check_name
from unlabel.config.label_free import (
    BottomsKind,
    FitSettings,
    LabelFreeSettings,
    suited_to_tables,
)
from unlabel.config.model import ModelSettings
from unlabel.config.party import AlignSettings, DefendSettings, MonitorSettings, Policy
from unlabel.config.run import PassiveMember, check_bottoms, check_views, with_top
from unlabel.config.train import OWN_SETTINGS, MachineSettings, TrainSettings
from unlabel.errors import SettingsError, unknown

#: Names that mean something else where the parties meet, or in the folder of the kits.
TAKEN = ("server", "admin", "authority", "relay")
#: The engine and certificates know names of these letters only, and no longer ones.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = re.compile(rf"({_LABEL}\.)*{_LABEL}")
LONGEST_HOST = 64
MAX_PORT = 65_535
Carrier = Literal["direct", "flare"]
#: MiB; a frame tells its length in 32 bits.
MOST_FRAME = 4095


@dataclass(frozen=True)
class ServerSettings:
    """Where the parties meet, which is at the active party, and what carries their messages.

    host     name or address under which the passive parties reach it
    port     the one port that they call
    carrier  direct: one connection from each passive party; flare: the jobs of NVIDIA FLARE
    frame    MiB of the longest frame that either end takes
    """

    host: str = "localhost"
    port: int = 8002
    carrier: Carrier = "direct"
    frame: int = 256

    def __post_init__(self) -> None:
        known = _HOST.fullmatch(self.host) is not None and len(self.host) <= LONGEST_HOST
        expect("server.host", self.host, known, f"a host of up to {LONGEST_HOST} letters")
        expect("server.port", self.port, 1 <= self.port <= MAX_PORT, f"from 1 to {MAX_PORT}")
        one_of("server.carrier", self.carrier, get_args(Carrier))
        expect("server.frame", self.frame, 1 <= self.frame <= MOST_FRAME, f"from 1 to {MOST_FRAME}")

    @property
    def largest(self) -> int:
        """Bytes of the longest frame: of its messages, and some for what is around them."""
        return self.frame * 2**20 + 4096


@dataclass(frozen=True)
class PredictSettings:
    """What `predict` does while a party is down.

    missing  refuse: say so and answer nothing; without: answer from the others, and mark it
    """

    missing: Literal["refuse", "without"] = "refuse"


@dataclass(frozen=True, kw_only=True)
class SharedSettings:
    """What all parties of a federation share.

    name     name of the federation
    server   where the parties meet
    model    which models
    bottoms  supervised, blind or tuned: whether bottoms learn from labels, and when
    label_free  how bottoms are made without labels, where they are blind or tuned
    fit      how the top of a blind run is fitted
    train    how to train together, without what each party decides for itself
    align    how ids are compared
    timeout  seconds that one call of a party may take
    predict  what `predict` does while a party is down
    """

    name: str = "federation"
    server: ServerSettings = field(default_factory=ServerSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    bottoms: BottomsKind = "supervised"
    label_free: LabelFreeSettings = field(default_factory=LabelFreeSettings)
    fit: FitSettings = field(default_factory=FitSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    align: AlignSettings = field(default_factory=AlignSettings)
    timeout: float = 60.0
    predict: PredictSettings = field(default_factory=PredictSettings)


@dataclass(frozen=True, kw_only=True)
class Agreement(SharedSettings):
    """What all parties of a federation agreed on.

    parties  all names, `active` first
    trust    public signing key of every party, none in kits of 0.7 and before
    authority  public key under which the files of all kits are signed, none up to 0.10
    """

    parties: list[str]
    trust: dict[str, str] = field(default_factory=dict)
    authority: str = ""

    def __post_init__(self) -> None:
        expect("name", self.name, _NAME.fullmatch(self.name) is not None, "letters, digits, -, _")
        expect("timeout", self.timeout, self.timeout > 0 and math.isfinite(self.timeout), "above 0")
        _check_members(self.parties, self.server)
        check_bottoms(self.bottoms, self.model, self.train)
        check_views(self.bottoms, self.model, self.label_free)
        object.__setattr__(self, "model", with_top(self.model, self.bottoms))
        check_trust({**self.trust, **({"authority": self.authority} if self.authority else {})})
        if self.trust and self.trust.keys() != set(self.parties):
            raise SettingsError(
                f"Expected `trust` to hold a key of each of {', '.join(self.parties)} but got "
                f"{', '.join(self.trust)}."
            )
        strange = sorted(self.model.bottoms.keys() - set(self.parties))
        if strange:
            raise SettingsError(f"`model.bottoms` names '{strange[0]}', which is no party.")
        object.__setattr__(self, "align", self.align.resolved(together=False))
        if self.align.method != "psi":
            raise SettingsError(
                f"Expected `align.method` to be psi but got {self.align.method}: the tables of a "
                f"federation lie with different organisations."
            )
        default = TrainSettings()
        for name in OWN_SETTINGS:
            if getattr(self.train, name) != getattr(default, name):
                raise SettingsError(
                    f"Expected no `train.{name}`: each party sets its own `{name}` in party.yaml."
                )

    @property
    def passive(self) -> tuple[str, ...]:
        """The names of the passive parties."""
        return tuple(self.parties[1:])


@dataclass(frozen=True, kw_only=True)
class PartyFile(TableColumns, MachineSettings):
    """What a party of a federation decides for itself.

    name       name of the party
    agreement  digest of the agreement that this party takes part in
    label      column of labels; the active party's alone
    policy     what a passive party serves; the defaults if not given
    defend     what it applies to what it sends: gradients or embeddings
    monitor    how it watches for anomalies in what the others send; the active party's alone
    audit      what a request must reach to be committed; the active party's alone
    seed       names its random draws; a secret one of its own if not given
    remember   numbers of labels that `amnesiac` may forget later; the active party's alone
    code       folder of its own models' modules, taken from the kit; the kit if not given
    port       on which the active party listens, where calls to `server.port` are passed on to it
    """

    name: str
    agreement: str
    label: str | None = None
    policy: Policy | None = None
    defend: list[str] = field(default_factory=list)
    monitor: MonitorSettings | None = None
    audit: AuditSettings | None = None
    seed: int | None = None
    remember: tuple[int, ...] = ()
    code: Path | None = None
    port: int | None = None

    def __post_init__(self) -> None:
        TableColumns.__post_init__(self)
        self.training(TrainSettings(), self.seed or 0)  # says what is wrong with a setting
        known = self.port is None or 1 <= self.port <= MAX_PORT
        expect("port", self.port, known, f"from 1 to {MAX_PORT}")
        if self.is_active:
            if self.label is None:
                raise SettingsError("`label` is missing: the active party has the labels.")
            self._expect_none("policy", "a passive party's")
        else:
            for setting in ("label", "audit", "remember", "port"):
                self._expect_none(setting, "the active party's")
            if self.features == "none":
                raise SettingsError("Expected a passive party to have features but got none.")

    @property
    def is_active(self) -> bool:
        """Whether this is the party with the labels."""
        return self.name == ACTIVE

    def training(self, agreed: TrainSettings, seed: int) -> TrainSettings:
        """Return the agreed settings together with this party's own."""
        decided = {name: getattr(self, name) for name in OWN_SETTINGS if name != "seed"}
        return replace(agreed, seed=seed, **decided)

    def _expect_none(self, setting: str, whose: str) -> None:
        if getattr(self, setting) not in (None, ()):
            raise SettingsError(f"Expected no `{setting}` here: it is {whose} setting.")


@dataclass(frozen=True, kw_only=True)
class FederationFile(SharedSettings):
    """Everything that one person writes to set a federation up.

    active   the active party's columns
    passive  the passive parties
    defend   what the parties apply to what they send
    monitor  how the active party watches for anomalies in what the others send
    audit    what a request must reach to be committed
    trust    public signing keys of parties that made their own; the others get one in their kit
    days     for how long certificates are valid
    """

    active: ActiveColumns
    passive: list[PassiveMember]
    defend: DefendSettings = field(default_factory=DefendSettings)
    monitor: MonitorSettings = field(default_factory=MonitorSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    trust: dict[str, str] = field(default_factory=dict)
    days: int = 365

    def __post_init__(self) -> None:
        parties = self.agreement().parties
        check_trust(self.trust)
        for name in self.trust.keys() - set(parties):
            raise SettingsError(unknown("party under `trust`", name, parties))
        expect("days", self.days, 1 <= self.days <= 3650, "from 1 to 3650")
        if self.defend.seed is not None:
            raise SettingsError("Expected no `defend.seed`: noise of a known seed protects nobody.")

    def agreement(self, trust: Mapping[str, str] | None = None, authority: str = "") -> Agreement:
        """Return the part that all parties are given.

        trust      every party's public signing key, once all are made
        authority  the public key that signs the files of kits
        """
        chosen = {p.name: p.bottom for p in self.passive if p.bottom is not None}
        shared = {each.name: getattr(self, each.name) for each in fields(SharedSettings)}
        shared["model"] = replace(self.model, bottoms={**self.model.bottoms, **chosen})
        if self.bottoms != "supervised":
            # Here, where all are known: each party sees its own columns alone.
            texts = any(each.text is not None for each in (self.active, *self.passive))
            suits = suited_to_tables(self.bottoms, texts=texts, frozen=self.model.text.frozen)
            shared["label_free"] = self.label_free.resolved(suits)
        parties = [ACTIVE, *(party.name for party in self.passive)]
        return Agreement(parties=parties, trust=dict(trust or {}), authority=authority, **shared)

    def party_files(self, digest: str) -> dict[str, PartyFile]:
        """Return what each party is given for itself, by its name."""
        files = {
            ACTIVE: PartyFile(
                name=ACTIVE,
                agreement=digest,
                label=self.active.label,
                defend=self.defend.gradients,
                monitor=self.monitor,
                audit=self.audit,
                **self.active.columns(),
            )
        }
        for party in self.passive:
            files[party.name] = PartyFile(
                name=party.name,
                agreement=digest,
                policy=party.policy,
                defend=self.defend.embeddings if party.defend is None else party.defend,
                **party.columns(),
            )
        return files


def check_member(name: str) -> None:
    """Raise unless a passive party can have this name in a federation."""
    check_name(name)
    if _NAME.fullmatch(name) is None:
        raise SettingsError(
            f"Expected a party's name of up to 63 of the letters A-Z, a-z, 0-9, '-' and '_', with "
            f"a letter or digit at both ends, but got '{name}'."
        )
    if name.lower() in (ACTIVE, *TAKEN):
        raise SettingsError(f"Expected a party to have another name than '{name}', which is taken.")


def _check_members(parties: Sequence[str], server: ServerSettings) -> None:
    if not parties or parties[0] != ACTIVE:
        raise SettingsError(f"Expected the first party to be '{ACTIVE}' but got {list(parties)}.")
    passive = list(parties[1:])
    check_count(len(passive))
    for name in passive:
        check_member(name)
        if name.lower() == server.host.lower():
            # Its certificate would pass for the server's.
            raise SettingsError(f"Expected party '{name}' to have another name than `server.host`.")
    if len({name.lower() for name in passive}) < len(passive):
        raise SettingsError(f"Expected passive parties of different names but got {passive}.")
