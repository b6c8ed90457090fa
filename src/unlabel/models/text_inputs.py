"""From a party's texts to what its bottom model reads, at the party."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from unlabel.config import TextSettings
from unlabel.config.model import FIRST_WORD
from unlabel.errors import RunError, SettingsError
from unlabel.files import OWNER_ONLY, cache_folder, sha256, write_shared
from unlabel.models.bert import encode
from unlabel.models.pretrained import Pretrained
from unlabel.models.registry import BOTTOMS, reads_bag

#: Set to `off`, features of texts are made each time and kept nowhere.
SWITCH = "UNLABEL_TEXT_CACHE"
#: Changes when the same texts would give other features.
FORM = "masked mean 1"
#: Tokens of a stretch that are read where `length` is 0, and different words of it for a bag.
TOKENS = 64
DIFFERENT = 256
_WORD = re.compile(r"\w+|[^\w\s]")


def read_texts(bottom: str, texts: Sequence[str], settings: TextSettings) -> Tensor:
    """Return what a party's bottom model reads of its texts.

    [N, length] int64 token numbers, or where the encoder is frozen [N, width] float32 features.
    Where a model ignores order, each different word is in a row once.
    """
    if settings.frozen:
        return frozen_features(texts, settings)
    if ":" not in bottom and not BOTTOMS.get(bottom).texts:
        able = [name for name in BOTTOMS.names() if BOTTOMS.get(name).texts]
        raise SettingsError(
            f"Model '{bottom}' reads numbers, and the words of a text are none; use "
            f"{' or '.join(able)}, or give `model.text` a frozen encoder."
        )
    if settings.weights:
        return Pretrained.open(settings.weights).tokens(texts, settings.length or TOKENS)
    bag = reads_bag(bottom, settings)
    length = settings.length or (DIFFERENT if bag else TOKENS)
    return hash_tokens(texts, length, settings.vocabulary, once=bag)


def frozen_features(texts: Sequence[str], settings: TextSettings) -> Tensor:
    """Return the features of texts by a frozen encoder: made once, then read from disk.

    They are as private as the texts: the file is its owner's alone, in the folder `texts_folder`.
    """
    settings = replace(settings, length=settings.length or TOKENS)
    encoder = Pretrained.open(settings.weights)
    if os.environ.get(SWITCH) == "off":
        return encode(encoder.tokens(texts, settings.length), settings)
    path = texts_folder() / f"{_digest(encoder, texts, settings)}.safetensors"
    features = _stored(path, (len(texts), encoder.width))
    if features is None:
        features = encode(encoder.tokens(texts, settings.length), settings)
        try:
            texts_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
            write_shared(path, save({"features": features}), OWNER_ONLY)
        except (OSError, RunError) as error:
            wrong = f"Cannot keep features of texts in '{path.parent}' ({error})"
            choices = f"choose another folder with UNLABEL_CACHE, or set {SWITCH}=off"
            raise RunError(f"{wrong}; {choices}.") from error
    return features


def texts_folder() -> Path:
    """Return where features of texts are kept; all of it may be deleted at any time."""
    return cache_folder() / "texts"


def _digest(encoder: Pretrained, texts: Sequence[str], settings: TextSettings) -> str:
    layers = min(settings.layers, encoder.layers)
    head = f"{FORM}\n{encoder.digest()}\n{layers} {settings.length}\n"
    return sha256(head.encode() + "".join(sha256(text.encode()) for text in texts).encode())


def _stored(path: Path, shape: tuple[int, int]) -> Tensor | None:
    """Return the features of a file that is there and whole."""
    try:
        features = load_file(path)["features"]
    except (OSError, KeyError, SafetensorError):
        return None
    return features if features.shape == shape and features.dtype == torch.float32 else None


def hash_tokens(
    texts: Sequence[str], length: int, vocabulary: int, *, once: bool = False
) -> Tensor:
    """Return [N, length] numbers of words by their hash, padded with 0; no vocabulary is kept.

    once  each different word of a text is in its row once, where it came first

    >>> hash_tokens(["a card, a card", ""], 4, 1000).count_nonzero(1).tolist()
    [4, 0]
    >>> hash_tokens(["a card, a card", ""], 4, 1000, once=True).count_nonzero(1).tolist()
    [3, 0]
    """
    tokens = torch.zeros(len(texts), length, dtype=torch.int64)
    span = vocabulary - FIRST_WORD
    for row, text in enumerate(texts):
        words = _WORD.findall(text.lower())
        words = (list(dict.fromkeys(words)) if once else words)[:length]
        numbers = [FIRST_WORD + crc32(word.encode()) % span for word in words]
        tokens[row, : len(numbers)] = torch.tensor(numbers, dtype=torch.int64)
    return tokens
