"""Every recorded method on every recorded dataset, on one page."""
