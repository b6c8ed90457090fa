"""BERT (Devlin et al., 2019) as a bottom for texts: an encoder, and a small head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unlabel.config import TextSettings
from unlabel.errors import ModelError, why
from unlabel.models.pretrained import MISSING, SHAPE, Pretrained
from unlabel.models.registry import BOTTOMS, BottomModel, Shape, need_rank

#: Width of the embeddings.
WIDTH = 128
#: Width of one head of attention, where an encoder begins at random.
HEAD = 64
#: Texts are read up to a multiple of so many tokens.
STRIDE = 8


class Encoder(nn.Module):
    """Token numbers t_1 .. t_L to the mean of the last layer's states over those that are words.

        h = sum over i of m_i s_i / max(1, sum of m_i),   m_i = 1 where t_i is no padding, else 0

    A stretch without any word has h = 0.

    encoder  of `transformers`, without what it would put on top
    padding  the padding token
    """

    def __init__(self, encoder: nn.Module, padding: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.padding = padding

    def forward(self, x: Tensor) -> Tensor:
        """Return h of each row."""
        tokens = x.long()
        words = tokens != self.padding
        seen = words.clone()
        seen[:, 0] = True  # what attends to nothing at all would be no number
        # Of this form it is taken as it is: to look at its values would stop a GPU.
        mask = seen[:, None, None, :].expand(-1, 1, tokens.shape[1], -1)
        states = self.encoder(input_ids=tokens, attention_mask=mask).last_hidden_state
        counted = words.unsqueeze(2).to(states.dtype)
        mean: Tensor = (states * counted).sum(1) / counted.sum(1).clamp_min(1)
        return mean


def encoder(text: TextSettings) -> tuple[Encoder, int]:
    """Return the encoder of the settings and the width of its states."""
    if not text.weights:
        return Encoder(_library_model(_shape(text)), padding=0), text.width
    source = Pretrained.open(text.weights)
    layers = min(text.layers, source.layers)
    model = _library_model({**source.config, "num_hidden_layers": layers})
    _load(model, source)
    return Encoder(model, source.padding), source.width


def bert(shape: Shape, text: TextSettings) -> nn.Module:
    """Build an encoder with tanh(W h + b) on top, or where it is frozen a head on its features."""
    (length,) = need_rank("bert", shape, 1)
    if text.frozen:
        return nn.Sequential(nn.Linear(length, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
    body, width = encoder(text)
    return nn.Sequential(body, nn.Linear(width, WIDTH), nn.Tanh())


def _shape(text: TextSettings) -> dict[str, Any]:
    heads = next(n for n in range(max(1, text.width // HEAD), 0, -1) if text.width % n == 0)
    return {
        "vocab_size": text.vocabulary,
        "hidden_size": text.width,
        "num_hidden_layers": text.layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * text.width,
        "max_position_embeddings": text.length,
        "pad_token_id": 0,
    }


def _library_model(shape: dict[str, Any]) -> Any:
    try:
        from transformers import BertConfig, BertModel
    except ImportError as error:
        raise ModelError(MISSING) from error
    known = {name: shape[name] for name in KNOWN if name in shape}
    try:
        model = BertModel(BertConfig(**known, attn_implementation="sdpa"), add_pooling_layer=False)
    except Exception as error:  # of what its file says, the library raises anything
        wrong = f"An encoder of this shape cannot be built ({why(error)})"
        raise ModelError(f"{wrong}; check `model.text` and the {SHAPE} of the weights.") from error
    return model.float()


#: What of a `config.json` shapes the encoder; the rest is of training, or of tasks.
KNOWN = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("intermediate_size", "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob"),
    *("max_position_embeddings", "type_vocab_size", "layer_norm_eps", "pad_token_id"),
)


def _load(model: nn.Module, source: Pretrained) -> None:
    named, expected = source.state(), model.state_dict()
    for name, values in expected.items():
        if name not in named or named[name].shape != values.shape:
            got = list(named[name].shape) if name in named else "none"
            raise ModelError(
                f"Encoder '{source.folder.name}': expected weights '{name}' of shape "
                f"{list(values.shape)} but got {got}."
            )
    model.load_state_dict({name: named[name] for name in expected})


@torch.no_grad()
def encode(tokens: Tensor, text: TextSettings, batch: int = 64) -> Tensor:
    """Return the features [N, width] of a frozen encoder, as in prediction.

    Every text is read in a batch of one size and no further than the next multiple of `STRIDE`
    tokens, so that its features are the same to the last bit whatever others are read beside it.
    """
    body, width = encoder(text)
    body.eval()
    lengths = (tokens != body.padding).sum(1)
    read = (-(-lengths // STRIDE) * STRIDE).clamp(min(STRIDE, tokens.shape[1]), tokens.shape[1])
    features = torch.empty(len(tokens), width)
    for length in read.unique().tolist():
        for rows in (read == length).nonzero()[:, 0].split(batch):
            some = tokens.new_full((batch, length), body.padding)
            some[: len(rows)] = tokens[rows, :length]
            features[rows] = body(some)[: len(rows)]
    return features


BOTTOMS.add(
    "bert", BottomModel(bert, "fc4", "a BERT encoder, embeddings of 128; for texts", texts=True)
)
