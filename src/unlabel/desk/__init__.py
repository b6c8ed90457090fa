"""The erasure desk: requests to erase, from the demand that comes in to the letter."""
