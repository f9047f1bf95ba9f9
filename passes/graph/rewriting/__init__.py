"""Rewrites that several graph passes share."""
