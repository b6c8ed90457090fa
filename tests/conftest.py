"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is slow now and then, which says nothing about the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
