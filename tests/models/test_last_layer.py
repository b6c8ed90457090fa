"""Which layer of a top gives the logits."""

from collections import OrderedDict

import torch
from torch import Tensor, nn

from unlabel.models.tops import Top, join_top, last_layer


class Shuffled(nn.Module):
    """Names its last layer first."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(8, 3)
        self.hidden = nn.Linear(5, 8)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.out(torch.relu(self.hidden(x)))
        return logits


def test_it_is_found_by_what_it_gives_not_by_where_it_stands() -> None:
    head = Shuffled()
    assert last_layer(Top(head, "concat", 3), [2, 3]) is head.out


def test_built_in_tops_end_in_one_and_muted_labels_do_not_hide_it() -> None:
    for name in ("linear", "fc3"):
        top = join_top(name, [4, 4], labels=3)
        top.mute([1])
        found = last_layer(top, [4, 4])
        assert found is not None
        assert found.out_features == 3


def test_a_top_that_changes_the_logits_afterwards_has_none() -> None:
    head = nn.Sequential(nn.Linear(5, 3), nn.LogSoftmax(1))
    assert last_layer(Top(head, "concat", 3), [2, 3]) is None


def test_a_hidden_layer_of_that_shape_is_not_taken_for_it() -> None:
    layers = OrderedDict(first=nn.Linear(5, 3), act=nn.ReLU(), last=nn.Linear(3, 3))
    head = nn.Sequential(layers)
    assert last_layer(Top(head, "concat", 3), [2, 3]) is layers["last"]


def test_looking_changes_no_part_that_its_owner_froze() -> None:
    head = nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.5), nn.Linear(3, 3))
    top = Top(head, "concat", 3).train()
    head[1].eval()
    last_layer(top, [2, 3])
    assert top.training
    assert not head[1].training
    assert not any(part._forward_hooks for part in top.modules())
