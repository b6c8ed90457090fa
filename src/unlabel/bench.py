"""`python -m unlabel.bench NAME`: the door to the measurements, where `unlabel_bench` is installed.

The package is not shipped; it lies in `bench/` of a clone and needs only the product's core:
`PYTHONPATH=src:bench python -m unlabel.bench training data=cifar10 device=cuda`.
"""

from __future__ import annotations

import sys
from importlib import import_module

from unlabel.errors import UsageError

ABSENT = (
    "The benches are not part of the installed package; clone the repository and run "
    "`pip install ./bench` in it, or `make demo`, which does."
)


def main(words: list[str]) -> int:
    """Run a bench by its name and settings, or say where benches are to be had."""
    try:
        bench = import_module("unlabel_bench.__main__")
    except ModuleNotFoundError as error:
        if error.name != "unlabel_bench":
            raise
        print(f"Error: {UsageError(ABSENT)}", file=sys.stderr)
        return 2
    status: int = bench.main(words)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
