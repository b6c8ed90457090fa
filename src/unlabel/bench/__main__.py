"""`python -m unlabel.bench NAME [SETTING=VALUE ...]`: a bench where only torch is installed.

It prints what `unlabel bench NAME --json` prints and needs none of the command line's libraries.
"""

from __future__ import annotations

import json
import sys

from unlabel.bench.provenance import provenance
from unlabel.bench.registry import BENCHES
from unlabel.errors import UnlabelError
from unlabel.words import parse_settings


def main(words: list[str]) -> int:
    """Run one bench and print its result."""
    try:
        name, *given = words or ["?"]
        bench = BENCHES.get(name)
        settings = parse_settings(bench.settings, given)
        found = bench.run(settings, lambda text: print(text, file=sys.stderr, flush=True))
    except UnlabelError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"bench": name, **found, **provenance(settings)}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
