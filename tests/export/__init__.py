"""Exported tops: their form, their revocation, what serves and verifies them."""
