"""The parts of `unlabel bench wire` that need no engine: sizes, bytes, and the page."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from unlabel_bench.speed.wire import WireSettings, request_of
from unlabel_bench.speed.wire_half import bytes_a_step, half_precision
from unlabel_bench.speed.wire_page import page, table
from unlabel_bench.speed.wire_party import Echo

from unlabel.config import DefendSettings
from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.wire import (
    Describe,
    Done,
    Embed,
    Embeddings,
    Gradients,
    Refused,
    decode,
    encode,
)

BATCH = 16


def small(*sent: str) -> Federation:
    words = list(sent)
    defend = DefendSettings(gradients=words, embeddings=words)
    return Federation.local("digits", parties=2, model="mlp", defend=defend, epochs=1, batch=BATCH)


@pytest.mark.parametrize("kib", [1, 64, 512])
def test_a_request_carries_a_tensor_of_the_size_that_is_named(kib: int) -> None:
    values = request_of(kib).values
    assert values.numel() * values.element_size() == 1024 * kib


def test_the_echo_answers_gradients_with_embeddings_of_the_same_numbers_and_nothing_else() -> None:
    sent = request_of(1)
    answer = decode(Echo().serve(encode(sent)))
    assert isinstance(answer, Embeddings)
    assert torch.equal(answer.values, sent.values)
    assert isinstance(decode(Echo().serve(encode(Describe(0)))), Refused)


@pytest.mark.parametrize(
    ("sent", "dtype"), [((), torch.float32), (("half:dtype=bf16",), torch.bfloat16)]
)
def test_the_bytes_of_a_step_are_those_of_its_four_messages(
    sent: tuple[str, ...], dtype: torch.dtype
) -> None:
    federation = small(*sent)
    rows = federation.holdings.rows.train[:BATCH]
    values = torch.zeros(BATCH, federation.active.widths[0], dtype=dtype)
    asked = len(encode(Embed(0, rows, "train", "main"))) + len(encode(Gradients(0, values)))
    text = len(encode(Embeddings(0, values))) + len(encode(Done(0)))
    result = bytes_a_step(federation, BATCH)
    assert result == {"to_parties": 2 * asked, "from_parties": 2 * text}


def test_half_precision_is_tried_on_every_dataset_with_every_seed() -> None:
    settings = WireSettings(data=("digits",), epochs=1, batch=256, seeds=2)
    result = half_precision(settings, lambda _: None)
    assert [line["sent"] for line in result] == ["float32", "fp16", "bf16"]
    assert all(len(line["accuracies"]) == 2 for line in result)
    full, *halves = result
    for half in halves:
        assert half["from_parties"] < 0.6 * full["from_parties"]
        assert abs(half["accuracy"] - full["accuracy"]) < 0.05


@pytest.mark.parametrize(
    "wrong", [{"sizes": ()}, {"parties": (0,)}, {"calls": 5}, {"seeds": 0}, {"think": -1}]
)
def test_settings_that_measure_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        WireSettings(**wrong)


def test_the_page_tells_every_figure() -> None:
    times = {"median_ms": 11.04, "p90_ms": 17.0}
    line = {"kib": 64, "think_ms": 0, "parties": 3, "calls": 20, **times}
    result = {
        "federation": 4,
        "cores": 2,
        "round_trips": [
            {
                "kib": 64,
                "parties": 2,
                "calls": 200,
                "ours": times,
                "bare": {"median_ms": 9.2, "p90_ms": 14.3},
                "ratio": 1.2,
                "ratio_of_blocks": {"lowest": 1.13, "median": 1.21, "highest": 1.44},
            }
        ],
        "by_parties": [
            {
                **line,
                "processor_ms": 21.5,
                "least_ms": 10.75,
                "over_least": 1.03,
                "bare_ms": 9.6,
                "ratio": 1.15,
            }
        ],
        "thinking": [],
        "half": [
            {
                "data": "digits",
                "sent": "bf16",
                "parties": 2,
                "to_parties": 9728,
                "from_parties": 8532,
                "accuracies": [0.9, 0.8],
                "accuracy": 0.85,
            }
        ],
    }
    text = page(result)
    assert (
        "| 64 KiB | 2 | 200 | 11.0 ms | 17.0 ms | 9.2 ms | 14.3 ms | 1.20 | 1.13 to 1.44 |" in text
    )
    assert (
        "| 64 KiB | 3 | 11.0 ms | 17.0 ms | 21.5 ms | 10.8 ms | 1.03 | 9.6 ms (ratio 1.15) |"
        in text
    )
    assert "| digits | bf16 | 9,728 B | 8,532 B | 85.00% | 90.00%, 80.00% |" in text
    rows = table(result)
    assert {len(row) for row in rows} == {len(rows[0])}
    assert "ratio 1.20" in rows[1]
