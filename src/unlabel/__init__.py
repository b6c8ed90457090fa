"""unlabel makes a vertically federated model forget a label.

>>> import unlabel as ul
>>> fed = ul.Federation.local("digits", parties=2, model="convnet")
>>> progress = fed.train(epochs=3)
>>> fed.evaluate().accuracy > 0.9
True
"""

from unlabel._version import __version__
from unlabel.defend import DefendSettings
from unlabel.erasure import Outcome
from unlabel.errors import (
    CheckpointError,
    DataError,
    ForgetError,
    ModelError,
    PartyRefused,
    RunError,
    SettingsError,
    TrainingError,
    UnlabelError,
    WireError,
)
from unlabel.federation import Federation, Predictions
from unlabel.models import ModelSettings
from unlabel.party import Policy
from unlabel.train import Evaluation, RunConfig, TrainSettings

__all__ = [
    "CheckpointError",
    "DataError",
    "DefendSettings",
    "Evaluation",
    "Federation",
    "ForgetError",
    "ModelError",
    "ModelSettings",
    "Outcome",
    "PartyRefused",
    "Policy",
    "Predictions",
    "RunConfig",
    "RunError",
    "SettingsError",
    "TrainSettings",
    "TrainingError",
    "UnlabelError",
    "WireError",
    "__version__",
]
