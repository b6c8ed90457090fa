"""Who signs what: keys, parts, the whole, the term, and the annex that only the auditor opens."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import random
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cli.command_line import nothing_written, one_thread, unlabel
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st
from report.certified import (
    PARTIES,
    PASSIVE,
    audit,
    certify,
    copy,
    forget,
    keep_audit,
    make_run,
    verdict,
)

from unlabel import Federation, Policy
from unlabel.audit import ModelFigure
from unlabel.cli.options import expect_same
from unlabel.config import SERVES
from unlabel.config.loader import read_run_folder
from unlabel.errors import CheckpointError, SettingsError
from unlabel.files import sha256
from unlabel.forget import ForgetSettings, Transaction
from unlabel.forget.request import commit_to
from unlabel.party.policy import Guard
from unlabel.report.annex import BLOCK, make_auditor_keys, read_annex_key, read_auditor_key, unseal
from unlabel.report.annex import seal as seal_annex
from unlabel.report.certificate import issue, statement
from unlabel.report.certificate_form import due_day
from unlabel.report.disclosure import is_secret, visibility_of
from unlabel.report.verify import verify
from unlabel.report.wording import FORBIDDEN
from unlabel.runfolder import expect_usable
from unlabel.signing import Signer, canonical, is_signed
from unlabel.wire import Attest, Attestation, LocalTransport, Message, Refused, Transport

__all__ = ["one_thread"]  # a fixture for every test here


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("zoo"))


@pytest.fixture(scope="module")
def committed(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with a committed request, nothing of it purged and nothing certified."""
    run = copy(trained, tmp_path_factory.mktemp("committed") / "run")
    forget(run, purge=False)
    return run


@pytest.fixture
def run(committed: Path, tmp_path: Path) -> Path:
    return copy(committed, tmp_path / "run")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("auditor")
    make_auditor_keys(str(folder))
    return folder


def request_of(run: Path) -> str:
    lines = (run / "active" / "ledger.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return str(next(line["request"] for line in found if line["event"] == "commit"))


def attested(run: Path, party: str = "passive-1") -> Message:
    federation = Federation.open(run)
    return federation.passives[party].handle(Attest(0, request_of(run)))


def holds(run: Path) -> list[str]:
    """Check a certificate in a run's folder wholly; return what was left open."""
    trust = json.loads((run / "trust.json").read_text())
    found = verify((run / "certificate.json").read_bytes(), "it", trust=trust, run=run)
    assert found.faults == []
    return found.unchecked


def dates(run: Path) -> str:
    """Return what a check of a certificate says about its dates."""
    found = verify((run / "certificate.json").read_bytes(), "it")
    return next(sentence for sentence in found.held if sentence.startswith("Dates hold"))


# --- the form that is signed ---------------------------------------------------------------

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def shuffled(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        names = list(value)
        rng.shuffle(names)
        return {name: shuffled(value[name], rng) for name in names}
    return [shuffled(each, rng) for each in value] if isinstance(value, list) else value


@given(PLAIN, st.integers(0, 99))
def test_equal_data_has_equal_bytes_in_any_order_and_after_any_journey(
    value: Any, seed: int
) -> None:
    text = canonical(value)
    assert canonical(shuffled(value, random.Random(seed))) == text
    assert canonical(json.loads(text)) == text
    assert canonical(json.loads(json.dumps(value, indent=3, ensure_ascii=False))) == text
    assert json.loads(text) == value
    assert text.isascii()
    assert b"\n" not in text


@given(PLAIN, PLAIN)
def test_different_data_has_different_bytes(one: Any, other: Any) -> None:
    def kinds(value: Any) -> Any:  # True is 1 to Python, but not to JSON
        if isinstance(value, dict):
            return {name: kinds(each) for name, each in value.items()}
        return [kinds(each) for each in value] if isinstance(value, list) else (type(value), value)

    assert (canonical(one) == canonical(other)) == (kinds(one) == kinds(other))


def test_what_json_cannot_say_is_not_signed() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical({"a": float("nan")})


# --- keys ----------------------------------------------------------------------------------


def test_a_key_is_made_on_first_use_and_kept_for_its_owner_alone(tmp_path: Path) -> None:
    first = Signer(tmp_path / "one")
    path = tmp_path / "one" / "secrets" / "signing.key"
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    second, other = Signer(tmp_path / "one"), Signer(tmp_path / "two")
    assert path.read_bytes() == before
    assert second.public == first.public != other.public
    assert is_signed(first.public, b"x", second.sign(b"x"))
    assert not is_signed(other.public, b"x", first.sign(b"x"))
    assert not is_signed(first.public, b"y", first.sign(b"x"))
    for key, signature in (("", ""), ("zz", "0" * 128), (first.public.upper(), first.sign(b"x"))):
        assert not is_signed(key, b"x", signature)


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PRIVATE KEY-----\n", "x25519"])
def test_a_damaged_key_is_named_and_not_replaced(
    run: Path, keys: Path, content: bytes | str
) -> None:
    data = (keys / "auditor.key").read_bytes() if isinstance(content, str) else content
    path = run / "passive-1" / "secrets" / "signing.key"
    path.parent.mkdir()
    path.write_bytes(data)
    answer = attested(run)
    assert isinstance(answer, Refused)
    assert "Key 'passive-1/secrets/signing.key' is" in answer.reason
    assert path.read_bytes() == data
    with pytest.raises(CheckpointError):
        Signer(run / "passive-1")


def test_a_party_signs_its_own_words_about_its_own_files(run: Path) -> None:
    digests = {
        int(path.stem): sha256(path.read_bytes())
        for path in (run / "passive-1" / "versions").glob("*.safetensors")
    }
    answer = attested(run)
    assert isinstance(answer, Attestation)
    assert is_signed(answer.key, answer.part.encode(), answer.signature)
    part = json.loads(answer.part)
    assert canonical(part).decode() == answer.part
    old, new = sorted(digests)[-2:]
    assert part["weights"] == {"before": digests[old], "after": digests[new]}
    assert (part["party"], part["request"], part["version"]) == ("passive-1", request_of(run), new)
    assert part["purge"] is None
    lines = (run / "passive-1" / "ledger.jsonl").read_text().splitlines()
    assert part["ledger"] == json.loads(lines[-1])["hash"]
    assert "hippopotamus" in lines[0]  # an open request: its own ledger knows
    assert "hippopotamus" not in answer.part


def test_the_digests_of_weights_survive_their_purge_and_later_training(run: Path) -> None:
    before = attested(run)
    federation = Federation.open(run)
    Transaction(federation.active).purge(lambda: None)
    after = attested(run)
    assert isinstance(before, Attestation)
    assert isinstance(after, Attestation)
    one, two = json.loads(before.part), json.loads(after.part)
    assert one["weights"] == two["weights"]
    assert two["purge"]["attested_by"] == "passive-1"
    assert two["purge"]["version"] == two["version"]
    whole = certify(run)["certificate"]
    assert all(p["part"]["weights"]["before"] for p in whole["parties"].values())


@pytest.mark.parametrize("name", ["0123456789abcdef", "", "../9f", "x" * 2_000])
def test_a_request_that_was_not_committed_is_not_attested_and_makes_no_key(
    run: Path, name: str
) -> None:
    party = Federation.open(run).passives["passive-1"]
    with nothing_written(run):
        answer = party.handle(Attest(0, name))
    assert isinstance(answer, Refused)
    assert "its ledger has no commit of request" in answer.reason


def test_a_name_too_long_to_be_sent_is_refused_before_a_key_is_made(run: Path) -> None:
    party = Federation.open(run).passives["passive-1"]
    assert party.store is not None
    party.store.party = "ü" * 250
    with nothing_written(run):
        answer = party.handle(Attest(0, request_of(run)))
    assert isinstance(answer, Refused)
    assert "too long" in answer.reason


# --- the certificate -----------------------------------------------------------------------


def test_every_party_signs_and_the_active_party_signs_the_whole(run: Path) -> None:
    whole = certify(run)
    body = whole["certificate"]
    assert list(body["parties"]) == list(PARTIES)
    assert body["not_signed"] == {}
    assert is_signed(whole["key"], canonical(body), whole["signature"])
    for party, signed in body["parties"].items():
        own = Signer(run / party)
        assert signed["key"] == own.public
        assert signed["signature"] == own.sign(canonical(signed["part"]))
        assert signed["part"]["commitment"] == body["commitment"]
    assert (body["visibility"], body["method"]) == ("open", "renormalise")
    assert body["annex"] is None
    assert body["term"]["purged"] is None
    assert body["depth"] is None
    assert "hippopotamus" not in json.dumps(whole)
    assert holds(run) == ["The certificate has no annex, so its request stays closed."]


def test_over_an_encoded_transport_it_is_the_same(run: Path) -> None:
    federation = Federation.open(run)
    plain = issue(federation.active).certificate["certificate"]
    federation.active.transport = LocalTransport(federation.passives, encoded=True)
    encoded = issue(federation.active).certificate["certificate"]
    for body in (plain, encoded):
        del body["term"]["issued"]
        for signed in body["parties"].values():
            del signed["part"]["signed"], signed["signature"]
    assert encoded == plain
    assert list(encoded["parties"]) == list(PARTIES)


class Faulty(Transport):
    """Reaches all parties but one, whose answers are changed or do not come at all."""

    def __init__(self, inner: Transport, answer: Message | Exception) -> None:
        super().__init__(inner.parties)
        self.inner, self.answer = inner, answer

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        found = {}
        for party, request in requests.items():
            if party == "passive-2":
                if isinstance(self.answer, Exception):
                    raise self.answer
                found[party] = self.answer
            else:
                found |= self.inner.exchange({party: request})
        return found


def with_answer(run: Path, answer: Message | Exception) -> str:
    """Certify while one party answers wrongly; return why it stands as not having signed."""
    federation = Federation.open(run)
    federation.active.transport = Faulty(federation.active.transport, answer)
    issued = issue(federation.active)
    body = issued.certificate["certificate"]
    assert list(body["parties"]) == ["active", "passive-1"]
    assert list(body["not_signed"]) == ["passive-2"]
    assert body["term"]["purged"] is None
    (run / "certificate.json").write_text(json.dumps(issued.certificate))
    (run / "trust.json").write_text(json.dumps(issued.keys))
    assert any("Party 'passive-2' did not sign" in sentence for sentence in holds(run))
    return str(body["not_signed"]["passive-2"])


def test_a_party_that_is_offline_is_named_as_not_having_signed(run: Path) -> None:
    assert "could not be reached (timed out)" in with_answer(run, TimeoutError("timed out"))


def test_a_party_that_refuses_is_named_as_not_having_signed(run: Path) -> None:
    federation = Federation.open(run)
    serves = tuple(kind for kind in SERVES if kind != "Attest")
    federation.passives["passive-2"].guard = Guard(Policy(serves=serves))
    body = issue(federation.active).certificate["certificate"]
    assert body["not_signed"] == {"passive-2": "It refused: it does not serve 'Attest'."}
    assert not (run / "passive-2" / "secrets").exists()


def test_what_does_not_hold_is_not_taken(run: Path) -> None:
    good = attested(run, "passive-2")
    assert isinstance(good, Attestation)
    signer, part = Signer(run / "passive-2"), json.loads(good.part)

    def lie(**changes: Any) -> Attestation:
        text = canonical({**part, **changes})
        return replace(good, part=text.decode(), signature=signer.sign(text))

    loose = json.dumps(part)
    wrongs: dict[str, Message] = {
        "something else than an attestation": Attest(0, "9f"),
        "signature is not one of its part": replace(good, signature="0" * 128),
        "not of the form": replace(good, part="[]"),
        "not written in the canonical form": replace(
            good, part=loose, signature=signer.sign(loose.encode())
        ),
        "another party or another request": lie(party="passive-1"),
        "another commitment": lie(commitment="0" * 64),
        "not those that it staged": lie(weights={"before": None, "after": "0" * 64}),
        "attested by another party": lie(
            purge={"attested_by": "active", "version": 9, "at": part["committed"]}
        ),
        "this machine's": lie(signed=shifted(part["signed"], 300)),
        "set the one that is wrong": lie(signed=shifted(part["signed"], -300)),
        "as where a clock was set back": lie(committed=shifted(part["signed"], 30)),
    }
    for words, answer in wrongs.items():
        assert words in with_answer(run, answer)


def shifted(moment: str, seconds: float) -> str:
    return (datetime.fromisoformat(moment) + timedelta(seconds=seconds)).isoformat()


@pytest.mark.parametrize(("at_commit", "now"), [(-30, -30), (30, 30), (-3600, 0)])
def test_clocks_that_are_little_apart_make_a_certificate_that_holds(
    run: Path, at_commit: float, now: float
) -> None:
    """What a party dated while its clock was wrong cannot be mended, and is told."""
    signer = Signer(run / "passive-2")
    good = attested(run, "passive-2")
    assert isinstance(good, Attestation)
    part = json.loads(good.part)
    assert part["purge"] is None
    part["committed"] = shifted(part["committed"], at_commit)
    part["signed"] = shifted(part["signed"], now)
    text = canonical(part)
    federation = Federation.open(run)
    answer = replace(good, part=text.decode(), signature=signer.sign(text))
    federation.active.transport = Faulty(federation.active.transport, answer)
    issued = issue(federation.active)
    assert issued.certificate["certificate"]["not_signed"] == {}
    found = verify(json.dumps(issued.certificate).encode(), "certificate.json", trust=issued.keys)
    assert found.faults == []
    told = [sentence for sentence in found.unchecked if "When party 'passive-2'" in sentence]
    assert len(told) == (at_commit == -3600)


def test_a_secret_request_is_certified_without_its_name_or_method(
    trained: Path, tmp_path: Path, keys: Path
) -> None:
    sizes, texts = set(), set()
    for label in ("cat", "hippopotamus"):
        run = copy(trained, tmp_path / label)
        forget(run, label, purge=False, secret=True)
        body = certify(run, keys)["certificate"]
        assert body["secret"]
        assert body["method"] is None
        text = (run / "certificate.json").read_text()
        assert not any(word in text for word in ('cat"', "hippopotamus", "renormalise"))
        sizes.add((run / "certificate.annex").stat().st_size)
        texts.add(len(text))
    assert len(sizes) == len(texts) == 1  # nor does its length tell


@pytest.mark.parametrize("depth", ["none", "answers", "top", "bottoms"])
def test_the_level_is_said_in_plain_words_and_four_things_are_never_said(
    run: Path, depth: str
) -> None:
    audit(run, request_of(run), depth)
    body = certify(run)["certificate"]
    assert body["depth"] == depth
    text = json.dumps(body).lower()
    assert not [word for word in FORBIDDEN if word in text]
    assert statement(depth, "open")["words"] != statement(None, "open")["words"]
    assert "below" not in text  # a certificate has no figures


@pytest.mark.parametrize("depth", ["answers", "top"])
def test_a_comparison_with_models_without_the_label_is_certified_only_where_there_was_one(
    run: Path, depth: str
) -> None:
    claims = {"answers": "a model that never learnt it", "top": "to the other labels alone"}
    claim, without = claims[depth], "No model was trained again to compare with."
    found = verdict(request_of(run), depth)
    beside = {"answers": "retrained", "top": "refitted"}[depth]
    echo = found.measures["echo"]
    for compared in (True, False):
        values = {name: each for name, each in echo.values.items() if name != beside}
        values |= {beside: ModelFigure(0.5)} if compared else {}
        own = {**found.measures, "echo": replace(echo, values=values)}
        keep_audit(run, replace(found, measures=own))
        words = certify(run)["certificate"]["words"]
        assert (claim in words) == compared
        assert (without in words) != compared
    # Of an audit whose figures are gone neither is known.
    words = statement(depth, "open")["words"]
    assert claim not in words
    assert without not in words


def test_an_audit_of_another_request_says_nothing_about_this_one(run: Path) -> None:
    audit(run, "0123456789abcdef")
    assert certify(run)["certificate"]["depth"] is None


def test_a_depth_whose_figures_another_audit_replaced_is_not_certified(
    trained: Path, tmp_path: Path, keys: Path
) -> None:
    run = copy(trained, tmp_path / "run")
    forget(run, audit={"depth": "answers", "demanded": "top", "forced": True})
    audit(run, "0123456789abcdef")
    # Its figures are not at hand any more, so no depth is certified.
    assert certify(run, keys)["certificate"]["depth"] is None
    key = read_annex_key(keys / "auditor.key")
    found = unseal((run / "certificate.annex").read_bytes(), key)
    assert (found["depth"], found["audit"], found["forced"]) == (None, None, True)
    sealed = (run / "certificate.annex").read_bytes()
    told = verify((run / "certificate.json").read_bytes(), "it", annex=sealed, annex_key=key)
    assert told.faults == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"depth": "best", "request": "9f"}', "{"])
def test_an_audit_that_cannot_be_read_is_named(run: Path, text: str) -> None:
    (run / "active" / "audit.json").write_text(text)
    said = unlabel("certificate", run).sentence
    assert "active/audit.json' is not what `unlabel audit` writes" in said


@pytest.mark.parametrize(
    ("note", "visibility", "secret"),
    [
        ({"method": "renormalise"}, "open", False),
        ({"method": "deep"}, "open", False),
        ({"method": "renormalise", "secret": True}, "open", True),
        ({"method": "hidden", "hidden": True, "secret": True}, "hidden", True),
        ({"method": "my-own"}, "open", False),
    ],
)
def test_visibility_is_no_more_than_what_was_done(
    note: dict[str, Any], visibility: str, secret: bool
) -> None:
    assert (visibility_of(note), is_secret(note)) == (visibility, secret)


# --- the term ------------------------------------------------------------------------------


@given(st.dates(date(1970, 1, 1), date(2200, 1, 1)))
def test_the_term_ends_one_month_later(day: date) -> None:
    assert due_day(day) == (pd.Timestamp(day) + pd.DateOffset(months=1)).date()


def test_the_day_of_the_demand_decides_whether_it_was_in_time(run: Path) -> None:
    term = certify(run)["certificate"]["term"]
    assert not term["stated"]
    assert term["received"] == term["committed"][:10]
    assert term["in_time"]
    assert dates(run).endswith("whether that was in time is not known.")
    term = certify(run, received=date(2024, 1, 31))["certificate"]["term"]
    assert (term["received"], term["due"]) == ("2024-01-31", "2024-02-29")
    assert term["stated"]
    assert not term["in_time"]
    holds(run)
    assert dates(run).endswith(", NOT in time.")
    with pytest.raises(SettingsError):
        certify(run, received=date(2099, 1, 1))


# --- the annex -----------------------------------------------------------------------------


def test_the_annex_tells_the_auditor_all_there_is(run: Path, keys: Path) -> None:
    audit(run, request_of(run))
    body = certify(run, keys)["certificate"]
    data = (run / "certificate.annex").read_bytes()
    assert body["annex"]["sha256"] == hashlib.sha256(data).hexdigest()
    found = unseal(data, read_annex_key(keys / "auditor.key"))
    assert found["asked"] == {"labels": ["hippopotamus"]}
    assert commit_to(found["asked"], found["key"]) == body["commitment"]
    assert found["legal_basis"] == "Art. 17"
    assert found["recipients"] == {
        "passive-1": {"informed": True},
        "passive-2": {"informed": False},
    }
    figures = found["audit"]["measures"]
    echo = figures["echo"]["values"]["forgotten"]
    assert (echo["value"], echo["low"], echo["high"]) == (0.25, 0.15, 0.35)
    assert echo["detail"] == {}  # scores are only drawn
    relearning = figures["relearning"]["values"]["forgotten"]
    assert relearning["detail"] == {"tried": 500}  # by this it was judged
    assert relearning["value"] == "infinite"
    assert "There was no retrained model." in found["not_tested"]
    assert found["method"] == "renormalise"


@given(st.dictionaries(st.text(), PLAIN, max_size=4))
def test_what_is_sealed_can_be_opened_by_the_auditor(value: dict[str, Any]) -> None:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    key = X25519PrivateKey.generate()
    data = seal_annex(value, key.public_key())
    assert unseal(data, key) == value
    sealed = base64.b64decode(json.loads(data)["sealed"])
    assert (len(sealed) - 16) % BLOCK == 0


def test_the_annex_opens_by_the_formula_alone(keys: Path) -> None:
    data = json.loads(seal_annex({"a": 1}, read_auditor_key(keys / "auditor.pub")))
    ends = bytes.fromhex(data["ephemeral"]) + bytes.fromhex(data["auditor"])
    public = X25519PublicKey.from_public_bytes(bytes.fromhex(data["ephemeral"]))
    shared = read_annex_key(keys / "auditor.key").exchange(public)
    # RFC 5869 with an empty salt and one block of output.
    middle = hmac.new(bytes(32), shared, "sha256").digest()
    info = b"unlabel annex 1" + ends
    key = hmac.new(middle, info + b"\x01", "sha256").digest()
    sealed = base64.b64decode(data.pop("sealed"))
    head = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    plain = ChaCha20Poly1305(key).decrypt(bytes.fromhex(data["nonce"]), sealed, head)
    assert plain.rstrip(b" ") == b'{"a":1}'


def test_a_changed_secret_makes_no_annex(run: Path, keys: Path) -> None:
    path = run / "active" / "secrets" / f"{request_of(run)}.json"
    words = ("certificate", run, "--auditor-key", keys / "auditor.pub")
    path.write_text(path.read_text().replace("hippopotamus", "cat"))
    assert "does not open the commitment in the ledger" in unlabel(*words).sentence
    path.write_text("{")
    assert "is truncated or was changed" in unlabel(*words).sentence
    path.unlink()
    assert (
        "without it neither an annex can be made nor a certificate of a secret"
        in unlabel(*words).sentence
    )
    assert unlabel("certificate", run).code == 0  # one without an annex needs no secret


# --- the command ---------------------------------------------------------------------------


def test_keys_are_trusted_on_first_use_and_another_key_is_refused_later(
    run: Path, keys: Path
) -> None:
    words = ("certificate", run, "--auditor-key", keys / "auditor.pub", "--json")
    found = unlabel(*words).json
    assert found["signed"] == found["newly_trusted"] == list(PARTIES)
    config = read_run_folder(run)
    assert config.trust == {party: Signer(run / party).public for party in PARTIES}
    assert unlabel(*words).json["newly_trusted"] == []
    certified = (run / "certificate.json", "--run", run, "--annex-key", keys / "auditor.key")
    assert unlabel("verify", *certified, "--json").json["not_checked"] == []
    (run / "passive-1" / "secrets" / "signing.key").unlink()
    kept = (run / "certificate.json").read_bytes()
    said = unlabel(*words[:-1]).sentence
    assert said.startswith("Party 'passive-1' signed with key ")
    assert "`trust.passive-1` in run.yaml" in said
    assert (run / "certificate.json").read_bytes() == kept
    assert read_run_folder(run) == config


def test_a_run_that_was_certified_can_be_resumed_and_replaced(run: Path) -> None:
    plain = read_run_folder(run)
    assert unlabel("certificate", run).code == 0
    expect_same(plain, read_run_folder(run), run)
    expect_usable(run, overwrite="forgotten")


def test_a_certificate_without_an_annex_leaves_none_of_an_earlier_one(
    run: Path, keys: Path
) -> None:
    assert unlabel("certificate", run, "--auditor-key", keys / "auditor.pub").code == 0
    assert (run / "certificate.annex").stat().st_mode & 0o077 == 0
    told = unlabel("certificate", run)
    assert "There is no annex" in told.err
    assert not (run / "certificate.annex").exists()


def test_bad_input_is_answered_with_a_sentence(
    run: Path, trained: Path, keys: Path, tmp_path: Path
) -> None:
    public = ("--auditor-key", keys / "auditor.pub")
    (tmp_path / "text.pub").write_text("no key")
    wrong: dict[tuple[object, ...], str] = {
        ("certificate", run, "--request", "0123"): "is not one that was committed in this run",
        ("certificate", run, "--received", "yesterday"): "a day like 2026-11-02",
        ("certificate", run, "--received", "2099-01-01"): "the day of the commit",
        ("certificate", run, "--informed", "passive-1"): "which needs --auditor-key",
        ("certificate", run, *public, "--informed", "passive-7"): "Unknown party 'passive-7'",
        ("certificate", run, "--auditor-key", keys / "auditor.key"): "is a private key",
        ("certificate", run, "--auditor-key", tmp_path / "text.pub"): "is not a public X25519 key",
        ("certificate", run, "--auditor-key", tmp_path / "none"): "Cannot read key",
        ("keys", "auditor", "--out", keys): "a key is not overwritten",
        ("verify", tmp_path / "none.json"): "Cannot read",
        ("verify", trained / "run.yaml", "--trust", trained / "run.yaml"): "no `trust`",
    }
    with nothing_written(run):
        for words, expected in wrong.items():
            assert expected in unlabel(*words).sentence
    nothing_yet = copy(trained, tmp_path / "trained")
    with nothing_written(nothing_yet):
        said = unlabel("certificate", nothing_yet).sentence
    assert "No request was committed in this run" in said
    assert unlabel("certificate", run).code == 0
    signing = run / "passive-1" / "secrets" / "signing.key"
    words = ("verify", run / "certificate.json", "--annex-key")
    assert "is not a private X25519 key" in unlabel(*words, signing).sentence
    assert "is not a private X25519 key" in unlabel(*words, keys / "auditor.pub").sentence
    (tmp_path / "trust.yaml").write_text("trust: {active: 12}")
    words = ("verify", run / "certificate.json", "--trust", tmp_path / "trust.yaml")
    assert "Expected `trust.active` to be a public key" in unlabel(*words).sentence


def test_a_request_that_was_rolled_back_is_not_certified(trained: Path, tmp_path: Path) -> None:
    run = copy(trained, tmp_path / "run")
    federation = Federation.open(run)
    request = federation.forget(
        ["cat"], settings=ForgetSettings(method="renormalise")
    ).result.request
    Transaction(federation.active).rollback()
    said = unlabel("certificate", run, "--request", request).sentence
    assert said == f"Request {request} was rolled back, so there is nothing to certify."


def test_trust_is_checked_where_it_is_written_down(run: Path) -> None:
    with pytest.raises(SettingsError, match=r"`trust\.host`"):
        replace(read_run_folder(run), trust={"host": "AB" * 32})


# --- by hand -------------------------------------------------------------------------------

PREFIX = "302a300506032b6570032100"  # of a public Ed25519 key in DER


@pytest.mark.skipif(
    not (shutil.which("openssl") and shutil.which("jq")), reason="needs openssl and jq"
)
@pytest.mark.parametrize("party", ["the whole", *PASSIVE])
def test_openssl_comes_to_the_same(run: Path, tmp_path: Path, party: str) -> None:
    whole = certify(run)
    at = "." if party == "the whole" else f'.certificate.parties["{party}"]'
    inner = "certificate" if party == "the whole" else "part"
    signed = whole if party == "the whole" else whole["certificate"]["parties"][party]
    body = subprocess.run(
        ["jq", "-cSja", f"{at} | .{inner}", run / "certificate.json"],
        capture_output=True,
        check=True,
    ).stdout
    for name, data in (
        ("key", bytes.fromhex(PREFIX + signed["key"])),
        ("signature", bytes.fromhex(signed["signature"])),
        ("body", body),
        ("other", body.replace(b"unlabel", b"unlabe1")),
    ):
        (tmp_path / name).write_bytes(data)
    for name, code in (("body", 0), ("other", 1)):
        done = subprocess.run(
            [
                *("openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-rawin"),
                *("-inkey", tmp_path / "key", "-sigfile", tmp_path / "signature"),
                *("-in", tmp_path / name),
            ],
            capture_output=True,
        )
        assert done.returncode == code, done.stderr
