"""Two organisations' files in FATE's layout, from tables to certificate; the disk fills on the way.

guest.csv  id, y, x0, x1, ..
host.csv   id, x0, x1, ..
"""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from cli.command_line import Outcome, unlabel
from safetensors.torch import load_file
from sklearn.datasets import load_digits

from unlabel.data import ACTIVE
from unlabel.remote.kit import Kit
from unlabel.remote.local_cluster import LocalCluster, free_port
from unlabel.signing import Signer

# The engine's own code warns of its future; that is not for us to mend.
pytestmark = pytest.mark.filterwarnings("default")

PAGE = Path(__file__).parents[2] / "docs" / "federation.md"
LABELS = 5


def page_settings() -> str:
    """Return the configuration that the page shows for FATE's layout."""
    section = PAGE.read_text(encoding="utf-8").partition("## Files in FATE's layout")[2]
    found = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found.group(1)


def write_files(folder: Path) -> tuple[dict[str, Path], set[str]]:
    """Write both files, each with people of its own; return them, and who is common."""
    digits = load_digits()
    chosen = np.flatnonzero(digits.target < LABELS)
    pixels, y = digits.data[chosen] / 16, [f"sort-{label}" for label in digits.target[chosen]]
    ids = [f"person-{number}" for number in range(len(chosen))]

    def part(first: int) -> pd.DataFrame:
        half = pixels[:, first : first + 32]
        return pd.DataFrame(half, columns=[f"x{column}" for column in range(32)])

    guest, host = part(0), part(32)
    guest.insert(0, "y", y)
    for table in (guest, host):
        table.insert(0, "id", ids)
    guest = guest.sample(frac=0.95, random_state=0)
    host = host.sample(frac=0.95, random_state=1)
    files = {ACTIVE: folder / "guest.csv", "host": folder / "host.csv"}
    guest.to_csv(files[ACTIVE], index=False)
    host.to_csv(files["host"], index=False)
    return files, set(guest["id"]) & set(host["id"])


@contextmanager
def full_disk(process: int) -> Iterator[None]:
    """Let a process write nothing more, as on a full disk; Python ignores the limit's signal."""
    before = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_FSIZE, before)


def versions(kits: dict[str, Path]) -> dict[str, list[str]]:
    """Return the numbers of the versions that each party keeps."""
    homes = {name: Kit.read(kit).home / "versions" for name, kit in kits.items()}
    return {name: sorted(path.stem for path in home.glob("*.json")) for name, home in homes.items()}


def events(home: Path) -> list[str]:
    """Return what a party's ledger says happened."""
    lines = (home / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["event"] for line in lines]


def logs(kits: dict[str, Path]) -> Iterator[tuple[Path, bytes]]:
    """Yield every log that the parties have written, and its content."""
    found = 0
    for kit in kits.values():
        places = (
            *kit.parent.glob("*.log"),
            *kit.glob("state/logs/*"),
            *kit.glob("state/engine/**/*"),
        )
        for path in places:
            if path.is_file() and not {"startup", "local"} & set(path.parts):
                found += 1
                yield path, path.read_bytes()
    assert found > 5


def aligned_ids(home: Path, file: Path) -> list[str]:
    """Return the ids of the rows that a party works with, in its order."""
    positions = load_file(home / "alignment.safetensors")["positions"].tolist()
    ids = pd.read_csv(file, dtype=str)["id"].tolist()
    return [ids[place] for place in positions]


def test_two_files_and_a_few_lines_end_in_a_certificate(tmp_path: Path) -> None:
    text = page_settings()
    assert len(text.splitlines()) < 10
    (tmp_path / "federation.yaml").write_text(text.replace("8002", str(free_port())))
    files, common = write_files(tmp_path)
    made = unlabel("federation", "init", tmp_path / "federation.yaml", "--out", tmp_path / "kits")
    assert made.code == 0, made.err
    kits = {name: tmp_path / "kits" / name for name in files}

    def at_guest(verb: str, *words: object) -> Outcome:
        return unlabel(verb, "--federation", kits[ACTIVE], *words)

    with LocalCluster(kits, files) as parties:
        trained = at_guest("train", "--json").json
        assert trained["accuracy"] > 0.9
        assert trained["party_names"] == ["host"]
        assert set(trained["per_label_accuracy"]) == {f"sort-{label}" for label in range(LABELS)}
        before = versions(kits)
        assert before[ACTIVE] == before["host"]

        forgotten = at_guest("forget", "--label", "sort-2", "--json").json
        assert forgotten["forgotten_accuracy"]["after"] < 0.1

        assert "every party keeps its own" in at_guest("audit", "--retrained", "1").sentence

        with full_disk(parties.processes["host"].pid):
            sentence = at_guest("commit").sentence
        assert "'host'" in sentence
        assert "cannot write to its own folder (File too large); free some room there" in sentence
        recovered = at_guest("recover", "--json")
        assert recovered.code == 0, recovered.err
        after = versions(kits)
        assert after[ACTIVE] == after["host"]
        assert after[ACTIVE][-1] > before[ACTIVE][-1]
        assert all(events(Kit.read(kit).home) == ["commit"] for kit in kits.values())

        signed = at_guest("certificate", "--json").json
        assert (signed["signed"], signed["not_signed"]) == ([ACTIVE, "host"], {})
    for path, said in logs(kits):
        assert not re.search(rb"person-\d|sort-\d", said), path
    for name, file in files.items():
        assert aligned_ids(Kit.read(kits[name]).home, file) == sorted(common)
    keys = {name: Signer(Kit.read(kit).home).public for name, kit in kits.items()}
    (tmp_path / "keys.yaml").write_text(yaml.safe_dump({"trust": keys}))
    checked = unlabel(
        "verify", signed["certificate"], "--trust", tmp_path / "keys.yaml", "--json"
    ).json
    assert any(held.startswith("Every key is the trusted one") for held in checked["held"])
