"""What is wrong at a party's start, or between parties that run, is one sentence.

What shows before the engine is needed is tested in remote/test_refused_starts.py.
"""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli.command_line import contents, in_shell, unlabel
from small_parties import provisioned

from unlabel.data import ACTIVE
from unlabel.files import write_atomically
from unlabel.party.budget import BUDGET
from unlabel.remote.kit import Kit
from unlabel.remote.local_cluster import LocalCluster, free_port
from unlabel.remote.party_home import open_party

# The engine's own code warns of its future; that is not for us to mend.
pytestmark = pytest.mark.filterwarnings("default")

ROWS = 150
TEXT = """\
server: {port: PORT}
active: {label: y}
passive: [{name: shop}]
model: {bottom: mlp}
align: {case: fold}
"""


def table(first: int, **columns: object) -> pd.DataFrame:
    """Return a table of people numbered from `first` on."""
    rng = np.random.default_rng(first)
    ids = [f"Person {number}" for number in range(first, first + ROWS)]
    return pd.DataFrame({"id": ids, **columns, "x": rng.random(ROWS)})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with kits, and tables of two parties who share few people."""
    folder = tmp_path_factory.mktemp("bad")
    provisioned(folder, TEXT.replace("PORT", str(free_port())))
    table(0, y=np.arange(ROWS) % 3).to_csv(folder / "active.csv", index=False)
    table(ROWS - 20).to_csv(folder / "shop.csv", index=False)
    return folder


def in_two_cases(rows: pd.DataFrame) -> None:
    rows.loc[5, "id"] = str(rows.loc[4, "id"]).upper()


def blank(rows: pd.DataFrame) -> None:
    rows.loc[5, "id"] = " "


def test_a_budget_of_a_day_ahead_of_the_clock_is_warned_of_at_the_start(
    made: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(made / "kits" / "shop", tmp_path / "shop"))
    with (folder / "party.yaml").open("a") as settings:
        settings.write("\npolicy: {max_rows_a_day: 300}\n")
    kit = Kit.open(folder)
    write_atomically(kit.home / BUDGET, b'{"day": "2999-01-01", "rows": 300}')
    (warning,) = open_party(kit, made / "shop.csv").notes
    assert "2999-01-01" in warning


@pytest.mark.parametrize("party", [ACTIVE, "shop"])
@pytest.mark.parametrize(
    ("change", "words"),
    [(in_two_cases, "1 ids"), (blank, "id")],
)
def test_whose_ids_collide_hears_it_at_the_start(
    made: Path, tmp_path: Path, party: str, change: Callable[[pd.DataFrame], None], words: str
) -> None:
    rows = pd.read_csv(made / f"{party}.csv")
    change(rows)
    rows.to_csv(tmp_path / "own.csv", index=False)
    kit = shutil.copytree(made / "kits" / party, tmp_path / party)
    sentence = unlabel("party", "start", kit, "--data", tmp_path / "own.csv").sentence
    assert words in sentence
    state = kit / "state"
    kept = {path.name for path in state.iterdir()} if state.exists() else set()
    assert kept <= {"lock", "logs", "secrets", "engine"}  # no table remembered, no version


def test_a_port_in_use_ends_the_start_within_seconds(made: Path, tmp_path: Path) -> None:
    kits = tmp_path / "kits"
    with socket.create_server(("localhost", 0)) as taken:
        port = taken.getsockname()[1]
        provisioned(tmp_path, TEXT.replace("PORT", str(port)))
        words = ("party", "start", kits / ACTIVE, "--data", made / "active.csv", "--plain")
        ended = in_shell(*words, cwd=tmp_path)
    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith(f"Error: Port {port} ")
    assert "Traceback" not in ended.err


def test_parties_that_are_away_or_share_too_few_people_are_named(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kits = {name: made / "kits" / name for name in (ACTIVE, "shop")}
    command = ("train", "--federation", kits[ACTIVE])
    parties = LocalCluster(kits, {name: made / f"{name}.csv" for name in kits})
    try:
        parties.start(ACTIVE)
        parties.wait(ACTIVE)
        with monkeypatch.context() as patch:
            # A test has less patience than a person.
            patch.setattr("unlabel.remote.client.PATIENCE", 4.0)
            began = time.monotonic()
            sentence = unlabel(*command).sentence
        assert sentence.startswith("Party 'shop' is not connected; ask for `unlabel party start`")
        assert time.monotonic() - began < 45

        parties.start("shop")
        parties.wait("shop")
        second = in_shell("party", "start", kits["shop"], "--data", made / "shop.csv", cwd=made)
        assert f"already open in process {parties.processes['shop'].pid};" in second.sentence

        before = contents(kits["shop"] / "state" / "shop")
        sentence = unlabel(*command).sentence
        assert "100 rows" in sentence
        told = {k: v for k, v in contents(kits["shop"] / "state" / "shop").items() if k in before}
        assert told.keys() == before.keys()
        assert not (kits["shop"] / "state" / "shop" / "alignment.safetensors").exists()
        assert not (kits[ACTIVE] / "state" / "run" / "run.yaml").exists()
    finally:
        parties.stop()
