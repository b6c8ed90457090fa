"""Make the runs, kits and certificates of tests/compat/v0_6; run with unlabel 0.6.0 and no other.

    PYTHONPATH=src:tests OMP_NUM_THREADS=1 python tests/compat/make_v0_6.py OUT

in a checkout of 0.6.0 into which this file was copied. It is made of 0.6.0's own names, so that
types are not checked against those of later versions.

OUT is a new folder; it takes the place of tests/compat/v0_6. It needs the extra `federation` for
the kits. Each artefact is made by the commands that a person would type, in one folder; its path,
which runs note in their config.yaml, is replaced by `PLACE` at the end.

    tables/        bank.csv (ids, features, labels), shop.csv (ids, features), run.yaml, models
    auditor/       the key pair of an auditor
    finished/      trained, one label forgotten in hiding, audited, committed, purged, certified
    staged/        a request waits for a decision
    interrupted/   a process was killed in the middle of a commit: a party does not know of it yet
    unstaged/      a process was killed when one party had staged a request and the other had not
    queued/        two requests wait for slots
    halfway/       a training that was killed in its fourth epoch of six
    digits/        a built-in dataset between two parties, a person's label forgotten, a request
                   rolled back of which there are transcripts
    kits/          of a federation of two parties, trained, with one label forgotten in hiding
    undisturbed.safetensors   the weights in which the training of halfway/ ends undisturbed
    printed.json   what 0.6.0 printed about each of them
"""

# mypy: ignore-errors

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from cli.command_line import unlabel
from safetensors.torch import load_file, save_file
from unlabel.operate.neighbours import Neighbours

from unlabel import __version__
from unlabel.party import PassiveParty
from unlabel.party.checkpoint import CheckpointStore
from unlabel.wire import Message, kind_of

#: Stands in the artefacts for the folder in which they lie.
PLACE = "@FOLDER@"
ROWS = 180
LABELS = ("bronze", "gold", "plain", "silver")
PARTIES = ("active", "shop")

RUN = """\
active: {table: bank.csv, label: grade}
passive:
  - {name: shop, table: shop.csv}
align: {method: clear}
model: {bottom: "models_of_0_6:narrow"}
train: {epochs: 3, batch: 16, lr: 0.1}
"""

MODELS = '''\
"""Models of the runs of 0.6, small so that their files are."""

from math import prod

from torch import nn


def narrow(shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), 12), nn.ReLU(), nn.Linear(12, 8))
'''

FEDERATION = """\
name: grades
server: {host: localhost, port: 28617}
active: {label: grade, features: none}
passive: [{name: shop}]
model: {bottom: mlp}
train: {epochs: 5, batch: 16, lr: 0.4, momentum: 0}
days: 3650
"""


def write_tables(folder: Path) -> None:
    """Write the tables of a bank and a shop, which share most people, and what to do with them."""
    rng = np.random.default_rng(6)
    labels = rng.integers(0, len(LABELS), ROWS)
    centres = rng.normal(0, 2.5, (len(LABELS), 5))
    x = (centres[labels] + rng.normal(0, 1, (ROWS, 5))).round(2)
    ids = [f"p{number:03d}" for number in range(ROWS)]
    grades = [LABELS[label] for label in labels]
    towns = np.array(["north", "south", "west"])[np.digitize(x[:, 4], [-1, 1])]
    bank = pd.DataFrame({"id": ids, "age": x[:, 0], "income": x[:, 1], "grade": grades})
    shop = pd.DataFrame({"id": ids, "spent": x[:, 2], "visits": x[:, 3], "town": towns})
    folder.mkdir()
    bank.sample(frac=0.98, random_state=1).to_csv(folder / "bank.csv", index=False)
    shop.sample(frac=0.98, random_state=2).to_csv(folder / "shop.csv", index=False)
    (folder / "models_of_0_6.py").write_text(MODELS)
    (folder / "run.yaml").write_text(RUN)
    (folder / "long.yaml").write_text(RUN.replace("epochs: 3", "epochs: 6"))


def do(*words: object) -> dict[str, Any]:
    """Run a command that must succeed; return what it printed."""
    return unlabel(*words, "--json").json


def killed(work: Callable[[], object]) -> None:
    """Do something in a copy of this process that is killed on the way."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)  # it was to be killed
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def die() -> None:
    """End this process as a power cut does."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_message(kind: str) -> None:
    """Let this process die when a passive party is about to handle a message of a kind."""
    real = PassiveParty.handle

    def handle(party: PassiveParty, message: Message) -> Message:
        if kind_of(message) == kind:
            die()
        return real(party, message)

    PassiveParty.handle = handle


def die_at_save(number: int) -> None:
    """Let this process die when a party is about to keep the version of so high a number."""
    real = CheckpointStore.save

    def save(store: CheckpointStore, version: int, *rest: Any) -> str:
        if version == number and store.party == "active":
            die()
        return real(store, version, *rest)

    CheckpointStore.save = save


def entries(run: str, party: str) -> list[list[str]]:
    """Return event, request and hash of every line of a party's ledger."""
    found = do("ledger", run, "--party", party)["entries"]
    return [[entry[key] for key in ("event", "request", "hash")] for entry in found]


def look(run: str, *parties: str) -> dict[str, Any]:
    """Return what 0.6.0 prints about a run that it does not change."""
    return {
        "status": do("status", run),
        "evaluate": do("evaluate", run),
        "ledgers": {party: entries(run, party) for party in parties},
    }


def make() -> dict[str, Any]:
    """Make everything in the present folder; return what was printed about it."""
    printed: dict[str, Any] = {"unlabel": __version__, "torch": torch.__version__}
    write_tables(Path("tables"))
    do("keys", "auditor", "--out", "auditor")
    do("train", "tables/run.yaml", "--out", "trained")
    printed["trained"] = {**look("trained", *PARTIES), "predict": do("predict", "trained")}

    shutil.copytree("trained", "staged")
    do("forget", "staged", "--label", "silver")
    shutil.copytree("staged", "interrupted")
    shutil.copytree("staged", "audited")
    verdict = do("audit", "audited")
    shutil.rmtree("audited")
    printed["staged"] = {**look("staged", *PARTIES), "audit": short(verdict)}

    def commit() -> None:
        die_at_message("Commit")
        unlabel("commit", "interrupted")

    killed(commit)
    printed["interrupted"] = {"status": do("status", "interrupted")}

    shutil.copytree("trained", "unstaged")

    def forget() -> None:
        die_at_save(4)
        unlabel("forget", "unstaged", "--label", "silver")

    killed(forget)
    printed["unstaged"] = {"status": do("status", "unstaged")}

    Path("trained").rename("finished")
    do("forget", "finished", "--label", "gold")
    verdict = do("audit", "finished", "--retrained", 1)
    do("commit", "finished")
    do("purge", "finished")
    do("report", "finished")
    sealed = ("--auditor-key", "auditor/auditor.pub", "--legal-basis", "Art. 17 GDPR")
    do("certificate", "finished", *sealed)
    check = ("--run", "finished", "--annex-key", "auditor/auditor.key")
    verified = do("verify", "finished/certificate.json", *check)
    verified["annex"] = {key: verified["annex"][key] for key in ("asked", "legal_basis", "level")}
    printed["finished"] = {**look("finished", *PARTIES), "audit": short(verdict)}
    printed["finished"] |= {"verify": verified, "predict": do("predict", "finished")}

    do("train", "tables/run.yaml", "--out", "queued")
    do("forget", "queued", "--label", "gold", "--queue")
    do("forget", "queued", "--label", "silver", "--queue")
    printed["queued"] = look("queued", *PARTIES)

    do("train", "tables/long.yaml", "--out", "undisturbed")
    printed["halfway"] = look("undisturbed", *PARTIES)
    weights: dict[str, torch.Tensor] = {}
    for party in PARTIES:
        (file,) = Path("undisturbed", party, "versions").glob("*.safetensors")
        kept = load_file(file)
        weights |= {f"{party}/{name}": kept[name] for name in kept if "momentum" not in name}
    save_file(weights, "undisturbed.safetensors")
    shutil.rmtree("undisturbed")

    def train() -> None:
        die_at_save(4)
        unlabel("train", "tables/long.yaml", "--out", "halfway")

    killed(train)

    words = ("--data", "digits", "--model", "models_of_0_6:narrow", "--batch", 256, "--lr", 0.1)
    os.chdir("tables")  # where the models are
    do("train", *words, "--epochs", 4, "--out", "../digits")
    os.chdir("..")
    person = do("predict", "digits", "--part", "train")["predictions"][0]["id"]
    Path("people.csv").write_text(f"id\n{person}\n")
    few = ("--set", "helper=1", "--set", "passes=1", "--set", "least_steps=2", "--cover", 256)
    do("forget", "digits", "--ids", "people.csv", *few, "--record", "--commit")
    Path("people.csv").unlink()
    do("purge", "digits")
    do("forget", "digits", "--label", 1, "--record")
    do("rollback", "digits")
    printed["digits"] = look("digits", "active", "passive-1", "passive-2")

    Path("federation.yaml").write_text(FEDERATION)
    do("federation", "init", "federation.yaml", "--out", "kits")
    Path("federation.yaml").unlink()
    kits = {name: Path("kits", name) for name in PARTIES}
    tables = {"active": Path("tables/bank.csv"), "shop": Path("tables/shop.csv")}
    far = ("--federation", "kits/active")
    with Neighbours(kits, tables):
        do("train", *far)
        do("forget", "--label", "silver", *far)
        do("commit", *far, "--force")
        do("purge", *far)
        printed["kits"] = {name: do("federation", "show", kits[name]) for name in PARTIES}
        printed["federation"] = {"status": do("status", *far), "evaluate": do("evaluate", *far)}
    return printed


def short(verdict: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of an audit that later versions are compared by."""
    names = ("forgotten-accuracy", "retained-accuracy")
    figures = {
        name: {model: each["value"] for model, each in verdict["measures"][name]["values"].items()}
        for name in names
    }
    return {key: verdict[key] for key in ("level", "passed", "labels")} | {"figures": figures}


def clean(folder: Path) -> None:
    """Take the folder's own path, and what is large and never read again, out of all files."""
    shutil.rmtree(folder / "tables" / "__pycache__", ignore_errors=True)
    (folder / "finished" / "report.html").unlink()  # is written, never read
    for kit in (folder / "kits" / name for name in PARTIES):
        kit.with_suffix(".log").unlink()
        # What the engine keeps of jobs that are over, and what holds while processes run.
        for left in ("admin/transfer", "state/engine", "state/logs", "state/links"):
            shutil.rmtree(kit / left, ignore_errors=True)
        for name in ("lock", "command"):
            (kit / "state" / name).unlink(missing_ok=True)
        for path in (kit / "engine").iterdir():
            if path.is_file():
                path.unlink()
            elif path.name not in ("local", "startup"):
                shutil.rmtree(path)
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            path.write_bytes(data.replace(str(folder).encode(), PLACE.encode()))
            assert path.suffix != ".safetensors" or path.read_bytes() == data


def main() -> None:
    """Make everything beside OUT, then move it there."""
    assert __version__ == "0.6.0", f"Expected unlabel 0.6.0 but got {__version__}."
    out = Path(sys.argv[1])
    assert not out.exists(), f"'{out}' exists; name a new folder."
    torch.set_num_threads(1)
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve() / "v0_6"
        folder.mkdir()
        os.chdir(folder)
        printed = make()
        os.chdir(before)
        text = json.dumps(printed, separators=(",", ":"))
        (folder / "printed.json").write_text(text + "\n")
        clean(folder)
        shutil.copytree(folder, out)


if __name__ == "__main__":
    main()
