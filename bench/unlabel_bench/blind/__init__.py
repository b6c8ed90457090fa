"""Bottoms that never see a label: what they cost and give away, and what forgetting takes."""
