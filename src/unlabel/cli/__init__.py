"""The command line: one verb a file."""

from unlabel.cli.main import app, main, program

__all__ = ["app", "main", "program"]
