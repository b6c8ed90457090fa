"""One measurement a file: has it really forgotten?"""

from unlabel.audit.membership import attack_success, entropy
from unlabel.audit.probes import linear_probe, nearest_probe, residual

__all__ = ["attack_success", "entropy", "linear_probe", "nearest_probe", "residual"]
