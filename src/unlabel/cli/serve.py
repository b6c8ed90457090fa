"""`unlabel serve`: predictions over HTTP, never from a model that was superseded or purged."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from unlabel.cli.output import say
from unlabel.cli.target import Device, Kit, Run, Target
from unlabel.errors import RunError, UsageError
from unlabel.export.check import ExportFiles
from unlabel.federation import NO_SERVER

# What `unlabel desk` takes as well.
Host = Annotated[str, typer.Option(help="Address to listen on; others than this machine need TLS.")]
Port = Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")]
Certificate = Annotated[Path | None, typer.Option(help="PEM file for TLS.")]
Key = Annotated[Path | None, typer.Option(help="PEM file of its private key.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Write no line a request.")]


def log_requests(logger: str) -> None:
    """Write a line a request on standard error."""
    logging.basicConfig(format="%(asctime)s %(message)s")
    logging.getLogger(logger).setLevel(logging.INFO)


def serve(
    run: Run = None,
    federation: Kit = None,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    certificate: Certificate = None,
    key: Key = None,
    token: Annotated[
        Path | None, typer.Option(help="File with the token that requests must bring.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Rows of a party in one request, at most.")] = 1024,
    top: Annotated[
        Path | None, typer.Option(help="An exported top, asked with rows of embeddings.")
    ] = None,
    revocations: Annotated[
        Path | None, typer.Option(help="Its run's exports.json, where RUN is not here.")
    ] = None,
    device: Device = "",
    quiet: Quiet = False,
) -> None:
    """Answer questions for predictions over HTTP, until Ctrl-C.

    Example: unlabel serve runs/loans --port 8080

    Then POST /predict takes {"ids": ["C-10007"]}, or new rows; docs/serving.md has both.
    """
    if not quiet:
        log_requests("unlabel.serve")
    if top is not None:
        if federation is not None or device:
            raise UsageError("--top goes with RUN or --revocations, and no other run or device.")
        _serve_top(
            ExportFiles.of(top, revocations, run), (host, port, certificate, key), token, batch
        )
        return
    target = Target.of(run, federation)
    # Also where a commit was interrupted: until it has ended, every question is put off.
    with target.open(recovering=True, device=device) as opened:
        target.note_unfinished(opened)
        opened.serve(
            host=host,
            port=port,
            certificate=certificate,
            key=key,
            token=token,
            batch=batch,
            notify=say,
        )


def _serve_top(
    files: ExportFiles,
    where: tuple[str, int, Path | None, Path | None],
    token: Path | None,
    batch: int,
) -> None:
    """Answer by an exported top, until Ctrl-C."""
    try:
        from unlabel.serve import Limits, ServedTop
        from unlabel.serve.listening import Address, answer
    except ImportError as error:
        raise RunError(NO_SERVER) from error
    answer(lambda: ServedTop(files), Address(*where), token, Limits(rows=batch), say)
