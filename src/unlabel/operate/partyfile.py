"""What a party of a federation decides for itself: `party.yaml` in its kit, told to nobody."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from unlabel.configfile import parse_settings, plain_settings, read_yaml
from unlabel.data import ACTIVE, FeatureChoice
from unlabel.data.encoding import Missing
from unlabel.defend.settings import named_defences
from unlabel.errors import SettingsError
from unlabel.operate.agreement import FORBID, OWN_SETTINGS
from unlabel.party import Policy, Precision, WatchSettings
from unlabel.train import AuditSettings, TrainSettings
from unlabel.train.config import check_text


@dataclass(frozen=True)
class PartyFile:
    """What a party decides for itself.

    name           name of the party
    agreement      digest of the agreement that this party takes part in
    id             column of ids
    features       rest (every other column), none (active party only), or the names of columns
    categories     columns whose numbers are codes of categories; text is taken for one anyway
    missing        refuse missing values, take their mean, mark them (flag), or drop their rows
    text           column of texts, which then is the one feature
    label          column of labels; the active party's alone
    policy         what a passive party serves; the defaults if not given
    defend         what it applies to what it sends: gradients or embeddings
    watch          how it watches what the others send; the active party's alone
    audit          what a request must reach to be committed; the active party's alone
    seed           names its random draws; a secret one of its own if not given
    device         cpu, cuda, or auto for whatever there is
    precision      float32, or bf16 for faster matrix products on a GPU
    graphs         replay passes as CUDA graphs
    deterministic  use only repeatable kernels on a GPU
    save_every     epochs between two checkpoints
    remember       numbers of labels that `amnesiac` may forget later; the active party's alone
    code           folder of its own models' modules, taken from the kit; the kit if not given
    """

    name: str
    agreement: str
    id: str = "id"
    features: FeatureChoice = "rest"
    categories: tuple[str, ...] = ()
    missing: Missing = "refuse"
    text: str | None = None
    label: str | None = None
    policy: Policy | None = None
    defend: list[str] = field(default_factory=list)
    watch: WatchSettings | None = None
    audit: AuditSettings | None = None
    seed: int | None = None
    device: str = "cpu"
    precision: Precision = "float32"
    graphs: bool = False
    deterministic: bool = False
    save_every: int = 1
    remember: tuple[int, ...] = ()
    code: Path | None = None

    __pydantic_config__ = FORBID

    def __post_init__(self) -> None:
        check_text(self.text, self.features, self.categories)
        self.training(TrainSettings(), self.seed or 0)  # says what is wrong with a setting
        named_defences("defend", self.defend, "gradients" if self.is_active else "embeddings")
        if self.is_active:
            if self.label is None:
                raise SettingsError("`label` is missing: the active party has the labels.")
            self._expect_none("policy", "a passive party's")
        else:
            self._expect_none("label", "the active party's")
            self._expect_none("audit", "the active party's")
            if self.remember:
                raise SettingsError(
                    "Expected no `remember` here: it is the active party's setting."
                )
            if self.features == "none":
                raise SettingsError("Expected a passive party to have features but got none.")

    @property
    def is_active(self) -> bool:
        """Whether this is the party with the labels."""
        return self.name == ACTIVE

    def training(self, agreed: TrainSettings, seed: int) -> TrainSettings:
        """Return the agreed settings together with this party's own."""
        own = {name: getattr(self, name) for name in OWN_SETTINGS if name != "seed"}
        return replace(agreed, seed=seed, **own)

    def dump(self) -> str:
        """Return the file as YAML that `read_party` reads back."""
        plain = plain_settings(self)
        # What is left out is as the version that reads the file has it by default.
        for name, default in (
            ("policy", Policy),
            ("watch", WatchSettings),
            ("audit", AuditSettings),
        ):
            if getattr(self, name) == default():
                del plain[name]
        return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)

    def _expect_none(self, setting: str, whose: str) -> None:
        if getattr(self, setting) not in (None, ()):
            raise SettingsError(f"Expected no `{setting}` here: it is {whose} setting.")


def read_party(path: Path) -> PartyFile:
    """Read a party's own file."""
    return parse_settings(PartyFile, read_yaml(path), str(path))
