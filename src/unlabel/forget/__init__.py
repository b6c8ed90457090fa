"""One method of forgetting a file, and the transaction they all end in."""

from unlabel.forget.anchors import PublicFrom, make_anchors, named_by_model
from unlabel.forget.files import read_public, read_unlabelled
from unlabel.forget.method import METHODS, Method, Mode, Preset
from unlabel.forget.public import PublicSet, Robust, Shots, Suspect, public_from_training
from unlabel.forget.queue import Queue
from unlabel.forget.request import Forgotten, Request, find_labels, find_people
from unlabel.forget.run import Change, Result, expect_fits, expect_mode, forget, take_back
from unlabel.forget.task import Task, Watch
from unlabel.forget.transaction import CONTROL, STILL_KNOWN, PartyStatus, Transaction
from unlabel.forget.work import Work, watch_nothing

__all__ = [
    "CONTROL",
    "METHODS",
    "STILL_KNOWN",
    "Change",
    "Forgotten",
    "Method",
    "Mode",
    "PartyStatus",
    "Preset",
    "PublicFrom",
    "PublicSet",
    "Queue",
    "Request",
    "Result",
    "Robust",
    "Shots",
    "Suspect",
    "Task",
    "Transaction",
    "Watch",
    "Work",
    "expect_fits",
    "expect_mode",
    "find_labels",
    "find_people",
    "forget",
    "make_anchors",
    "named_by_model",
    "public_from_training",
    "read_public",
    "read_unlabelled",
    "take_back",
    "watch_nothing",
]
