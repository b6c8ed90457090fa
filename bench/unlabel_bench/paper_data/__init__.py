"""Data of the paper from public repositories that hold a copy, as plain files, one a module."""
