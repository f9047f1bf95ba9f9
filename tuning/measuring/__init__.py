"""Measuring: a kernel with two schedules, in turn, on the same arrays."""
