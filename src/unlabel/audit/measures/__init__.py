"""One measure, or one family of measures, a file."""
