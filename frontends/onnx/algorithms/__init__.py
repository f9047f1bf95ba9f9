"""Algorithms that several converters share."""
