"""Texts: tokens on the owner's side, encoders, bags of words, and features made once."""

from __future__ import annotations

import math
import socket
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch
from models.small_encoder import SHAPE, WORDS, library_model, write_encoder
from safetensors.torch import load_file, save_file
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor, nn

from unlabel.config import ModelSettings, TextSettings
from unlabel.errors import ModelError, RunError, SettingsError
from unlabel.models import build_bottom, build_top, default_top, embedding_width, read_texts
from unlabel.models import text_inputs as reading
from unlabel.models.bert import Encoder, encode
from unlabel.models.pretrained import Pretrained, find_folder
from unlabel.models.registry import fit_parts
from unlabel.models.text_inputs import hash_tokens

transformers = pytest.importorskip("transformers")

TEXTS = ["My card is lost", "", "where is my card, is my card lost?", "card", "nothing known here"]
RANDOM = TextSettings(layers=2, width=32, length=6, vocabulary=50)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_encoder(tmp_path / "encoder")


def of(folder: Path, **more: Any) -> TextSettings:
    return TextSettings(weights=str(folder), **{"length": 8, **more})


def mean_by_the_library(tokens: Tensor, layers: int = 3) -> Tensor:
    """Compute the features row by row, without padding and without a mask."""
    model, rows = library_model(), []
    for row in tokens:
        known = row[row != 0][None]
        states = model(input_ids=known, output_hidden_states=True).hidden_states
        rows.append(states[layers][0].mean(0))
    return torch.stack(rows).detach()


# --- numbers for words ---------------------------------------------------------------------


def test_words_get_the_number_of_their_hash() -> None:
    tokens = hash_tokens(["Card, card", "", "a b c d e"], 4, 1000)
    card, comma = 3 + crc32(b"card") % 997, 3 + crc32(b",") % 997
    assert tokens[0].tolist() == [card, comma, card, 0]
    assert tokens[1].tolist() == [0, 0, 0, 0]
    assert tokens[2].tolist() == [3 + crc32(word) % 997 for word in (b"a", b"b", b"c", b"d")]
    assert tokens.dtype == torch.int64


def test_without_weights_every_model_of_texts_reads_hashes() -> None:
    for bottom in ("bert", "mine:own"):
        tokens = read_texts(bottom, TEXTS, RANDOM)
        assert torch.equal(tokens, hash_tokens(TEXTS, 6, 50))


def test_a_bag_reads_each_different_word_once() -> None:
    text = "where is my card, is my card lost?"
    tokens = read_texts("words", [text], replace(RANDOM, vocabulary=1000))
    known = [b"where", b"is", b"my", b"card", b",", b"lost"]  # and no room for the question mark
    assert tokens[0].tolist() == [3 + crc32(word) % 997 for word in known]


@pytest.mark.parametrize(("bottom", "length"), [("bert", 64), ("words", 256), ("mine:own", 64)])
def test_how_much_is_read_where_no_length_is_given(bottom: str, length: int) -> None:
    many = " ".join(f"word{n}" for n in range(300))
    tokens = read_texts(bottom, [many], TextSettings())
    assert tokens.shape == (1, length)
    assert (tokens != 0).all()


def test_a_model_is_told_the_length_that_was_read() -> None:
    settings = TextSettings(layers=1, width=32, vocabulary=50)
    body = build_bottom("bert", (64,), text=settings).get_submodule("0.encoder")
    config: Any = body.config
    assert config.max_position_embeddings == 64


@pytest.mark.parametrize("bottom", ["mlp", "convnet"])
def test_a_model_of_amounts_reads_no_words(bottom: str) -> None:
    with pytest.raises(SettingsError, match=rf"'{bottom}' .*bert or words"):
        read_texts(bottom, TEXTS, RANDOM)


@pytest.mark.parametrize(
    "wrong",
    [{"layers": 0}, {"length": -1}, {"vocabulary": 3}, {"vocabulary": 2**24 + 1}, {"frozen": True}],
)
def test_settings_that_cannot_work(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        TextSettings(**wrong)


# --- a tokeniser that comes with weights ---------------------------------------------------


def test_tokens_are_those_of_the_encoders_own_tokeniser(folder: Path) -> None:
    tokens = read_texts("bert", TEXTS, of(folder))
    assert tokens.tolist() == [
        [2, 4, 5, 6, 7, 3, 0, 0],
        [2, 3, 0, 0, 0, 0, 0, 0],
        [2, 9, 6, 4, 5, 10, 6, 3],  # cut off, and ended all the same
        [2, 5, 3, 0, 0, 0, 0, 0],
        [2, 1, 1, 1, 3, 0, 0, 0],
    ]


def test_tokenizer_json_gives_the_same_tokens(folder: Path) -> None:
    expected = read_texts("bert", TEXTS, of(folder))
    known = {word: number for number, word in enumerate(WORDS)}
    whole = transformers.BertTokenizerFast(vocab=known)
    whole.backend_tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").unlink()
    assert torch.equal(read_texts("bert", TEXTS, of(folder)), expected)


def test_capitals_stay_where_the_encoder_knows_them(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert read_texts("bert", ["My card"], of(folder))[0, :4].tolist() == [2, 1, 5, 3]


# --- the encoder ---------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "bert."])
@pytest.mark.parametrize("layers", [1, 3, 12])
def test_a_pretrained_encoder_computes_what_the_library_does(
    tmp_path: Path, prefix: str, layers: int
) -> None:
    settings = of(write_encoder(tmp_path / "e", prefix), layers=layers)
    tokens = read_texts("bert", TEXTS, settings)
    expected = mean_by_the_library(tokens, min(layers, 3))
    assert torch.allclose(encode(tokens, settings, batch=2), expected, atol=1e-5)
    model = build_bottom("bert", (8,), text=settings).eval()
    assert isinstance(model, nn.Sequential)
    head = model[1]
    assert isinstance(head, nn.Linear)
    by_hand = torch.tanh(expected @ head.weight.T + head.bias)
    assert torch.allclose(model(tokens.float()), by_hand, atol=1e-5)


def test_the_oldest_names_of_weights_are_known(folder: Path) -> None:
    settings = of(folder)
    tokens = read_texts("bert", TEXTS, settings)
    expected = encode(tokens, settings)
    state = load_file(folder / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): values
        for name, values in state.items()
    }
    assert old.keys() != state.keys()
    save_file(old, folder / "model.safetensors")
    assert torch.equal(encode(tokens, settings), expected)


def test_an_encoder_begins_at_random_without_weights() -> None:
    torch.manual_seed(0)
    model = build_bottom("bert", (6,), text=RANDOM)
    second = build_bottom("bert", (6,), text=RANDOM)
    assert embedding_width(model, (6,)) == 128
    assert default_top("bert") == "fc4"
    body = model.get_submodule("0")
    assert isinstance(body, Encoder)
    config: Any = body.encoder.config
    assert (config.num_hidden_layers, config.hidden_size) == (2, 32)
    assert (config.num_attention_heads, config.intermediate_size) == (1, 128)
    name = "0.encoder.embeddings.word_embeddings.weight"
    assert not torch.equal(model.get_parameter(name), second.get_parameter(name))


@pytest.mark.parametrize(("width", "heads"), [(768, 12), (64, 1), (150, 2), (193, 1), (200, 2)])
def test_heads_divide_the_width(width: int, heads: int) -> None:
    settings = TextSettings(layers=1, width=width, length=3, vocabulary=9)
    body = build_bottom("bert", (3,), text=settings).get_submodule("0")
    config: Any = body.get_submodule("encoder").config
    assert config.num_attention_heads == heads


@pytest.mark.parametrize("bottom", ["bert", "words"])
def test_padding_changes_nothing_and_no_words_are_no_nan(bottom: str) -> None:
    torch.manual_seed(0)
    model = build_bottom(bottom, (6,), text=RANDOM).eval()
    tokens = read_texts(bottom, ["a b c", ""], RANDOM).float()
    whole = model(tokens)
    assert whole.isfinite().all()
    assert torch.allclose(model(tokens[:1, :3]), whole[:1], atol=1e-6)
    model.train()(tokens).square().sum().backward()
    for name, weights in model.named_parameters():
        assert weights.grad is not None, name
        assert weights.grad.isfinite().all(), name


def test_a_bag_is_a_linear_map_of_the_tf_idf_vector() -> None:
    torch.manual_seed(0)
    model = build_bottom("words", (3,), text=TextSettings(length=3, vocabulary=9))
    assert default_top("words") == "linear"
    rows = torch.tensor([[4.0, 7.0, 0.0], [5.0, 5.0, 5.0], [4.0, 5.0, 0.0], [0.0, 0.0, 0.0]])
    fit_parts(model, lambda: rows.split(2))
    once, twice = 1 + math.log(5 / 2), 1 + math.log(5 / 3)  # held by one of four rows, by two
    weights = model.get_buffer("weights")
    assert torch.allclose(weights, torch.tensor([0, 0, 0, 0, twice, twice, 0, once, 0]))
    vectors = model.get_parameter("vectors")
    first = 8 * (twice * vectors[4] + once * vectors[7]) / math.hypot(once, twice)
    assert torch.allclose(model(rows)[0], first)
    strange = torch.tensor([[8.0, 3.0, 0.0], [8.0, 7.0, 0.0]])  # no training row holds 3 and 8
    assert torch.equal(model(strange), torch.stack([torch.zeros(64), 8 * vectors[7]]))


def test_weights_of_words_are_those_of_scikit_learn() -> None:
    texts = ["a card is a card", "my card", "a loan", "loan of my card", ""]
    settings = TextSettings(length=6, vocabulary=5000)
    model = build_bottom("words", (6,), text=settings)
    tokens = read_texts("words", texts, settings)
    fit_parts(model, lambda: [tokens.float()])
    known = TfidfVectorizer(token_pattern=r"\w+").fit(texts)
    numbers = hash_tokens(list(known.get_feature_names_out()), 1, 5000)[:, 0]
    assert model.get_buffer("weights")[numbers].tolist() == pytest.approx(known.idf_.tolist())


def test_a_bag_knows_as_many_words_as_the_tokeniser(folder: Path) -> None:
    model = build_bottom("words", (8,), text=of(folder))
    assert model.get_parameter("vectors").shape == (len(WORDS), 64)


@pytest.mark.parametrize("bottom", ["bert", "words"])
def test_a_model_of_texts_sends_images_elsewhere(bottom: str) -> None:
    with pytest.raises(SettingsError, match=rf"'{bottom}' .*\[1, 8, 8\]; .*'convnet'"):
        build_bottom(bottom, (1, 8, 8))


def test_fc4_has_four_layers() -> None:
    top = build_top("fc4", 256, 10)
    layers = [m for m in top.modules() if isinstance(m, nn.Linear)]
    assert [layer.out_features for layer in layers] == [256, 128, 64, 10]
    assert top(torch.zeros(2, 256)).shape == (2, 10)


# --- what can be wrong with weights --------------------------------------------------------


def test_a_package_is_found_without_running_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "small_encoder"
    inner = write_encoder(package / "model")
    (package / "__init__.py").write_text("raise RuntimeError('it ran')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert find_folder("small_encoder") == inner
    assert "small_encoder" not in sys.modules
    (inner / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="'small_encoder'"):
        find_folder("small_encoder")


@pytest.mark.parametrize("weights", ["no_such_package", "no/such/folder", "no-such", "os"])
def test_weights_that_are_nowhere(weights: str) -> None:
    with pytest.raises(ModelError, match=rf"'{weights}'.*"):
        Pretrained.open(weights)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.txt"])
def test_a_folder_must_be_whole(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelError, match="whole"):
        build_bottom("bert", (8,), text=of(folder))


def test_broken_files_are_named(folder: Path) -> None:
    settings = of(folder)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:100])
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        build_bottom("bert", (8,), text=settings)
    (folder / "model.safetensors").write_bytes(whole)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="tokeniser"):
        read_texts("bert", TEXTS, settings)
    (folder / "config.json").write_text("[]")
    with pytest.raises(ModelError, match="'None'"):
        read_texts("bert", TEXTS, settings)
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json'"):
        read_texts("bert", TEXTS, settings)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"hidden_size": None}, "'hidden_size'"),
        ({"num_hidden_layers": "three"}, "'num_hidden_layers' .* 'three'"),
        ({"vocab_size": 0}, "'vocab_size'"),
        ({"num_attention_heads": 5}, "`model.text`"),
        ({"hidden_act": "none such"}, "`model.text`"),
    ],
)
def test_a_shape_that_cannot_be_is_named(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    folder = write_encoder(tmp_path / "odd", config={**SHAPE, **changed})
    text = TextSettings(weights=str(folder), length=8)
    with pytest.raises(ModelError, match=message):
        build_bottom("bert", (8,), text=text)


def test_weights_of_another_shape_are_refused(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    name = "encoder.layer.1.output.dense.weight"
    save_file({**state, name: torch.zeros(32, 40)}, folder / "model.safetensors")
    with pytest.raises(ModelError, match=rf"'{name}' .*\[32, 48\].*\[32, 40\]"):
        build_bottom("bert", (8,), text=of(folder))
    save_file({k: v for k, v in state.items() if k != name}, folder / "model.safetensors")
    with pytest.raises(ModelError, match=rf"'{name}' .*none"):
        build_bottom("bert", (8,), text=of(folder))


def test_more_tokens_than_the_encoder_reads(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"16 .*`length` is 17"):
        read_texts("bert", TEXTS, of(folder, length=17))


def test_a_tokeniser_of_another_encoder(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "e", config={**SHAPE, "vocab_size": 8})
    with pytest.raises(ModelError, match=r"10 .* 8"):
        read_texts("bert", TEXTS, of(folder))


def test_another_kind_of_encoder(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "e", config={**SHAPE, "model_type": "gpt2"})
    with pytest.raises(ModelError, match="'gpt2'"):
        build_bottom("bert", (8,), text=of(folder))


def test_without_the_library_the_error_names_the_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ModelError, match=r"pip install 'unlabel\[text\]'"):
        build_bottom("bert", (6,), text=RANDOM)
    with pytest.raises(ModelError, match=r"pip install 'unlabel\[text\]'"):
        read_texts("bert", TEXTS, of(folder))
    assert read_texts("words", TEXTS, RANDOM).shape == (5, 6)


def test_no_network_is_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was tried")

    for name in ("create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert read_texts("bert", TEXTS, of(folder, frozen=True)).shape == (5, 32)
    assert build_bottom("bert", (8,), text=of(folder)) is not None
    with pytest.raises(ModelError, match="'bert-base-uncased'"):
        read_texts("bert", TEXTS, TextSettings(weights="bert-base-uncased"))


# --- frozen: features made once ------------------------------------------------------------


def test_frozen_features_are_the_mean_states(folder: Path) -> None:
    settings = of(folder, frozen=True, layers=2)
    features = read_texts("bert", TEXTS, settings)
    assert (features.dtype, features.shape) == (torch.float32, (5, 32))
    tokens = read_texts("bert", TEXTS, of(folder))
    assert torch.allclose(features, mean_by_the_library(tokens, 2), atol=1e-5)
    head = build_bottom("bert", (32,), text=settings)
    assert not any(isinstance(part, Encoder) for part in head.modules())
    assert embedding_width(head, (32,)) == 128
    assert torch.equal(read_texts("mlp", TEXTS, settings), features)  # amounts, for any model


def test_features_of_a_text_are_the_same_whatever_is_read_beside_it(folder: Path) -> None:
    text = TextSettings(weights=str(folder), length=16, frozen=True)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(4, 12, (200, 16), generator=generator)
    lengths = torch.randint(1, 17, (200, 1), generator=generator)
    tokens[torch.arange(16) >= lengths] = 0
    every = encode(tokens, text)
    for some in (torch.arange(1, 200, 3), torch.arange(7), torch.tensor([150])):
        assert torch.equal(encode(tokens[some], text), every[some])


def test_features_are_kept_for_their_owner_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = of(folder, frozen=True)
    made = read_texts("bert", TEXTS, settings)
    (kept,) = reading.texts_folder().iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    with monkeypatch.context() as patch:
        patch.setattr(reading, "encode", None)  # nothing is computed a second time
        assert torch.equal(read_texts("bert", TEXTS, settings), made)
    kept.write_bytes(kept.read_bytes()[:50])
    assert torch.equal(read_texts("bert", TEXTS, settings), made)  # what is broken is made again
    assert torch.equal(load_file(kept)["features"], made)


def test_other_texts_settings_or_weights_have_a_file_of_their_own(folder: Path) -> None:
    settings = of(folder, frozen=True)
    for texts, other in [
        (TEXTS, settings),
        (TEXTS[::-1], settings),
        (["".join(TEXTS)], settings),
        (TEXTS, of(folder, frozen=True, length=7)),
        (TEXTS, of(folder, frozen=True, layers=2)),
    ]:
        read_texts("bert", texts, other)
    assert len(list(reading.texts_folder().iterdir())) == 5
    read_texts("bert", TEXTS, of(folder, frozen=True, layers=7))  # it has three, as before
    assert len(list(reading.texts_folder().iterdir())) == 5
    before = read_texts("bert", TEXTS, settings)
    state = load_file(folder / "model.safetensors")
    save_file({name: values + 0.1 for name, values in state.items()}, folder / "model.safetensors")
    assert not torch.equal(read_texts("bert", TEXTS, settings), before)


def test_nothing_is_kept_where_that_is_switched_off(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNLABEL_TEXT_CACHE", "off")
    settings = of(folder, frozen=True)
    assert torch.equal(
        read_texts("bert", TEXTS, settings), encode(read_texts("bert", TEXTS, of(folder)), settings)
    )
    assert not reading.texts_folder().exists()


def test_a_cache_that_cannot_be_written_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "file"))
    with pytest.raises(RunError, match="UNLABEL_TEXT_CACHE=off"):
        read_texts("bert", TEXTS, of(folder, frozen=True))


# --- models of the user's own --------------------------------------------------------------


def test_a_users_model_may_ask_how_texts_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "texts_of_mine.py").write_text(
        "from torch import nn\n"
        "class Words(nn.Module):\n"
        "    def __init__(self, shape, text):\n"
        "        super().__init__()\n"
        "        self.bag = nn.EmbeddingBag(text.vocabulary, 5, padding_idx=0)\n"
        "    def forward(self, x):\n"
        "        return self.bag(x.long())\n"
    )
    model = build_bottom("texts_of_mine:Words", (6,), tmp_path, RANDOM)
    assert model.get_parameter("bag.weight").shape == (50, 5)
    assert embedding_width(model, (6,)) == 5


def test_a_folder_of_weights_is_taken_from_beside_the_configuration(folder: Path) -> None:
    settings = ModelSettings(bottom="bert", text=TextSettings(weights="encoder"))
    assert settings.under(folder.parent).text.weights == str(folder)
    package = ModelSettings(bottom="bert", text=TextSettings(weights="some_package"))
    assert package.under(folder.parent) == package
    assert ModelSettings().under(folder.parent) == ModelSettings()
