"""unlabel makes a vertically federated model forget a label.

>>> import unlabel as ul
>>> fed = ul.Federation.local("digits", parties=2, model="convnet")
>>> progress = fed.train(epochs=3)
>>> fed.evaluate().accuracy > 0.9
True
"""

from importlib import import_module
from typing import TYPE_CHECKING

from unlabel._version import __version__

if TYPE_CHECKING:
    from unlabel.defend import DefendSettings
    from unlabel.erasure import Outcome
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
        WireError,
    )
    from unlabel.federation import Federation, Predictions
    from unlabel.models import ModelSettings
    from unlabel.operate.connect import connected
    from unlabel.party import Policy, WatchSettings
    from unlabel.train import Evaluation, RunConfig, TrainSettings

__all__ = [
    "CertificateError",
    "CheckpointError",
    "DataError",
    "DefendSettings",
    "Evaluation",
    "Federation",
    "ForgetDiverged",
    "ForgetError",
    "ModelError",
    "ModelSettings",
    "Outcome",
    "PartyLost",
    "PartyRefused",
    "PartySuspected",
    "Policy",
    "Predictions",
    "PublicMismatch",
    "RunConfig",
    "RunError",
    "SettingsError",
    "TrainSettings",
    "TrainingDiverged",
    "TrainingError",
    "UnlabelError",
    "WatchSettings",
    "WireError",
    "__version__",
    "connected",
]

#: Where each name comes from. They are looked up when they are first asked for: an engine's
#: process that only passes bytes on is not to load PyTorch for it.
_HOMES = {
    "DefendSettings": "unlabel.defend",
    "Outcome": "unlabel.erasure",
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
    "Predictions": "unlabel.federation",
    "ModelSettings": "unlabel.models",
    "connected": "unlabel.operate.connect",
    "Policy": "unlabel.party",
    "WatchSettings": "unlabel.party",
    "Evaluation": "unlabel.train",
    "RunConfig": "unlabel.train",
    "TrainSettings": "unlabel.train",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
