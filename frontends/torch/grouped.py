"""Grouped products of mixtures of experts, with operators whose sizes do not depend on how many rows a group has.

Rows are put into blocks of equal size, each of one group, so that the last one of a group may have rows to spare; each
block is multiplied with its group's matrix. How many blocks there can be at most follows from the numbers of rows and
groups alone.
"""

from __future__ import annotations

from typing import Any

import torch

_SIZES = (1, 2, 4, 8, 16, 32, 64)  # rows of a block
_COPY = 48  # what copying an element of a matrix takes, in operations of a product
_FEW_GROUPS = (
    16  # with open sizes rows are multiplied with all of so many matrices, otherwise each with a copy of its own
)


def grouped_mm(
    open_sizes: bool,
    x: torch.Tensor,
    y: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """torch's: groups of the rows of ``x``, of the columns of ``y``, of what is summed up, or one for each matrix."""
    if bias is not None:
        return NotImplemented
    if offs is None:
        made = torch.bmm(x, y)
    elif x.dim() == 2 and y.dim() == 3:
        made = grouped_product(open_sizes, x, y, offs)
    elif x.dim() == 3 and y.dim() == 2:
        made = grouped_product(open_sizes, y.T, x.transpose(1, 2), offs).T
    else:
        inside = _group_of(x.shape[1], offs) == torch.arange(offs.shape[0], device=x.device)[:, None]
        made = torch.bmm(torch.where(inside[:, None], x, 0.0), torch.where(inside[:, :, None], y, 0.0))
    return made if out_dtype is None else made.to(out_dtype)


def grouped_product(open_sizes: bool, rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Of (rows, k), (groups, k, n) and the groups' ends; rows behind the last group are zero."""
    count, groups = rows.shape[0], matrices.shape[0]
    if 0 in (count, groups):
        return rows.new_zeros(count, matrices.shape[2])
    ends = ends.to(torch.int64)
    group = _group_of(count, ends)
    last = group.clamp(max=groups - 1)
    if open_sizes and groups <= _FEW_GROUPS:
        all_ = torch.bmm(rows.expand(groups, -1, -1), matrices)
        made = all_[last, torch.arange(count, device=rows.device)]
    elif open_sizes:
        made = torch.bmm(rows[:, None], matrices[last])[:, 0]
    else:
        made = _by_blocks(rows, matrices, ends, last)
    return torch.where((group < groups)[:, None], made, 0.0).to(rows.dtype)


def _group_of(count: int, ends: torch.Tensor) -> torch.Tensor:
    """The group of each row; how many groups there are for rows behind the last one."""
    return (torch.arange(count, device=ends.device)[:, None] >= ends).to(torch.int64).sum(1)


def _by_blocks(rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    count, groups = rows.shape[0], matrices.shape[0]
    size = min(_SIZES, key=lambda size: most_blocks(count, groups, size) * (2 * size + _COPY))
    blocks, shift = most_blocks(count, groups, size), size.bit_length() - 1
    begins = torch.cat((torch.zeros_like(ends[:1]), ends[:-1]))
    counts = (ends - begins + size - 1) >> shift
    last_blocks = torch.cumsum(counts, 0)
    first_blocks = last_blocks - counts
    numbers = torch.arange(blocks, device=rows.device)
    owner = (numbers[:, None] >= last_blocks).to(torch.int64).sum(1).clamp(max=groups - 1)
    sources = begins[owner] + (numbers - first_blocks[owner]) * size
    sources = (sources[:, None] + torch.arange(size, device=rows.device)).reshape(-1).clamp(0, count - 1)
    made = torch.bmm(rows[sources].reshape(blocks, size, -1), matrices[owner]).reshape(blocks * size, -1)
    within = torch.arange(count, device=rows.device) - begins[group]
    places = first_blocks[group] * size + within
    return made[places.clamp(0, blocks * size - 1)]


def most_blocks(rows: int, groups: int, size: int) -> int:
    """How many blocks of a size rows in groups can need: all groups have one that is not full."""
    used = min(rows, groups)
    return used + (rows - used) // size
