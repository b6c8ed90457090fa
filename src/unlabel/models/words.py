"""A bag of words, each weighed by how rare it is: for texts on a CPU."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unlabel.config import TextSettings
from unlabel.models.pretrained import Pretrained
from unlabel.models.registry import BOTTOMS, BottomModel, Fitted, Shape, need_rank

#: Width of a word's vector, and of the embeddings.
WIDTH = 64
#: Deviation of a vector's numbers at the beginning: a word that says nothing about the label keeps
#: a vector near 0, where a large one would be noise in every text that holds it.
BEGIN = 0.01
#: Gradients of a table that each text touches in few places are small; this makes the steps of
#: the default learning rate as large as those of a dense layer.
SCALE = WIDTH**0.5


class Bag(Fitted):
    """Token numbers t_1 .. t_L to a linear map of their TF-IDF vector.

        w(t) = 1 + ln((1 + n) / (1 + n_t)) if n_t > 0, else 0;  n_t of the n training rows hold t
        h = SCALE sum over i of w(t_i) v(t_i) / sqrt(sum over i of w(t_i)^2)

    n_t is counted on the owner's side before training, without labels. Padding and words that no
    training row holds weigh nothing, and a text without any other has h = 0. Under a linear top
    model all parties together are a multinomial logistic regression on the TF-IDF vectors of
    their stretches, of rank 64 a party at most.
    """

    weights: Tensor

    def __init__(self, vocabulary: int, padding: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(vocabulary, WIDTH))
        self.padding = padding
        self.register_buffer("weights", (torch.arange(vocabulary) != padding).float())
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the vectors anew."""
        nn.init.normal_(self.vectors, std=BEGIN)

    @torch.no_grad()
    def fit(self, batches: Iterable[Tensor]) -> None:
        """Count in how many rows each token is, and weigh it by that."""
        rows, held = 0, torch.zeros_like(self.weights)
        for x in batches:
            tokens = x.long().sort(1).values
            repeated = F.pad(tokens[:, 1:] == tokens[:, :-1], (1, 0))
            held += tokens[~repeated].bincount(minlength=len(held))
            rows += len(tokens)
        held[self.padding] = 0
        weights = 1 + torch.log((1 + rows) / (1 + held))
        self.weights.copy_(weights.masked_fill(held == 0, 0))

    def forward(self, x: Tensor) -> Tensor:
        """Return h of each row."""
        tokens = x.long()
        weights = self.weights[tokens]
        norm = weights.square().sum(1, keepdim=True).sqrt().clamp_min(1)  # any weight is above 1
        summed: Tensor = F.embedding_bag(
            tokens,
            self.vectors,
            mode="sum",
            per_sample_weights=SCALE * weights / norm,
            padding_idx=self.padding,
        )
        return summed


def words(shape: Shape, text: TextSettings) -> nn.Module:
    """Build a weighed bag of words, or where an encoder is frozen two layers on its features."""
    (width,) = need_rank("words", shape, 1)
    if text.frozen:
        return nn.Sequential(nn.Linear(width, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    if not text.weights:
        return Bag(text.vocabulary, padding=0)
    encoder = Pretrained.open(text.weights)
    return Bag(encoder.vocabulary, encoder.padding)


BOTTOMS.add(
    "words",
    BottomModel(
        words, "linear", "words weighed by rarity (TF-IDF), embeddings of 64", texts=True, bag=True
    ),
)
