"""What a passive party serves, what it refuses, and what it tells."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from federations import small_holdings
from party.tiny import refusal
from torch import Tensor

from unlabel.config import Policy
from unlabel.errors import SettingsError
from unlabel.party import PassiveParty, Place, Stream
from unlabel.party.protocols import Filters, handles
from unlabel.train import build_passive
from unlabel.wire import (
    Describe,
    Description,
    Done,
    Embed,
    Embeddings,
    Gradients,
    Message,
    Prepare,
    Refused,
    Restore,
    RetainVersions,
    Save,
    Saved,
    decode,
    encode,
)

ROWS = 48
CPU = Place(torch.device("cpu"))


def make_party(folder: Path | None = None, policy: Policy | None = None) -> PassiveParty:
    holdings = small_holdings(2)
    config = replace(holdings.config, policy=policy or Policy())
    party = build_passive("passive-1", holdings.features["passive-1"], config, CPU, folder=folder)
    assert isinstance(party.handle(Prepare(0, torch.arange(32), 10)), Done) or policy
    return party


def weights(party: PassiveParty) -> list[Tensor]:
    return [tensor.clone() for tensor in party.bottom.module.state_dict().values()]


def same(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def embed(party: PassiveParty, step: int = 0, rows: int = 4) -> Tensor:
    answer = party.handle(Embed(step, torch.arange(rows), "train"))
    assert isinstance(answer, Embeddings)
    return answer.values


def test_it_describes_its_rows_its_width_and_its_versions(tmp_path: Path) -> None:
    party = make_party(tmp_path)
    party.handle(Save(0, 1))
    answer = party.handle(Describe(0))
    assert isinstance(answer, Description)
    assert (answer.rows, answer.width, answer.versions) == (ROWS, 5, (1,))


def test_embeddings_come_without_the_graph_that_leads_to_the_weights() -> None:
    assert not embed(make_party()).requires_grad


def test_gradients_move_the_weights_and_a_second_copy_of_them_does_not() -> None:
    party = make_party()
    values = embed(party)
    before = weights(party)
    assert isinstance(party.handle(Gradients(0, torch.ones_like(values))), Done)
    after = weights(party)
    assert not same(before, after)
    assert refusal(party.handle(Gradients(0, torch.ones_like(values)))) == "wrong-request"
    assert same(after, weights(party))


def test_gradients_for_another_step_are_refused() -> None:
    party = make_party()
    values = embed(party, step=4)
    assert refusal(party.handle(Gradients(5, torch.ones_like(values)))) == "wrong-request"


def test_embeddings_asked_for_prediction_await_no_gradients() -> None:
    party = make_party()
    answer = party.handle(Embed(0, torch.arange(4), "predict"))
    assert isinstance(answer, Embeddings)
    assert refusal(party.handle(Gradients(0, torch.ones_like(answer.values)))) == "wrong-request"


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf"), 1e9])
def test_gradients_that_are_not_finite_or_too_large_change_nothing(poison: float) -> None:
    party = make_party()
    values = torch.zeros_like(embed(party))
    values[2, 3] = poison
    before = weights(party)
    assert refusal(party.handle(Gradients(0, values))) == "gradient-norm"
    assert same(before, weights(party))


def test_the_gradient_norm_limit_is_the_norm_of_the_whole_message() -> None:
    party = make_party(policy=Policy(max_gradient_norm=2.0))
    for value, fits in ((2.0 / 20**0.5 * 0.999, True), (2.0 / 20**0.5 * 1.001, False)):
        values = torch.full_like(embed(party), value)
        assert isinstance(party.handle(Gradients(0, values)), Done) == fits


def test_gradients_of_another_shape_are_refused() -> None:
    party = make_party()
    embed(party)
    assert refusal(party.handle(Gradients(0, torch.zeros(3, 5)))) == "wrong-request"


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        (torch.tensor([0, ROWS]), "wrong-request"),
        (torch.tensor([-1]), "wrong-request"),
        (torch.empty(0, dtype=torch.int64), "policy"),
        (torch.zeros(17, dtype=torch.int64), "policy"),
    ],
)
def test_rows_outside_the_policy_are_refused(rows: Tensor, code: str) -> None:
    party = make_party(policy=Policy(max_rows=16))
    assert refusal(party.handle(Embed(0, rows, "predict"))) == code


def test_a_table_it_does_not_have_is_refused() -> None:
    assert refusal(make_party().handle(Embed(0, torch.arange(2), "train", "x"))) == "wrong-request"


def test_a_kind_it_does_not_serve_is_refused_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    party = make_party(policy=Policy(serves=("Describe",)))
    with caplog.at_level(logging.WARNING, "unlabel.party"):
        assert refusal(party.handle(Embed(0, torch.arange(2), "predict"))) == "policy"
    assert "passive-1 refused Embed: it does not serve 'Embed'." in caplog.text


def test_answers_are_no_requests() -> None:
    party = make_party()
    assert refusal(party.handle(Done(0))) == "policy"


def test_a_policy_that_names_no_request_is_refused_with_the_nearest_spelling() -> None:
    with pytest.raises(SettingsError, match=r"'Embed'"):
        Policy(serves=("Embd",))


def test_nothing_is_embedded_before_the_party_was_prepared() -> None:
    holdings = small_holdings(1)
    party = build_passive("passive-1", holdings.features["passive-1"], holdings.config, CPU)
    assert refusal(party.handle(Embed(0, torch.arange(2), "predict"))) == "wrong-request"


def test_a_party_without_a_folder_keeps_nothing() -> None:
    assert refusal(make_party().handle(Save(0, 1))) == "wrong-request"


def test_a_version_restores_weights_scaling_and_momentum(tmp_path: Path) -> None:
    party = make_party(tmp_path)

    def train(step: int) -> None:
        values = embed(party, step=step)
        party.handle(Gradients(step, torch.ones_like(values)))

    train(0)
    party.handle(Save(0, 1))
    train(1)
    straight = weights(party)
    party.handle(Restore(0, 1, ""))
    assert not same(straight, weights(party))
    train(1)
    assert same(straight, weights(party))
    other = make_party(tmp_path)
    assert isinstance(other.handle(Restore(0, 1, "")), Done)
    other_values = other.handle(Embed(1, torch.arange(4), "train"))
    assert isinstance(other_values, Embeddings)
    other.handle(Gradients(1, torch.ones_like(other_values.values)))
    assert same(straight, weights(other))


def test_keep_drops_other_versions_but_never_all(tmp_path: Path) -> None:
    party = make_party(tmp_path)
    for version in (1, 2, 3):
        party.handle(Save(0, version))
    assert refusal(party.handle(RetainVersions(0, (9,)))) == "wrong-request"
    party.handle(RetainVersions(0, (2, 3)))
    assert party.store is not None
    assert party.store.versions() == (2, 3)
    assert {path.stem for path in party.store.folder.iterdir()} == {"000002", "000003"}


def test_a_disk_is_not_filled_with_versions(tmp_path: Path) -> None:
    party = make_party(tmp_path, Policy(max_versions=3))
    answers = [party.handle(Save(0, version)) for version in range(5)]
    assert [isinstance(answer, Saved) for answer in answers] == [True, True, True, False, False]


def test_filters_have_the_last_word_on_what_goes_out() -> None:
    heard: list[tuple[str, str]] = []

    def erase(message: Message, peer: str, stream: Stream) -> Message:
        heard.append((peer, stream.who))
        if not isinstance(message, Embeddings):
            return message
        return replace(message, values=torch.zeros_like(message.values))

    party = make_party()
    party.filters = Filters(party.name, (erase,))
    assert embed(party).abs().sum() == 0
    assert heard == [("active", f"{party.name}/filter 0/active/Embeddings")]


def test_random_numbers_of_a_filter_are_new_each_time_unless_a_seed_is_given() -> None:
    seen: list[Stream] = []

    def look(message: Message, peer: str, stream: Stream) -> Message:
        seen.append(stream)
        return message

    for _ in range(2):
        Filters("shop", (look, look))(Done(0), "active")
    assert len({stream.seed for stream in seen}) == 4
    assert min(stream.seed for stream in seen) > 2**128
    seen.clear()
    for _ in range(2):
        Filters("shop", (look, look), seed=7)(Done(0), "active")
    assert seen[:2] == seen[2:]
    assert seen[0] != seen[1]


def test_serve_is_encode_handle_decode() -> None:
    party, twin = make_party(), make_party()
    request = Embed(0, torch.arange(4), "predict")
    over_bytes = decode(party.serve(encode(request)))
    direct = twin.handle(request)
    assert isinstance(over_bytes, Embeddings)
    assert isinstance(direct, Embeddings)
    assert torch.equal(over_bytes.values, direct.values)
    assert isinstance(decode(party.serve(b"nonsense")), Refused)


def test_a_kind_of_message_has_one_handler() -> None:
    with pytest.raises(SettingsError, match="Two handlers serve 'Embed'"):

        @handles(Embed)
        def second(party: PassiveParty, message: Embed) -> Message:
            return Done(message.step)


def test_what_goes_wrong_inside_is_a_refusal_that_tells_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(message: Message, peer: str, stream: Stream) -> Message:
        raise OSError("/secret/path")

    party = make_party()
    party.filters = Filters(party.name, (broken,))
    answer = decode(party.serve(encode(Describe(0))))
    assert isinstance(answer, Refused)
    assert answer.reason == "it failed to answer, and its own log says why."
    assert "/secret/path" in caplog.text
    assert isinstance(party.handle(None), Refused)  # type: ignore[arg-type]


def test_it_trains_on_its_own_table_only() -> None:
    party = make_party()
    party.bottom.add_table("new", party.bottom.tables["main"])
    assert refusal(party.handle(Embed(0, torch.arange(2), "train", "new"))) == "wrong-request"
    assert isinstance(party.handle(Embed(0, torch.arange(2), "predict", "new")), Embeddings)


@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_a_breach_is_noticed_before_anything_is_kept(tmp_path: Path) -> None:
    holdings = small_holdings(2)
    party = build_passive(
        "passive-1",
        holdings.features["passive-1"],
        holdings.config,
        Place(torch.device("cuda")),
        folder=tmp_path,
    )
    party.handle(Prepare(0, torch.arange(32), 10))
    party.handle(Save(0, 1))
    for rows, poison in ((torch.arange(4), float("nan")), (torch.tensor([0, 999]), 0.0)):
        answer = party.handle(Embed(0, rows.cuda(), "train"))
        assert isinstance(answer, Embeddings)
        party.handle(Gradients(0, torch.full_like(answer.values, poison)))
        assert all(torch.isfinite(w).all() for w in weights(party))
        refusal(party.handle(Save(0, 2)))
        assert isinstance(party.handle(Restore(0, 1, "")), Done)
        assert isinstance(party.handle(Save(0, 2)), Saved)
