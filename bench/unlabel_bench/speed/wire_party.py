"""A passive party that only echoes, in a process of its own: what is timed is the way there.

python -m unlabel_bench.speed.wire_party KIT
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time

from unlabel.wire import Embeddings, Gradients, Message, Refused, decode, encode


class Echo:
    """Answers gradients with embeddings of the same numbers, after as many milliseconds as steps.

    Waiting stands for a party that computes on a machine of its own.
    """

    def handle(self, message: Message) -> Message:
        """Answer one message."""
        if not isinstance(message, Gradients):
            return Refused(message.step, "it only echoes gradients.", "policy")
        time.sleep(message.step / 1000)
        return Embeddings(message.step, message.values)

    def serve(self, data: bytes) -> bytes:
        """Answer one message given and returned as bytes, as a party does."""
        return encode(self.handle(decode(data)))


class _Ended(Exception):
    """The bench is over."""


def main(folder: str) -> None:
    """Serve under the engine of a kit until the process is told to end."""
    # Imported late: only this bench needs the engine.
    from unlabel.remote.engine import Engine
    from unlabel.remote.kit import Kit
    from unlabel.remote.party_server import PartyServer
    from unlabel.remote.serving_note import serving
    from unlabel_bench.speed.engine.bare import allow_measuring

    allow_measuring()
    kit = Kit.open(folder)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())

    def each() -> None:
        if ended.is_set():
            raise _Ended

    with kit.lock(), contextlib.closing(PartyServer(Echo(), kit)) as server:
        engine = Engine(kit)
        engine.start()
        try:
            with serving(kit.state), contextlib.suppress(_Ended):
                server.serve(each)
        finally:
            engine.stop()


if __name__ == "__main__":
    main(sys.argv[1])
