"""One method of forgetting a file; a request from plan to staged; the transaction it ends in."""

from unlabel.config import ForgetSettings
from unlabel.forget.anchors import make_anchors, named_by_model
from unlabel.forget.method import METHODS, Method
from unlabel.forget.outcome import Change, Outcome, Result
from unlabel.forget.plan import plan
from unlabel.forget.public_set import PublicSet
from unlabel.forget.request import find_labels
from unlabel.forget.run_interface import Run
from unlabel.forget.service import read_ledgers
from unlabel.forget.slots import Queue, Slot
from unlabel.forget.standing import Status
from unlabel.forget.transaction import PartyStatus, Transaction
from unlabel.forget.work import Work
from unlabel.train import Forgotten

__all__ = [
    "METHODS",
    "Change",
    "ForgetSettings",
    "Forgotten",
    "Method",
    "Outcome",
    "PartyStatus",
    "PublicSet",
    "Queue",
    "Result",
    "Run",
    "Slot",
    "Status",
    "Transaction",
    "Work",
    "find_labels",
    "make_anchors",
    "named_by_model",
    "plan",
    "read_ledgers",
]
