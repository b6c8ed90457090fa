"""A pretrained encoder as it lies on disk: its shape, its weights, its tokeniser.

Only two kinds of file are read, JSON and safetensors, and a vocabulary of one word a line: nothing
here unpickles, runs code that came with the weights, or asks a network.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unlabel.errors import ModelError, why
from unlabel.files import sha256

SHAPE, WEIGHTS = "config.json", "model.safetensors"
#: Either of them holds the tokeniser.
TOKENISER, WORDS = "tokenizer.json", "vocab.txt"
#: Says of a vocabulary whether it knows capitals.
CAPITALS = "tokenizer_config.json"
#: What a `config.json` must say of its encoder.
SIZES = ("num_hidden_layers", "hidden_size", "vocab_size", "max_position_embeddings")
#: Texts that are turned into tokens at a time.
CHUNK = 10_000
MISSING = "Encoders of texts need transformers; run: pip install 'unlabel[text]'."


@dataclass(frozen=True)
class Pretrained:
    """A folder with a pretrained BERT encoder.

    folder  where it lies
    config  what its `config.json` says
    """

    folder: Path
    config: dict[str, Any]

    @classmethod
    def open(cls, weights: str) -> Pretrained:
        """Find the encoder and read what shape it has."""
        folder = find_folder(weights)
        path = folder / SHAPE
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            wrong = f"Encoder '{weights}': '{path}' cannot be read ({why(error)})."
            raise ModelError(wrong) from error
        kind = config.get("model_type") if isinstance(config, dict) else None
        if kind != "bert":
            raise ModelError(f"Encoder '{weights}' is of type '{kind}'; expected one of 'bert'.")
        for name in SIZES:
            size = config.get(name)
            if not isinstance(size, int) or size < 1:
                got = f"but got {str(size)[:40]!r}; get the file again"
                raise ModelError(f"'{path}': expected '{name}' to be a number from 1 {got}.")
        return cls(folder, config)

    @property
    def layers(self) -> int:
        """How many layers it has."""
        return int(self.config["num_hidden_layers"])

    @property
    def width(self) -> int:
        """The width of its hidden states."""
        return int(self.config["hidden_size"])

    @property
    def vocabulary(self) -> int:
        """How many tokens it knows."""
        return int(self.config["vocab_size"])

    @property
    def padding(self) -> int:
        """The padding token."""
        named = self.config.get("pad_token_id")
        return named if isinstance(named, int) else 0

    def digest(self) -> str:
        """Return a fingerprint of the weights and of everything that decides what they compute."""
        files = [self.folder / name for name in (SHAPE, WEIGHTS, TOKENISER, WORDS, CAPITALS)]
        digests = [f"{path.name} {sha256(path.read_bytes())}" for path in files if path.is_file()]
        return sha256("\n".join(digests).encode())

    def tokens(self, texts: Sequence[str], length: int) -> Tensor:
        """Return [N, length] token numbers of texts, begun and ended as the encoder was taught."""
        most = int(self.config["max_position_embeddings"])
        if length > most:
            raise ModelError(
                f"Encoder '{self.folder.name}' reads up to {most} tokens but `length` is {length}; "
                f"lower it."
            )
        tokeniser = self._tokeniser()
        tokeniser.enable_truncation(length)
        tokeniser.enable_padding(pad_id=self.padding, length=length)
        tokens = torch.empty(len(texts), length, dtype=torch.int64)
        for first in range(0, len(texts), CHUNK):
            encoded = tokeniser.encode_batch(list(texts[first : first + CHUNK]))
            tokens[first : first + CHUNK] = torch.tensor([text.ids for text in encoded])
        if len(tokens) and int(tokens.max()) >= self.vocabulary:
            raise ModelError(
                f"Encoder '{self.folder.name}': its tokeniser gives token {int(tokens.max())} but "
                f"it knows {self.vocabulary}; take the tokeniser that belongs to it."
            )
        return tokens

    def _tokeniser(self) -> Any:
        try:
            from tokenizers import Tokenizer
            from tokenizers.implementations import BertWordPieceTokenizer
        except ImportError as error:
            raise ModelError(MISSING) from error
        whole, words = self.folder / TOKENISER, self.folder / WORDS
        try:
            if whole.is_file():
                return Tokenizer.from_file(str(whole))
            lines = words.read_text("utf-8").splitlines()
            known = {word: number for number, word in enumerate(lines)}
            capitals = self.folder / CAPITALS
            config = json.loads(capitals.read_text("utf-8")) if capitals.is_file() else {}
            return BertWordPieceTokenizer(known, lowercase=bool(config.get("do_lower_case", True)))
        except Exception as error:  # the library raises its own
            raise ModelError(
                f"Encoder '{self.folder.name}': its tokeniser cannot be read ({why(error)})."
            ) from error

    def state(self) -> dict[str, Tensor]:
        """Return the weights by the names that `transformers` gives them in a bare encoder."""
        from safetensors.torch import load_file

        try:
            tensors = load_file(self.folder / WEIGHTS)
        except Exception as error:  # safetensors raises its own
            raise ModelError(
                f"Encoder '{self.folder.name}': {WEIGHTS} cannot be read ({why(error)})."
            ) from error
        named = {}
        for name, values in tensors.items():
            # Inside a model of some task the encoder is called `bert`; the oldest files have the
            # normalisation's weights under the names of its paper.
            name = name.removeprefix("bert.").replace(".gamma", ".weight").replace(".beta", ".bias")
            named[name] = values.float()
        return named


def find_folder(weights: str) -> Path:
    """Return the folder of an encoder: a path, or one that an installed package holds.

    The package is only looked up, never imported: no code of it runs.
    """
    folder = Path(weights).expanduser()
    candidates = [folder]
    if not folder.is_dir():
        package = importlib.util.find_spec(weights) if weights.isidentifier() else None
        if package is None:
            raise ModelError(
                f"There is no folder and no installed package '{weights}' of a pretrained encoder; "
                f"check `weights`."
            )
        for root in map(Path, package.submodule_search_locations or []):
            candidates += [root, *sorted(path.parent for path in root.rglob(SHAPE))]
    for candidate in candidates:
        if _is_whole(candidate):
            return candidate
    raise ModelError(
        f"'{weights}' holds no whole encoder; expected a folder with {SHAPE}, {WEIGHTS} and "
        f"{TOKENISER} or {WORDS}."
    )


def _is_whole(folder: Path) -> bool:
    tokeniser = any((folder / name).is_file() for name in (TOKENISER, WORDS))
    return tokeniser and (folder / SHAPE).is_file() and (folder / WEIGHTS).is_file()
