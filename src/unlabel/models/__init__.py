"""Bottoms and tops: built in, or any `nn.Module` the user names."""

from unlabel.models.registry import (
    BOTTOMS,
    TOPS,
    bind,
    build_bottom,
    build_top,
    default_top,
    describe_bottom,
    embedding_width,
    reads_bag,
)
from unlabel.models.text_inputs import read_texts
from unlabel.models.tops import Top, join_top

__all__ = [
    "BOTTOMS",
    "TOPS",
    "Top",
    "bind",
    "build_bottom",
    "build_top",
    "default_top",
    "describe_bottom",
    "embedding_width",
    "join_top",
    "read_texts",
    "reads_bag",
]
