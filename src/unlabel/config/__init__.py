"""Every setting once, as plain dataclasses; `config.loader` reads and writes them as YAML."""

from unlabel.config.audit import AuditSettings
from unlabel.config.checks import check_trust, expect, one_of
from unlabel.config.data import (
    ACTIVE,
    ActiveColumns,
    Augment,
    Columns,
    FeatureChoice,
    Missing,
    Parties,
    Pictures,
    SplitKind,
    TableColumns,
)
from unlabel.config.federation import (
    Agreement,
    FederationFile,
    PartyFile,
    PredictSettings,
    ServerSettings,
)
from unlabel.config.forget import PACE, ForgetSettings
from unlabel.config.label_free import BottomsKind, FitSettings, LabelFreeSettings
from unlabel.config.model import Combine, ModelSettings, TextSettings
from unlabel.config.party import SERVES, AlignSettings, DefendSettings, MonitorSettings, Policy
from unlabel.config.run import ActiveTable, PassiveMember, PassiveTable, RunConfig
from unlabel.config.train import (
    AUTO,
    LOOP_SETTINGS,
    MACHINE_SETTINGS,
    MachineSettings,
    OptimiserKind,
    OptimiserSettings,
    Precision,
    Schedule,
    TrainSettings,
)

__all__ = ["ACTIVE", "AUTO", "LOOP_SETTINGS", "MACHINE_SETTINGS", "PACE", "SERVES", "ActiveColumns"]
__all__ += ["ActiveTable", "Agreement", "AlignSettings", "AuditSettings", "Augment", "Columns"]
__all__ += ["Combine", "DefendSettings", "FeatureChoice", "FederationFile", "ForgetSettings"]
__all__ += ["MachineSettings", "Missing", "ModelSettings", "MonitorSettings", "OptimiserKind"]
__all__ += ["OptimiserSettings", "Parties", "PartyFile", "PassiveMember", "PassiveTable"]
__all__ += ["Pictures", "Policy", "Precision", "PredictSettings", "RunConfig", "Schedule"]
__all__ += [
    "BottomsKind",
    "FitSettings",
    "LabelFreeSettings",
    "ServerSettings",
    "SplitKind",
    "TableColumns",
    "TextSettings",
    "TrainSettings",
]
__all__ += ["check_trust", "expect", "one_of"]
