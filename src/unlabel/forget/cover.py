"""Covers: the rows among which the people of a request are asked for.

Every message about people asks for rows of two covers and of no others, the same from the first to
the last, so that no comparison of messages singles the people out.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unlabel.errors import ForgetError
from unlabel.files import write_atomically
from unlabel.party import keyed_order
from unlabel.train.label_record import UNKNOWN

if TYPE_CHECKING:
    from unlabel.forget.work import Work

#: Rows of a cover for each person that a request names, and in all.
COVER, LEAST = 10, 1000


def draw_covers(work: Work) -> tuple[Tensor, Tensor]:
    """Return the people's rows among a random cover, and another cover without them.

    Where the request is not about people there are no covers.
    """
    train, earlier, people = work.train, work.earlier, torch.tensor(work.request.rows)
    if not len(people):
        return people.long(), people.long()
    labels, key = work.active.labels.cpu(), work.request.cover or work.request.key
    past = torch.isin(labels[train], torch.tensor([UNKNOWN, *earlier.labels]))
    free = train[~past & ~torch.isin(train, people)]
    size = _cover_size(len(people), len(free), work.settings.cover, work.batch)
    # Over all training rows and under a secret key: positions tell nothing about people, and
    # the same people always hide in the same cover, a larger one around a smaller.
    order = train[keyed_order(train, key)]
    order = order[torch.isin(order, free)]
    others, rest = order[: size - len(people)], order[size - len(people) :]
    # The helper learns labels, and those of earlier requests are forgotten.
    taught = rest[~torch.isin(rest, torch.tensor(earlier.rows))][:size]
    return torch.cat([people, others]).sort().values, taught.sort().values


def _cover_size(people: int, free: int, size: int, batch: int) -> int:
    """Return how many rows each cover has: ten a person and a batch at least.

    size  that was asked for; 0 is `LEAST`, or half of the training rows where there are fewer
    """
    least = max(COVER * people, batch)
    if size and size < least:
        raise ForgetError(
            f"Expected a cover of at least {least} rows for {people} people but got {size}."
        )
    most = (free + people) // 2
    # Without a size, a small dataset gives what it has, ten rows a person at least.
    size = size or max(least, min(LEAST, most))
    if size > most:
        raise ForgetError(
            f"Two covers of {size} rows to hide {people} people in do not fit into "
            f"{free + people} training rows; ask for fewer people at a time, a smaller --cover (at "
            f"least {least}: ten a person, and a batch), or train with a smaller `batch`."
        )
    return size


class CoverSecret:
    """The secret under which the covers of a run are drawn, the same as long as the run.

    It is written once a request uses it: to look at a plan changes nothing on disk.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / "secrets" / "cover.key"
        self._drawn = secrets.token_hex(32)

    def value(self) -> str:
        """Return the secret, in hexadecimal."""
        if self._path.exists():
            return self._path.read_text(encoding="ascii").strip()
        return self._drawn

    def keep(self) -> None:
        """Keep the secret with the run."""
        write_atomically(self._path, self.value().encode(), mode=0o600)

    def key(self, rows: Sequence[int]) -> str:
        """Return HMAC-SHA-256(secret, rows): the key of the cover of these people.

        Were a refused request tried again under another cover, the people would be what both share.
        """
        text = ",".join(map(str, sorted(rows))).encode()
        return hmac.new(bytes.fromhex(self.value()), text, hashlib.sha256).hexdigest()
