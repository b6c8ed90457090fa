"""Published methods that ours are compared with, one a file."""
