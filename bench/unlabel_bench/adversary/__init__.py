"""Models that pretend to have forgotten, models that never knew, and an audit of both."""
