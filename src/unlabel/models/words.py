"""A bag of words: the mean of their vectors, for texts on a CPU."""

from __future__ import annotations

from torch import Tensor, nn

from unlabel.models.pretrained import Pretrained
from unlabel.models.registry import BOTTOMS, BottomModel, Shape, need_texts
from unlabel.models.texts import TextSettings

#: Width of a word's vector, and of the embeddings.
WIDTH = 64


class Bag(nn.Module):
    """Token numbers to the mean vector of those that are words; 0 where there is none."""

    def __init__(self, vocabulary: int, padding: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(vocabulary, WIDTH, padding_idx=padding)
        self.padding = padding

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean vector of each row."""
        tokens = x.long()
        words = (tokens != self.padding).unsqueeze(2).to(self.vectors.weight.dtype)
        mean: Tensor = (self.vectors(tokens) * words).sum(1) / words.sum(1).clamp_min(1)
        return mean


def words(shape: Shape, text: TextSettings) -> nn.Module:
    """Build the mean of word vectors, and one layer to a width of 64."""
    (width,) = need_texts("words", shape)
    if text.frozen:
        return nn.Sequential(nn.Linear(width, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    found = Pretrained.open(text.weights) if text.weights else None
    bag = Bag(found.vocabulary, found.padding) if found else Bag(text.vocabulary, 0)
    return nn.Sequential(bag, nn.ReLU(), nn.Linear(WIDTH, WIDTH))


BOTTOMS.add(
    "words",
    BottomModel(words, "linear", "the mean of word vectors, embeddings of 64", texts=True),
)
