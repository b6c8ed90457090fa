"""One label-free objective a file."""
