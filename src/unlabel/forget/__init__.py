"""One method of forgetting a file; a request from plan to staged; the transaction it ends in."""

from unlabel.forget.anchors import make_anchors, named_by_model
from unlabel.forget.files import read_public, read_unlabelled
from unlabel.forget.ledgers import read_ledgers
from unlabel.forget.method import METHODS, Method, Mode
from unlabel.forget.outcome import Change, Outcome, Result
from unlabel.forget.plan import plan
from unlabel.forget.protocol import Run
from unlabel.forget.public import PublicSet, Robust
from unlabel.forget.queue import Queue
from unlabel.forget.request import find_labels
from unlabel.forget.service import Status
from unlabel.forget.settings import ForgetSettings
from unlabel.forget.slots import Slot
from unlabel.forget.transaction import PartyStatus, Transaction
from unlabel.forget.work import Watch, Work, watch_nothing
from unlabel.train import Forgotten

__all__ = [
    "METHODS",
    "Change",
    "ForgetSettings",
    "Forgotten",
    "Method",
    "Mode",
    "Outcome",
    "PartyStatus",
    "PublicSet",
    "Queue",
    "Result",
    "Robust",
    "Run",
    "Slot",
    "Status",
    "Transaction",
    "Watch",
    "Work",
    "find_labels",
    "make_anchors",
    "named_by_model",
    "plan",
    "read_ledgers",
    "read_public",
    "read_unlabelled",
    "watch_nothing",
]
