"""One method of forgetting a file."""
