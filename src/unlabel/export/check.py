"""Whether an exported top holds: by its signature, its bytes, the revocation note, the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unlabel.data import ACTIVE
from unlabel.errors import DataError
from unlabel.export.form import SIGNED, Export, SignedExport, beside, read_export, read_exports
from unlabel.files import EXPORTS, sha256
from unlabel.party.answering import decided_in
from unlabel.report.checks import Checks
from unlabel.signing import fingerprint


@dataclass(frozen=True)
class ExportFiles:
    """An exported top and what it is held against.

    top          the file itself; what is signed of it lies beside it
    revocations  the run's revocation note, or a copy of it
    run          folder of the run, whose own note is taken where no other is given
    loaded       what is answered by, once it was loaded: no other file stands for it
    """

    top: Path
    revocations: Path | None = None
    run: Path | None = None
    loaded: Export | None = None

    @classmethod
    def of(
        cls, path: Path, revocations: Path | None = None, run: Path | None = None
    ) -> ExportFiles:
        """Return the files of an export that is named by either of its two."""
        top = path.with_name(path.name.removesuffix(SIGNED)) if path.suffix == SIGNED else path
        if revocations is None and run is not None:
            revocations = run / EXPORTS
        return cls(top, revocations, run)


def check(files: ExportFiles, trust: Mapping[str, str] | None = None) -> Checks:
    """Check an export; every fault is named, and what was not checked.

    trust  public keys by party, the label holder's among them
    """
    checks = Checks()
    try:
        document = read_export(_bytes(beside(files.top)), beside(files.top).name)
        data = _bytes(files.top)
    except DataError as error:
        checks.faults.append(str(error))
        return checks
    export = document.export
    loaded = files.loaded or export
    checks.expect(
        (loaded.sha256, loaded.version) == (export.sha256, export.version),
        "Another one was put in its place; start serving again to answer by that.",
    )
    checks.held.append(
        f"The label holder signed it as the top of version {export.version}, with key "
        f"{fingerprint(document.key)}."
    )
    if trust is None or ACTIVE not in trust:
        checks.unchecked.append(
            "No trusted key of the label holder was given, so it is not known whose signature it "
            "is."
        )
    elif checks.expect(
        trust[ACTIVE] == document.key, "It is not signed with the label holder's trusted key."
    ):
        checks.held.append("The key is the trusted one.")
    if checks.expect(sha256(data) == export.sha256, "The file is not the one that was signed."):
        checks.held.append("The file is the one that was signed.")
    if files.run is not None:
        decided = decided_in(files.run / ACTIVE)
        if checks.expect(
            decided is not None and decided.number == export.version,
            f"It is of version {export.version}, and "
            f"{'no version' if decided is None else f'version {decided.number}'} is in use: it was "
            f"superseded.",
        ):
            checks.held.append(f"The run uses version {export.version}.")
    if files.revocations is None:
        checks.unchecked.append(
            "No revocation note was given, so whether it was revoked is not known; ask the label "
            "holder for the newest."
        )
    else:
        _check_note(document, files.revocations, checks)
    return checks


def _check_note(document: SignedExport, path: Path, checks: Checks) -> None:
    """Check an export against a revocation note."""
    try:
        note = read_exports(_bytes(path), path.name)
    except DataError as error:
        checks.faults.append(str(error))
        return
    if not checks.expect(
        note.key == document.key, "The revocation note is of another run: it has another key."
    ):
        return
    export, listed = document.export, {each.sha256: each for each in note.exports.listed}
    entry = listed.get(export.sha256)
    if not checks.expect(
        entry is not None, "The revocation note does not list it: it is older than the export."
    ):
        return
    revoked = entry.revoked if entry is not None else None
    when = f" on {revoked}" if revoked else ""
    if checks.expect(
        revoked is None and note.exports.version == export.version,
        f"It was revoked{when}: it is of version {export.version}, and version "
        f"{note.exports.version} is in use.",
    ):
        checks.held.append(f"It was not revoked, as of {note.exports.at}.")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"Cannot read '{path}': {error.strerror}.") from error
