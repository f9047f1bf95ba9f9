"""``GraphModule`` and ``DebugModule``: programs whose inputs and outputs stay, as TVM's graph executor has them."""
