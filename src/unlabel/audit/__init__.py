"""One measurement a file: has it really forgotten, and what did the partners learn?"""

from unlabel.audit.compare import compare
from unlabel.audit.measure import LEVELS, MEASURES, Figure, Level, Measure
from unlabel.audit.membership import attack_success, entropy
from unlabel.audit.probes import linear_probe, nearest_probe
from unlabel.audit.residual import residual, residual_knowledge
from unlabel.audit.seen import Part, Seen, look
from unlabel.audit.verdict import MODELS, Finding, Verdict, reaches

__all__ = [
    "LEVELS",
    "MEASURES",
    "MODELS",
    "Figure",
    "Finding",
    "Level",
    "Measure",
    "Part",
    "Seen",
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
