"""Half precision on the wire: what is sent, what cannot be, and how many bytes it saves."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import small_holdings
from unlabel_bench.speed.sizes import step_bytes

from unlabel.config import DefendSettings
from unlabel.defend import Half, read_defences
from unlabel.errors import PartyRefused, SettingsError, WireError
from unlabel.party import Stream
from unlabel.train import Training, assemble
from unlabel.wire import Done, Embed, Embeddings, Gradients, Recorder, encode

STREAM = Stream(0, "test")


@pytest.mark.parametrize(("dtype", "digits"), [("bf16", 8), ("fp16", 11)])
def test_numbers_are_rounded_to_the_digits_of_the_type(dtype: str, digits: int) -> None:
    values = torch.randn(200, 9, generator=torch.Generator().manual_seed(2))
    sent = Half(dtype=dtype).apply(values, STREAM, 0)  # type: ignore[arg-type]
    assert sent.element_size() == 2
    assert ((sent.double() - values.double()).abs() <= values.double().abs() * 2.0**-digits).all()
    assert not torch.equal(sent.float(), values)


def test_a_number_that_does_not_fit_is_refused_and_never_sent_as_infinity() -> None:
    values = torch.tensor([[1.0, 65504.0], [-70000.0, 0.0]])
    with pytest.raises(WireError):
        Half(dtype="fp16").apply(values, STREAM, 3)
    assert torch.isfinite(Half(dtype="bf16").apply(values, STREAM, 3)).all()
    assert Half(dtype="fp16").apply(values[:1], STREAM, 3).tolist() == [[1.0, 65504.0]]


def test_what_is_no_number_to_begin_with_is_left_to_the_checks_of_the_receiver() -> None:
    sent = Half(dtype="fp16").apply(torch.tensor([[torch.nan, 1e9]]), STREAM, 0)
    assert not torch.isfinite(sent).any()


def test_nothing_comes_after_it() -> None:
    assert len(read_defences(["gaussian", "half:dtype=fp16"], "embeddings")) == 2
    with pytest.raises(SettingsError, match=r"'half'"):
        read_defences(["half", "quantise"], "gradients")
    with pytest.raises(SettingsError, match="dtype"):
        read_defences(["half:dtype=fp8"], "gradients")


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_a_training_sends_half_the_bytes_and_ends_nearby(dtype: str) -> None:
    ended = []
    for words in ([], [f"half:dtype={dtype}"]):
        holdings = small_holdings(2, epochs=3, lr=0.02)
        defend = DefendSettings(gradients=words, embeddings=words)
        holdings = replace(holdings, config=replace(holdings.config, defend=defend))
        active, passives = assemble(holdings, encoded=True)
        active.transport = recorder = Recorder(active.transport)
        Training(active, holdings.rows, holdings.config.train, labels=4).run()
        entries = [e for t in recorder.transcripts.values() for e in t.entries]
        sent = {kind: sum(e.bytes for e in entries if e.kind == kind) for kind in KINDS}
        ended.append((sent, active.logits(holdings.rows.test)))
        assert all(p.bottom.is_finite() for p in passives.values())
    (plain, exact), (small, rounded) = ended
    for kind in KINDS:
        assert 0.5 < small[kind] / plain[kind] < 0.75  # a header of some hundred bytes stays
    assert not torch.equal(exact, rounded)
    assert (exact - rounded).abs().max() < 0.05 * exact.abs().max()


KINDS = ("Embeddings", "Gradients")


def test_an_embedding_that_does_not_fit_ends_in_a_sentence_of_the_party() -> None:
    holdings = small_holdings(2)
    defend = DefendSettings(embeddings=["half:dtype=fp16"])
    holdings = replace(holdings, config=replace(holdings.config, defend=defend))
    active, passives = assemble(holdings)
    with torch.no_grad():
        for weights in passives["passive-2"].bottom.module.parameters():
            weights.mul_(1e6)
    active.prepare(holdings.rows.train, 4)
    with pytest.raises(PartyRefused, match=r"'passive-2'"):
        active.step(holdings.rows.train[:8], 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_bytes_of_a_step_are_those_of_its_encoded_messages(dtype: torch.dtype) -> None:
    rows, values = torch.arange(48), torch.ones(48, 20)
    found = step_bytes(3, 48, 20, embeddings=dtype, step=7)
    sent = [
        Embed(7, rows, "train"),
        Embeddings(7, values.to(dtype)),
        Gradients(7, values),
        Done(7),
    ]
    assert found.total == 3 * sum(len(encode(message)) for message in sent)
    assert found.embeddings == 3 * len(encode(sent[1]))
