"""The state of one import, and what a converter sees of it: its context and the table of converters."""
