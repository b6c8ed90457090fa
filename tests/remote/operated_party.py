"""The process of a party without a network: lock, control socket, metrics, a loop that turns.

    python operated_party.py KIT CONTACT [HOST:PORT]

CONTACT is a file of JSON that says how the party stands with the others; `"hangs": true` in it has
the loop stand still.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from unlabel.remote.health import Contact
from unlabel.remote.kit import Kit
from unlabel.remote.metrics import Address
from unlabel.remote.operated import Operated, operating, stopping
from unlabel.remote.party_home import serving
from unlabel.remote.request_stats import CountedTranscript, RequestStats
from unlabel.wire import Refused, Status


def main(folder: Path, told: Path, address: str | None) -> None:
    """Run until the party is to stop."""
    kit = Kit.open(folder)
    stats, ended = RequestStats(), threading.Event()
    kit.prepare()
    transcript = CountedTranscript(kit.home / "transcript.jsonl", stats)
    transcript.log("received", Status(0))
    transcript.log("sent", Refused(0, "no", "policy"))

    def read() -> dict[str, object]:
        found: dict[str, object] = json.loads(told.read_bytes())
        return found

    def contact() -> Contact:
        found = read()
        found.pop("hangs", None)
        return Contact(**found)  # type: ignore[arg-type]

    operated = Operated(kit, ended, contact, stats, lambda: 399)
    metrics = None if address is None else Address.of(address)
    with kit.lock(), stopping(ended), operating(operated, metrics), serving(kit.state):
        while not ended.wait(0.05):
            if not read().get("hangs"):
                operated.turn()
    transcript.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
