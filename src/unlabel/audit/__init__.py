"""One measurement a file: has it really forgotten, and what did the partners learn?"""

from unlabel.audit.measure import LEVELS, MEASURES, Figure, Level, Measure
from unlabel.audit.membership import attack_success, entropy
from unlabel.audit.probes import linear_probe, nearest_probe, residual
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
    "entropy",
    "linear_probe",
    "look",
    "nearest_probe",
    "reaches",
    "residual",
]
