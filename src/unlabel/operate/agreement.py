"""What the parties of a federation agree on, and what each of them decides for itself.

One person writes `federation.yaml`. From it every party gets two files:

    agreement.yaml   the same for all: who meets where, which models, how to train
    party.yaml       its own: its columns, policy, defences, seed and machine

What stands in the second is never told to anybody. A digest of the first goes with everything a
party says about itself, so that two parties never train under different agreements.

    digest = SHA-256 of the file's content as canonical JSON
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import yaml

from unlabel.align.settings import AlignSettings
from unlabel.configfile import parse_settings, plain_settings, read_yaml
from unlabel.data import ACTIVE
from unlabel.data.splits import MAX_PARTIES, check_name
from unlabel.errors import SettingsError
from unlabel.federation import MACHINE_SETTINGS
from unlabel.files import sha256
from unlabel.models import ModelSettings
from unlabel.party.optimiser import expect
from unlabel.signing import canonical
from unlabel.train import TrainSettings

FORBID = {"extra": "forbid"}
#: Settings of a training that each party decides for itself; which labels to remember is nobody
#: else's business.
OWN_SETTINGS = ("seed", "remember", *MACHINE_SETTINGS)
#: Names that mean something else where the parties meet, or in the folder of the kits.
TAKEN = ("server", "admin", "authority", "relay")
#: The engine and certificates know names of these letters only, and no longer ones.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_HOST = re.compile(
    r"([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
)
LONGEST_HOST = 64
MAX_PORT = 65_535


@dataclass(frozen=True)
class ServerSettings:
    """Where the parties meet: the engine's server, which runs at the active party.

    host  name or address under which the passive parties reach it
    port  the one port it listens on
    """

    host: str = "localhost"
    port: int = 8002

    __pydantic_config__ = FORBID

    def __post_init__(self) -> None:
        known = _HOST.fullmatch(self.host) is not None and len(self.host) <= LONGEST_HOST
        expect("server.host", self.host, known, f"a host of up to {LONGEST_HOST} letters")
        expect("server.port", self.port, 1 <= self.port <= MAX_PORT, f"from 1 to {MAX_PORT}")


@dataclass(frozen=True)
class PredictSettings:
    """What `predict` does while a party is down.

    missing  refuse: say so and answer nothing; without: answer from the others, and mark it
    """

    missing: Literal["refuse", "without"] = "refuse"

    __pydantic_config__ = FORBID


@dataclass(frozen=True)
class Agreement:
    """What all parties of a federation agreed on; the same file in every kit.

    name     name of the federation
    server   where the parties meet
    parties  the names of all parties, the active one first
    model    which models
    train    how to train, without what each party decides for itself
    align    how ids are compared
    timeout  seconds that one call of a party may take
    predict  what `predict` does while a party is down
    """

    name: str
    server: ServerSettings
    parties: list[str]
    model: ModelSettings
    train: TrainSettings
    align: AlignSettings = field(default_factory=AlignSettings)
    timeout: float = 60.0
    predict: PredictSettings = field(default_factory=PredictSettings)

    __pydantic_config__ = FORBID

    def __post_init__(self) -> None:
        expect("name", self.name, _NAME.fullmatch(self.name) is not None, "letters, digits, -, _")
        expect("timeout", self.timeout, self.timeout > 0 and math.isfinite(self.timeout), "above 0")
        _check_members(self.parties, self.server)
        strange = sorted(self.model.bottoms.keys() - set(self.parties))
        if strange:
            raise SettingsError(f"`model.bottoms` names '{strange[0]}', which is no party.")
        object.__setattr__(self, "align", self.align.settled(together=False))
        if self.align.method != "psi":
            raise SettingsError(
                f"Expected `align.method` to be psi but got {self.align.method}: the tables of a "
                f"federation lie in different houses."
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

    def dump(self) -> str:
        """Return the agreement as YAML that `read_agreement` reads back."""
        plain = plain_settings(self)
        plain["train"] = {k: v for k, v in plain["train"].items() if k not in OWN_SETTINGS}
        return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)

    def digest(self) -> str:
        """Return the digest of the agreement as it is written."""
        return digest_of(yaml.safe_load(self.dump()))


def read_agreement(path: Path) -> tuple[Agreement, str]:
    """Read an agreement; return it with its digest.

    The digest is that of what stands in the file, not of what this version makes of it: settings
    that a later version adds do not break an agreement made before.
    """
    raw = read_yaml(path)
    return parse_settings(Agreement, raw, str(path)), digest_of(raw)


def digest_of(raw: object) -> str:
    """Return the digest of plain data.

    >>> digest_of({"b": 1, "a": 2}) == digest_of({"a": 2, "b": 1})
    True
    """
    try:
        return sha256(canonical(raw))
    except (TypeError, ValueError) as error:
        raise SettingsError("An agreement holds text, numbers, lists and mappings only.") from error


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
    if not 1 <= len(passive) <= MAX_PARTIES:
        raise SettingsError(f"Expected 1 to {MAX_PARTIES} passive parties, got {len(passive)}.")
    for name in passive:
        check_member(name)
        if name.lower() == server.host.lower():
            # Its certificate would pass for the server's.
            raise SettingsError(f"Expected party '{name}' to have another name than `server.host`.")
    if len({name.lower() for name in passive}) < len(passive):
        raise SettingsError(f"Expected passive parties of different names but got {passive}.")
