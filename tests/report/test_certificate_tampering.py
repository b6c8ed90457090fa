"""A good certificate is accepted, and whatever was changed in one is named."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cli.command_line import one_thread, unlabel
from report.certified import PARTIES, Forger, audit, certify, copy, forget, make_run

from unlabel.files import sha256
from unlabel.report.annex import make_auditor_keys, read_annex_key, unseal
from unlabel.report.checks import Checks
from unlabel.report.verify import verify
from unlabel.signing import Signer

__all__ = ["one_thread"]  # a fixture for every test here


class Made(NamedTuple):
    """A run with an audited, purged request and its certificate; another; the auditor's keys."""

    run: Path
    other: Path
    keys: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("certified")
    keys = folder / "keys"
    make_auditor_keys(keys)
    runs = []
    for seed, name in enumerate(("one", "two")):
        run = make_run(folder / name, seed)
        request = forget(run, purge=not seed)
        audit(run, request)
        certify(run, keys)
        runs.append(run)
    return Made(runs[0], runs[1], keys)


def check(run: Path, keys: Path, look_at: Path | None = None) -> Checks:
    """Verify all there is: trusted keys, annex, ledgers and weights."""
    annex = run / "certificate.annex"
    return verify(
        (run / "certificate.json").read_bytes(),
        "certificate.json",
        trust=json.loads(((look_at or run) / "trust.json").read_text()),
        annex=annex.read_bytes() if annex.exists() else None,
        annex_key=read_annex_key(keys / "auditor.key"),
        run=look_at or run,
    )


@pytest.mark.parametrize("which", ["run", "other"])
def test_a_good_certificate_holds_wholly(made: Made, which: str) -> None:
    run = getattr(made, which)
    found = check(run, made.keys)
    assert found.faults == []
    assert found.unchecked == []
    assert len(found.held) == 7 + len(PARTIES)
    assert found.annex is not None
    assert found.annex["asked"] == {"labels": ["hippopotamus"]}


def test_the_command_accepts_it_too(made: Made) -> None:
    words = [
        *("verify", made.run / "certificate.json", "--run", made.run),
        *("--trust", made.run / "trust.json", "--annex-key", made.keys / "auditor.key"),
    ]
    found = unlabel(*words, "--json").json
    assert found["holds"]
    assert found["faults"] == found["not_checked"] == []
    spoken = unlabel(*words)
    assert spoken.code == 0
    assert "hippopotamus" in spoken.out


# --- what can be changed -------------------------------------------------------------------


class Case(NamedTuple):
    """A way to tamper, and what has to be said about it; `alone` if nothing else may be said."""

    tamper: Callable[[Forger, Made], None]
    words: str
    alone: bool = True


CASES: dict[str, Case] = {}


def case(words: str, *, alone: bool = True) -> Callable[[Callable[..., None]], None]:
    def keep(tamper: Callable[..., None]) -> None:
        CASES[tamper.__name__] = Case(tamper, words, alone)

    return keep


def opened(forger: Forger) -> dict[str, Any]:
    return unseal(forger.annex.read_bytes(), read_annex_key(forger.keys / "auditor.key"))


def stranger(forger: Forger) -> Path:
    """Return the folder of somebody with a key of their own."""
    folder = forger.run.parent / "stranger"
    Signer(folder)
    return folder


WHOLE = "active party's signature over the whole does not hold"


@case(WHOLE, alone=False)  # of a hidden request the active party's digests would be blinded
def mode_changed(forger: Forger, _: Made) -> None:
    forger.body["visibility"] = "hidden"
    forger.write()


@case(WHOLE, alone=False)
def commitment_changed(forger: Forger, _: Made) -> None:
    forger.body["commitment"] = "0" * 64
    forger.write()


@case("signature of party 'passive-1' does not hold", alone=False)
def weights_of_a_part_changed(forger: Forger, _: Made) -> None:
    forger.part("passive-1")["weights"]["after"] = "0" * 64
    forger.write()


@case("signature of party 'passive-2' does not hold", alone=False)
def weights_of_a_part_changed_by_the_active_party(forger: Forger, _: Made) -> None:
    forger.part("passive-2")["weights"]["before"] = "0" * 64
    forger.sign()


@case("signature of party 'passive-1' does not hold")
def signatures_exchanged(forger: Forger, _: Made) -> None:
    parties = forger.body["parties"]
    parties["passive-1"]["signature"] = parties["passive-2"]["signature"]
    forger.sign()


@case("Party 'passive-1' signed with key")
def a_partner_s_part_signed_by_a_stranger(forger: Forger, _: Made) -> None:
    forger.sign_part("passive-1", stranger(forger))
    forger.sign()


@case("Party 'active' signed with key")
def the_whole_signed_by_a_stranger(forger: Forger, _: Made) -> None:
    forger.sign_part("active", stranger(forger))
    forger.sign(stranger(forger))


@case("not signed with the key of the active party's own part")
def the_whole_signed_by_a_partner(forger: Forger, _: Made) -> None:
    forger.sign(forger.run / "passive-1")


@case("Party 'passive-2' signed with key")
def trusted_key_changed(forger: Forger, _: Made) -> None:
    path = forger.run / "trust.json"
    trust = json.loads(path.read_text())
    path.write_text(json.dumps({**trust, "passive-2": "0" * 64}))


@case("Party 'passive-2' is trusted but not named", alone=False)
def a_partner_left_out(forger: Forger, _: Made) -> None:
    del forger.body["parties"]["passive-2"]
    forger.sign()


@case("Party 'passive-3' signed, but no key of it is trusted", alone=False)
def a_partner_invented(forger: Forger, _: Made) -> None:
    forger.body["parties"]["passive-3"] = json.loads(
        json.dumps(forger.body["parties"]["passive-1"])
    )
    forger.part("passive-3")["party"] = "passive-3"
    forger.part("passive-3")["purge"]["attested_by"] = "passive-3"
    forger.sign_part("passive-3", stranger(forger))
    forger.sign()


@case("Party 'passive-1' stands both as having signed and as not", alone=False)
def a_partner_called_silent(forger: Forger, _: Made) -> None:
    forger.body["not_signed"]["passive-1"] = "It refused."
    forger.sign()


@case("The part of party 'passive-1' is of party 'passive-2'", alone=False)
def a_part_in_another_s_place(forger: Forger, _: Made) -> None:
    forger.body["parties"]["passive-1"] = forger.body["parties"]["passive-2"]
    forger.sign()


@case("The part of party 'passive-1' is of another request", alone=False)
def a_part_of_another_request(forger: Forger, _: Made) -> None:
    forger.part("passive-1")["request"] = "0123456789abcdef"
    forger.sign_part("passive-1")
    forger.sign()


@case("The part of party 'passive-2' holds another commitment", alone=False)
def a_part_with_another_commitment(forger: Forger, _: Made) -> None:
    forger.part("passive-2")["commitment"] = "0" * 64
    forger.sign_part("passive-2")
    forger.sign()


@case("holds a purge that is attested by somebody else")
def a_purge_attested_by_another(forger: Forger, _: Made) -> None:
    forger.part("passive-1")["purge"]["attested_by"] = "active"
    forger.sign_part("passive-1")
    forger.sign()


@case("attests a purge that left older weights", alone=False)
def a_purge_that_came_too_early(forger: Forger, _: Made) -> None:
    forger.part("passive-1")["purge"]["version"] -= 1
    forger.sign_part("passive-1")
    forger.sign()


@case("but one month after")
def due_day_moved(forger: Forger, _: Made) -> None:
    forger.body["term"]["due"] = "2099-01-01"
    forger.sign()


@case("says that the commit was not in time")
def in_time_denied(forger: Forger, _: Made) -> None:
    forger.body["term"]["in_time"] = False
    forger.sign()


@case("says that the commit was in time, but")
def a_late_commit_called_in_time(forger: Forger, _: Made) -> None:
    forger.body["term"] |= {"received": "2020-01-31", "due": "2020-02-29"}
    forger.sign()


@case("received after it was committed")
def received_after_the_commit(forger: Forger, _: Made) -> None:
    forger.body["term"] |= {"received": "2098-12-01", "due": "2099-01-01"}
    forger.sign()


@case("The purge is dated")
def purge_dated_otherwise(forger: Forger, _: Made) -> None:
    forger.body["term"]["purged"] = "2020-01-01T00:00:00+00:00"
    forger.sign()


@case("dated in the future")
def issued_in_the_future(forger: Forger, _: Made) -> None:
    later = datetime.now(UTC) + timedelta(days=9)
    forger.body["term"]["issued"] = later.isoformat(timespec="seconds")
    forger.sign()


@case("date of the commit is not that of the active party's part")
def commit_dated_otherwise(forger: Forger, _: Made) -> None:
    moment = datetime.fromisoformat(forger.body["term"]["committed"])
    forger.body["term"]["committed"] = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    forger.sign()


@case("dates of party 'passive-2' are out of order")
def signed_before_the_commit(forger: Forger, _: Made) -> None:
    forger.part("passive-2")["signed"] = "2020-01-01T00:00:00+00:00"
    forger.sign_part("passive-2")
    forger.sign()


@case("dates of party 'passive-2' are out of order")
def signed_after_it_was_issued(forger: Forger, _: Made) -> None:
    later = datetime.fromisoformat(forger.body["term"]["issued"]) + timedelta(seconds=90)
    forger.part("passive-2")["signed"] = later.isoformat(timespec="seconds")
    forger.sign_part("passive-2")
    forger.sign()


@case("annex is not the one of this certificate")
def annex_changed(forger: Forger, _: Made) -> None:
    data = bytearray(forger.annex.read_bytes())
    data[-100] ^= 1
    forger.annex.write_bytes(bytes(data))


@case("annex is not the one of this certificate")
def annex_of_another_certificate(forger: Forger, made: Made) -> None:
    forger.annex.write_bytes((made.other / "certificate.annex").read_bytes())


@case("its seal is broken")
def annex_changed_and_signed(forger: Forger, _: Made) -> None:
    found = json.loads(forger.annex.read_text())
    sealed = bytearray(base64.b64decode(found["sealed"]))
    sealed[5] ^= 1
    changed = {**found, "sealed": base64.b64encode(bytes(sealed)).decode()}
    forger.use_annex(json.dumps(changed).encode())


@case("The annex is not one of this form")
def annex_of_no_form(forger: Forger, _: Made) -> None:
    forger.use_annex(b"{}")


@case("does not give the commitment of the certificate", alone=False)
def another_label_in_the_annex(forger: Forger, _: Made) -> None:
    forger.reseal(lambda plain: plain.update(asked={"labels": ["cat"]}), opened(forger))


@case("does not give the commitment of the certificate")
def another_key_in_the_annex(forger: Forger, _: Made) -> None:
    forger.reseal(lambda plain: plain.update(key="00" * 32), opened(forger))


@case("The annex is of another request")
def another_request_in_the_annex(forger: Forger, _: Made) -> None:
    forger.reseal(lambda plain: plain.update(request="0123"), opened(forger))


@case("states depth bottoms, the annex top", alone=False)
def level_raised(forger: Forger, _: Made) -> None:
    forger.body["depth"] = "bottoms"
    forger.sign()


@case("There is an annex, but the certificate has none")
def annex_disowned(forger: Forger, _: Made) -> None:
    forger.body["annex"] = None
    forger.sign()


@case("'certificate.json' is not readable JSON")
def cut_in_half(forger: Forger, _: Made) -> None:
    text = forger.path.read_text()
    forger.path.write_text(text[: len(text) // 2])


@case("'certificate.json' is not readable JSON")
def a_name_twice(forger: Forger, _: Made) -> None:
    text = forger.path.read_text()
    forger.path.write_text(
        text.replace('"visibility":', '"visibility": "hidden", "visibility":', 1)
    )


@case("`remark` does not belong there")
def something_added_outside_the_signature(forger: Forger, _: Made) -> None:
    forger.whole["remark"] = "All traces are gone."
    forger.write()


@case("`certificate.term.due` is missing")
def a_field_removed(forger: Forger, _: Made) -> None:
    del forger.body["term"]["due"]
    forger.sign()


@case("`certificate.parties.passive-1.key` cannot be read")
def a_key_that_is_none(forger: Forger, _: Made) -> None:
    forger.body["parties"]["passive-1"]["key"] = "not hexadecimal"
    forger.sign()


@case("`certificate.term.committed` cannot be read")
def a_date_that_is_none(forger: Forger, _: Made) -> None:
    forger.body["term"]["committed"] = "yesterday"
    forger.sign()


def weights_file(forger: Forger, party: str) -> Path:
    return next((forger.run / party / "versions").glob("*.safetensors"))


@case("are not those that party 'passive-1' signed")
def weights_changed_on_disk(forger: Forger, _: Made) -> None:
    path = weights_file(forger, "passive-1")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


@case("which party 'active' signed, are missing")
def weights_removed_from_disk(forger: Forger, _: Made) -> None:
    weights_file(forger, "active").unlink()


@case("from before it is still there")
def old_weights_put_back(forger: Forger, _: Made) -> None:
    path = weights_file(forger, "passive-2")
    path.with_name("000001.safetensors").write_bytes(b"what it was before")


@case("its chain breaks at line 1")
def a_line_of_a_ledger_changed(forger: Forger, _: Made) -> None:
    path = forger.run / "passive-1" / "ledger.jsonl"
    path.write_text(path.read_text().replace('"event": "commit"', '"event": "rollback"', 1))


@case("ledger of party 'passive-2' was cut off or changed", alone=False)
def a_ledger_cut_off(forger: Forger, _: Made) -> None:
    path = forger.run / "passive-2" / "ledger.jsonl"
    path.write_text(path.read_text().splitlines()[0] + "\n")


@case("ledger of party 'active' has no commit of request", alone=False)
def a_ledger_removed(forger: Forger, _: Made) -> None:
    (forger.run / "active" / "ledger.jsonl").unlink()


@case("ledger of party 'passive-1' holds another commitment", alone=False)
def a_ledger_written_anew(forger: Forger, _: Made) -> None:
    forger.rewrite_ledger(
        "passive-1",
        lambda line: line["note"].update(
            {"commitment": "0" * 64} if "labels" in line["note"] else {}
        ),
    )


@case("has no such purge as the party attests", alone=False)
def a_purge_dated_otherwise_in_the_ledger(forger: Forger, _: Made) -> None:
    def redate(line: dict[str, Any]) -> None:
        if line["event"] == "purge":
            line["at"] = "2020-01-01T00:00:00+00:00"

    forger.rewrite_ledger("passive-1", redate)


@case("dates the commit", alone=False)
def a_commit_dated_otherwise_in_the_ledger(forger: Forger, _: Made) -> None:
    forger.rewrite_ledger("passive-2", lambda line: line.update(at="2020-01-01T00:00:00+00:00"))


ITSELF = "The certificate contradicts itself: "


@case(f"{ITSELF}it is about the version that the active party's part names")
def version_changed(forger: Forger, _: Made) -> None:
    forger.body["version"] += 1
    forger.sign()


@case(f"{ITSELF}a depth and a guarantee go together")
def guarantee_dropped(forger: Forger, _: Made) -> None:
    forger.body["guarantee"] = None
    forger.sign()


@case(f"{ITSELF}a depth and the hash of its figures go together", alone=False)
def audit_denied(forger: Forger, _: Made) -> None:
    forger.state(None)
    forger.sign()


@case(f"{ITSELF}a hidden request is always secret", alone=False)
def hidden_and_not_secret(forger: Forger, _: Made) -> None:
    forger.body["visibility"] = "hidden"
    forger.sign()


@case(f"{ITSELF}the method is kept back in a secret request alone")
def method_kept_back(forger: Forger, _: Made) -> None:
    forger.body["method"] = None
    forger.sign()


@case("words of the certificate are not those of the depth and the figures")
def words_of_another_audit(forger: Forger, _: Made) -> None:
    forger.state("top")  # of one whose figures are not at hand
    forger.sign()


@case("figures in the annex are not those whose hash the certificate holds", alone=False)
def hash_of_the_figures_changed(forger: Forger, _: Made) -> None:
    forger.body["figures"] = "0" * 64
    forger.sign()


@case("figures in the annex are not those whose hash the certificate holds")
def a_figure_in_the_annex_changed(forger: Forger, _: Made) -> None:
    forger.reseal(lambda plain: plain["audit"]["facts"].update(seconds=0.5), opened(forger))


@case("figures in the annex cannot be read (", alone=False)
def figures_in_the_annex_without_form(forger: Forger, _: Made) -> None:
    forger.reseal(lambda plain: plain["audit"].update(measures=7), opened(forger))


@case("Whether the demanded depth 'top' was reached is not as it follows", alone=False)
def demanded_depth_called_missed(forger: Forger, _: Made) -> None:
    forger.reseal(lambda plain: plain["audit"].update(passed=False), opened(forger))


@case("The ledger of party 'active' holds another depth or other figures of an audit")
def depth_raised_and_the_annex_kept_back(forger: Forger, _: Made) -> None:
    forger.state("bottoms")
    forger.body["annex"] = None
    forger.annex.unlink()
    forger.sign()


@case(f"{ITSELF}a depth and the hash of its figures go together", alone=False)
def hash_of_the_figures_dropped(forger: Forger, _: Made) -> None:
    forger.body["figures"] = None
    forger.sign()


@case(f"{ITSELF}a depth and the hash of its figures go together", alone=False)
def depth_raised_and_the_audit_struck_from_the_ledger(forger: Forger, _: Made) -> None:
    forger.state("bottoms")
    forger.body["figures"] = None
    forger.sign()


@case("The annex lacks the figures whose hash the certificate holds", alone=False)
def figures_left_out_of_the_annex(forger: Forger, _: Made) -> None:
    forger.reseal(lambda plain: plain.update(audit=None), opened(forger))


@case("has the form of version 0.6 and 0.7, but party 'active' signed with unlabel", alone=False)
def an_older_form_that_binds_nothing(forger: Forger, _: Made) -> None:
    body = forger.body
    dropped = ("visibility", "secret", "guarantee", "words", "figures", "version", "demand")
    old = {name: each for name, each in body.items() if name not in dropped}
    level = {"answers": "output", "bottoms": "deep"}.get(body["depth"], body["depth"])
    forger.whole["certificate"] = {
        **old,
        "what": "unlabel certificate 1",
        "mode": "hidden" if body["visibility"] == "hidden" else "open",
        "depth": {"level": level, "words": "Forgotten."},
    }
    forger.sign()


@case("by its own part party 'passive-1' has the same weights as before", alone=False)
def a_model_that_never_changed_called_forgotten(forger: Forger, _: Made) -> None:
    forger.state("bottoms")
    weights = forger.part("passive-1")["weights"]
    weights["before"] = weights["after"]
    forger.sign_part("passive-1")
    forger.sign()


@case("finding of the audit follows, but is not stated: weights, bottoms, fail", alone=False)
def a_model_that_never_changed_left_out_of_the_findings(forger: Forger, _: Made) -> None:
    weights = forger.part("passive-1")["weights"]
    weights["before"] = weights["after"]
    forger.sign_part("passive-1")
    forger.sign()


@case("The demand in the annex is not the one")
def demand_invented(forger: Forger, _: Made) -> None:
    forger.body["demand"] = "0" * 64
    forger.sign()


def test_there_are_more_than_twenty_ways_to_tamper() -> None:
    assert len(CASES) > 20


@pytest.mark.parametrize("name", CASES)
def test_what_was_tampered_with_is_named(made: Made, tmp_path: Path, name: str) -> None:
    tamper, words, alone = CASES[name]
    run = copy(made.run, tmp_path / "run")
    tamper(Forger(run, made.keys), made)
    faults = check(run, made.keys).faults
    assert any(words in fault for fault in faults), faults
    assert not alone or len(faults) == 1, faults
    assert all("\n" not in fault and fault.endswith(".") for fault in faults)


def test_every_byte_of_what_is_signed_counts(made: Made, tmp_path: Path) -> None:
    run = copy(made.run, tmp_path / "run")
    path = run / "certificate.json"
    text = json.dumps(json.loads(path.read_text())).encode()
    trust = json.loads((run / "trust.json").read_text())
    for place in range(0, len(text), 23):
        changed = text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :]
        assert verify(changed, "it", trust=trust).faults, (place, text[place])


def test_a_certificate_of_another_run_is_named_as_such(made: Made) -> None:
    faults = check(made.run, made.keys, look_at=made.other).faults
    for party in PARTIES:
        assert any(f"Party '{party}' signed with key" in fault for fault in faults)
        no_commit = f"The ledger of party '{party}' has no commit of request"
        assert any(no_commit in f and "of another run" in f for f in faults), faults


def test_another_auditor_s_key_opens_nothing(made: Made, tmp_path: Path) -> None:
    make_auditor_keys(tmp_path)
    words = ("verify", made.run / "certificate.json", "--annex-key", tmp_path / "auditor.key")
    told = unlabel(*words)
    assert "does not hold: 1 thing does not match." in told.finding
    assert "it is not the key that the annex was sealed for" in told.err
    found = unlabel(*words, "--json")
    assert found.code == 3
    assert len(json.loads(found.out)["faults"]) == 1


def test_old_weights_are_checked_where_nothing_was_purged(made: Made, tmp_path: Path) -> None:
    run = copy(made.other, tmp_path / "run")
    part = Forger(run, made.keys).part("passive-1")
    paths = list((run / "passive-1" / "versions").glob("*.safetensors"))
    before = next(p for p in paths if sha256(p.read_bytes()) == part["weights"]["before"])
    before.write_bytes(b"something else")
    (fault,) = check(run, made.keys).faults
    assert "from before the request are not those that party 'passive-1' signed" in fault
    before.unlink()
    before.with_suffix(".json").unlink()
    found = check(run, made.keys)
    assert found.faults == []
    assert found.unchecked == [
        "The weights of party 'passive-1' from before the request are not there to be checked."
    ]


def test_what_was_not_looked_at_is_said(made: Made, tmp_path: Path) -> None:
    alone = tmp_path / "certificate.json"
    alone.write_bytes((made.run / "certificate.json").read_bytes())
    found = unlabel("verify", alone, "--json").json
    assert found["holds"]
    assert [sentence.split(",")[0] for sentence in found["not_checked"]] == [
        "No trusted keys were given",
        "The annex is not there",
        "The depth is signed by the label holder and was not checked: the figures it follows from "
        "stand in the annex",
        "No run was given",
    ]
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "run.yaml").write_bytes((made.run / "run.yaml").read_bytes())
    found = unlabel("verify", alone, "--run", tmp_path / "bare", "--json").json
    assert sum("has no folder of party" in s for s in found["not_checked"]) == len(PARTIES)
