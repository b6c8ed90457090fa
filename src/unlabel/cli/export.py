"""`unlabel export`: the top of a blind run as a file, signed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unlabel.cli.output import Json, print_result, say
from unlabel.cli.target import Kit, Run, Target


def export(
    run: Run = None,
    federation: Kit = None,
    out: Annotated[
        Path, typer.Option(help="File to write: *.safetensors, or *.onnx (extra `onnx`).")
    ] = Path("top.safetensors"),
    json: Json = False,
) -> None:
    """Write the top of a blind run to a file, signed; the next commit revokes it.

    Example: unlabel export runs/loans --out top.safetensors
    """
    target = Target.of(run, federation)
    with target.open() as opened:
        exported = opened.export(out)
    about = exported.export
    facts = {
        "file": str(exported.path),
        "signed": str(exported.signed),
        "revocations": str(exported.note),
        **{name: getattr(about, name) for name in ("format", "version", "sha256", "labels")},
    }
    print_result(facts, f"Exported the top of version {about.version}: {out}", json=json)
    if not json:
        say(f"Hand out '{exported.signed}' with it, and '{exported.note}' after each commit.")
        say(f"Check it: unlabel verify {out} --revocations {exported.note}")
