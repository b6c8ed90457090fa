"""What a party applies to what it sends, and the accountant of what that leaves to learn."""

from unlabel.defend.accountant import Account, Release
from unlabel.defend.defence import DEFENCES, Defence, read_defence, read_defences
from unlabel.defend.gaussian import Gaussian
from unlabel.defend.half import Half
from unlabel.defend.proofs import account_of
from unlabel.defend.quantise import Quantise
from unlabel.defend.top_k import TopK

__all__ = [
    "DEFENCES",
    "Account",
    "Defence",
    "Gaussian",
    "Half",
    "Quantise",
    "Release",
    "TopK",
    "account_of",
    "read_defence",
    "read_defences",
]
