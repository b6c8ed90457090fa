"""Fuzzing, hostile parties and faults, with the benches that record them."""
