"""One method of forgetting a file; a request from plan to staged; the transaction it ends in."""

from unlabel.forget.anchors import PublicFrom, make_anchors, named_by_model
from unlabel.forget.files import read_public, read_unlabelled
from unlabel.forget.ledgers import read_ledgers
from unlabel.forget.method import METHODS, Method, Mode, Preset
from unlabel.forget.outcome import Change, Outcome, Result
from unlabel.forget.plan import plan
from unlabel.forget.protocol import Run
from unlabel.forget.public import PublicSet, Robust, Shots, Suspect, public_from_training
from unlabel.forget.queue import Queue
from unlabel.forget.request import Request, find_labels, find_people
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
    "Preset",
    "PublicFrom",
    "PublicSet",
    "Queue",
    "Request",
    "Result",
    "Robust",
    "Run",
    "Shots",
    "Slot",
    "Status",
    "Suspect",
    "Transaction",
    "Watch",
    "Work",
    "find_labels",
    "find_people",
    "make_anchors",
    "named_by_model",
    "plan",
    "public_from_training",
    "read_ledgers",
    "read_public",
    "read_unlabelled",
    "watch_nothing",
]
