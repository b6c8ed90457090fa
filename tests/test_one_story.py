"""The same story through the command line and through Python: every figure and every file agree."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import yaml
from cli.command_line import one_thread, unlabel
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import unlabel as ul
from unlabel import errors

__all__ = ["one_thread"]  # a fixture for every test here

#: What differs between any two runs of one story: random numbers, what is computed from them,
#: moments and durations.
VOLATILE = {
    *("at", "seconds", "rows_per_second", "signed", "issued", "committed", "purged", "received"),
    *("due", "request", "commitment", "blind", "hash", "previous", "heads", "key", "ledger"),
    *("signature", "manifest_sha256", "messages", "trust", "table", "name", "code"),
    "weights",  # the active party's own are blinded in a certificate
    "figures",  # the hash of an audit's, which are dated and timed
}
#: What the command line calls otherwise than Python does, by verb.
OTHERWISE = {"accuracy_all": "accuracy_all_labels", "forgotten": "forgotten_labels"}
#: Fields of an answer in Python that no command prints: other commands do.
UNPRINTED = {"status": {"staged"}}
#: Files of random bytes, and those whose form says where the tables came from.
RANDOM = re.compile(
    r"secrets/|\.key$|table\.(parquet|columns\.jsonl)$|\.annex$|labels\.safetensors$"
)


@st.composite
def stories(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a run, the label and the person that it forgets."""
    count = draw(st.integers(2, 4))
    labels = draw(
        st.lists(
            st.text("abcdefghij", min_size=1, max_size=6),
            min_size=count,
            max_size=count,
            unique=True,
        )
    )
    return {
        "labels": sorted(labels),
        "seed": draw(st.integers(0, 50)),
        "features": draw(st.booleans()),
        "whole": count > 2 and draw(st.booleans()),
        "optimiser": draw(st.sampled_from(["sgd", "adam"])),
        "rows": draw(st.integers(300, 360)),
        "keep": draw(st.sampled_from([True, True, False])),
    }


def tables(story: Mapping[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the bank's and the shop's table; eighths are the same numbers in every file."""
    rng = np.random.default_rng(story["seed"])
    count, rows = len(story["labels"]), story["rows"]
    y = rng.integers(0, count, rows)
    x = np.round(8 * (rng.normal(0, 0.5, (rows, 6)) + np.eye(6)[y] * 2)) / 8
    ids = [f"p{number:03d}" for number in range(rows)]
    bank = pd.DataFrame({"who": ids, "loan": np.array(story["labels"])[y]})
    if story["features"]:
        bank = bank.assign(income=x[:, 0], age=x[:, 1])
    shop = pd.DataFrame({"who": ids, **{f"x{n}": x[:, n] for n in range(1, 6)}})
    return bank, shop.sample(frac=0.97, random_state=story["seed"])


def by_command_line(
    story: Mapping[str, Any], bank: pd.DataFrame, shop: pd.DataFrame
) -> dict[str, Any]:
    """Live the story as somebody at a terminal does; return every figure that is printed."""
    bank.to_csv("bank.csv", index=False)
    shop.to_csv("shop.csv", index=False)
    bank.drop(columns="loan").head(20).to_csv("new_bank.csv", index=False)
    config = {
        "active": {"table": "bank.csv", "id": "who", "label": "loan"},
        "passive": [{"name": "shop", "table": "shop.csv", "id": "who"}],
        "train": {
            "epochs": 3,
            "batch": 32,
            "seed": story["seed"],
            "optimiser": story["optimiser"],
            "lr": 0.01,
        },
    }
    if not story["features"]:
        config["active"]["features"] = "none"  # type: ignore[index]
    Path("run.yaml").write_text(yaml.safe_dump(config))
    words = ["--json"]
    found: dict[str, Any] = {"train": unlabel("train", "run.yaml", "--out", "run", *words).json}
    found["evaluate"] = unlabel("evaluate", "run", *words).json
    trained = unlabel("predict", "run", "--part", "train", *words).json["predictions"]
    person = trained[story["seed"] % len(trained)]["id"]
    asked = ["--label", story["labels"][0]] if story["whole"] else ["--id", person]
    outcome = unlabel("forget", "run", *asked, *words)
    if outcome.code:  # so small a model may be refused, in the same words
        return {**found, "refused": {"sentence": errors.in_python(outcome.sentence)}}
    found["forget"] = outcome.json
    if story["whole"]:
        outcome = unlabel("audit", "run", "--demand", "none", *words)
        found["audit"] = json.loads(outcome.out)
        unlabel("report", "run")
    if story["keep"] and not found["forget"]["control"]:  # where it failed it can only be dropped
        found["commit"] = unlabel("commit", "run", "--force", *words).json
        found["purge"] = unlabel("purge", "run", *words).json
        found["certificate"] = unlabel("certificate", "run", *words).json
        found["verify"] = unlabel("verify", "run/certificate.json", "--run", "run", *words).json
    else:
        found["rollback"] = unlabel("rollback", "run", *words).json
    found["status"] = unlabel("status", "run", *words).json
    found["ledger"] = unlabel("ledger", "run", "--party", "shop", *words).json
    new = [f"--table={name}={file}" for name, file in (("shop", "shop.csv"),)]
    if story["features"]:
        new.append("--table=active=new_bank.csv")
    found["predict"] = unlabel("predict", "run", *new, *words).json
    found["after"] = unlabel("evaluate", "run", *words).json
    return found


def in_python(story: Mapping[str, Any], bank: pd.DataFrame, shop: pd.DataFrame) -> dict[str, Any]:
    """Live the same story in a notebook; return the figures by the names they have in JSON."""
    fed = ul.Federation.from_frames(
        {"bank": bank, "shop": shop},
        label="loan",
        id="who",
        folder="run",
        epochs=3,
        batch=32,
        seed=story["seed"],
        optimiser=story["optimiser"],
        lr=0.01,
    )
    progress = fed.train()
    found: dict[str, Any] = {"train": {"epochs": len(progress.history)}}
    found["evaluate"] = asdict(fed.evaluate())
    trained = fed.predict(part="train")
    person = str(trained.ids[story["seed"] % len(trained.ids)])
    try:
        if story["whole"]:
            outcome = fed.forget(labels=[story["labels"][0]])
        else:
            outcome = fed.forget(ids=[person])
    except ul.UnlabelError as error:
        return {**found, "refused": {"sentence": str(error)}}
    found["forget"] = outcome.to_json()
    if story["whole"]:
        demand = ul.AuditSettings(demand="none")
        found["audit"] = fed.audit(demand=demand).to_json()
        fed.report()
    if story["keep"] and not outcome.result.control:
        found["commit"] = {"request": fed.commit(force=True)}
        found["purge"] = {"version": fed.purge()}
        certificate = fed.certificate()
        found["certificate"] = {
            "not_signed": certificate.body["not_signed"],
            "depth": certificate.body["depth"],
            "in_time": certificate.body["term"]["in_time"],
            "annex": certificate.annex,
        }
        checks = ul.verify(certificate.path, run="run")
        found["verify"] = {"holds": checks.holds, "faults": checks.faults, "held": checks.held}
    else:
        found["rollback"] = {"request": fed.rollback()}
    found["status"] = asdict(fed.status())
    found["ledger"] = {"entries": [asdict(line) for line in fed.ledger()["shop"]]}
    new = {"shop": shop} | (
        {"bank": bank.drop(columns="loan").head(20)} if story["features"] else {}
    )
    predicted = fed.predict(tables=new)
    best = predicted.probabilities.max(1).tolist()
    rows = zip(predicted.ids.tolist(), predicted.labels, best, strict=True)
    found["predict"] = {
        "predictions": [{"id": i, "label": x, "probability": p} for i, x, p in rows]
    }
    found["after"] = asdict(fed.evaluate())
    return found


def plain(value: Any) -> Any:
    """Return JSON as plain data, without what differs between any two runs."""
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items() if k not in VOLATILE}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return re.sub(r"\b[0-9a-f]{4}( [0-9a-f]{4}){7}\b", "*", value)  # fingerprints of keys
    return value


def in_words(text: str) -> str:
    """Return a page without ids of requests, moments, durations, and when messages were sent."""
    # How many bars there are follows from when messages were sent too: some share one.
    text = re.sub(r'(<rect class="bar (sent|received)"[^>]*>)+', "*", text)
    text = re.sub(r"seconds</dt><dd>[^<]*", "*", text)
    for what in (r"\b[0-9a-f]{16}\b", r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?", r"\d+(\.\d+)? s\b"):
        text = re.sub(what, "*", text)
    return text


def files(run: Path) -> dict[str, Any]:
    """Return what is in every file of a run, as far as two runs of one story share it."""
    found: dict[str, Any] = {}
    for path in sorted(run.rglob("*")):
        name = str(path.relative_to(run))
        if not path.is_file() or RANDOM.search(name):
            continue
        if path.suffix == ".json":
            found[name] = plain(json.loads(path.read_text()))
        elif path.suffix == ".jsonl":
            found[name] = [plain(json.loads(line)) for line in path.read_text().splitlines()]
        elif path.suffix == ".yaml":
            found[name] = plain(yaml.safe_load(path.read_text()))
        elif path.suffix == ".html":
            found[name] = in_words(path.read_text())
        else:
            found[name] = path.read_bytes()  # weights, to the last bit
    return found


def both(story: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Live a story both ways; return figures and files of each."""
    home, lives = os.getcwd(), []
    bank, shop = tables(story)
    for live in (by_command_line, in_python):
        # Who is asked for among whom, and every draw of a request, comes from secret bits.
        same = mock.patch("secrets.token_hex", lambda count=32: "5a" * count)
        with tempfile.TemporaryDirectory() as folder, same:
            os.chdir(folder)
            try:
                figures = live(story, bank, shop)
                lives.append({"figures": figures, "files": files(Path("run"))})
            finally:
                os.chdir(home)
    return lives[0], lives[1]


@settings(max_examples=5, phases=[Phase.generate], database=None, derandomize=True)
@given(story=stories())
def test_a_story_ends_the_same_through_the_command_line_and_through_python(
    story: dict[str, Any],
) -> None:
    typed, written = both(story)
    assert typed["files"].keys() == written["files"].keys()
    for name, content in typed["files"].items():
        assert written["files"][name] == content, name
    assert typed["figures"].keys() == written["figures"].keys()
    for verb, figures in written["figures"].items():
        printed = plain(json.loads(json.dumps(typed["figures"][verb])))
        # The command line adds where the run lies; of the figures in Python it prints every one.
        for name, value in plain(json.loads(json.dumps(figures))).items():
            if name in UNPRINTED.get(verb, set()):
                continue
            if name == "forgotten":
                value = [story["labels"][number] for number in value]
            name = OTHERWISE.get(name, name)
            if isinstance(value, list) and isinstance(printed[name], dict):
                value = dict(zip(printed[name], value, strict=True))
            assert printed[name] == value, (verb, name)
