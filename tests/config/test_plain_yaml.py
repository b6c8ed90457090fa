"""A short YAML file cannot become a long one in memory, and is refused at once."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from unlabel.config.loader import dump_yaml, read_agreement, read_federation, read_party, read_run
from unlabel.config.plain_yaml import MOST_BYTES, MOST_CHARACTERS, plain_yaml
from unlabel.errors import SettingsError

NAMES = "abcdefghi"
LAUGHS = f"a: &a [{', '.join(['lol'] * 9)}]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in itertools.pairwise(NAMES)
)
#: The same by merged mappings, which are written out while the file is read.
MERGES = "a: &a {x: 1, y: 2}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 9)}]}}\n"
    for before, name in itertools.pairwise(NAMES)
)
ITSELF = "a: &a [1, *a]\n"
BOMBS = {
    "laughs": LAUGHS,
    "merges": MERGES,
    "itself": ITSELF,
    "a number": f"a: {'9' * (MOST_CHARACTERS // 2)}\n",
    "a long number": f"a: {':59' * MOST_CHARACTERS}\n",
    "a long file": "#" * (MOST_BYTES + 1),
    "deep": "[" * 100_000,
}
READERS = (read_agreement, read_federation, read_party, read_run)


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_at_once_whatever_reads_it(tmp_path: Path, bomb: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(BOMBS[bomb])
    for read in READERS:
        began = time.process_time()
        with pytest.raises(SettingsError) as error:
            read(path)
        assert time.process_time() - began < 0.5
        assert str(path) in str(error.value)
        assert str(error.value).endswith(".")


#: Reads a file in a process that may take so many bytes more than it has once all is imported.
LIMITED = """
import resource, sys
from pathlib import Path
from unlabel.config.loader import read_run
from unlabel.errors import SettingsError
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + 50 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    read_run(Path(sys.argv[1]))
except SettingsError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's here")
@pytest.mark.parametrize("bomb", ["laughs", "merges"])
def test_a_bomb_is_refused_within_fifty_megabytes(tmp_path: Path, bomb: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(BOMBS[bomb])
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=True
    )
    assert "aliases" in done.stdout


def test_aliases_that_stand_for_little_are_read() -> None:
    text = "a: &policy {max_rows: 50}\nb: *policy\nc: {<<: *policy, max_ids: 9}\n"
    policy = {"max_rows": 50}
    expected = {"a": policy, "b": policy, "c": {**policy, "max_ids": 9}}
    assert plain_yaml(text, "a text") == expected == yaml.safe_load(text)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda part: (
        st.lists(part, max_size=5) | st.dictionaries(st.text(max_size=9), part, max_size=5)
    ),
    max_leaves=30,
)


@given(PLAIN)
def test_whatever_is_written_is_read_as_yaml_reads_it(plain: object) -> None:
    text = dump_yaml(plain)
    assert plain_yaml(text, "a text") == yaml.safe_load(text)
