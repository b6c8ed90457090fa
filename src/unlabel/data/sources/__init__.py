"""One built-in dataset a file."""
