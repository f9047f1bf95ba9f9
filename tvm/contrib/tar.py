"""``tvm.contrib.tar``: archives, as which programs are exported, too."""

from ..linking import tar, untar

__all__ = ["tar", "untar"]
