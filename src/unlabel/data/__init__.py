"""Datasets, and how their features split between parties."""

from unlabel.config import ACTIVE
from unlabel.data.dataset import SOURCES, Dataset, load_dataset
from unlabel.data.features import Features, Scaling
from unlabel.data.in_memory import frame_of
from unlabel.data.splits import Rows, draw_rows, split_features
from unlabel.data.table_store import store_frame
from unlabel.data.tables import Table, encode_labels, read_table

__all__ = [
    "ACTIVE",
    "SOURCES",
    "Dataset",
    "Features",
    "Rows",
    "Scaling",
    "Table",
    "draw_rows",
    "encode_labels",
    "frame_of",
    "load_dataset",
    "read_table",
    "split_features",
    "store_frame",
]
