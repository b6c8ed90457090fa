"""Who owns what: passive parties (features, bottom), the active party (labels, top)."""

# These register the handlers of messages.
from unlabel.party import attesting, label_free, layers, serving, shaping, staging  # noqa: F401
from unlabel.party.active import ActiveParty
from unlabel.party.bottom import Bottom
from unlabel.party.checkpoint import CheckpointStore
from unlabel.party.learner import Learner, Place
from unlabel.party.ledger import Ledger, LedgerEntry
from unlabel.party.passive import PassiveParty
from unlabel.party.randomness import Stream, keyed_order, own_randomness
from unlabel.party.transform import REMEMBERED
from unlabel.party.versions import Snapshot, describe

__all__ = [
    "REMEMBERED",
    "ActiveParty",
    "Bottom",
    "CheckpointStore",
    "Learner",
    "Ledger",
    "LedgerEntry",
    "PassiveParty",
    "Place",
    "Snapshot",
    "Stream",
    "describe",
    "keyed_order",
    "own_randomness",
]
