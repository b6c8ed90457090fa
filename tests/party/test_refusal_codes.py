"""A refusal carries a code, so that no program needs to read the sentence beside it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch
from party.tiny import BEGIN_REQUEST, NONE, X, tiny_party

from unlabel.config import Policy
from unlabel.data import Features
from unlabel.errors import (
    REFUSALS,
    CheckpointError,
    PartyRefused,
    RunError,
    SettingsError,
    UnlabelError,
    WireError,
    refusal_of,
)
from unlabel.party import CheckpointStore, PassiveParty
from unlabel.wire import (
    AccumulateFisher,
    Attest,
    Commit,
    Describe,
    Done,
    Embed,
    Gradients,
    LocalTransport,
    Message,
    Purge,
    Refused,
    Restore,
    Save,
    Stage,
    SyntheticInputs,
    TransformWeights,
    decode,
)

ROWS = torch.arange(4)
EMBED = Embed(0, ROWS, "train")


def code_of(party: PassiveParty, *messages: Message) -> str:
    """Return the code with which a party refuses the last message."""
    for message in messages[:-1]:
        answer = party.handle(message)
        assert not isinstance(answer, Refused), answer
    answer = party.handle(messages[-1])
    assert isinstance(answer, Refused), answer
    return answer.code


@pytest.mark.parametrize(
    ("code", "messages"),
    [
        ("policy", [Embed(0, torch.arange(5), "predict")]),
        ("policy", [TransformWeights(0, "9f", "begin", "", "", 0.0, 0.0)]),
        ("gradient-norm", [EMBED, Gradients(0, torch.full((4, 1), 1e4))]),
        ("gradient-norm", [EMBED, Gradients(0, torch.full((4, 1), torch.nan))]),
        ("wrong-request", [EMBED, Gradients(0, torch.zeros(3, 1))]),
        ("wrong-request", [Gradients(0, torch.zeros(4, 1))]),
        ("wrong-request", [Embed(0, torch.tensor([7]), "predict")]),
        ("wrong-request", [Embed(0, ROWS, "predict", "elsewhere")]),
        ("wrong-request", [AccumulateFisher(0, torch.zeros(4, 1), "every", 1.0)]),
        ("wrong-request", [BEGIN_REQUEST, SyntheticInputs(0, "9f", NONE, -1, "sign", 0.1, 0.0)]),
        ("wrong-request", [Purge(0, "9f", 3)]),
        ("wrong-request", [Attest(0, "9f")]),
        ("wrong-request", [Stage(0, "../9f", 1, "{}")]),
        ("checkpoint", [Restore(0, 9, "")]),
        ("checkpoint", [Save(0, 1), Restore(0, 1, "0" * 64)]),
        ("request-open", [BEGIN_REQUEST, Save(0, 1)]),
        ("request-open", [BEGIN_REQUEST, Stage(0, "9f", 1, "{}"), Stage(0, "a1", 1, "{}")]),
        ("policy", [Done(0)]),
        ("unknown-message", [Save(0, True)]),
    ],
)
def test_a_party_says_with_a_code_why_it_refuses(
    tmp_path: Path, code: str, messages: list[Message]
) -> None:
    serves = tuple(kind for kind in Policy().serves if kind != "TransformWeights")
    party = tiny_party(tmp_path, policy=Policy(serves=serves, max_rows=4))
    assert code_of(party, *messages) == code


def test_weights_that_diverged_have_a_code_until_the_party_returns_to_a_version(
    tmp_path: Path,
) -> None:
    party = tiny_party(tmp_path)
    party.handle(Save(0, 1))
    with torch.no_grad():
        next(party.bottom.module.parameters()).fill_(torch.inf)
    asked = Embed(0, ROWS, "predict")
    assert [code_of(party, m) for m in (asked, Save(0, 2), asked)] == ["not-finite"] * 3
    assert isinstance(party.handle(Restore(0, 1, "")), Done)
    assert not isinstance(party.handle(asked), Refused)


def test_a_new_row_with_a_number_far_too_large_is_refused_and_blocks_nothing(
    tmp_path: Path,
) -> None:
    party = tiny_party(tmp_path)
    party.handle(Save(0, 1))
    party.bottom.add_table("new", Features(torch.full_like(X, 3e38)))
    refused = party.handle(Embed(0, ROWS, "predict", table="new"))
    assert isinstance(refused, Refused)
    assert "a number in them is far too large" in refused.reason
    assert not isinstance(party.handle(Embed(0, ROWS, "predict")), Refused)


def test_a_full_disk_has_a_code_and_the_sentence_names_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    party = tiny_party(tmp_path)

    def full(*_: object) -> str:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise RunError(f"Cannot write '{tmp_path}'.", code="not-written") from error

    monkeypatch.setattr(CheckpointStore, "save", full)
    answer = party.handle(Save(0, 1))
    assert isinstance(answer, Refused)
    assert (answer.code, str(tmp_path) in answer.reason) == ("not-written", False)


def test_whatever_goes_wrong_inside_has_one_code_that_says_nothing_of_it(tmp_path: Path) -> None:
    party = tiny_party(tmp_path)
    party.bottom.module = torch.nn.Linear(9, 1)  # reads rows of another width
    assert code_of(party, Embed(0, ROWS, "predict")) == "failed"
    party.guard = None  # type: ignore[assignment]
    assert code_of(party, Describe(0)) == "failed"


def test_bytes_that_are_no_message_are_refused_with_a_code() -> None:
    answer = decode(tiny_party().serve(b"nonsense"))
    assert isinstance(answer, Refused)
    assert answer.code == "unknown-message"


def test_a_party_without_a_folder_and_one_without_aligned_rows_say_so() -> None:
    party = tiny_party()
    assert code_of(party, Save(0, 1)) == "wrong-request"

    class NobodyYet:
        digest = ""

    party.people = NobodyYet()
    assert code_of(party, Embed(0, ROWS, "predict")) == "not-aligned"


@pytest.mark.parametrize("encoded", [False, True])
def test_the_active_side_gets_the_code_with_the_error(encoded: bool) -> None:
    parties = {"tiny": tiny_party(policy=Policy(max_rows=len(X) - 1))}
    transport = LocalTransport(parties, encoded=encoded)
    with pytest.raises(PartyRefused, match=r"^Party 'tiny' refused: it serves 1 to 4") as refused:
        transport.ask(Embed(0, torch.arange(len(X)), "predict"))
    assert refused.value.code == "policy"


def test_every_error_becomes_a_refusal_of_the_closed_set() -> None:
    errors: list[tuple[UnlabelError, str]] = [
        (PartyRefused("no."), "refused"),
        (PartyRefused("no.", "policy"), "policy"),
        (WireError("no."), "unknown-message"),
        (SettingsError("no."), "wrong-request"),
        (CheckpointError("no."), "checkpoint"),
        (CheckpointError("no.", code="wrong-request"), "wrong-request"),
        (RunError("no.", code="not-written"), "not-written"),
        (RunError("no."), "refused"),
        (UnlabelError("no.", code="something-new"), "refused"),
    ]
    assert [refusal_of(error) for error, _ in errors] == [code for _, code in errors]
    assert {refusal_of(error) for error, _ in errors} <= set(REFUSALS)


def test_a_commit_of_another_request_is_refused_with_a_code(tmp_path: Path) -> None:
    party = tiny_party(tmp_path)
    stage = Stage(0, "9f", 1, '{"commitment": "ab"}')
    assert code_of(party, BEGIN_REQUEST, stage, Commit(0, "a1", 1, "")) == "wrong-request"
