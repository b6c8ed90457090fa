"""`make test` does without the extra `federation`, whether it is installed or not."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

EXTRA = ("nvflare", "private_set_intersection", "psutil")


@pytest.mark.parametrize("name", EXTRA)
def test_what_the_extra_installs_is_hidden_here(name: str) -> None:
    assert find_spec(name) is None
    with pytest.raises(ModuleNotFoundError):
        __import__(name)


def test_it_is_hidden_from_other_processes_too() -> None:
    program = (
        "from importlib.util import find_spec; import unlabel.cli.main, unlabel.remote.connect; "
        f"print([name for name in {EXTRA} if find_spec(name)])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
