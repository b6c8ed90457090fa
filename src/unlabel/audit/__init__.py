"""One measurement a file: has it really forgotten, and what did the partners learn?"""

from unlabel.audit.compare import compare
from unlabel.audit.facts import AuditFacts, ForgettingCost, Transfer
from unlabel.audit.measure import LEVELS, MEASURES, Estimate, Figure, Level, Measure
from unlabel.audit.measurement import Measurement, ModelFigure, SeedFigure
from unlabel.audit.membership import attack_success, entropy
from unlabel.audit.privacy import Attack, Bound, Privacy, Total
from unlabel.audit.probes import linear_probe, nearest_probe
from unlabel.audit.residual import residual, residual_knowledge
from unlabel.audit.seen import Part, Seen, look
from unlabel.audit.verdict import MODELS, Finding, NotAVerdict, Verdict, reaches

__all__ = [
    "LEVELS",
    "MEASURES",
    "MODELS",
    "Attack",
    "AuditFacts",
    "Bound",
    "Estimate",
    "Figure",
    "Finding",
    "ForgettingCost",
    "Level",
    "Measure",
    "Measurement",
    "ModelFigure",
    "NotAVerdict",
    "Part",
    "Privacy",
    "SeedFigure",
    "Seen",
    "Total",
    "Transfer",
    "Verdict",
    "attack_success",
    "compare",
    "entropy",
    "linear_probe",
    "look",
    "nearest_probe",
    "reaches",
    "residual",
    "residual_knowledge",
]
