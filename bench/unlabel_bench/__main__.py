"""`python -m unlabel_bench NAME [SETTING=VALUE ...]`: a bench where only torch is installed.

It prints what `unlabel bench NAME --json` prints and needs none of the command line's libraries.
"""

from __future__ import annotations

import json
import sys

from unlabel.errors import SettingsError, UnlabelError
from unlabel.words import parse_settings
from unlabel_bench.provenance import provenance
from unlabel_bench.registry import BENCHES


def main(words: list[str]) -> int:
    """Run one bench and print its result."""
    if words[:1] == ["bench"]:
        # Some records name `bench` and flags after the module, as for `unlabel bench`.
        from unlabel_bench.command import app

        app(words[1:])
    try:
        if not words:
            raise SettingsError(f"Name a bench: {', '.join(BENCHES.names())}.")
        name, *rest = words
        bench = BENCHES.get(name)
        settings = parse_settings(bench.settings, rest)
        result = bench.run(settings, lambda text: print(text, file=sys.stderr, flush=True))
    except UnlabelError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"bench": name, **result, **provenance(settings)}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
