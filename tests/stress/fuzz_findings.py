"""What a fuzz finds: counts, and every rule that was broken, with the bytes that did it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from unlabel.errors import WireError
from unlabel.wire import Limits, Message, decode

#: Violations that are kept; a party that breaks one rule tends to break it often.
KEPT = 20


@dataclass
class Findings:
    """What a fuzz has found so far."""

    inputs: int = 0
    decoded: int = 0
    refused: int = 0
    served: Counter[str] = field(default_factory=Counter)
    violations: list[dict[str, Any]] = field(default_factory=list)
    slowest: float = 0.0

    def blame(self, party: str, what: str, data: bytes) -> None:
        """Note a violation with the input that brought it about."""
        if len(self.violations) < KEPT:
            self.violations.append(
                {"party": party, "what": what, "bytes": len(data), "input": data[:200].hex()}
            )


def read(data: bytes, limits: Limits, where: str, result: Findings) -> Message | None:
    """Decode; anything but a message or a `WireError` is a violation."""
    try:
        return decode(data, limits)
    except WireError:
        return None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic inside safetensors is not even an Exception
        result.blame(where, f"decode raised {error!r}", data)
        return None
