"""A federation between organisations: kits, the engine, and the process of each party."""
