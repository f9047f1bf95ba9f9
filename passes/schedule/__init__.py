"""Schedules: how one kernel is tiled, vectorized and made parallel."""
