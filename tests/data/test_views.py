"""Random views of rows: crops and colours of images, cells of tables, words of texts."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from unlabel.config import TextSettings
from unlabel.config.model import FIRST_WORD
from unlabel.data.features import Features, Scaling
from unlabel.data.views import DRAWS, YIQ, image_view, table_view, view, words_view
from unlabel.models import build_bottom
from unlabel.models.bert import Encoder, bert

Array = npt.NDArray[Any]
SHAPES = [(3, 8, 8), (3, 32, 16), (1, 8, 4), (1, 8, 1), (2, 5, 3), (1, 1, 6), (6, 7, 7)]


def images(*shape: int) -> Tensor:
    draw = torch.Generator().manual_seed(sum(shape))
    return torch.randint(256, shape, dtype=torch.uint8, generator=draw)


def seeded(rows: Tensor, *, seed: int = 0, **options: bool) -> Tensor:
    torch.manual_seed(seed)
    return image_view(rows, **options)


# --- images, pixel by pixel -----------------------------------------------------------------


def slow_crop(image: Array, u: Array, *, flip: bool) -> Array:
    """Return one crop by its definition: area, sides, place, then each pixel from four."""
    _, height, width = image.shape
    area = 0.25 + 0.75 * u[0]
    reach = min(math.log(4 / 3), -math.log(area))
    ratio = math.exp((2 * u[1] - 1) * reach)
    wide, tall = width * math.sqrt(area * ratio), height * math.sqrt(area / ratio)
    left, top = (width - wide) * u[2], (height - tall) * u[3]
    out = np.empty_like(image)
    for row in range(height):
        for column in range(width):
            y = top + (row + 0.5) * tall / height - 0.5
            across = width - 1 - column if flip and u[4] < 0.5 else column
            x = left + (across + 0.5) * wide / width - 0.5
            y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
            low, near = min(int(y), height - 2) if height > 1 else 0, int(x)
            near = min(near, width - 2) if width > 1 else 0
            high, next_one = min(low + 1, height - 1), min(near + 1, width - 1)
            upper = image[:, low, near] * (near + 1 - x) + image[:, low, next_one] * (x - near)
            lower = image[:, high, near] * (near + 1 - x) + image[:, high, next_one] * (x - near)
            out[:, row, column] = upper * (low + 1 - y) + lower * (y - low)
    return out


def slow_jitter(image: Array, u: Array, *, colour: bool) -> Array:
    """Return the jittered image, with the colour of a pixel as one complex number."""
    on = u[5] < 0.8
    bright, contrast, saturation = (0.6 + 0.8 * each if on else 1.0 for each in u[6:9])
    turn = cmath.exp(2j * math.pi * 0.1 * (2 * u[9] - 1)) if on else 1
    if len(image) != 3 or not colour:
        return np.asarray(bright * (contrast * image + (1 - contrast) * image.mean()))
    luma, i, q = np.einsum("ij,jhw->ihw", np.array(YIQ), image)
    chroma = (i + 1j * q) * turn * bright * contrast * saturation * (u[10] >= 0.2)
    luma = bright * (contrast * luma + (1 - contrast) * luma.mean())
    planes = np.stack([luma, chroma.real, chroma.imag])
    return np.asarray(np.einsum("ij,jhw->ihw", np.linalg.inv(YIQ), planes))


@pytest.mark.parametrize(("flip", "colour"), [(True, True), (False, True), (True, False)])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_view_is_the_crop_and_the_jitter_of_its_draws(
    shape: tuple[int, int, int], flip: bool, colour: bool
) -> None:
    batch = images(12, *shape)
    seen = seeded(batch, flip=flip, colour=colour)
    torch.manual_seed(0)
    draws = torch.rand(DRAWS, 12).double().numpy()
    for image, u, result in zip(batch.double().numpy(), draws.T, seen, strict=True):
        expected = slow_jitter(slow_crop(image, u, flip=flip), u, colour=colour).clip(0, 255)
        np.testing.assert_allclose(result.numpy(), expected, atol=0.02)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_view_keeps_shape_and_range_and_is_float32(shape: tuple[int, int, int]) -> None:
    batch = images(64, *shape)
    for rows, low, high in ((batch, 0, 255), (batch.double() / 100 - 1, -1, 1.55)):
        seen = seeded(rows)
        assert (seen.shape, seen.dtype) == (batch.shape, torch.float32)
        assert seen.min() >= low
        assert seen.max() <= high
        assert not torch.equal(seen, rows.float())


def test_no_rows_have_no_views() -> None:
    assert image_view(images(0, 3, 8, 8)).shape == (0, 3, 8, 8)


# --- images, in numbers ---------------------------------------------------------------------


def ramps(count: int) -> Tensor:
    """Return images whose channels are the column, the row and 0: a crop's corners are readable."""
    line = torch.arange(64.0)
    ramp = torch.stack([line.expand(64, 64), line[:, None].expand(64, 64), torch.zeros(64, 64)])
    return (ramp[:2] + 100).to(torch.uint8).expand(count, 2, 64, 64)


def test_crops_show_a_quarter_to_all_of_the_area_and_lie_everywhere() -> None:
    torch.manual_seed(1)
    count = 2000
    draws = torch.rand(DRAWS, count)
    plain = int((draws[5] >= 0.8).sum())
    seen = seeded(ramps(count), seed=1)[draws[5] >= 0.8]  # those that are not jittered
    across, down = seen[:, 0, 32], seen[:, 1, :, 32]
    # Two inner pixels, whose distance tells how much is shown.
    wide, tall = across[:, 44] - across[:, 20], down[:, 44] - down[:, 20]
    area, ratio = wide.abs() * tall / 24**2, wide.abs() / tall
    assert 0.25 <= area.min() < 0.27
    assert 0.97 < area.max() <= 1.001
    assert area.mean() == pytest.approx(0.625, abs=0.03)
    assert 0.749 < ratio.min() < 0.77
    assert 1.3 < ratio.max() < 1.335
    assert int((wide < 0).sum()) / plain == pytest.approx(0.5, abs=0.06)
    assert (tall > 0).all()
    edge = across.amin(1) - 100
    assert edge.min() == 0  # some crops reach the border, others begin half an image away
    assert edge.max() > 25


def test_a_view_without_a_flip_never_turns_an_image() -> None:
    seen = seeded(ramps(200), flip=False)
    assert (seen[:, 0, 32, 44] > seen[:, 0, 32, 20]).all()


def test_a_fifth_of_the_images_is_grey_and_a_fifth_keeps_its_colours() -> None:
    flat = torch.tensor([200, 120, 60], dtype=torch.uint8).view(1, 3, 1, 1).expand(5000, 3, 4, 4)
    seen = seeded(flat)[:, :, 0, 0]
    grey = seen.amax(1) - seen.amin(1) < 0.01
    assert grey.float().mean() == pytest.approx(0.2, abs=0.02)
    kept = (seen - torch.tensor([200.0, 120.0, 60.0])).abs().amax(1) < 0.01
    assert kept.float().mean() == pytest.approx(0.2 * 0.8, abs=0.02)
    luma = seen @ torch.tensor(YIQ[0])
    before = sum(weight * level for weight, level in zip(YIQ[0], (200, 120, 60), strict=True))
    inside = (seen > 0).all(1) & (seen < 255).all(1)  # contrast changes nothing of a flat image
    assert (luma / before)[inside].min() == pytest.approx(0.6, abs=0.02)


def test_grey_images_stay_grey() -> None:
    batch = images(50, 1, 8, 8).expand(50, 3, 8, 8)
    seen = seeded(batch)
    torch.testing.assert_close(seen, seen[:, :1].expand_as(seen), atol=0.01, rtol=0)


def test_three_channels_that_are_no_colours_are_not_mixed() -> None:
    batch = images(50, 3, 8, 8)
    batch[:, 1] = 128
    seen = seeded(batch, colour=False)
    assert seen[:, 1].flatten(1).std(1).max() < 0.01
    assert seeded(batch)[:, 1].flatten(1).std(1).max() > 1


def test_a_stream_gives_the_same_views_and_crops_parts_of_any_size_alike() -> None:
    batch = images(20, 1, 16, 16)
    assert torch.equal(seeded(batch), seeded(batch))
    assert not torch.equal(seeded(batch), seeded(batch, seed=1))
    # A ramp over twice the width with half the slope shows which part of the width is seen.
    narrow = torch.arange(0, 128, 16.0).expand(20, 1, 8, 8)
    wide = torch.arange(-4, 124, 8.0).expand(20, 1, 4, 16)
    left, right = seeded(narrow)[:, 0, 4], seeded(wide)[:, 0, 2].view(20, 8, 2).mean(2)
    torch.manual_seed(0)
    plain = torch.rand(DRAWS, 20)[5] >= 0.8
    torch.testing.assert_close(left[plain][:, 2:6], right[plain][:, 2:6], atol=0.5, rtol=0)


def test_autocast_changes_nothing() -> None:
    batch = images(20, 3, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        seen = seeded(batch)
    assert torch.equal(seen, seeded(batch))


# --- tables ---------------------------------------------------------------------------------


def test_a_share_of_the_cells_comes_from_the_same_column_of_another_row() -> None:
    torch.manual_seed(0)
    reference = torch.arange(300.0).view(100, 3)  # the column is the remainder by 3
    values = reference[:50].repeat(100, 1) + 3000
    seen = table_view(values, reference)
    changed = seen != values
    assert changed.float().mean(0).tolist() == pytest.approx([0.3] * 3, abs=0.02)
    columns = torch.arange(3).expand_as(seen)
    assert torch.equal(seen % 3, columns.float())
    rows = (seen // 3)[changed].long().bincount(minlength=100)
    assert rows.min() > 0.6 * rows.float().mean()  # every row gives
    # Cells of one row come from different rows.
    both = changed[:, 0] & changed[:, 1]
    same = (seen[both, 0] // 3) == (seen[both, 1] // 3)
    assert same.float().mean() < 0.05


@pytest.mark.parametrize(("share", "expected"), [(0.0, [False]), (1.0, [True])])
def test_the_share_of_cells_may_be_none_or_all(share: float, expected: list[bool]) -> None:
    values = torch.zeros(9, 2)
    seen = table_view(values, torch.ones(4, 2), share=share)
    assert (seen == 1).unique().tolist() == expected


def test_cells_come_only_from_the_rows_that_may_give() -> None:
    reference = torch.arange(10.0)[:, None]
    seen = table_view(torch.full((500, 1), -1.0), reference, share=1, among=torch.tensor([2, 7]))
    assert seen.unique().tolist() == [2, 7]


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.uint8, torch.bool])
def test_a_view_of_a_table_keeps_its_kind_of_numbers(kind: torch.dtype) -> None:
    values = torch.ones(4, 3, dtype=kind)
    assert table_view(values, values).dtype == kind


# --- texts ----------------------------------------------------------------------------------


def test_a_share_of_the_words_becomes_padding_and_nothing_else_changes() -> None:
    torch.manual_seed(0)
    tokens = torch.randint(0, 12, (2000, 20))
    seen = words_view(tokens)
    words, changed = tokens >= FIRST_WORD, seen != tokens
    assert not changed[~words].any()
    assert not seen[changed].any()
    assert changed[words].float().mean() == pytest.approx(0.2, abs=0.01)
    assert changed.sum(0).min() > 0


@pytest.mark.parametrize("words", [1, 2, 5])
def test_one_word_of_each_text_stays(words: int) -> None:
    tokens = torch.zeros(300, 8, dtype=torch.int64)
    tokens[:, 0] = 1
    tokens[:, 2 : 2 + words] = torch.arange(words) + FIRST_WORD
    seen = words_view(tokens, share=1.0)
    assert (seen >= FIRST_WORD).sum(1).tolist() == [1] * 300
    assert seen[:, 0].tolist() == [1] * 300
    assert len(seen.amax(1).unique()) == words  # any of them may be the one


def test_a_text_without_words_stays_as_it_is() -> None:
    tokens = torch.tensor([[1, 2, 0, 0], [0, 0, 0, 0]])
    assert torch.equal(words_view(tokens, share=1.0), tokens)


def test_padding_of_another_number_is_no_word() -> None:
    seen = words_view(torch.tensor([[9, 9, 9, 5]]), share=1.0, pad=9)
    assert seen.tolist() == [[9, 9, 9, 5]]


def test_a_dropped_word_weighs_nothing_in_a_bag_wherever_it_stood() -> None:
    torch.manual_seed(0)
    bag = build_bottom("words", (6,), text=TextSettings(vocabulary=50))
    dropped, short = torch.tensor([[7, 0, 9, 0, 0, 0]]), torch.tensor([[7, 9, 0, 0, 0, 0]])
    torch.testing.assert_close(bag(dropped.float()), bag(short.float()))


def test_a_transformer_attends_to_no_dropped_word() -> None:
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = bert((6,), TextSettings(vocabulary=50, width=16, layers=1, length=6)).eval()
    encoder = model[0]  # type: ignore[index]
    assert isinstance(encoder, Encoder)
    tokens = torch.tensor([[7, 8, 9, 4, 0, 0]])
    dropped = torch.tensor([[7, 0, 9, 4, 0, 0]])
    before = encoder(dropped)
    with torch.no_grad():
        encoder.encoder.get_parameter("embeddings.word_embeddings.weight")[0] += 3
    torch.testing.assert_close(encoder(dropped), before)
    assert not torch.allclose(encoder(tokens), before)


# --- by the kind of features ----------------------------------------------------------------


def test_features_are_seen_by_their_kind_and_can_then_be_scaled() -> None:
    rows = torch.tensor([4, 4, 2])
    draw = torch.Generator().manual_seed(0)
    table = torch.randn(9, 5, generator=draw)
    table[0, 0] = torch.nan
    tokens = torch.randint(0, 90, (9, 7), generator=draw)
    kinds = {
        "image": Features(images(9, 3, 8, 8)),
        "table": Features(table, may_miss=True),
        "words": Features(tokens),
    }
    for name, features in kinds.items():
        torch.manual_seed(0)
        seen = view(features, rows)
        torch.manual_seed(0)
        values = features.values[rows]
        if name == "image":
            expected = image_view(values)
        else:
            expected = table_view(values, table) if name == "table" else words_view(values)
        torch.testing.assert_close(seen, expected, rtol=0, atol=0, equal_nan=True)
        scaled = Scaling.fit(features, torch.arange(9)).apply(seen)
        assert scaled.shape == values.shape
        assert scaled.isfinite().all()


def test_what_a_view_may_do_is_passed_on() -> None:
    torch.manual_seed(0)
    turned = view(Features(ramps(64)), torch.arange(64), flip=False, colour=False)
    assert (turned[:, 0, 32, 44] > turned[:, 0, 32, 20]).all()
    table = Features(torch.arange(20.0)[:, None])
    seen = view(table, torch.zeros(400, dtype=torch.int64), among=torch.tensor([3]))
    assert seen.unique().tolist() == [0, 3]


class Calls(TorchDispatchMode):
    """Notes the operations that run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.__name__.split(".")[0])
        return func(*args, **(kwargs or {}))


#: Operations whose result depends on values in a way that a GPU must be waited for.
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "unique", "_unique2", "equal"}


@pytest.mark.parametrize(
    "features",
    [
        Features(images(9, 3, 8, 8)),
        Features(images(9, 1, 8, 8)),
        Features(torch.rand(9, 4)),
        Features(torch.randint(0, 90, (9, 7))),
    ],
    ids=["colour", "grey", "table", "words"],
)
def test_no_view_waits_for_values(features: Features) -> None:
    rows = torch.arange(9)
    view(features, rows)  # what is made once is there
    with Calls() as calls:
        view(features, rows)
    assert calls.names
    assert not WAITING & set(calls.names)
    assert len(calls.names) < 120
