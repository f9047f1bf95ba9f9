"""Kernels of dynamic sizes: loops over blocks of fixed sizes, and rows of any length."""
