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
from unlabel.data.given_frames import frame_of
from unlabel.data.kept_frames import keep_frame
from unlabel.data.splits import ACTIVE, Parties, Rows, SplitKind, draw_rows, split_features
from unlabel.data.tables import FeatureChoice, Table, encode_labels, read_table, table_of

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
    "frame_of",
    "keep_frame",
    "load_dataset",
    "read_table",
    "split_features",
    "table_of",
]
