"""The state of one import, a converter's context, what stands for values that failed, and the table of converters."""
