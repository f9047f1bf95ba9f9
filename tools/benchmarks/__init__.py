"""Measuring: networks and kernels beside other runtimes, and what the machine gives."""
