"""What is looked at whenever a session begins: whether the parties are those of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unlabel._version import __version__
from unlabel.errors import RunError
from unlabel.party import describe
from unlabel.wire import Description
from unlabel.words import printable

if TYPE_CHECKING:
    from unlabel.remote.connect import RemoteFederation


def greet(federation: RemoteFederation) -> None:
    """See whether the parties are those that the run was made with, and what they allow.

    Embeddings that a party does not allow to be kept any more are deleted.
    """
    active, bottoms, alignment = federation.active, federation.bottoms, federation.alignment
    holder, client = active.carrier or active, federation.client
    active.versions.base = holder.versions.base = -1  # a party may have been started anew
    described = describe(holder.transport)
    expect_alike(described, federation.kit.digest)
    base = bottoms.base if federation.is_blind and bottoms is not None else None
    if bottoms is None or base is None or not base.is_settled:
        return
    for party, there in described.items():
        if (there.aligned, there.rows) != (alignment.digest, len(alignment)):
            raise RunError(
                f"Party '{party}' works with other rows than those whose embeddings are kept here; "
                f"have its table and its folder put back as they were."
            )
    holder.most_rows = min(there.max_rows for there in described.values())
    withdrawn = bottoms.meet([party for party in described if party not in client.absent])
    for party in set(withdrawn) - set(base.withdrawn):
        federation.drop_embeddings(party)
        client.notify(
            f"Party '{party}' does not allow the embeddings of its rows to be kept any more "
            f"(`policy.kept_embeddings`): they were deleted here. Until it does, no request can be "
            f"made."
        )


def expect_alike(described: Mapping[str, Description], agreed: str) -> None:
    """Raise where a party runs other software, or under another agreement."""
    for party, there in described.items():
        if _release(there.software) != _release(f"unlabel {__version__}"):
            raise RunError(
                f"Party '{party}' runs {printable(there.software[:40]) or 'an older release'}, and "
                f"this is unlabel {__version__}; upgrade the older side.",
                code="other-software",
            )
        if there.agreement != agreed:
            raise RunError(
                f"Party '{party}' works under agreement {there.agreement[:12] or 'none'}, and this "
                f"kit under {agreed[:12]}; take the kits of one `unlabel federation init`.",
                code="other-agreement",
            )


def _release(software: str) -> tuple[str, ...]:
    """Return what must be the same on both sides: all but the last number of a version."""
    return tuple(software.split(".")[:2])
