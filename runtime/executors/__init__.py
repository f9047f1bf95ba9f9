"""Executors: one program of an artifact, ready to run, timed or guarded."""
