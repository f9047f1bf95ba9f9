"""Analyses of IR: kinds of ops, costs, equal sizes, groups, layouts. Nothing here changes IR."""
