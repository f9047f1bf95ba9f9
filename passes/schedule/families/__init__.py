"""Kernel families: from a kernel's shapes to its schedule."""
