"""The pages of the desk, one a file: its routes and what they show."""
