"""Requests under harder circumstances."""
