"""What a partner could try with what it saw of a request."""
