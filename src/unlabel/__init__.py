"""unlabel makes a vertically federated model forget a label.

>>> import unlabel as ul
>>> fed = ul.Federation.local("digits", parties=2, model="convnet")
>>> progress = fed.train(epochs=3)
>>> fed.evaluate().accuracy > 0.9
True
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from unlabel._version import __version__

if TYPE_CHECKING:
    from unlabel.audit import AuditFacts, Measurement, Privacy
    from unlabel.audit.verdict import Finding, Verdict
    from unlabel.defend import DefendSettings
    from unlabel.errors import (
        CertificateError,
        CheckpointError,
        DataError,
        ForgetDiverged,
        ForgetError,
        ModelError,
        PartyLost,
        PartyRefused,
        PartySuspected,
        PublicMismatch,
        RunError,
        SettingsError,
        TrainingDiverged,
        TrainingError,
        UnlabelError,
        UsageError,
        WireError,
    )
    from unlabel.federation import Federation
    from unlabel.forget import (
        Change,
        ForgetSettings,
        Outcome,
        PartyStatus,
        Result,
        Slot,
        Status,
        Work,
    )
    from unlabel.models import ModelSettings
    from unlabel.operate.connect import RemoteFederation, connected
    from unlabel.party import LedgerEntry, Policy, WatchSettings
    from unlabel.report.annex import make_auditor_keys
    from unlabel.report.checks import Checks
    from unlabel.report.service import Certified, Report
    from unlabel.train import AuditSettings, Epoch, Evaluation, Progress, RunConfig, TrainSettings
    from unlabel.train.predictions import Predictions
    from unlabel.verification import verify

# What a party refuses is raised as an error; whoever wants the log adds a handler.
logging.getLogger("unlabel").addHandler(logging.NullHandler())

__all__ = [
    "AuditFacts",
    "AuditSettings",
    "CertificateError",
    "Certified",
    "Change",
    "CheckpointError",
    "Checks",
    "DataError",
    "DefendSettings",
    "Epoch",
    "Evaluation",
    "Federation",
    "Finding",
    "ForgetDiverged",
    "ForgetError",
    "ForgetSettings",
    "LedgerEntry",
    "Measurement",
    "ModelError",
    "ModelSettings",
    "Outcome",
    "PartyLost",
    "PartyRefused",
    "PartyStatus",
    "PartySuspected",
    "Policy",
    "Predictions",
    "Privacy",
    "Progress",
    "PublicMismatch",
    "RemoteFederation",
    "Report",
    "Result",
    "RunConfig",
    "RunError",
    "SettingsError",
    "Slot",
    "Status",
    "TrainSettings",
    "TrainingDiverged",
    "TrainingError",
    "UnlabelError",
    "UsageError",
    "Verdict",
    "WatchSettings",
    "WireError",
    "Work",
    "__version__",
    "connected",
    "make_auditor_keys",
    "verify",
]

#: Where each name comes from. They are looked up when they are first asked for: a command that only
#: shows its help, or an engine's process that only passes bytes on, is not to load PyTorch for it.
_HOMES = {
    "UsageError": "unlabel.errors",
    "make_auditor_keys": "unlabel.report.annex",
    "RemoteFederation": "unlabel.operate.connect",
    "AuditFacts": "unlabel.audit",
    "Privacy": "unlabel.audit",
    "Measurement": "unlabel.audit",
    "Finding": "unlabel.audit.verdict",
    "Verdict": "unlabel.audit.verdict",
    "DefendSettings": "unlabel.defend",
    "CertificateError": "unlabel.errors",
    "CheckpointError": "unlabel.errors",
    "DataError": "unlabel.errors",
    "ForgetDiverged": "unlabel.errors",
    "ForgetError": "unlabel.errors",
    "ModelError": "unlabel.errors",
    "PartyLost": "unlabel.errors",
    "PartyRefused": "unlabel.errors",
    "PartySuspected": "unlabel.errors",
    "PublicMismatch": "unlabel.errors",
    "RunError": "unlabel.errors",
    "SettingsError": "unlabel.errors",
    "TrainingDiverged": "unlabel.errors",
    "TrainingError": "unlabel.errors",
    "UnlabelError": "unlabel.errors",
    "WireError": "unlabel.errors",
    "Federation": "unlabel.federation",
    "Change": "unlabel.forget",
    "ForgetSettings": "unlabel.forget",
    "Outcome": "unlabel.forget",
    "PartyStatus": "unlabel.forget",
    "Result": "unlabel.forget",
    "Slot": "unlabel.forget",
    "Status": "unlabel.forget",
    "Work": "unlabel.forget",
    "ModelSettings": "unlabel.models",
    "connected": "unlabel.operate.connect",
    "LedgerEntry": "unlabel.party",
    "Policy": "unlabel.party",
    "WatchSettings": "unlabel.party",
    "Checks": "unlabel.report.checks",
    "Certified": "unlabel.report.service",
    "Report": "unlabel.report.service",
    "AuditSettings": "unlabel.train",
    "Epoch": "unlabel.train",
    "Evaluation": "unlabel.train",
    "Progress": "unlabel.train",
    "RunConfig": "unlabel.train",
    "TrainSettings": "unlabel.train",
    "Predictions": "unlabel.train.predictions",
    "verify": "unlabel.verification",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
