"""From scheduled kernels to object code."""
