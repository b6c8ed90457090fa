"""Who owns what: passive parties (features, bottom), the active party (labels, top)."""

from unlabel.party import attesting, serving, shaping, staging  # register the handlers of messages
from unlabel.party.active import ActiveParty
from unlabel.party.bottom import Bottom
from unlabel.party.checkpoint import CheckpointStore
from unlabel.party.draft import DRAFT
from unlabel.party.learner import Learner, Place, Precision
from unlabel.party.ledger import Ledger, LedgerEntry
from unlabel.party.lookout import Lookout, WatchSettings
from unlabel.party.optimiser import OptimiserSettings
from unlabel.party.passive import PassiveParty
from unlabel.party.policy import Guard, Policy
from unlabel.party.protocols import Filter, Filters, Handler, handles
from unlabel.party.randomness import Stream, keyed_order, own_randomness
from unlabel.party.rewriting import REMEMBERED
from unlabel.party.versions import Snapshot, Versions, describe

__all__ = [
    "DRAFT",
    "REMEMBERED",
    "ActiveParty",
    "Bottom",
    "CheckpointStore",
    "Filter",
    "Filters",
    "Guard",
    "Handler",
    "Learner",
    "Ledger",
    "LedgerEntry",
    "Lookout",
    "OptimiserSettings",
    "PassiveParty",
    "Place",
    "Policy",
    "Precision",
    "Snapshot",
    "Stream",
    "Versions",
    "WatchSettings",
    "attesting",
    "describe",
    "handles",
    "keyed_order",
    "own_randomness",
    "serving",
    "shaping",
    "staging",
]
