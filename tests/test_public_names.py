"""What `import unlabel` offers: adding or removing a name is a decision, not an accident."""

from __future__ import annotations

import inspect

import unlabel
from unlabel.errors import UnlabelError

PUBLIC = [
    "AuditFacts",
    "AuditSettings",
    "CertificateError",
    "Certified",
    "Change",
    "CheckpointError",
    "Checks",
    "Copy",
    "DataError",
    "DefendSettings",
    "Deferred",
    "Epoch",
    "Evaluation",
    "Federation",
    "Finding",
    "FitSettings",
    "ForgetDiverged",
    "ForgetError",
    "ForgetSettings",
    "LabelFreeSettings",
    "LedgerEntry",
    "Measurement",
    "ModelError",
    "ModelSettings",
    "MonitorSettings",
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
    "WireError",
    "Work",
    "__version__",
    "make_auditor_keys",
    "verify",
]


def test_the_public_names_are_those_that_are_documented() -> None:
    assert sorted(unlabel.__all__) == PUBLIC


def test_every_public_name_exists_and_explains_itself() -> None:
    for name in PUBLIC:
        thing = getattr(unlabel, name)
        assert name == "__version__" or inspect.getdoc(thing), name


def test_every_error_is_public() -> None:
    classes = [thing for thing in vars(unlabel.errors).values() if inspect.isclass(thing)]
    errors = {kind.__name__ for kind in classes if kind.__module__ == "unlabel.errors"}
    assert len(errors) >= 9
    assert errors <= set(PUBLIC)
    assert all(issubclass(getattr(unlabel, name), UnlabelError) for name in errors)
