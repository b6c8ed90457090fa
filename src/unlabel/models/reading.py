"""From a party's texts to what its bottom model reads, on the party's own side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from unlabel.errors import RunError, SettingsError
from unlabel.files import OWNER_ONLY, cache_folder, sha256, write_shared
from unlabel.models.bert import encode
from unlabel.models.pretrained import Pretrained
from unlabel.models.registry import BOTTOMS, reads_bag
from unlabel.models.texts import DIFFERENT, TOKENS, TextSettings, hash_tokens

#: Set to `off`, features of texts are made each time and kept nowhere.
SWITCH = "UNLABEL_TEXT_CACHE"
#: Changes when the same texts would give other features.
FORM = "masked mean 1"


def read_texts(bottom: str, texts: Sequence[str], settings: TextSettings) -> Tensor:
    """Return what a party's bottom model reads of its texts.

    [N, length] int64 token numbers, or where the encoder is frozen [N, width] float32 features.
    Where order is nothing to a model, each different word stands in a row once.
    Token numbers are whole numbers, and models are given them as float32 like all else they read.
    """
    if settings.frozen:
        return frozen_features(texts, settings)
    if ":" not in bottom and not BOTTOMS.get(bottom).texts:
        able = [name for name in BOTTOMS.names() if BOTTOMS.get(name).texts]
        raise SettingsError(
            f"Model '{bottom}' reads amounts, and the words of a text are none; use "
            f"{' or '.join(able)}, or give `model.text` a frozen encoder."
        )
    if settings.weights:
        return Pretrained.open(settings.weights).tokens(texts, settings.length or TOKENS)
    bag = reads_bag(bottom, settings)
    length = settings.length or (DIFFERENT if bag else TOKENS)
    return hash_tokens(texts, length, settings.vocabulary, once=bag)


def frozen_features(texts: Sequence[str], settings: TextSettings) -> Tensor:
    """Return the features of texts by a frozen encoder: made once, then found on disk.

    They are as private as the texts: the file is its owner's alone, in the folder `texts_folder`.
    """
    settings = replace(settings, length=settings.length or TOKENS)
    found = Pretrained.open(settings.weights)
    if os.environ.get(SWITCH) == "off":
        return encode(found.tokens(texts, settings.length), settings)
    path = texts_folder() / f"{_digest(found, texts, settings)}.safetensors"
    kept = _kept(path, (len(texts), found.width))
    if kept is None:
        kept = encode(found.tokens(texts, settings.length), settings)
        try:
            texts_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
            write_shared(path, save({"features": kept}), OWNER_ONLY)
        except (OSError, RunError) as error:
            raise RunError(
                f"Cannot keep features of texts in '{path.parent}' ({error}); choose another "
                f"folder with UNLABEL_CACHE, or set {SWITCH}=off."
            ) from error
    return kept


def texts_folder() -> Path:
    """Return where features of texts are kept; all of it may be deleted at any time."""
    return cache_folder() / "texts"


def _digest(found: Pretrained, texts: Sequence[str], settings: TextSettings) -> str:
    layers = min(settings.layers, found.layers)
    head = f"{FORM}\n{found.digest()}\n{layers} {settings.length}\n"
    return sha256(head.encode() + "".join(sha256(text.encode()) for text in texts).encode())


def _kept(path: Path, shape: tuple[int, int]) -> Tensor | None:
    """Return the features of a file that is there and whole."""
    try:
        features = load_file(path)["features"]
    except (OSError, KeyError, SafetensorError):
        return None
    return features if features.shape == shape and features.dtype == torch.float32 else None
