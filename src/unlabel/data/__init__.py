"""Datasets, and how their features split between parties."""

from unlabel.data.dataset import (
    SOURCES,
    Augment,
    Columns,
    Dataset,
    Pictures,
    Source,
    load_dataset,
)
from unlabel.data.features import Features, Scaling
from unlabel.data.splits import ACTIVE, Parties, Rows, SplitKind, draw_rows, split_features
from unlabel.data.tables import FeatureChoice, Table, encode_labels, read_table

__all__ = [
    "ACTIVE",
    "SOURCES",
    "Augment",
    "Columns",
    "Dataset",
    "FeatureChoice",
    "Features",
    "Parties",
    "Pictures",
    "Rows",
    "Scaling",
    "Source",
    "SplitKind",
    "Table",
    "draw_rows",
    "encode_labels",
    "load_dataset",
    "read_table",
    "split_features",
]
