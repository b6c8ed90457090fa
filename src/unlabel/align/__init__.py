"""The rows the parties share, in one order."""

from unlabel.align.clear import match_ids

__all__ = ["match_ids"]
