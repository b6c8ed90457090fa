"""The active party's monitor: what each passive party sends, compared with its own history.

A training that goes well moves embeddings slowly, so a party that suddenly sends something else
stands out. `party.history` says which figures are compared and what counts as suspect;
docs/hostile-parties.md says what embeddings alone cannot show.

On a CPU a batch is judged at once. On an accelerator reading a value back would stall every step:
the figures stay on the device and are read before anything is predicted or kept.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from unlabel.config import MonitorSettings
from unlabel.errors import NOT_FINITE, PartySuspected
from unlabel.party.history import POWERS, SMALL, Batch, Breach, History, correlation, figures
from unlabel.wire import Mode

log = logging.getLogger("unlabel.monitor")

#: Numbers a row that are remembered of it.
SKETCH = 16
#: Two answers to one question that correlate less do not belong together.
AGREE = 0.5
#: Spread, in units of size, below which rows count as the same.
CONSTANT = 1e-6
#: What training moves; only there does a row come again in the same role.
TRAINED: tuple[Mode, str] = ("train", "main")
#: Batches that are looked at on an accelerator before they are read.
MOST_WAITING = 4096
REMEDY = (
    "nothing of this step is kept: ask its operator and resume from the last version, or lower "
    "`lr` if the training diverges"
)


class AnomalyMonitor:
    """Compares the embeddings of all passive parties with their histories, batch by batch."""

    def __init__(
        self, settings: MonitorSettings, parties: Sequence[str], *, rows: int, device: torch.device
    ) -> None:
        self.settings = settings
        self.parties = tuple(parties)
        self.device = device
        self._rows = rows
        self._projections: dict[int, Tensor] = {}
        self.reset()

    @property
    def is_on(self) -> bool:
        """Whether anything is looked at."""
        return self.settings.mode != "none"

    def restart(self) -> None:
        """Begin a new history, before something else than training changes the weights."""
        self.flush_checks()
        self.reset()

    def reset(self) -> None:
        """Drop all history, and batches that were not judged yet."""
        self._histories: dict[tuple[Mode, str, str], History] = {}
        # What every row was last, as a sketch in units of its batch; NaN before the first time.
        self._last: Tensor | None = None
        self._waiting: list[tuple[Mode, str, int, Tensor]] = []

    def look(
        self, received: Mapping[str, Tensor], rows: Tensor, *, mode: Mode, table: str, step: int
    ) -> None:
        """Compare what all parties sent for some rows with their histories."""
        if not self.is_on or mode in ("predict", "view"):
            return
        with torch.no_grad():
            batch = self._figures(list(received.values()), rows.to(self.device), (mode, table))
        self._waiting.append((mode, table, step, batch))
        if self.device.type == "cpu" or len(self._waiting) >= MOST_WAITING:
            self.flush_checks()

    def _figures(self, sent: list[Tensor], rows: Tensor, key: tuple[Mode, str]) -> Tensor:
        """Return the figures of a batch, [parties, 5], unread."""
        batch = torch.full((len(sent), 5), math.nan, dtype=torch.float64, device=self.device)
        batch[:, :3] = torch.stack([figures(values) for values in sent])
        batch[:, 4] = (rows * rows).sum()
        if len(rows) < SMALL:
            batch[:, 2] = math.nan
        elif key == TRAINED:
            batch[:, 3] = self._sameness(sent, rows, batch[:, 0])
        return batch

    def _sameness(self, sent: list[Tensor], rows: Tensor, sizes: Tensor) -> Tensor:
        """Return each party's correlation with what it sent for the same rows last."""
        now = torch.stack([self._sketch(values) for values in sent], 1)
        # In units of the batch's size, so that what is remembered fits half precision.
        now /= sizes.float().clamp_min(1e-30)[:, None]
        if self._last is None:
            shape = (self._rows, *now.shape[1:])
            self._last = torch.full(shape, math.nan, dtype=torch.float16, device=self.device)
        before = self._last[rows].float()
        self._last[rows] = now.clamp(-6e4, 6e4).half()
        return correlation(now, before)

    def _sketch(self, values: Tensor) -> Tensor:
        """Return a secret random projection of rows: what is compared cannot be aimed at."""
        width = values.shape[1]
        if width not in self._projections:
            draw = torch.Generator().manual_seed(secrets.randbits(63))
            drawn = torch.randn(width, SKETCH, generator=draw) / math.sqrt(width)
            self._projections[width] = drawn.to(self.device)
        return values @ self._projections[width]

    def flush_checks(self) -> None:
        """Judge the batches since the last time; warn of what is suspect, or raise."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        batches = torch.stack([figures for *_, figures in waiting]).tolist()
        suspicions: list[tuple[str, str | None]] = []
        for (mode, table, step, _), batch in zip(waiting, batches, strict=True):
            for party, values in zip(self.parties, batch, strict=True):
                for breach in self._history(mode, table, party).judge(Batch(*values)):
                    what = describe_breach(breach, self.settings.limit)
                    code = NOT_FINITE if breach.rule == "finite" else None
                    suspicions.append((f"Party '{party}' is suspect in step {step}: {what}", code))
        self._report(suspicions, REMEDY)

    def _history(self, mode: Mode, table: str, party: str) -> History:
        key = (mode, table, party)
        if key not in self._histories:
            self._histories[key] = History(self.settings.window, self.settings.limit)
        return self._histories[key]

    def _report(self, suspicions: Sequence[tuple[str, str | None]], remedy: str) -> None:
        """Warn of suspicions, or raise the first: a sentence and the code of the error."""
        for sentence, _ in suspicions:
            log.warning("%s.", sentence)
        if suspicions and self.settings.mode == "refuse":
            sentence, code = suspicions[0]
            raise PartySuspected(f"{sentence}; {remedy}.", code=code)

    def compare(self, first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> None:
        """Report where two answers to one question, brought into one order, do not agree."""
        suspicions: list[tuple[str, str | None]] = []
        for party, values in first.items():
            agree = correlation(values[:, None], second[party][:, None]).item()
            size, _, spread = figures(values).tolist()
            if spread <= CONSTANT * size:
                log.warning("Party '%s' sends the same for %d different rows.", party, len(values))
            elif not agree >= AGREE:
                what = f"asked twice for {len(values)} rows, in two orders, it answers differently"
                figure = f"correlation {agree:.2f}, expected {AGREE:g} at least"
                suspicions.append((f"Party '{party}' is suspect: {what} ({figure})", None))
        self._report(suspicions, "ask its operator")

    def facts(self) -> dict[str, Any]:
        """Return the history of training as plain data, to be kept with a version."""
        histories = {party: self._histories.get((*TRAINED, party)) for party in self.parties}
        facts = {party: history.facts() for party, history in histories.items() if history}
        return {"watch": facts} if facts else {}

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Return to the history that was kept with a version, or to none."""
        self.reset()
        for party, history in facts.get("watch", {}).items() if self.is_on else ():
            if party in self.parties:
                self._history(*TRAINED, party).load(history)


def describe_breach(breach: Breach, limit: float) -> str:
    """Return in words which figure left its limits, and by how much.

    >>> describe_breach(Breach("size", 800.0, 8.0), 4.0)
    'its rows have size 800 where 8 is usual (limit: a factor of 4)'
    """
    rule, figure, usual = breach.rule, breach.figure, breach.usual
    if rule == "finite":
        return "it sent numbers that are not finite"
    if rule == "replay":
        return "it sent the same numbers again for other rows"
    if rule == "sameness":
        return (
            f"its rows correlate by {figure:.2f} with what it sent for them before, where "
            f"{usual:.2f} is usual (limit: half of it)"
        )
    subject = {
        "size": "its rows have size",
        "largest": "its largest row has size",
        "spread": "its rows hardly differ, by",
        "drift": "its rows have drifted to size",
    }[rule]
    common = "was usual at first" if rule == "drift" else "is usual"
    factor = limit ** POWERS[rule]
    return f"{subject} {figure:.3g} where {usual:.3g} {common} (limit: a factor of {factor:g})"
