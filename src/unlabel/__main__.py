"""`python -m unlabel` is the command `unlabel`."""

from unlabel.cli import program

program()
