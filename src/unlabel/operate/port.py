"""The one port on which the engine's server listens."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

from unlabel.errors import RunError


def port_of(folder: Path) -> int:
    """Return the port on which the server of a site's folder listens."""
    path = folder / "startup" / "fed_server.json"
    try:
        found = json.loads(path.read_bytes())["servers"][0]["service"]["target"]
        return int(str(found).rpartition(":")[2])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise RunError(f"'{path}' is damaged or missing; take it from the kit anew.") from error


def expect_free(port: int, *, patience: float = 0.0) -> None:
    """Raise where another program listens on a port.

    The engine itself would not notice: it shares its port with whoever is willing to share, and
    then either of the two gets a part of the calls.
    """
    deadline = time.monotonic() + patience
    while True:
        with socket.socket() as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind(("", port))
                found.listen(1)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise RunError(
                        f"Port {port} cannot be listened on ({error.strerror}); end the program "
                        f"that uses it, or set the federation up with another `server.port`."
                    ) from error
            else:
                return
        time.sleep(0.1)
