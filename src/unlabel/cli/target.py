"""What a command works on: a run in a folder, or a federation through its active party's kit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import unlabel as ul
from unlabel.cli.interrupts import UNCHANGED, on_interrupt, standing
from unlabel.cli.output import messages, say
from unlabel.cli.progress import StepBar
from unlabel.errors import SettingsError, UsageError

Run = Annotated[Path | None, typer.Argument(help="Folder of the run.", show_default=False)]
Device = Annotated[str, typer.Option(help="cpu, cuda or auto; the run's own by default.")]
Kit = Annotated[
    Path | None,
    typer.Option(
        "--federation",
        metavar="KIT",
        help="Kit of the active party, in place of a run's folder.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Target:
    """A run, and how a person names it on the command line.

    folder  of the run
    kit     of the active party, where the others live elsewhere
    """

    folder: Path
    kit: Path | None = None

    @classmethod
    def of(cls, run: Path | None, kit: Path | None) -> Target:
        """Return the target that was named, which must be one and not both."""
        if run is not None and kit is None:
            return cls(run)
        if kit is None or run is not None:
            raise UsageError("Name the run: its folder, or --federation KIT, and not both.")
        from unlabel.remote.kit import Kit as PartyKit

        party_kit = PartyKit.read(kit)
        party_kit.expect_active()
        return cls(party_kit.run, kit)

    def __str__(self) -> str:
        return str(self.folder) if self.kit is None else f"--federation {self.kit}"

    @contextlib.contextmanager
    def open(
        self,
        *,
        resume: bool = False,
        recovering: bool = False,
        record: bool = False,
        fewer: bool = False,
        device: str = "",
    ) -> Iterator[ul.Federation]:
        """Open the run, or connect to the federation for as long as the command takes.

        fewer  go on without parties that are down, where all agreed to that
        """
        if self.kit is None:
            with on_interrupt(UNCHANGED), StepBar(messages, "opening") as bar:
                opened = ul.Federation.open(
                    self.folder,
                    resume=resume,
                    recovering=recovering,
                    record=record,
                    device=device,
                    watch=bar.step,
                )
            with on_interrupt(standing(opened, str(self))):
                yield opened
            return
        if device:
            raise SettingsError("In a federation each party sets its own `device` in party.yaml.")
        with StepBar(messages, "aligning") as bar:
            federation = ul.Federation.connect(
                self.kit,
                resume=resume,
                recovering=recovering,
                fewer=fewer,
                notify=say,
                watch=bar.step,
            )
        with federation, on_interrupt(standing(federation, str(self))):
            yield federation

    @contextlib.contextmanager
    def open_standing(
        self, *, resume: bool = False, recovering: bool = False, deciding: bool = False
    ) -> Iterator[ul.Federation]:
        """Open the run for `status` or `rollback`: no table is read for them.

        deciding  for `rollback`
        """
        how = {"resume": resume, "recovering": recovering, "deciding": deciding}
        with contextlib.ExitStack() as stack:
            opened: ul.Federation
            if self.kit is None:
                from unlabel.unopened import open_standing

                with on_interrupt(UNCHANGED), StepBar(messages, "opening") as bar:
                    opened = open_standing(self.folder, watch=bar.step, **how)
            else:
                from unlabel.remote.standing import connect_standing

                with StepBar(messages, "aligning") as bar:
                    connected = connect_standing(self.kit, notify=say, watch=bar.step, **how)
                    opened = stack.enter_context(connected)
            with on_interrupt(standing(opened, str(self))):
                yield opened

    def resume(self) -> str:
        """Return the command that goes on with the training of the run."""
        if self.kit is not None:
            return f"unlabel train --federation {self.kit}"
        return f"unlabel train --resume --out {self.folder}"

    def note_unfinished(self, federation: ul.Federation) -> None:
        """Say where the model is one whose training was interrupted, or not the certified one."""
        from unlabel.train.progress import unfinished_note

        if federation.version is not None:
            facts = federation.active.versions.facts(federation.version)
            note = unfinished_note(facts, self.resume())
            for sentence in filter(None, (note, federation.certificate_note)):
                say(f"Note: {sentence}")

    def json(self) -> dict[str, Any]:
        """Return how the target is named in JSON."""
        return {"run": str(self.folder)} | ({"kit": str(self.kit)} if self.kit else {})
