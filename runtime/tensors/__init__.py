"""Tensors: numpy's, other libraries' and our own, as what compiled programs take and give."""
