"""A certificate of 0.6 is read in present words, and nothing can be slipped in on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from compat.places import put

from unlabel.compat import certificate as in_present_words
from unlabel.report.certificate_form import read_certificate
from unlabel.report.verify import verify
from unlabel.signing import Signer, canonical

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return put("finished", tmp_path)


def faults(whole: dict[str, Any]) -> list[str]:
    return verify(json.dumps(whole).encode(), "it").faults


def signed(run: Path, body: dict[str, Any]) -> dict[str, Any]:
    """Sign a body as the active party itself could."""
    signer = Signer(run / "active")
    return {
        "certificate": body,
        "key": signer.public,
        "signature": signer.sign(canonical(body)),
    }


def test_an_old_certificate_is_read_in_present_words_and_holds(run: Path) -> None:
    whole = json.loads((run / "certificate.json").read_text())
    document, raw = read_certificate(json.dumps(whole).encode(), "it")
    body = document.certificate
    assert raw == whole
    assert (body.what, body.depth, body.guarantee) == ("unlabel certificate 2", "top", "measured")
    assert body.words == whole["certificate"]["depth"]["words"]
    assert faults(whole) == []
    assert faults(signed(run, whole["certificate"])) == []


CHANGES: dict[str, Change] = {
    "deeper": lambda body: body["depth"].update(level="deep"),
    "other words": lambda body: body["depth"].update(words="All is well."),
    "another mode": lambda body: body.update(mode="deep"),
    "another request": lambda body: body.update(request="0" * 16),
    "another day": lambda body: body["term"].update(received="2026-01-01"),
    "no annex": lambda body: body.update(annex=None),
    "another party": lambda body: body["not_signed"].update(ghost="It was away."),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_old_certificate_with_a_field_changed_is_refused(run: Path, change: Change) -> None:
    whole = json.loads((run / "certificate.json").read_text())
    change(whole["certificate"])
    assert any("signature over the whole" in fault for fault in faults(whole))


def test_an_old_certificate_cannot_be_passed_on_in_its_translation(run: Path) -> None:
    whole = in_present_words(json.loads((run / "certificate.json").read_text()))
    assert any("signature over the whole" in fault for fault in faults(whole))


def forged_parts(body: dict[str, Any]) -> None:
    """Show other parts than those that were signed: as if weights had been purged later."""
    parts = deepcopy(body["parties"])
    for each in parts.values():
        each["part"]["purge"] = None
    body["depth"]["parties"] = parts


SMUGGLED: dict[str, Change] = {
    "visibility": lambda body: body.update(visibility="hidden"),
    "secret": lambda body: body.update(secret=False),
    "guarantee": lambda body: body.update(guarantee="measured"),
    "words": lambda body: body.update(words=body["depth"].pop("words")),
    "version": lambda body: body.update(version=7),
    "demand": lambda body: body.update(demand="0" * 64),
    "figures": lambda body: body.update(figures="0" * 64),
    "depth.request": lambda body: body["depth"].update(request=body["request"]),
    "depth.depth": lambda body: body["depth"].update(depth="bottoms"),
    "depth.parties": forged_parts,
    "depth.level: bottoms": lambda body: body["depth"].update(level="bottoms"),
}


@pytest.mark.parametrize("field", SMUGGLED)
def test_fields_of_the_present_form_are_refused_in_an_old_certificate(
    run: Path, field: str
) -> None:
    """Even where the active party signs them: a partner must not read what others did not."""
    body = json.loads((run / "certificate.json").read_text())["certificate"]
    SMUGGLED[field](body)
    (fault,) = faults(signed(run, body))
    assert f"`{field}`" in fault


@pytest.mark.parametrize("field", ["mode", "level"])
def test_fields_of_the_old_form_are_refused_in_a_present_certificate(run: Path, field: str) -> None:
    whole = in_present_words(json.loads((run / "certificate.json").read_text()))
    (fault,) = faults(signed(run, {**whole["certificate"], field: "deep"}))
    assert f"`certificate.{field}` does not belong there" in fault
