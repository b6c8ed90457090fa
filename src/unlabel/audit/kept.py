"""What was seen of a model, kept in a file: a model is retrained once, not for every audit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from unlabel.audit.seen import Part, Seen
from unlabel.errors import RunError
from unlabel.files import write_atomically

PARTS = ("train", "test")
KINDS = ("labels", "logits", "scores")


def keep_seen(path: Path, seen: Seen) -> None:
    """Write what was seen to a file that its owner alone can read: it holds all labels."""
    found: dict[str, Tensor] = {}
    for name in PARTS:
        part: Part = getattr(seen, name)
        found |= {f"{name}/{kind}": getattr(part, kind) for kind in KINDS}
        found |= {f"{name}/embeddings/{p}": values for p, values in part.embeddings.items()}
    tensors = {name: tensor.contiguous().clone() for name, tensor in found.items()}
    write_atomically(path, save(tensors), mode=0o600)


def kept_seen(path: Path, names: Sequence[str]) -> Seen:
    """Return what was kept in a file; `names` are those of the labels."""
    try:
        found = load_file(path)
        train, test = (_part(found, name) for name in PARTS)
    except (OSError, KeyError, SafetensorError) as error:
        raise RunError(
            f"'{path}' is not what an audit kept of a retrained model; remove the file, and the "
            f"next audit retrains it."
        ) from error
    return Seen(train, test, tuple(names))


def _part(found: dict[str, Tensor], name: str) -> Part:
    start = f"{name}/embeddings/"
    labels, logits, scores = (found[f"{name}/{kind}"] for kind in KINDS)
    embeddings = {k.removeprefix(start): v for k, v in sorted(found.items()) if k.startswith(start)}
    return Part(labels, logits, scores, embeddings)
