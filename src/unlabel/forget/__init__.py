"""One method of forgetting a file, and the transaction they all end in."""

from unlabel.forget.files import read_public
from unlabel.forget.method import METHODS, Method, Preset
from unlabel.forget.public import PublicSet, Robust, Shots, Suspect, public_from_training
from unlabel.forget.request import Forgotten, Request, find_labels, find_people
from unlabel.forget.run import Change, Result, expect_fits, forget, take_back
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
    "PartyStatus",
    "Preset",
    "PublicSet",
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
    "find_labels",
    "find_people",
    "forget",
    "public_from_training",
    "read_public",
    "take_back",
    "watch_nothing",
]
