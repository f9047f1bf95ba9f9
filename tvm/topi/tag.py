"""``tvm.topi.tag``: what kind of operator a stage is."""

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"


def is_broadcast(tag: str) -> bool:
    """Whether an element comes from one element of each operand, at the same place or a repeated one."""
    return tag in (ELEMWISE, BROADCAST)


def is_injective(tag: str) -> bool:
    """Whether an element comes from one element of each operand."""
    return tag in (ELEMWISE, BROADCAST, INJECTIVE)
