"""Write a top to a file, and keep the note that revokes it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from safetensors.torch import save

from unlabel._version import __version__
from unlabel.data import ACTIVE
from unlabel.errors import CheckpointError, DataError, RunError, SettingsError
from unlabel.export.form import Export, Exports, Format, Input, Listed, beside, read_exports, signed
from unlabel.export.onnx_form import to_onnx
from unlabel.files import EXPORTS, alone_in, sha256, write_atomically
from unlabel.forget import Run
from unlabel.forget.copies import Copy
from unlabel.models.registry import top_of
from unlabel.models.tops import Top
from unlabel.party.answering import decided_in, hold_answers
from unlabel.party.deciding import deciding
from unlabel.party.top import TopLearner
from unlabel.signing import Signer
from unlabel.train import VersionFacts

#: The end of a file's name -> the form of what is in it.
FORMATS: dict[str, Format] = {".safetensors": "safetensors", ".onnx": "onnx"}


@dataclass(frozen=True)
class Exported:
    """What was written: the top, what is signed of it, and the run's revocation note."""

    path: Path
    signed: Path
    note: Path
    export: Export


def export(run: Run, target: Path) -> Exported:
    """Write the top of a blind run's decided version to a file; its name says in which form."""
    if run.config.bottoms != "blind":
        raise SettingsError(
            f"Only the top of a blind run can be exported, and this one is {run.config.bottoms}: "
            f"its bottoms learnt from labels, so that a top alone would hide what they know."
        )
    form = FORMATS.get(target.suffix)
    if form is None:
        raise SettingsError(f"Expected a file named *.safetensors or *.onnx but got '{target}'.")
    # Nothing is decided from here on until the note names the export: it can be revoked then.
    with deciding(run.folder / ACTIVE), contextlib.ExitStack() as held:
        held.callback(hold_answers(run.folder / ACTIVE).release)
        run.refresh()
        decided = decided_in(run.folder / ACTIVE)
        if run.version is None or decided is None or decided.number != run.version:
            raise RunError("A commit was interrupted; run `unlabel recover`, then export.")
        data, about = _top_of(run, run.version, form)
        path = run.folder / EXPORTS
        before = _read(path)
        write_atomically(target, data)
        write_atomically(beside(target), signed("export", about, Signer(run.folder / ACTIVE)))
        listed = [each for each in _listed(before) if each.sha256 != about.sha256]
        new = Listed(about.sha256, target.name, about.version, about.exported, None)
        _write(run.folder, before, [*listed, new], run.version)
    return Exported(target, beside(target), path, about)


def refresh(folder: Path) -> bool:
    """Note as revoked what was exported of other versions than the decided one.

    Return whether there was anything to note. To repeat it changes nothing.
    """
    path = folder / EXPORTS
    if not path.exists():
        return False
    with alone_in(folder / ACTIVE):
        before, decided = _read(path), decided_in(folder / ACTIVE)
        if before is None or decided is None or decided.number == before.version:
            return False
        _write(folder, before, before.listed, decided.number)
    return True


def copies(folder: Path) -> list[Copy]:
    """List the exports of a run, wherever they are now."""
    note = _read(folder / EXPORTS)
    return [
        Copy(
            ACTIVE,
            each.file,
            f"exported top of version {each.version}",
            "left" if each.revoked else "kept",
            "it was revoked: `unlabel serve` and `unlabel verify` refuse it, and whoever has it "
            "deletes it"
            if each.revoked
            else "it is of the version in use",
        )
        for each in _listed(note)
    ]


def _top_of(run: Run, version: int, form: Format) -> tuple[bytes, Export]:
    """Return the bytes of a run's top, and what is to be signed of them."""
    top, active, model = run.active.top, run.active, run.config.model
    assert isinstance(top, TopLearner)
    assert isinstance(top.module, Top)
    facts = VersionFacts.from_json(active.versions.facts(version))
    inputs = [Input(*each) for each in zip(active.embedded, active.widths, strict=True)]
    tensors = {k: v.detach().cpu().contiguous() for k, v in top.module.state_dict().items()}
    data = save(tensors) if form == "safetensors" else to_onnx(top.module, inputs)
    about = Export(
        what="unlabel export 1",
        sha256=sha256(data),
        format=form,
        version=version,
        request="" if facts.request is None else facts.request.id,
        ledger=active.versions.ledger.head(),
        exported=_now(),
        labels=list(top.names),
        inputs=inputs,
        top=top_of(model),
        options=dict(model.options),
        combine=model.combine,
        software=f"unlabel {__version__}",
    )
    return data, about


def _write(folder: Path, before: Exports | None, listed: Sequence[Listed], version: int) -> None:
    """Write the next note."""
    now = _now()
    note = Exports(
        what="unlabel exports 1",
        number=1 if before is None else before.number + 1,
        version=version,
        at=now,
        listed=[
            each if each.revoked or each.version == version else replace(each, revoked=now)
            for each in listed
        ],
    )
    write_atomically(folder / EXPORTS, signed("exports", note, Signer(folder / ACTIVE)))


def _read(path: Path) -> Exports | None:
    """Return a run's own note, None where nothing was exported."""
    try:
        return read_exports(path.read_bytes(), path.name).exports
    except FileNotFoundError:
        return None
    except (OSError, DataError) as error:
        raise CheckpointError(f"'{path}' cannot be used: {error} Restore it.") from error


def _listed(note: Exports | None) -> list[Listed]:
    return [] if note is None else note.listed


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
