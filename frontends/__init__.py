"""Frontends: each turns one model format into a `Model`."""
