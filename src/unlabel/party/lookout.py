"""The active party's lookout: what each passive party sends, held against its own history.

A training that goes well moves embeddings slowly, so a party that suddenly sends something else
stands out from its own last batches. Which figures are kept and what counts as suspect stands in
`party.history`; nothing there is fitted to a dataset. What cannot be seen from embeddings alone is
written down in docs/hostile-parties.md.

On a CPU a suspicion is told at once. On an accelerator reading a value back would stall every step;
there it is noted on the device, and read before anything is predicted or kept.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from unlabel.errors import NOT_FINITE, PartySuspected
from unlabel.party.history import POWERS, SMALL, Batch, Breach, History, correlation, figures
from unlabel.party.optimiser import expect, one_of
from unlabel.wire import Mode

log = logging.getLogger("unlabel.watch")

WatchMode = Literal["none", "warn", "refuse"]

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


@dataclass(frozen=True)
class WatchSettings:
    """How the active party watches what the others send.

    mode    refuse: stop where a party is suspect; warn: write it to the log and go on; none
    limit   factor by which the size of a batch may leave the median of the party's last batches
    window  batches of a party that are remembered
    probe   rows that are asked for twice, in two orders, before a training; 0 asks none
    """

    mode: WatchMode = "refuse"
    limit: float = 4.0
    window: int = 32
    probe: int = 64

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a plain dict that pydantic reads)

    def __post_init__(self) -> None:
        one_of("watch.mode", self.mode, get_args(WatchMode))
        expect("watch.limit", self.limit, 1 < self.limit < 1e6, "a factor above 1")
        expect("watch.window", self.window, 16 <= self.window <= 4096, "from 16 to 4096")
        expect("watch.probe", self.probe, self.probe == 0 or self.probe >= SMALL, "0, or 8 or more")


class Lookout:
    """Looks at the embeddings of all passive parties, batch by batch."""

    def __init__(
        self, settings: WatchSettings, parties: Sequence[str], *, rows: int, device: torch.device
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

    def renew(self) -> None:
        """Begin a new history, before the weights become others than training makes them."""
        self.settle()
        self.reset()

    def reset(self) -> None:
        """Forget all history, and what was not told yet."""
        self._histories: dict[tuple[Mode, str, str], History] = {}
        # What every row was last, as a sketch in units of its batch; NaN before the first time.
        self._last: Tensor | None = None
        self._waiting: list[tuple[Mode, str, int, Tensor]] = []

    def look(
        self, received: Mapping[str, Tensor], rows: Tensor, *, mode: Mode, table: str, step: int
    ) -> None:
        """Hold what all parties sent for some rows against their histories."""
        if not self.is_on or mode == "predict":
            return
        with torch.no_grad():
            found = self._figures(list(received.values()), rows.to(self.device), (mode, table))
        self._waiting.append((mode, table, step, found))
        if self.device.type == "cpu" or len(self._waiting) >= MOST_WAITING:
            self.settle()

    def _figures(self, sent: list[Tensor], rows: Tensor, key: tuple[Mode, str]) -> Tensor:
        """Return the figures of a batch, [parties, 5], unread."""
        found = torch.full((len(sent), 5), math.nan, dtype=torch.float64, device=self.device)
        found[:, :3] = torch.stack([figures(values) for values in sent])
        found[:, 4] = (rows * rows).sum()
        if len(rows) < SMALL:
            found[:, 2] = math.nan
        elif key == TRAINED:
            found[:, 3] = self._sameness(sent, rows, found[:, 0])
        return found

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

    def settle(self) -> None:
        """Judge what was looked at since the last time, and tell what is suspect."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        every = torch.stack([found for *_, found in waiting]).tolist()
        found: list[tuple[str, str | None]] = []
        for (mode, table, step, _), batch in zip(waiting, every, strict=True):
            for party, told in zip(self.parties, batch, strict=True):
                for breach in self._history(mode, table, party).judge(Batch(*told)):
                    what = describe_breach(breach, self.settings.limit)
                    said = f"Party '{party}' is suspect in step {step}: {what}"
                    found.append((said, NOT_FINITE if breach.rule == "finite" else None))
        self._suspect(found, REMEDY)

    def _history(self, mode: Mode, table: str, party: str) -> History:
        key = (mode, table, party)
        if key not in self._histories:
            self._histories[key] = History(self.settings.window, self.settings.limit)
        return self._histories[key]

    def _suspect(self, found: Sequence[tuple[str, str | None]], remedy: str) -> None:
        """Tell what is suspect, each a sentence and the code of its error where it has a finer."""
        for sentence, _ in found:
            log.warning("%s.", sentence)
        if found and self.settings.mode == "refuse":
            sentence, code = found[0]
            raise PartySuspected(f"{sentence}; {remedy}.", code=code)

    def compare(self, first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> None:
        """Tell where two answers to one question, brought into one order, do not agree."""
        found: list[tuple[str, str | None]] = []
        for party, values in first.items():
            agree = correlation(values[:, None], second[party][:, None]).item()
            size, _, spread = figures(values).tolist()
            if spread <= CONSTANT * size:
                log.warning("Party '%s' sends the same for %d different rows.", party, len(values))
            elif not agree >= AGREE:
                what = f"asked twice for {len(values)} rows, in two orders, it answers differently"
                figure = f"correlation {agree:.2f}, expected {AGREE:g} at least"
                found.append((f"Party '{party}' is suspect: {what} ({figure})", None))
        self._suspect(found, "ask its operator")

    def facts(self) -> dict[str, Any]:
        """Return the history of training as plain data, to be kept with a version."""
        known = {p: self._histories.get((*TRAINED, p)) for p in self.parties}
        kept = {party: history.facts() for party, history in known.items() if history is not None}
        return {"watch": kept} if kept else {}

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Return to the history that was kept with a version, or to none."""
        self.reset()
        kept = facts.get("watch", {}) if self.is_on else {}
        for party in self.parties:
            if party in kept:
                self._history(*TRAINED, party).load(kept[party])


def describe_breach(breach: Breach, limit: float) -> str:
    """Say in words which figure left what it may be, and by how much.

    >>> describe_breach(Breach("size", 800.0, 8.0), 4.0)
    'its rows have size 800 where 8 is usual (limit: a factor of 4)'
    """
    rule, found, usual = breach.rule, breach.found, breach.usual
    if rule == "finite":
        return "it sent numbers that are not finite"
    if rule == "replay":
        return "it sent the same numbers again for other rows"
    if rule == "sameness":
        return (
            f"its rows correlate by {found:.2f} with what it sent for them before, where "
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
    return f"{subject} {found:.3g} where {usual:.3g} {common} (limit: a factor of {factor:g})"
