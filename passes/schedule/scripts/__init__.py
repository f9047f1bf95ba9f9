"""Kernels whose loops a script of the transform dialect makes: of a family, of tensor expressions, of a user."""
