"""Where the program `unlabel` starts; what it needs is imported only once it is needed."""

from __future__ import annotations

import os
import sys

from unlabel._version import __version__


def program() -> None:
    """Run the command line as a program of its own, which ends when it is done.

    Threads of the engine go on looking for a server that is gone, and would keep it from ending.
    """
    if sys.argv[1:] == ["--version"]:  # answered before any library is imported
        print(f"unlabel {__version__}")
        return
    try:
        from unlabel.cli.main import main

        main()
    except SystemExit as done:
        if sys.modules.get("nvflare") is None:
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(done.code if isinstance(done.code, int) else int(done.code is not None))
    except KeyboardInterrupt:  # before the command began, or after it ended
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)
