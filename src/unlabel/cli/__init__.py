"""The command line: one verb a file."""

from unlabel.cli.start import program

__all__ = ["program"]
