"""A secret request's digests of the active party's weights, and parties that nobody mentions."""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import one_thread, unlabel
from report.certified import PARTIES, Forger, certify, copy, forget, make_run

from unlabel import Federation
from unlabel.config.loader import read_run_folder
from unlabel.files import sha256
from unlabel.forget import ForgetSettings
from unlabel.forget.methods.hidden import Hidden
from unlabel.party import Ledger
from unlabel.report.annex import make_auditor_keys, read_annex_key
from unlabel.report.checks import Checks
from unlabel.report.verify import verify

__all__ = ["one_thread"]  # a fixture for every test here

KEY_MISSING = "The weights of party 'active' were not checked: its digests stand under the key"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("auditor")
    make_auditor_keys(folder)
    return folder


@pytest.fixture(scope="module")
def certified(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return runs with a certificate of a request of each mode."""
    folder = tmp_path_factory.mktemp("zoo")
    trained = make_run(folder)
    found = {mode: copy(trained, folder / mode) for mode in ("open", "secret", "hidden")}
    for mode in ("open", "secret"):
        forget(found[mode], purge=False, secret=mode == "secret")
    federation = Federation.open(found["hidden"])
    federation.forget(
        ["cat"], settings=ForgetSettings(method=Hidden(steps=20, batch=32), allow_collapse=True)
    ).commit(force=True)
    federation.purge()
    for run in found.values():
        certify(run, keys)
    return found


@pytest.fixture(params=["secret", "hidden"])
def run(request: pytest.FixtureRequest, certified: dict[str, Path], tmp_path: Path) -> Path:
    return copy(certified[request.param], tmp_path / "run")


def check(run: Path, keys: Path | None = None, **options: Any) -> Checks:
    return verify(
        (run / "certificate.json").read_bytes(),
        "it",
        trust=json.loads((run / "trust.json").read_text()),
        run=run,
        annex=(run / "certificate.annex").read_bytes(),
        annex_key=None if keys is None else read_annex_key(keys / "auditor.key"),
        **options,
    )


def secret_of(run: Path) -> Path:
    return next((run / "active" / "secrets").glob("*.json"))


def newest(run: Path, party: str) -> Path:
    return max((run / party / "versions").glob("*.safetensors"))


def stated(run: Path, party: str) -> dict[str, str]:
    found = Forger(run, run).part(party)["weights"]
    assert isinstance(found, dict)
    return found


def test_who_computes_the_weights_of_every_label_finds_none_of_them_in_the_certificate(
    run: Path,
) -> None:
    plain = Ledger(run / "active").entries()[0].note["weights"]
    assert plain[1] == sha256(newest(run, "active").read_bytes())
    text = (run / "certificate.json").read_text()
    assert not any(digest in text for digest in plain)
    key = bytes.fromhex(json.loads(secret_of(run).read_text())["key"])
    by_hand = [hmac.new(key, bytes.fromhex(each), hashlib.sha256).hexdigest() for each in plain]
    assert stated(run, "active") == {"before": by_hand[0], "after": by_hand[1]}
    for party in PARTIES[1:]:  # they know their own weights
        assert stated(run, party)["after"] == sha256(newest(run, party).read_bytes())


def test_an_open_request_states_plain_digests(certified: dict[str, Path]) -> None:
    run = certified["open"]
    assert stated(run, "active")["after"] == sha256(newest(run, "active").read_bytes())


def test_the_run_itself_or_the_annex_opens_them(run: Path, keys: Path) -> None:
    held = "Ledger and weights of party 'active' are those it signed."
    assert check(run).faults == []
    assert held in check(run).held
    shutil.rmtree(run / "active" / "secrets")
    found = check(run)
    assert found.faults == []
    assert held not in found.held
    assert any(sentence.startswith(KEY_MISSING) for sentence in found.unchecked)
    opened = check(run, keys)
    assert opened.faults == []
    assert held in opened.held
    assert not any(sentence.startswith(KEY_MISSING) for sentence in opened.unchecked)


@pytest.mark.parametrize("with_secret", [True, False])
def test_other_weights_are_named_by_either_key(run: Path, keys: Path, with_secret: bool) -> None:
    path = newest(run, "active")
    path.write_bytes(path.read_bytes() + b" ")
    if not with_secret:
        shutil.rmtree(run / "active" / "secrets")
    faults = check(run, None if with_secret else keys).faults
    assert f"The weights 'active/versions/{path.name}' are not those" in faults[0]
    assert len(faults) == 1


def test_a_changed_ledger_or_secret_is_named(run: Path) -> None:
    forger = Forger(run, run)

    def exchange(line: dict[str, Any]) -> None:
        if line["event"] == "commit":
            line["note"]["weights"][1] = "0" * 64

    kept = (run / "active" / "ledger.jsonl").read_text()
    forger.rewrite_ledger("active", exchange)
    assert any("other weights than it signed" in fault for fault in check(run).faults)
    (run / "active" / "ledger.jsonl").write_text(kept)
    secret = json.loads(secret_of(run).read_text())
    for text in (json.dumps({**secret, "key": "0" * 64}), json.dumps({**secret, "key": 1}), "["):
        secret_of(run).write_text(text)
        assert ["does not open the commitment" in fault for fault in check(run).faults] == [True]


def test_without_the_key_no_certificate_of_a_secret_request_is_written(run: Path) -> None:
    secret_of(run).unlink()
    before = (run / "certificate.json").read_bytes()
    assert "nor a certificate of a secret request" in unlabel("certificate", run).sentence
    assert (run / "certificate.json").read_bytes() == before


# --- a party that nobody mentions ---------------------------------------------------------------


def test_a_party_of_the_federation_that_is_not_mentioned_is_named(
    certified: dict[str, Path], tmp_path: Path
) -> None:
    run = copy(certified["open"], tmp_path / "run")
    assert read_run_folder(run).party_names() == PARTIES
    forger = Forger(run, run)
    missing = forger.body["parties"].pop("passive-2")
    forger.state(forger.body["depth"])
    forger.sign()
    trust = run / "trust.json"
    trust.write_text(
        json.dumps({p: k for p, k in json.loads(trust.read_text()).items() if p != "passive-2"})
    )
    words = ("verify", run / "certificate.json", "--trust", trust, "--json")
    # By keys alone, of which passive-2 has none, nobody misses it.
    assert unlabel(*words).json["holds"]
    said = "Party 'passive-2' is one of the federation, but the certificate neither holds its part"
    found = unlabel(*words, "--run", run)
    assert found.code == 3
    assert [said in fault for fault in json.loads(found.out)["faults"]] == [True]
    # A whole configuration with keys names all parties too.
    config = (run / "run.yaml").read_text()
    trusted = "".join(f"  {party}: {key}\n" for party, key in json.loads(trust.read_text()).items())
    assert "trust:" not in config or "trust: {}" in config
    whole = run / "whole.yaml"
    whole.write_text(config.replace("trust: {}\n", "") + f"trust:\n{trusted}")
    found = unlabel("verify", run / "certificate.json", "--trust", whole, "--json")
    assert [said in fault for fault in json.loads(found.out)["faults"]] == [True]
    # Named as not having signed, it is no fault.
    forger.body["not_signed"]["passive-2"] = "It refused."
    forger.state(forger.body["depth"])
    forger.sign()
    assert unlabel(*words, "--run", run).json["faults"] == []
    assert missing["part"]["party"] == "passive-2"
