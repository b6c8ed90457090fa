"""Whether a model is one whose training was interrupted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def unfinished(facts: Mapping[str, Any]) -> str:
    """Return a sentence where a version's facts say that training had not ended, else nothing."""
    progress = facts.get("progress")
    if not progress or progress.get("finished"):
        return ""
    return f"Training stopped after epoch {len(progress['history'])}"
