"""What the label holder keeps of bottoms that were made without labels.

In its folder:

    label-free/base.json                what was frozen: objective, weights by party, attestations
    label-free/embeddings.safetensors   [n, width] a party, of all rows in their order
    label-free/views.safetensors        [v, n, width] a party, of the training rows
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from unlabel.errors import CheckpointError, RunError
from unlabel.files import OWNER_ONLY, sha256, write_atomically

BASE, EMBEDDINGS, VIEWS = "base.json", "embeddings.safetensors", "views.safetensors"
_FORM = "unlabel base 1"


@dataclass(frozen=True)
class Base:
    """What was frozen, and what is kept of it.

    objective     by which the bottoms were made
    settings      of it, as plain data
    weights       SHA-256 of every party's frozen bottom
    files         SHA-256 of the files of kept embeddings, by name; none before they were asked for
    attestations  what each party signed, by name: `part`, `key` and `signature`
    widths        of every party's embeddings; none before they were asked for
    withdrawn     parties that do not allow their embeddings to be kept any more
    """

    objective: str
    settings: Mapping[str, Any]
    weights: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    attestations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    widths: Mapping[str, int] = field(default_factory=dict)
    withdrawn: Sequence[str] = ()

    @property
    def is_settled(self) -> bool:
        """Whether a blind run needs no partner any more, but for people who are new."""
        return bool(self.widths) and bool(self.attestations)

    @classmethod
    def read(cls, home: Path) -> Base | None:
        """Return what a folder says, None where nothing was frozen yet."""
        path = home / BASE
        try:
            raw = json.loads(path.read_bytes())
            if raw.pop("what") != _FORM:
                raise ValueError
            return cls(**raw)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(
                f"'{path}', which says what was frozen, cannot be read or was changed; restore it "
                f"from a backup."
            ) from error

    def write(self, home: Path) -> None:
        """Keep it in a folder."""
        text = json.dumps({"what": _FORM, **vars(self)}, indent=1, sort_keys=True)
        write_atomically(home / BASE, text.encode(), mode=OWNER_ONLY)


def read_kept(home: Path, name: str = EMBEDDINGS) -> dict[str, Tensor]:
    """Return kept embeddings by party; raise where they are not those that were asked for."""
    base = Base.read(home)
    path = home / name
    if base is None or name not in base.files:
        return {}
    try:
        if sha256(path.read_bytes()) != base.files[name]:
            raise ValueError
        return dict(load_file(path))
    except (OSError, ValueError, SafetensorError) as error:
        raise CheckpointError(
            f"'{path}' cannot be read, or is not what the partners sent; restore it from a backup."
        ) from error
