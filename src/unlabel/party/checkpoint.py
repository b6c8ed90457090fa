"""A party's state on its own disk: one safetensors file and one manifest a version.

    versions/
      000120.safetensors   the tensors
      000120.json          schema, party, model, facts, the tensors' hash, and its own hash

Both files are written atomically, the manifest last: a version exists once its manifest does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from unlabel._version import __version__
from unlabel.errors import CheckpointError
from unlabel.files import sha256, sync_folder, write_atomically, writing

SCHEMA = 1
TENSORS, MANIFEST = ".safetensors", ".json"
#: The subfolder of what a request has made and nobody has decided on yet.
STAGED = "staged"
#: The subfolder of the same version with the models from before, by which it is dropped silently.
UNCHANGED = "unchanged"
#: The subfolder of the bottom that was made without labels: no purge removes it.
BASE = "base"


@dataclass(eq=False)
class CheckpointStore:
    """The versions one party keeps.

    `model` describes the party's model in words; a checkpoint of another one is refused. It is None
    where no model is built, and nothing is saved then. `mode` says who may read the files: those
    of the active party name what was forgotten.
    """

    home: Path
    _: KW_ONLY
    party: str
    model: str | None
    subfolder: str = "versions"
    mode: int = 0o666

    def __post_init__(self) -> None:
        self.folder = self.home / self.subfolder

    @property
    def staged(self) -> CheckpointStore:
        """The store of what a request has made and nobody has decided on yet."""
        return replace(self, subfolder=STAGED)

    @property
    def unchanged(self) -> CheckpointStore:
        """The store of what stands in for a staged version where that is dropped silently."""
        return replace(self, subfolder=UNCHANGED)

    @property
    def base(self) -> CheckpointStore:
        """The store of the bottom that was made without labels."""
        return replace(self, subfolder=BASE)

    def drop_staged(self, since: int = 0) -> None:
        """Remove what is staged of this version and of older ones; of all if 0."""
        for each in (self.staged, self.unchanged):
            each.retain(tuple(v for v in each.versions() if 0 < since < v))

    def store_with(self, version: int) -> CheckpointStore:
        """Return the store that has a version: this one, unless it is only staged."""
        return self.staged if version in self.staged.versions() else self

    def adopt(self, version: int, digest: str, source: CheckpointStore | None = None) -> None:
        """Make a staged version one of these; where that is done already, nothing happens.

        The manifest moves last, so that a crash in between leaves no version without tensors.

        source  where it is staged, if not in `staged`
        """
        if version in self.versions():
            if self.digest(version) != digest:
                raise CheckpointError(f"its version {version} is not the one that was staged.")
            # What a later request has staged since is newer, and stays.
            self.drop_staged(version)
            return
        staged = source or self.staged
        if version not in staged.versions() or staged.digest(version) != digest:
            raise CheckpointError(f"it has not staged this version {version}.")
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            for suffix in (TENSORS, MANIFEST):
                if staged._path(version, suffix).exists():
                    staged._path(version, suffix).replace(self._path(version, suffix))
                    sync_folder(self.folder)
        self.drop_staged()

    def versions(self) -> tuple[int, ...]:
        """Return the numbers of the versions on disk, oldest first."""
        return tuple(sorted(int(p.stem) for p in self.folder.glob("*.json") if p.stem.isdecimal()))

    def save(self, version: int, tensors: dict[str, Tensor], facts: dict[str, Any]) -> str:
        """Keep a state under a number; return the digest of its tensors."""
        data = save({k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()})
        made_from = {"follows": self._newest_before(version)} if self.subfolder == STAGED else {}
        manifest = {
            "schema": SCHEMA,
            "party": self.party,
            "model": self.model,
            "version": version,
            "sha256": sha256(data),
            **made_from,
            "facts": facts,
            "written_by": f"unlabel {__version__}",
        }
        write_atomically(self._path(version, TENSORS), data, mode=self.mode)
        sealed = {**manifest, "manifest_sha256": _seal(manifest)}
        text = json.dumps(sealed, indent=1).encode()
        write_atomically(self._path(version, MANIFEST), text, mode=self.mode)
        return str(manifest["sha256"])

    def digest(self, version: int) -> str:
        """Return the digest that `save` returned for a version."""
        return str(self._read_manifest(version)["sha256"])

    def change(self, version: int) -> list[str]:
        """Return the digests of the version a request began with, and of this one that it made.

        The former may be purged by now: its digest was noted on staging, empty if it is not known.
        """
        manifest = self._read_manifest(version)
        return [str(manifest.get("follows", "")), str(manifest["sha256"])]

    def _newest_before(self, version: int) -> str:
        """Return the digest of the newest version that is older, empty if there is none."""
        store = replace(self, subfolder="versions")
        older = [number for number in store.versions() if number < version]
        try:
            return store.digest(older[-1]) if older else ""
        except CheckpointError:  # a damaged one is named where it is used, not here
            return ""

    def facts(self, version: int) -> dict[str, Any]:
        """Return what was noted with a version."""
        return dict(self._read_manifest(version)["facts"])

    def load(self, version: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return a state and its facts, or say by name what is wrong with it."""
        manifest = self._read_manifest(version)
        name = self._name(version, TENSORS)
        try:
            data = self._path(version, TENSORS).read_bytes()
            if sha256(data) == manifest["sha256"]:
                return load(data), manifest["facts"]
        except OSError as error:
            raise CheckpointError(
                f"Checkpoint '{name}' cannot be read ({error.strerror})."
            ) from error
        except SafetensorError as error:
            raise CheckpointError(f"Checkpoint '{name}' is not in safetensors form.") from error
        raise CheckpointError(
            f"Checkpoint '{name}' is truncated or was changed: its hash is not the one in its "
            f"manifest; restore it from a backup or train again."
        )

    def restore(self, version: int, give: Callable[[dict[str, Tensor]], None]) -> dict[str, Any]:
        """Give a state to its model and return its facts; errors name the file."""
        tensors, facts = self.load(version)
        try:
            give(tensors)
        except CheckpointError as error:
            name = self._name(version, TENSORS)
            raise CheckpointError(f"Checkpoint '{name}': {error}") from error
        return facts

    def retain(self, versions: tuple[int, ...]) -> None:
        """Drop every version but these; the manifest goes first."""
        with writing(self.folder):
            for path in sorted(self.folder.glob("*")):
                number = path.name.partition(".")[0]
                unfinished = path.suffix == ".part"  # what a crash left goes too
                if number.isdecimal() and (unfinished or int(number) not in versions):
                    path.unlink(missing_ok=True)
                    sync_folder(self.folder)

    def _read_manifest(self, version: int) -> dict[str, Any]:
        name = self._name(version, MANIFEST)
        changed = f"Checkpoint manifest '{name}' is truncated or was changed."
        try:
            manifest = json.loads(self._path(version, MANIFEST).read_text(encoding="utf-8"))
            seal = manifest.pop("manifest_sha256")
        except OSError as error:
            raise CheckpointError(
                f"Checkpoint manifest '{name}' cannot be read ({error.strerror})."
            ) from error
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise CheckpointError(changed) from error
        if manifest.get("schema") != SCHEMA:
            raise CheckpointError(
                f"Checkpoint manifest '{name}' has schema {manifest.get('schema')}, and this "
                f"version of unlabel reads schema {SCHEMA}."
            )
        complete = {"party", "model", "version", "sha256", "facts"} <= manifest.keys()
        if seal != _seal(manifest) or not complete:
            raise CheckpointError(changed)
        for what, value in (("party", self.party), ("model", self.model), ("version", version)):
            if value is not None and manifest[what] != value:
                raise CheckpointError(
                    f"Checkpoint '{name}' is of {what} '{manifest[what]}', not '{value}'"
                    f"{_remedy(manifest) if what == 'model' else ''}."
                )
        return dict(manifest)

    def _name(self, version: int, suffix: str) -> str:
        """Return a file's name within the run: a refusal tells nobody how a disk is laid out."""
        return f"{self.party}/{self.subfolder}/{version:06d}{suffix}"

    def _path(self, version: int, suffix: str) -> Path:
        return self.folder / f"{version:06d}{suffix}"


def staged_facts(home: Path) -> dict[str, Any] | None:
    """Return what a party noted with a staged outcome, None if there is none; unchecked."""
    waiting = sorted((home / STAGED).glob("*.json"))
    try:
        return dict(json.loads(waiting[-1].read_bytes())["facts"]) if waiting else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def staged_digest(home: Path) -> str | None:
    """Return the SHA-256 of a party's staged tensors as they lie there, None if there are none."""
    waiting = sorted((home / STAGED).glob(f"*{TENSORS}"))
    try:
        return sha256(waiting[-1].read_bytes()) if waiting else None
    except OSError:
        return None


def newest_facts(home: Path) -> tuple[int, dict[str, Any]] | None:
    """Return the number of a party's newest version and what was noted with it; unchecked."""
    numbers = [int(p.stem) for p in (home / "versions").glob("*.json") if p.stem.isdecimal()]
    if not numbers:
        return None
    path = home / "versions" / f"{max(numbers):06d}.json"
    try:
        return max(numbers), dict(json.loads(path.read_bytes())["facts"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"Checkpoint manifest '{path}' cannot be read.") from error


def _remedy(manifest: dict[str, Any]) -> str:
    """Return what to do with a model of another version of unlabel; nothing where it is of this."""
    writer = str(manifest.get("written_by", ""))
    if writer in ("", f"unlabel {__version__}"):
        return ""
    return f"; {writer} wrote it: open the run with that version, or train again"


def _seal(manifest: dict[str, Any]) -> str:
    return sha256(json.dumps(manifest, sort_keys=True).encode())
