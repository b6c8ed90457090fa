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

if TYPE_CHECKING:
    from unlabel.audit import AuditFacts, Measurement, Privacy
    from unlabel.audit.verdict import Finding, Verdict
    from unlabel.config import (
        AuditSettings,
        DefendSettings,
        FitSettings,
        LabelFreeSettings,
        ModelSettings,
        MonitorSettings,
        Policy,
        RunConfig,
        TrainSettings,
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
    from unlabel.forget.copies import Copy
    from unlabel.forget.deferred import Deferred
    from unlabel.party import LedgerEntry
    from unlabel.remote.connect import RemoteFederation
    from unlabel.report.annex import make_auditor_keys
    from unlabel.report.checks import Checks
    from unlabel.report.service import Certified, Report
    from unlabel.train import Epoch, Evaluation, Progress
    from unlabel.train.predictions import Predictions
    from unlabel.verification import verify

# What a party refuses is raised as an error; whoever wants the log adds a handler.
logging.getLogger("unlabel").addHandler(logging.NullHandler())

__all__ = ["AuditFacts", "AuditSettings", "CertificateError", "Certified", "Change"]
__all__ += ["CheckpointError", "Checks", "Copy", "DataError", "DefendSettings", "Deferred"]
__all__ += ["Epoch", "Evaluation"]
__all__ += ["Federation", "Finding", "FitSettings", "ForgetDiverged", "ForgetError"]
__all__ += ["ForgetSettings", "LabelFreeSettings"]
__all__ += ["LedgerEntry", "Measurement", "ModelError", "ModelSettings", "MonitorSettings"]
__all__ += ["Outcome", "PartyLost", "PartyRefused", "PartyStatus", "PartySuspected", "Policy"]
__all__ += ["Predictions", "Privacy", "Progress", "PublicMismatch", "RemoteFederation", "Report"]
__all__ += ["Result", "RunConfig", "RunError", "SettingsError", "Slot", "Status", "TrainSettings"]
__all__ += ["TrainingDiverged", "TrainingError", "UnlabelError", "UsageError", "Verdict"]
__all__ += ["WireError", "Work", "__version__", "make_auditor_keys", "verify"]

#: Where the other names come from. They are looked up when they are first used: a command that only
#: shows its help, or an engine's process that only passes bytes on, does not load PyTorch for it.
_MODULES = {
    "unlabel.audit": "AuditFacts Measurement Privacy",
    "unlabel.audit.verdict": "Finding Verdict",
    "unlabel.config": "AuditSettings DefendSettings FitSettings ForgetSettings LabelFreeSettings "
    "ModelSettings MonitorSettings Policy RunConfig TrainSettings",
    "unlabel.federation": "Federation",
    "unlabel.forget": "Change Outcome PartyStatus Result Slot Status Work",
    "unlabel.forget.copies": "Copy",
    "unlabel.forget.deferred": "Deferred",
    "unlabel.party": "LedgerEntry",
    "unlabel.remote.connect": "RemoteFederation",
    "unlabel.report.annex": "make_auditor_keys",
    "unlabel.report.checks": "Checks",
    "unlabel.report.service": "Certified Report",
    "unlabel.train": "Epoch Evaluation Progress",
    "unlabel.train.predictions": "Predictions",
    "unlabel.verification": "verify",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
