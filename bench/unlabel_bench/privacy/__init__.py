"""What partners could learn of a request."""
