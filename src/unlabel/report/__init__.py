"""The page a person reads and the certificate a machine verifies."""
