"""The figures we publish, each by a name."""
