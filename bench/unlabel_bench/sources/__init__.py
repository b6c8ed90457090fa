"""Datasets of the paper that people get themselves, one a file."""
