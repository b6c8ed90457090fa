"""Bottoms and tops: built in, or any `nn.Module` the user names."""

from unlabel.models.reading import read_texts
from unlabel.models.registry import (
    BOTTOMS,
    TOPS,
    BottomModel,
    Shape,
    bind,
    build_bottom,
    build_top,
    check_names,
    default_top,
    describe_bottom,
    embedding_width,
    name_of,
    reads_bag,
)
from unlabel.models.settings import ModelSettings
from unlabel.models.texts import TextSettings
from unlabel.models.tops import Combine, Top, join_top

__all__ = [
    "BOTTOMS",
    "TOPS",
    "BottomModel",
    "Combine",
    "ModelSettings",
    "Shape",
    "TextSettings",
    "Top",
    "bind",
    "build_bottom",
    "build_top",
    "check_names",
    "default_top",
    "describe_bottom",
    "embedding_width",
    "join_top",
    "name_of",
    "read_texts",
    "reads_bag",
]
