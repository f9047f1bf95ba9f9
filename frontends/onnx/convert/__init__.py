"""Conversion of graphs node by node: by a converter, a function's body, a user's operator, or by folding."""
