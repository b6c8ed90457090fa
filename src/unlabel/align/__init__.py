"""The rows the parties share, in one order."""

from unlabel.align.clear import match_ids
from unlabel.align.meeting import Alignment, align
from unlabel.align.people import People
from unlabel.align.settings import AlignSettings
from unlabel.align.tables import match_privately

__all__ = [
    "AlignSettings",
    "Alignment",
    "People",
    "align",
    "match_ids",
    "match_privately",
]
