"""A small run with a committed request, its certificate, and a forger who may hold some keys."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from report import verdicts

from unlabel import Federation
from unlabel.audit import Measurement, ModelFigure, SeedFigure, Verdict
from unlabel.audit.binding import bind
from unlabel.audit.gate import depth_of, judge
from unlabel.config import AuditSettings, ModelSettings, RunConfig, TrainSettings
from unlabel.files import sha256
from unlabel.forget import ForgetSettings, Transaction
from unlabel.party import Ledger, LedgerEntry
from unlabel.report.annex import read_auditor_key, seal
from unlabel.report.certificate import AnnexRequest, issue, statement
from unlabel.signing import Signer, canonical

LABELS = ("ape", "bat", "cat", "hippopotamus")
PASSIVE = ("passive-1", "passive-2")
PARTIES = ("active", *PASSIVE)
TESTS = Path(__file__).parents[1]


def make_run(folder: Path, seed: int = 0) -> Path:
    """Train two parties for a moment on four kinds of stripes."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    y = np.arange(240) % len(LABELS)
    x = rng.integers(0, 60, (len(y), 8, 8), dtype=np.uint8)
    for label in range(len(LABELS)):
        x[y == label, 2 * label : 2 * label + 2] += 150
    np.savez(folder / "zoo.npz", x=x, y=y, classes=np.array(LABELS))
    config = RunConfig(
        data=str(folder / "zoo.npz"),
        parties=2,
        model=ModelSettings(bottom="small_models:plain_bottom"),
        train=TrainSettings(epochs=3, batch=16, seed=seed),
        code=TESTS,
    )
    Federation.create(config, folder / "run").train()
    return folder / "run"


def forget(
    run: Path,
    label: str = "hippopotamus",
    *,
    purge: bool = True,
    audit: dict[str, Any] | None = None,
    **options: Any,
) -> str:
    """Have a label forgotten and committed; return the id of the request."""
    federation = Federation.open(run)
    outcome = federation.forget([label], settings=ForgetSettings(method="renormalise", **options))
    assert not outcome.result.still_known
    Transaction(federation.active).commit(audit=audit)
    if purge:
        Transaction(federation.active).purge(lambda: None)
    return str(outcome.result.request)


def figure(value: float, *seeds: float, **detail: Any) -> ModelFigure:
    """Return a figure of one seed or of several, known to a hundredth."""
    each = tuple(SeedFigure(one, one - 0.01, one + 0.01) for one in seeds or (value,))
    return ModelFigure(value, value - 0.1, value + 0.1, detail, "", seeds or (value,), each)


def figures(depth: str) -> dict[str, Measurement]:
    """Return figures from which a depth follows: the top needs tops, the deepest models."""
    echo = figure(0.95 if depth == "answers" else 0.25, scores=[1, 2])
    values: dict[str, dict[str, ModelFigure]] = {
        "forgotten-accuracy": {"forgotten": figure(0.5 if depth == "none" else 0.0)},
        "echo": {"forgotten": echo, "original": figure(2.0)},
        # It never came back, for which JSON has no word.
        "relearning": {"forgotten": figure(math.inf, math.inf, tried=500, curve=[1])},
    }
    if depth in ("top", "bottoms"):
        values["echo"]["refitted"] = figure(0.2, 0.18, 0.22)
    if depth == "bottoms":
        values["relearning"] |= {"original": figure(2.0), "retrained": figure(45.0, 44.0, 46.0)}
        values["probe-linear"] = {
            "original": figure(1.0),
            "retrained": figure(0.5, 0.49, 0.51),
            "forgotten": figure(0.5),
        }
    return {
        name: Measurement("", "top", None, "share", by_model) for name, by_model in values.items()
    }


def verdict(request: str, depth: Any = "top") -> Verdict:
    """Return a verdict in which everything follows from the figures."""
    measures, limits = figures(depth), AuditSettings()
    findings = judge(measures, limits)
    assert depth_of(findings) == depth
    return replace(
        verdicts.bare(),
        request=request,
        labels=("hippopotamus",),
        people=0,
        depth=depth,
        demanded="top",
        visibility="open",
        method="renormalise",
        findings=tuple(findings),
        measures=measures,
        thresholds=limits,
        unknown=("There was no retrained model.",),
    )


def keep_audit(run: Path, found: Verdict) -> Path:
    """Keep a verdict as an audit does: in the file, and by a line of the ledger."""
    path = run / "active" / "audit.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found.to_json()))
    bind(Ledger(run / "active", mode=0o600), path)
    return path


def audit(run: Path, request: str, depth: Any = "top") -> None:
    """Keep the verdict of an audit, with a figure that JSON has no word for."""
    keep_audit(run, verdict(request, depth))


@dataclass
class Forger:
    """Changes a certificate in a folder, with whatever keys there are.

    body, whole  the certificate as plain data; `sign` puts the active party's signature under it
    """

    run: Path
    keys: Path

    def __post_init__(self) -> None:
        self.whole: dict[str, Any] = json.loads(self.path.read_text())

    @property
    def path(self) -> Path:
        return self.run / "certificate.json"

    @property
    def annex(self) -> Path:
        return self.run / "certificate.annex"

    @property
    def body(self) -> dict[str, Any]:
        found = self.whole["certificate"]
        assert isinstance(found, dict)
        return found

    def part(self, party: str) -> dict[str, Any]:
        found = self.body["parties"][party]["part"]
        assert isinstance(found, dict)
        return found

    def state(self, depth: str | None) -> None:
        """Say of a depth what a certificate says without figures, beside the parts it has now."""
        parts = {party: signed["part"] for party, signed in self.body["parties"].items()}
        purges = {party: (part["purge"] or {}).get("at") for party, part in parts.items()}
        purges |= dict.fromkeys(self.body["not_signed"])
        self.body.update(statement(depth, self.body["visibility"], purges=purges))

    def write(self) -> None:
        self.path.write_text(json.dumps(self.whole))

    def sign_part(self, party: str, folder: Path | None = None) -> None:
        """Sign a party's part again, with its own key or with that of another folder."""
        signer = Signer(folder or self.run / party)
        signature = signer.sign(canonical(self.part(party)))
        self.body["parties"][party] |= {"key": signer.public, "signature": signature}

    def sign(self, folder: Path | None = None) -> None:
        """Sign the whole again as the active party could, and write it."""
        signer = Signer(folder or self.run / "active")
        self.whole |= {"key": signer.public, "signature": signer.sign(canonical(self.body))}
        self.write()

    def reseal(self, change: Callable[[dict[str, Any]], None], plain: dict[str, Any]) -> None:
        """Seal another annex, name its hash, and sign."""
        change(plain)
        self.use_annex(seal(plain, read_auditor_key(self.keys / "auditor.pub")))

    def use_annex(self, data: bytes) -> None:
        self.annex.write_bytes(data)
        self.body["annex"]["sha256"] = sha256(data)
        self.sign()

    def rewrite_ledger(self, party: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change a ledger's lines and chain them anew, as its owner could."""
        folder = self.run / party
        entries = Ledger(folder).entries()
        previous, lines = "", []
        for entry in entries:
            plain = json.loads(entry.line())
            change(plain)
            draft = LedgerEntry(**{**plain, "previous": previous, "hash": ""})
            sealed = LedgerEntry(**{**json.loads(draft.line()), "hash": draft.expected_hash()})
            lines.append(sealed.line() + "\n")
            previous = sealed.hash
        (folder / "ledger.jsonl").write_text("".join(lines))


def certify(run: Path, keys: Path | None = None, **options: Any) -> dict[str, Any]:
    """Write a certificate beside a run as the command does, with an annex if there are keys."""
    federation = Federation.open(run)
    wish = None
    if keys is not None:
        wish = AnnexRequest(read_auditor_key(keys / "auditor.pub"), "Art. 17", ("passive-1",))
    issued = issue(federation.active, annex=wish, **options)
    (run / "certificate.json").write_text(json.dumps(issued.certificate))
    if issued.annex is not None:
        (run / "certificate.annex").write_bytes(issued.annex)
    (run / "trust.json").write_text(json.dumps(issued.keys))
    return issued.certificate


def copy(run: Path, to: Path) -> Path:
    return Path(shutil.copytree(run, to))
