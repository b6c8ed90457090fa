"""`python -m unlabel` is the command `unlabel`."""

from unlabel.cli.start import program

program()
