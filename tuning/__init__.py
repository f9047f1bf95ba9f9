"""Tuning: schedules of kernels, found by measuring them, that the network they are for has accepted."""
