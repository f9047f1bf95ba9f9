"""Profiles: what the calls of a program cost."""
