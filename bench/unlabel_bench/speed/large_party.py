"""A passive party that matches its ids in a process of its own, behind a local socket.

`python -m unlabel_bench.speed.large_party FOLDER LINKS TABLE` serves until its input ends, and then
prints the most memory that it held.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from unlabel.link import Door, call
from unlabel.wire import Message, Transport, decode, encode
from unlabel_bench.speed.audited import peak_bytes

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from unlabel.data.dataset import Array

NAME = "shop"


class Linked(Transport):
    """Carries encoded messages to one party over a local socket.

    peak_bytes  the most memory that the party held, once it has ended
    """

    def __init__(self, line: Connection[bytes, bytes]) -> None:
        super().__init__([NAME])
        self._line = line
        self.peak_bytes = 0

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Deliver the one request."""
        self._line.send_bytes(encode(requests[NAME]))
        return {NAME: decode(self._line.recv_bytes())}


def ids_in(folder: Path, party: str) -> Array:
    """Return the ids of a party's table, and nothing else of it."""
    import pyarrow.parquet as parquet

    column = parquet.read_table(folder / f"{party}.parquet", columns=["id"])["id"]
    ids: Array = column.to_pandas().to_numpy(dtype=str)
    return ids


@contextlib.contextmanager
def linked(folder: Path, table: str) -> Iterator[Linked]:
    """Start the party and connect to it; end it at the end."""
    with tempfile.TemporaryDirectory() as links:
        command = [sys.executable, "-m", __name__, str(folder), links, table]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            if process.stdout.readline() != "serving\n":
                raise RuntimeError("The party did not start.")
            transport = Linked(call(Path(links), NAME))
            yield transport
            process.stdin.close()
            transport.peak_bytes = int(process.stdout.read())


def main(folder: str, links: str, table: str) -> None:
    """Serve until the input ends."""
    from unlabel.align import People
    from unlabel.align.tables import UntrainedParty
    from unlabel.config import Policy

    party = UntrainedParty(People(ids_in(Path(folder), table)), Policy())
    door = Door(Path(links), NAME)

    def serve() -> None:
        connection = door.accept(60.0)
        assert connection is not None
        with contextlib.suppress(EOFError, OSError):
            while True:
                connection.send_bytes(party.serve(connection.recv_bytes()))

    threading.Thread(target=serve, daemon=True).start()
    print("serving", flush=True)
    sys.stdin.read()
    door.close()
    print(peak_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
