"""The command line: one verb a file."""

from unlabel.cli.main import app, main

__all__ = ["app", "main"]
