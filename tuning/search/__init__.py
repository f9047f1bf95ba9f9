"""Searches: which points of a space are measured next."""
