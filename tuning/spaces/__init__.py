"""Spaces: the schedules that a kernel may have, as knobs."""
