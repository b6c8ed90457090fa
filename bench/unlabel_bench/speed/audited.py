"""One audit in a process of its own, timed phase by phase.

`python -m unlabel_bench.speed.audited RUN` prints one line of JSON: seconds by phase and of the
processor, and the most memory that the process held.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from pathlib import Path

#: How the notes of a phase begin; every other note is of a measure.
NOTES = {
    "reading": "open",
    "matching": "open",
    "checking": "open",
    "looking": "look",
    "fitting": "tops",
    "pictures": "pictures",
    "attacks": "attacks",
    "writing": "write",
}
PHASES = ("start", "open", "look", "tops", "measures", "pictures", "attacks", "write")


class Clock:
    """Seconds by phase: the time up to a note belongs to the phase of the note before it."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.longest = 0.0
        self._phase, self._at = "start", time.perf_counter()

    def watch(self, done: int, total: int, note: str) -> None:  # noqa: ARG002
        """Take a note for the beginning of its phase, or for one more sign of it."""
        self.enter(NOTES.get(note.split()[0], "measures"))

    def enter(self, phase: str) -> None:
        """Begin a phase."""
        now = time.perf_counter()
        self.seconds[self._phase] += now - self._at
        self.longest = max(self.longest, now - self._at)
        self._phase, self._at = phase, now


def peak_bytes() -> int:
    """Return the most memory that this program held.

    On Linux `getrusage` counts what the process held before it became this program: its parent's.
    """
    status = Path("/proc/self/status")
    held = re.search(r"VmHWM:\s*(\d+) kB", status.read_text()) if status.exists() else None
    most = int(held[1]) if held else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1024 * most


def main(folder: str) -> None:
    """Open a run, audit it, and print what that took."""
    clock = Clock()
    from unlabel.federation import Federation

    clock.enter("open")
    clock.longest = 0.0  # nobody can be told anything while libraries are imported
    federation = Federation.open(folder, watch=clock.watch)
    clock.enter("look")
    facts = federation.audit(demand="none", watch=clock.watch).facts
    clock.enter("start")
    seen = facts.observed or facts.rows
    line = {
        "phases": clock.seconds,
        "longest": clock.longest,
        "peak_bytes": peak_bytes(),
        "cpu": time.process_time(),
    }
    print(json.dumps({**line, "seen": {part: seen[part] for part in ("train", "test")}}))


if __name__ == "__main__":
    main(sys.argv[1])
