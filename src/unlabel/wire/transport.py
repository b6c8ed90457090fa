"""How the active party reaches the passive ones, whatever lies between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from unlabel.errors import PartyRefused, WireError
from unlabel.wire.messages import Message, Refused
from unlabel.words import printable


class Transport(ABC):
    """Carries requests to the passive parties and brings their answers back.

    A transport implements `parties` and `exchange`; `ask` and `tell` are what the active party
    calls.
    """

    @property
    @abstractmethod
    def parties(self) -> Sequence[str]:
        """The names of the passive parties, in the order of their embeddings."""

    @abstractmethod
    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Deliver one request to each named party and return each one's answer.

        Parties work side by side where the transport allows it. An answer is missing only if
        the party could not be reached, and then this raises instead of returning.
        """

    def ask(self, request: Message) -> dict[str, Message]:
        """Send the same request to every party; raise `PartyRefused` if one declines."""
        return self.tell(dict.fromkeys(self.parties, request))

    def tell(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Send each party its own request; raise `PartyRefused` if one declines."""
        found = self.exchange(requests)
        strange = [party for party in found if party not in requests]
        missing = [party for party in requests if party not in found]
        if strange or missing:
            raise WireError(f"Expected an answer of {list(requests)} but got one of {list(found)}.")
        # In the order of the requests: embeddings of one width could be swapped unnoticed.
        answers = {party: found[party] for party in requests}
        for party, answer in answers.items():
            if isinstance(answer, Refused):
                reason = f"Party '{party}' refused: {printable(answer.reason)}"
                raise PartyRefused(reason, answer.code)
        return answers
