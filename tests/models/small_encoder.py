"""A small pretrained encoder on disk, as its makers would leave it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "my", "card", "is", "lost", "##t", "where", ",", "?"]
#: Smaller than a laptop would mind, but with heads, layers and positions all more than one.
SHAPE = {
    "model_type": "bert",
    "vocab_size": len(WORDS),
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 16,
    "pad_token_id": 0,
}


def library_model(config: dict[str, Any] = SHAPE) -> Any:
    import transformers

    torch.manual_seed(3)
    model = transformers.BertModel(transformers.BertConfig(**config))
    # So that no bias is 0 and no scale is 1: a weight that is not loaded would show.
    for weights in model.parameters():
        nn.init.normal_(weights, std=0.3)
    return model.eval()


def write_encoder(folder: Path, prefix: str = "", config: dict[str, Any] = SHAPE) -> Path:
    """Write a small pretrained encoder as its makers would, with a vocabulary."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    state = library_model().state_dict()
    save_file(
        {prefix + name: values.contiguous() for name, values in state.items()},
        folder / "model.safetensors",
    )
    return folder
