"""The rows the parties share, in one order."""

from unlabel.align.people import People
from unlabel.align.psi_protocol import Alignment, align, known_alignment
from unlabel.align.tables import match_ids, match_privately

__all__ = ["Alignment", "People", "align", "known_alignment", "match_ids", "match_privately"]
