"""One measurement a file: has it really forgotten, and what did the partners learn?"""

from unlabel.audit.compare import compare
from unlabel.audit.facts import AuditFacts, ForgettingCost, Transfer
from unlabel.audit.figures import Estimate, Figure, Measurement, ModelFigure, SeedFigure
from unlabel.audit.measure import MEASURES, Measure
from unlabel.audit.observation import Observation, ObservedRows, observe
from unlabel.audit.privacy import Attack, Bound, Privacy, Total
from unlabel.audit.verdict import MODELS, Finding, NotAVerdict, Verdict, reaches

__all__ = ["MEASURES", "MODELS", "Attack", "AuditFacts", "Bound", "Estimate", "Figure", "Finding"]
__all__ += ["ForgettingCost", "Measure", "Measurement", "ModelFigure", "NotAVerdict", "Observation"]
__all__ += ["ObservedRows", "Privacy", "SeedFigure", "Total", "Transfer", "Verdict", "compare"]
__all__ += ["observe", "reaches"]
