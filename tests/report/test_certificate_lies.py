"""What a liar could do with a certificate: try out labels, forge keys, bring old weights back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import one_thread, unlabel
from report.certified import LABELS, PASSIVE, Forger, certify, copy, forget, make_run

from unlabel import Federation
from unlabel.files import sha256
from unlabel.party import Ledger
from unlabel.report.annex import make_auditor_keys, read_annex_key, unseal
from unlabel.report.verify import verify
from unlabel.signing import WEAK, is_signed, is_weak

__all__ = ["one_thread"]  # a fixture for every test here


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("zoo"))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("auditor")
    make_auditor_keys(folder)
    return folder


def faults(run: Path, **options: Any) -> list[str]:
    trust = json.loads((run / "trust.json").read_text())
    text = (run / "certificate.json").read_bytes()
    return verify(text, "it", trust=trust, run=run, **options).faults


# --- a curious partner --------------------------------------------------------------------------


def line_hash(index: int, event: str, at: str, previous: str, request: str, note: Any) -> str:
    line = {"index": index, "event": event, "request": request, "at": at, "note": note}
    return sha256(json.dumps({**line, "previous": previous}, sort_keys=True).encode())


def end_of_ledger(body: dict[str, Any], name: str, weights: list[str], **blind: str) -> str:
    """Return where the active party's ledger would end for a label.

    All but the digests of its weights, which a liar may have, stands in the certificate.
    """
    request, commitment = body["request"], body["commitment"]
    parts = {party: signed["part"] for party, signed in body["parties"].items()}
    heads = {}
    for party in PASSIVE:
        part = parts[party]
        digests = [part["weights"]["before"], part["weights"]["after"]]
        note = {"commitment": commitment, "version": part["version"], "weights": digests}
        heads[party] = line_hash(0, "commit", part["committed"], "", request, note)
    own = parts["active"]
    note = {
        "method": "renormalise",
        "labels": [name],
        "secret": True,
        "hidden": False,
        "commitment": commitment,
        "version": own["version"],
        "heads": heads,
        "weights": weights,
        **blind,
    }
    commit = line_hash(0, "commit", own["committed"], "", request, note)
    purge = own["purge"]
    note = {"version": purge["version"], "heads": {p: parts[p]["ledger"] for p in PASSIVE}}
    return line_hash(1, "purge", purge["at"], commit, request, note)


def test_labels_cannot_be_tried_out_against_the_hash_of_a_ledger(
    trained: Path, tmp_path: Path
) -> None:
    blinds = set()
    for label in ("cat", "bat"):
        run = copy(trained, tmp_path / label)
        forget(run, label, secret=True)
        body = certify(run)["certificate"]
        told = body["parties"]["active"]["part"]["ledger"]
        note = Ledger(run / "active").entries()[0].note
        blind, weights = note["blind"], note["weights"]
        # All but these bits is known to everybody who has the certificate and all weights.
        assert end_of_ledger(body, label, weights, blind=blind) == told
        assert told not in [end_of_ledger(body, name, weights) for name in LABELS]
        assert len(bytes.fromhex(blind)) == 32
        for folder in (*(run / party for party in PASSIVE), run / "certificate.json"):
            files = folder.rglob("*") if folder.is_dir() else [folder]
            assert not any(blind.encode() in f.read_bytes() for f in files if f.is_file())
        blinds.add(blind)
    assert len(blinds) == 2


# --- keys under which anybody signs -------------------------------------------------------------

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int]


def plus(one: Point, other: Point) -> Point:
    (a, b), (c, d) = one, other
    k = D * a * b * c * d
    return (
        (a * d + b * c) * pow(1 + k, -1, P) % P,
        (b * d + a * c) * pow(1 - k, -1, P) % P,
    )


def decoded(public: str) -> Point:
    """Return the point of the curve -x^2 + y^2 = 1 + d x^2 y^2 with this y."""
    y = int.from_bytes(bytes.fromhex(public), "little") % P
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if x * x % P == square else x * pow(2, (P - 1) // 4, P) % P
    assert x * x % P == square
    return x, y


def test_the_weak_keys_are_all_points_of_order_eight_or_less() -> None:
    points = set()
    for public in WEAK:
        x, y = point = decoded(public)
        for _ in range(3):
            point = plus(point, point)
        assert point == (0, 1)
        points |= {(x, y), (-x % P, y)}
    assert len(points) == 8  # the curve has no more of them
    base = decoded("58" + "66" * 31)
    for _ in range(3):
        base = plus(base, base)
    assert base != (0, 1)


def test_nothing_is_signed_under_a_weak_key() -> None:
    forged = "01" + "00" * 31 + "00" * 32  # 0 B = 1 + h 1, for every text and its hash h
    for sign in ("00", "80"):
        key = "01" + "00" * 30 + sign
        assert is_weak(key)
        assert not is_signed(key, b"whatever", forged)


# --- weights that come back ---------------------------------------------------------------------


def test_old_weights_under_a_new_number_are_no_purge(trained: Path, tmp_path: Path) -> None:
    """The active party goes back after the commit, keeps that as newest, and has all purged."""
    run = copy(trained, tmp_path / "run")
    forget(run, purge=False)
    federation = Federation.open(run)
    active = federation.active
    before, after = active.versions.common()[-2:]
    facts = active.versions.restore(before)
    active.versions.save(
        after + 1, {k: v for k, v in facts.items() if k != "parties"}, also=(after,)
    )
    federation.refresh()
    federation.purge()
    certify(run)
    found = faults(run)
    for party in PASSIVE:
        where = f"{party}/versions/{after + 1:06d}.safetensors"
        assert f"Party '{party}' attests a purge, but '{where}' from before it is still there." in (
            found
        )


def test_a_part_that_its_party_s_ledger_contradicts_is_named(trained: Path, tmp_path: Path) -> None:
    run = copy(trained, tmp_path / "run")
    forget(run)
    certify(run)
    assert faults(run) == []
    # Later versions hide the file itself.
    for suffix in (".json", ".safetensors"):
        (path,) = (run / "passive-1" / "versions").glob(f"*{suffix}")
        path.rename(path.with_name(f"{int(path.stem) + 1:06d}{suffix}"))
    forger = Forger(run, run)
    forger.part("passive-1")["weights"]["after"] = "0" * 64
    forger.sign_part("passive-1")
    forger.sign()
    (fault,) = faults(run)
    assert fault == (
        "The ledger of party 'passive-1' holds another version or other weights than it signed."
    )


# --- words and forms that are not what they seem ------------------------------------------------


def test_words_of_others_do_not_steer_the_terminal(trained: Path, tmp_path: Path) -> None:
    run = copy(trained, tmp_path / "run")
    forget(run)
    certify(run)
    forger = Forger(run, run)
    forger.body["not_signed"] = {"passive-3": "It refused: \x1b[8mnothing\u202e more"}
    forger.body["term"]["purged"] = None
    forger.state(None)
    forger.sign()
    found = unlabel("verify", run / "certificate.json")
    assert found.code == 0
    assert "It refused: \\x1b[8mnothing\\u202e more" in found.err
    assert "\x1b" not in found.err


def test_a_term_that_never_ends_is_no_certificate(trained: Path, tmp_path: Path) -> None:
    run = copy(trained, tmp_path / "run")
    forget(run)
    certify(run)
    forger = Forger(run, run)
    forger.body["term"]["received"] = "9999-12-31"
    forger.sign()
    (fault,) = faults(run)
    assert "`certificate.term.received` cannot be read" in fault


@pytest.mark.parametrize(
    "change",
    [
        {"asked": [["labels", ["hippopotamus"]]]},
        {"asked": {"labels": "hippopotamus"}},
        {"recipients": ["passive-1"]},
        {"recipients": {"passive-1": True}},
        {"not_tested": 7},
    ],
    ids=["pairs", "text", "list", "no object", "number"],
)
def test_an_annex_of_another_form_is_named(
    trained: Path, tmp_path: Path, keys: Path, change: dict[str, Any]
) -> None:
    run = copy(trained, tmp_path / "run")
    forget(run)
    certify(run, keys)
    key = read_annex_key(keys / "auditor.key")
    forger = Forger(run, keys)
    plain = unseal(forger.annex.read_bytes(), key)
    forger.reseal(lambda annex: annex.update(change), plain)
    found = faults(run, annex=forger.annex.read_bytes(), annex_key=key)
    assert found == ["What the annex holds is not of the form of an annex."]
