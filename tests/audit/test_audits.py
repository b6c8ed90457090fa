"""Audits of a supervised run: what they ask, what they need, and which of two verdicts counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli.command_line import one_thread
from torch import Tensor

import unlabel as ul
from unlabel.audit import Finding, Verdict
from unlabel.audit.binding import bind
from unlabel.audit.facts import RULES
from unlabel.audit.observation import sampled
from unlabel.audit.references import TOPS
from unlabel.audit.verdict import read_verdict
from unlabel.errors import ForgetError
from unlabel.forget import ForgetSettings
from unlabel.report.annex import make_auditor_keys
from unlabel.report.verify_figures import EARLIER_RULES
from unlabel.train import Training
from unlabel.train.top_fit import Recipe
from unlabel.train.top_refit import LEAST, refit_recipe, refit_tops
from unlabel.wire import LocalTransport, Message

__all__ = ["one_thread"]  # a fixture for every test here

KEY = "2a" * 32
ROWS = 400
AUDIT = Path("active/audit.json")


def tables() -> dict[str, dict[str, Any]]:
    """Return a bank with the labels and some columns, and a shop with others."""
    draw = np.random.default_rng(0)
    x, ids = draw.normal(size=(ROWS, 8)), np.arange(ROWS)
    labels = np.array(["boat", "car", "home", "land"])[x[:, [0, 3, 5, 6]].argmax(1)]
    bank = {"id": ids, "loan": labels, "age": x[:, 0], "income": x[:, 1]}
    return {"bank": bank, "shop": {"id": ids, **{f"x{n}": x[:, n] for n in range(2, 8)}}}


def trained(folder: Path, **settings: Any) -> ul.Federation:
    federation = ul.Federation.from_frames(
        tables(), label="loan", folder=folder, epochs=8, **settings
    )
    federation.train()
    return federation


def stage(federation: ul.Federation, *labels: str, **settings: Any) -> None:
    federation.forget(
        labels=list(labels or ("boat",)), settings=ForgetSettings(key=KEY, **settings)
    )


@pytest.fixture
def staged(tmp_path: Path) -> ul.Federation:
    """Return a run with a hidden request that is not decided on."""
    federation = trained(tmp_path / "run")
    stage(federation)
    return federation


@contextmanager
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Tensor]]]:
    """Keep which rows every partner is asked for."""
    found: list[tuple[str, Tensor]] = []
    plain = LocalTransport.exchange

    def exchange(self: LocalTransport, requests: dict[str, Message]) -> dict[str, Message]:
        found.extend(
            (party, torch.as_tensor(message.rows))
            for party, message in requests.items()
            if hasattr(message, "rows")
        )
        return plain(self, requests)

    with monkeypatch.context() as patch:
        patch.setattr(LocalTransport, "exchange", exchange)
        yield found


def keep(federation: ul.Federation, verdict: Verdict) -> None:
    """Keep a verdict as the audit of another version would have."""
    path = federation.folder / AUDIT
    path.write_text(json.dumps(verdict.to_json()))
    versions = federation.active.versions
    store = versions.store
    last = (store.staged if store.staged.versions() else store).versions()[-1]
    bind(versions.ledger, path, store.store_with(last).digest(last))


# --- tops that need nobody's data -------------------------------------------------------------


def test_partners_data_is_not_needed_to_judge_the_top(staged: ul.Federation) -> None:
    here = staged.audit(demand="none")
    assert (here.facts.retrained, here.facts.refitted, here.facts.rules) == (0, TOPS, RULES)
    judged = {f.measure: f.ruling for f in here.findings if f.depth == "top"}
    assert judged["trace-output"] == judged["echo"] == "pass"
    # Between organisations: what partners hold is not here, and they only answer.
    own = {p: x for p, x in staged.holdings.features.items() if p == "active"}
    staged.holdings = replace(staged.holdings, features=own)
    staged.is_remote = True
    there = staged.audit(demand="none")
    assert there.findings == here.findings
    assert there.measures == here.measures
    with pytest.raises(ForgetError, match="every party keeps its own"):
        staged.audit(retrained=1)


@pytest.mark.parametrize(("epochs", "passes"), [(3, 3), (8, 0)])
def test_a_brief_request_is_held_against_models_that_trained_as_briefly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: int, passes: int
) -> None:
    federation = trained(tmp_path / "run")  # of eight epochs
    brief = {"options": {"epochs": epochs}}
    stage(federation, method="deep", allow_collapse=True, **brief)
    asked_for: list[int] = []
    plain = Training.run

    def run(self: Training) -> Any:
        asked_for.append(self.epochs)
        return plain(self)

    monkeypatch.setattr(Training, "run", run)
    verdict = federation.audit(retrained=1, demand="none")
    assert verdict.facts.matched == passes
    assert asked_for == [8, *([passes] if passes else [])]
    assert len(verdict.facts.references) == len(asked_for)
    assert ("matched" in verdict.measures["trace"].values) == bool(passes)


# --- large tables -----------------------------------------------------------------------------


def look_at(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    # The first is imported late, and takes the number from the second.
    for place in ("service", "observation"):
        monkeypatch.setattr(f"unlabel.audit.{place}.SAMPLED", rows)


def test_of_a_sample_tops_are_taught_by_as_many_rows_and_steps_as_that_of_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_at(monkeypatch, 150)
    federation = trained(tmp_path / "run", batch=4)
    asked_for: list[int] = []
    for place in ("unlabel.forget.methods.hidden", "unlabel.audit.references"):
        monkeypatch.setattr(f"{place}.refit_recipe", noting(asked_for))
    taught: list[int] = []

    def refit(*given: Any) -> Any:
        taught.append(len(given[2]))
        return refit_tops(*given)

    monkeypatch.setattr("unlabel.audit.references.refit_tops", refit)
    stage(federation)
    verdict = federation.audit(demand="none")
    assert verdict.facts.observed["train"] < verdict.facts.rows["train"] / 2
    assert taught == [verdict.facts.rows["train"]]
    assert asked_for[0] > LEAST
    assert asked_for == [asked_for[0]] * (1 + TOPS)


def noting(steps: list[int]) -> Any:
    def recipe(*given: Any, **named: Any) -> Recipe:
        found = refit_recipe(*given, **named)
        steps.append(found.steps)
        return found

    return recipe


def test_every_phase_of_an_audit_reports_progress(staged: ul.Federation) -> None:
    told: list[tuple[int, int, str]] = []
    opened = ul.Federation.open(staged.folder, watch=lambda *now: told.append(now))
    assert [note for *_, note in told] == [
        "reading the data", "matching rows", "checking rows and labels"
    ]  # fmt: skip
    told.clear()
    verdict = opened.audit(demand="none", retrained=1, watch=lambda *now: told.append(now))
    notes = dict.fromkeys(note for *_, note in told)
    phases = ["looking at rows", "retraining 1 of 1", "fitting 7 tops anew", "echo of refitted"]
    phases += ["pictures", "attacks by rows that moved", "writing the verdict"]
    assert [note for note in notes if note in phases] == phases
    assert all(0 <= done <= total for done, total, _ in told)
    assert (ROWS, ROWS, "looking at rows") in told
    epochs = [done for done, _, note in told if note == "retraining 1 of 1"]
    assert epochs == sorted(epochs)
    assert len(epochs) >= 8
    assert not verdict.facts.observed  # all rows were looked at


def test_of_a_large_table_so_many_rows_are_asked_for_whatever_the_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_at(monkeypatch, 150)
    first: list[tuple[str, Tensor]] = []
    for labels in (["boat"], ["home"], ["car", "land"]):
        federation = trained(tmp_path / "-".join(labels))
        stage(federation, *labels)
        with asked(monkeypatch) as found:
            verdict = federation.audit(demand="none")
        rows = torch.cat([rows for party, rows in found if party == "shop"])
        assert torch.equal(rows[:150], sampled(ROWS))  # of the model before
        assert torch.equal(rows[150:], torch.arange(ROWS))  # and all of the one after
        seen = verdict.facts.observed
        assert seen["train"] + seen["test"] < 150 < verdict.facts.rows["train"]
        words = f"{seen['train']} of {verdict.facts.rows['train']} training rows"
        assert any(words in said and "so few" in said for said in verdict.unknown)
        assert Verdict.from_json(verdict.to_json()).facts == verdict.facts
        first = first or found
        assert [party for party, _ in found] == [party for party, _ in first]
        assert all(torch.equal(a, b) for (_, a), (_, b) in zip(found, first, strict=True))


def test_a_sample_is_in_order_without_repetition_and_the_same_every_time() -> None:
    assert torch.equal(sampled(100_000), torch.arange(100_000))
    drawn = sampled(100_001)
    assert len(drawn) == 100_000
    assert torch.equal(drawn, drawn.unique())  # sorted, each once
    assert torch.equal(drawn, sampled(100_001))
    # Not the first ones: every part of the table is looked at alike.
    large = sampled(400_000)
    assert large.double().mean() == pytest.approx(200_000, rel=0.01)


# --- which of two verdicts counts -------------------------------------------------------------


def test_an_audit_after_a_purge_never_replaces_a_better_one(staged: ul.Federation) -> None:
    best = staged.audit(demand="none")
    assert best.depth == "top"
    staged.commit(force=True)
    staged.purge()
    kept = (staged.folder / AUDIT).read_bytes()
    with pytest.raises(ForgetError) as refused:
        staged.audit(demand="none")
    assert refused.value.code == "purged"
    assert best.facts.at in str(refused.value)
    assert (staged.folder / AUDIT).read_bytes() == kept
    assert staged.report().verdict.depth == "top"


def by_old_rules(verdict: Verdict, depth: Any) -> Verdict:
    """Return a verdict as 0.9 wrote it: without references, and by a limit of its own."""
    finding = Finding("top", "rank", "warn", "The label's score ranks its rows with 0.5.")
    return replace(
        verdict,
        depth=depth,
        findings=(*(f for f in verdict.findings if f.depth == "answers"), finding),
        measures={
            name: replace(m, values={k: v for k, v in m.values.items() if k != "refitted"})
            for name, m in verdict.measures.items()
        },
        facts=replace(verdict.facts, rules=1, refitted=0),
    )


def test_a_depth_by_rules_that_a_faked_model_passes_is_not_committed(staged: ul.Federation) -> None:
    new = staged.audit(demand="none")
    assert not new.is_outdated
    old = by_old_rules(new, "top")
    assert old.is_outdated
    assert not by_old_rules(new, "answers").is_outdated
    assert not replace(old, guarantee="exact").is_outdated
    keep(staged, old)
    assert read_verdict(staged.folder / AUDIT) == old  # it can be read
    for force in (False, True):
        with pytest.raises(ForgetError, match="rules of an earlier version"):
            staged.commit(force=force)
    staged.audit(demand="none")
    staged.commit()


def test_a_certificate_of_such_an_audit_is_not_checked_and_not_called_faulty(
    staged: ul.Federation, tmp_path: Path
) -> None:
    new = staged.audit(demand="none")
    staged.commit()
    keep(staged, by_old_rules(replace(new, state="committed"), "top"))
    make_auditor_keys(tmp_path)
    made = staged.certificate(auditor_key=tmp_path / "auditor.pub")
    checks = ul.verify(made.path, run=staged.folder, annex_key=tmp_path / "auditor.key")
    assert checks.faults == []
    assert EARLIER_RULES in checks.unchecked
    assert not [said for said in checks.held if "follow from the figures" in said]
