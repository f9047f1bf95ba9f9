"""The report of a check: what a model holds, what cannot be converted, and what a user can do about it."""
