"""Settings of all tests."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is slow now and then, which says nothing about the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

#: A folder whose `sitecustomize` hides what only the extra `federation` installs.
WITHOUT = Path(__file__).parent / "without"
FEDERATION = Path(__file__).parent / "federation"


def pytest_configure(config: pytest.Config) -> None:
    """Hide what `make test` must do without, here and in every process that a test starts."""
    named = [Path(arg.split("::")[0]).resolve() for arg in config.args]
    if any(path.is_relative_to(FEDERATION) for path in named):
        return
    path = [str(WITHOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    runpy.run_path(str(WITHOUT / "sitecustomize.py"))
