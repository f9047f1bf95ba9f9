"""Passes: infrastructure, graph passes, schedules, lowering, and the pipeline."""
