"""What a record is to show of our default method, and whether it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unlabel.bench.comparison_summary import GONE, RETRAINED, find
from unlabel.forget.settings import DEFAULT_METHOD

#: Points of D_r that may be lost against the original.
LOSS = 1.0
#: The least share of the retrained model's ASR that is still no sign of forgetting too much.
LEAST = 0.5


@dataclass(frozen=True)
class Aim:
    """One aim: its name, whether it holds (None where it was not measured), and the figures."""

    name: str
    holds: bool | None
    sentence: str


def aims(summary: Sequence[dict[str, Any]], method: str = DEFAULT_METHOD) -> list[Aim]:
    """Return the aims for a method of a comparison, by means over seeds.

    D_r   after >= before - 1 point
    y_u   <= 1 %
    ASR   half of the retrained model's <= ASR <= the retrained model's
    """
    ours = find(summary, method)
    before, retrained = find(summary, "original"), find(summary, RETRAINED)
    kept, was, other = (_mean(entry, "retained") for entry in (ours, before, retrained))
    left = _mean(ours, "forgotten")
    attack, aim = _mean(ours, "asr"), _mean(retrained, "asr")
    found = []
    if kept is None or was is None:
        found.append(_unmeasured("D_r", method))
    else:
        beside = "" if other is None else f", retrained {other:.2f}"
        text = f"D_r {kept:.2f} after {was:.2f}{beside}: {kept - was:+.2f} points"
        found.append(Aim("D_r", kept >= was - LOSS, text))
    if left is None:
        found.append(_unmeasured("y_u", method))
    else:
        found.append(Aim("y_u", left <= GONE, f"y_u {left:.2f} %"))
    if attack is None or aim is None:
        found.append(_unmeasured("ASR", method))
    else:
        text = f"ASR {attack:.2f} where retrained models have {aim:.2f}"
        found.append(Aim("ASR", LEAST * aim <= attack <= aim, text))
    return found


def missed(summary: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names of the aims that were measured and do not hold."""
    return [aim.name for aim in aims(summary) if aim.holds is False]


def _mean(entry: dict[str, Any] | None, figure: str) -> float | None:
    return float(entry[figure]["mean"]) if entry and entry.get(figure) else None


def _unmeasured(name: str, method: str) -> Aim:
    return Aim(name, None, f"{name} of `{method}` is not in the record")
