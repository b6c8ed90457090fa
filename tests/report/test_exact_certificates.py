"""A certificate of an exact request: bottoms that parties signed for, and a claim that rests on it.

`Forger` holds the keys it is given: the label holder's own, or also a partner's.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import one_thread
from report.certified import Forger
from report.exact_runs import change_base, make_run, nobody_asked, people, quick_measures
from report.test_effects import on_page

import unlabel as ul
from unlabel import Federation, terms
from unlabel.audit.binding import digest_of
from unlabel.errors import RunError
from unlabel.files import sha256
from unlabel.forget import ForgetSettings
from unlabel.report.annex import make_auditor_keys, read_annex_key, unseal
from unlabel.report.blinding import blinded
from unlabel.report.certificate import statement
from unlabel.report.certificate_form import read_certificate
from unlabel.report.wording import FORBIDDEN, REPLACED
from unlabel.signing import Signer, canonical
from unlabel.train import VersionFacts

__all__ = ["one_thread"]  # a fixture for every test here

EXACT = "The certificate states guarantee 'exact', but "
BOTTOM = "The attestation of the bottom of party 'shop' "


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with quick_measures():
        yield


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("auditor")
    make_auditor_keys(folder)
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("blind") / "run")


@pytest.fixture(scope="module")
def certified(trained: Path, keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = Path(shutil.copytree(trained, tmp_path_factory.mktemp("certified") / "run"))
    federation = Federation.open(run)
    outcome = federation.forget(["beech"], settings=ForgetSettings(key="2a" * 32))
    federation.audit()
    outcome.commit()
    with nobody_asked():
        federation.certificate(auditor_key=keys / "auditor.pub")
    return run


@pytest.fixture
def run(certified: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(certified, tmp_path / "run"))


def check(run: Path, keys: Path | None = None, **options: Any) -> ul.Checks:
    key = None if keys is None else keys / "auditor.key"
    return ul.verify(run / "certificate.json", run=run, annex_key=key, **options)


def body_of(run: Path) -> dict[str, Any]:
    body = json.loads((run / "certificate.json").read_text())["certificate"]
    assert isinstance(body, dict)
    return body


def test_it_holds_what_parties_signed_once_and_nobody_is_asked_for_it(
    run: Path, keys: Path
) -> None:
    body = body_of(run)
    assert (body["depth"], body["guarantee"], body["visibility"]) == ("bottoms", "exact", "hidden")
    assert list(body["parties"]) == ["active"]
    assert list(body["bases"]) == ["shop"]
    assert body["not_signed"] == {}
    assert body["bases"]["shop"]["part"]["gradients"] == 0
    checks = check(run, keys)
    assert checks.faults == []
    assert (
        "Bottoms were made without labels: every party signed for its own, and that no gradient "
        "ever reached it." in checks.held
    )
    assert any("findings" in each or "every finding" in each for each in checks.held)
    assert checks.terms[2][1] == "exact"
    assert "can be replayed" in checks.terms[2][2]
    assert checks.terms[1][2] == terms.EXACT_DEPTH


def test_labels_cannot_be_tried_out_against_what_it_commits_to(run: Path) -> None:
    body = body_of(run)
    path = run / "active" / "versions" / f"{body['version']:06d}.json"
    facts = VersionFacts.from_json(json.loads(path.read_text())["facts"])
    assert facts.request is not None
    plain = facts.request.conduct.replay["rows"]
    text = (run / "certificate.json").read_text()
    assert plain not in text
    assert blinded(plain, "2a" * 32) == body["replay"]["rows"]
    assert "beech" not in text
    assert body["method"] is None


def test_words_and_page_say_the_same_before_and_after_a_purge(run: Path) -> None:
    federation = Federation.open(run)
    for _ in range(2):
        federation.report()
        federation.certificate()
        words = body_of(run)["words"]
        assert words.splitlines()[1:] == on_page((run / "report.html").read_text())
        assert words.startswith(f"{terms.EXACT_HEADLINE}. {terms.EXACT_MEANING[False]}")
        assert [word for word in FORBIDDEN if word in words.lower()] == []
        assert terms.BY_WORD not in words
        assert check(run).holds
        federation.purge()
    # A partner has no weights from before the request, so none are missed at it.
    assert f"Deleted: {terms.PURGED.format(removed='active')}" in words
    page = (run / "report.html").read_text()
    assert "Evidence of the construction" in page
    assert "No message was sent to any party." in page


@pytest.mark.parametrize("restart", [False, True])
def test_gradients_that_reached_a_bottom_are_the_label_holders_word(restart: bool) -> None:
    plain, by_word = (
        statement("bottoms", "open", exact=terms.Construction(restart, received))["words"]
        for received in (False, True)
    )
    assert terms.BY_WORD in by_word
    assert "made without labels, by the label holder's word" in by_word
    assert "word" not in plain


def test_people_are_certified_alike_and_told_apart_in_the_annex_alone(
    trained: Path, certified: Path, keys: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    federation = Federation.open(run)
    outcome = federation.forget(ids=people(run, 2))
    federation.audit()
    outcome.commit()
    federation.certificate(auditor_key=keys / "auditor.pub")
    federation.report()
    assert (body_of(run)["depth"], body_of(run)["guarantee"]) == ("bottoms", "exact")
    assert body_of(run)["words"] == body_of(certified)["words"]
    checks = check(run, keys)
    assert checks.faults == []
    assert checks.annex is not None
    assert checks.annex["audit"]["people"] == 2
    assert "the labels of 2 people" in (run / "report.html").read_text()


def test_without_an_audit_no_depth_is_stated_and_it_can_still_be_replayed(
    trained: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    federation = Federation.open(run)
    federation.forget(["beech"]).commit()
    federation.certificate()
    body = body_of(run)
    assert (body["depth"], body["guarantee"]) == (None, None)
    assert body["words"].startswith(terms.NOT_AUDITED)
    checks = check(run, replay=run)
    assert checks.faults == []
    assert any("Replayed bit for bit" in each for each in checks.held)


def test_while_a_party_has_not_signed_for_its_bottom_nothing_is_stated(run: Path) -> None:
    path = run / "active" / "label-free" / "base.json"
    change_base(run, weights="ab" * 32)
    (run / "certificate.json").unlink()
    Federation.open(run).certificate()
    body = body_of(run)
    assert (body["depth"], body["guarantee"], body["figures"]) == (None, None, None)
    assert body["words"].startswith(terms.NOT_ATTESTED)
    assert "not those that it told when its bottom was frozen" in body["not_signed"]["shop"]
    assert check(run).faults == []
    # Where nobody was asked yet, because no library was there to sign with, they are asked now.
    path.write_text(json.dumps({**json.loads(path.read_text()), "attestations": {}}))
    Federation.open(run).certificate()
    assert body_of(run)["guarantee"] == "exact"
    assert check(run).faults == []


def test_of_a_version_that_was_replaced_before_it_was_certified_that_is_said(run: Path) -> None:
    request = str(body_of(run)["request"])
    federation = Federation.open(run)
    federation.report()
    page = run / "report.html"
    assert "The new model is in use at all parties." in page.read_text(encoding="utf-8")
    federation.forget(ids=people(run, 1)).commit()
    federation.purge()
    federation.report()
    assert "was in use at all parties; a later one is now" in page.read_text(encoding="utf-8")
    with pytest.raises(RunError, match="certifies how deep this request went"):
        federation.certificate(request=request)
    assert check(run).faults == []  # of the one that was there, and stays
    (run / "certificate.json").unlink()
    federation.certificate(request=request)
    body = body_of(run)
    assert (body["depth"], body["replay"], body["not_signed"]) == (None, None, {})
    assert body["words"].startswith(REPLACED)
    assert check(run).faults == []
    # 0.11 said that not every party had signed.
    body["words"] = body["words"].replace(REPLACED, terms.NOT_ATTESTED)
    signer = Signer(run / "active")
    signed = {"key": signer.public, "signature": signer.sign(canonical(body))}
    (run / "certificate.json").write_text(json.dumps({"certificate": body, **signed}))
    assert check(run).faults == []


def test_a_failed_request_is_certified_as_not_shown(run: Path, keys: Path) -> None:
    change_base(run, gradients=3, gradients_digest="ab" * 32)
    federation = Federation.open(run)
    federation.audit()
    federation.certificate(auditor_key=keys / "auditor.pub")
    body = body_of(run)
    assert (body["depth"], body["guarantee"]) == ("none", "measured")
    assert body["words"].startswith(f"{terms.EXACT_FAILED}. {terms.EXACT_FAILED_MEANING}")
    assert [each for each in check(run, keys).faults if "gradients" not in each] == []


def test_other_certificates_have_the_form_they_had(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", kind="supervised")
    federation = Federation.open(run)
    outcome = federation.forget(["beech"])
    federation.audit(demand="none")
    outcome.commit(force=True)
    federation.certificate()
    body = body_of(run)
    assert not {"bases", "replay"} & body.keys()
    assert body["guarantee"] == "measured"
    read, _ = read_certificate((run / "certificate.json").read_bytes(), "it")
    assert (read.certificate.bases, read.certificate.replay) == ({}, None)
    checks = check(run, replay=run)
    assert checks.faults == []
    assert any("does not say what the request was computed from" in e for e in checks.unchecked)
    # Nor can it be called exact, whoever signs that.
    forger = Forger(run, run)
    forger.body["guarantee"] = "exact"
    forger.sign()
    assert any(each.startswith(EXACT) for each in check(run).faults)


# --- what a forger can try ----------------------------------------------------------------------

Forgery = Callable[[Forger], None]


def sign_base(forger: Forger, by: str = "shop", **changes: Any) -> None:
    """Put another signed statement of the partner's bottom in, with its own key or another's."""
    base = forger.body["bases"]["shop"]
    base["part"].update(changes)
    signer = Signer(forger.run / by)
    base |= {"key": signer.public, "signature": signer.sign(canonical(base["part"]))}


def _gradients(forger: Forger) -> None:
    sign_base(forger, gradients=3, gradients_digest="ab" * 32)


def _unsigned_change(forger: Forger) -> None:
    forger.body["bases"]["shop"]["part"]["objective"] = "contrast"


def _recipe(forger: Forger) -> None:
    forger.body["replay"]["recipe"]["label_free"]["objective"] = "pretrained"


FORGERIES: dict[str, tuple[Forgery, str]] = {
    "signed by somebody else": (
        lambda f: sign_base(f, by="active"),
        "Party 'shop' signed with key ",
    ),
    "changed and not signed": (
        _unsigned_change,
        "The signature of party 'shop' for its bottom does not hold",
    ),
    "gradients where none may be": (_gradients, f"{BOTTOM}states 3 gradients that reached it"),
    "other weights": (
        lambda f: sign_base(f, weights="cd" * 32),
        f"{BOTTOM}names other weights than what the request was computed from",
    ),
    "another party's": (lambda f: sign_base(f, party="gym"), f"{BOTTOM}is of party 'gym'"),
    "another objective": (_recipe, f"{BOTTOM}names another objective than the recipe"),
    "left out": (
        lambda f: f.body.update(bases={}),
        f"{EXACT}party 'shop' has not signed for the bottom that it made without labels.",
    ),
    "no inputs": (
        lambda f: f.body.update(replay=None),
        f"{EXACT}it does not say what the request was computed from.",
    ),
    "no partner at all": (
        lambda f: f.body["replay"].update(bases={}),
        f"{EXACT}it names no partner's bottom.",
    ),
    "of another kind": (
        lambda f: f.body["replay"]["recipe"].update(bottoms="tuned"),
        f"{EXACT}its depth, its visibility and the kind of its bottoms do not go together.",
    ),
    "measured after all": (
        lambda f: f.body.update(guarantee="measured"),
        "The certificate states guarantee 'measured', and 'exact' follows from the evidence.",
    ),
    "not so deep": (
        lambda f: f.body.update(depth="top"),
        "The certificate contradicts itself: what is exact is so in every party's model.",
    ),
}


def test_exact_words_stand_beside_no_other_guarantee_also_without_the_annex(
    run: Path, keys: Path
) -> None:
    forger = Forger(run, keys)
    forger.body["guarantee"] = "measured"
    forger.sign()
    fault = "The certificate contradicts itself: what follows from how a model was made is exact."
    assert fault in check(run).faults


@pytest.mark.parametrize("name", FORGERIES)
def test_what_is_forged_is_named(run: Path, keys: Path, name: str) -> None:
    forger = Forger(run, keys)
    forgery, fault = FORGERIES[name]
    forgery(forger)
    forger.sign()
    faults = check(run, keys).faults
    assert [each for each in faults if each.startswith(fault)], faults


def test_what_lies_in_the_folders_must_be_what_was_signed(run: Path) -> None:
    path = run / "shop" / "base" / "000001.safetensors"
    path.write_bytes(path.read_bytes() + b" ")
    assert "The bottom 'shop/base/000001.safetensors' is missing, or not the one" in " ".join(
        check(run).faults
    )
    base = run / "active" / "label-free" / "base.json"
    raw = json.loads(base.read_text())
    base.write_text(json.dumps({**raw, "weights": {**raw["weights"], "shop": "ab" * 32}}))
    assert any("base.json' names other bottoms" in each for each in check(run).faults)


def opened(run: Path, keys: Path) -> dict[str, Any]:
    return unseal((run / "certificate.annex").read_bytes(), read_annex_key(keys / "auditor.key"))


def forge_evidence(run: Path, keys: Path, change: Callable[[dict[str, Any]], None]) -> list[str]:
    """Change the figures in the annex and everything that is bound to them; return the faults."""
    forger, plain = Forger(run, keys), opened(run, keys)
    change(plain["audit"])
    forger.body["figures"] = blinded(digest_of(plain["audit"]), "2a" * 32)
    forger.reseal(lambda _: None, plain)
    return check(run, keys).faults


def test_evidence_in_the_annex_is_judged_again_and_must_be_what_parties_signed(
    run: Path, keys: Path
) -> None:
    def other_top(audit: dict[str, Any]) -> None:
        audit["facts"]["construction"]["replay"] = "other"

    faults = " ".join(forge_evidence(run, keys, other_top))
    assert "replay, top, fail" in faults
    assert "depth 'none' follows" in faults
    assert "'measured' follows from the evidence" in faults

    def no_evidence(audit: dict[str, Any]) -> None:
        del audit["facts"]["construction"]

    assert "'measured' follows from the evidence" in " ".join(
        forge_evidence(run, keys, no_evidence)
    )


def test_evidence_that_the_partner_never_signed_is_named(run: Path, keys: Path) -> None:
    def other_bottom(audit: dict[str, Any]) -> None:
        audit["facts"]["construction"]["bases"]["shop"].update(signed="ab" * 32, weights="ab" * 32)

    assert any(
        "says other things of the bottom of party 'shop' than the party signed" in each
        for each in forge_evidence(run, keys, other_bottom)
    )


def test_a_certificate_of_an_earlier_form_has_no_room_for_bottoms(run: Path) -> None:
    forger = Forger(run, run)
    forger.body["what"] = "unlabel certificate 1"
    forger.sign()
    assert not check(run).holds
    assert sha256((run / "certificate.json").read_bytes())  # it is read, and refused
