"""How a program's arguments and results nest, as ``torch.export.save`` writes it: whether torch may read it.

torch's reader imports and calls what a text names: ``{"__enum__": true, "fqn": "ctypes:cdll", "name": "./x.so"}`` as a
key of a dictionary loads a library, a ``defaultdict`` any module. Here a text is of plain containers, or of types that
the caller's process has itself registered with torch, with plain keys, and torch gets a text that is written anew.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

MOST_DEPTH, MOST_NODES, MOST_CHARACTERS = 64, 100_000, 4 << 20
_SEQUENCES = frozenset(
    ("builtins.tuple", "builtins.list", "torch.fx.immutable_collections.immutable_list", "torch.Size")
)
_MAPPINGS = frozenset(("builtins.dict", "collections.OrderedDict", "torch.fx.immutable_collections.immutable_dict"))
_DEQUE, _NAMED_TUPLE = "collections.deque", "collections.namedtuple"
_FLAT = {"type": "builtins.tuple", "context": "null"}
_LEAF = {"type": None, "context": None, "children_spec": []}


class BadNestingError(ValueError):
    """Why a text does not say how something nests."""


class Nesting(NamedTuple):
    """A text that was read and written anew, how many ``leaves`` it has, and the ``types`` it names besides torch's."""

    text: str
    leaves: int
    types: frozenset[str]


def read_nesting(text: str, is_input: bool = False) -> Nesting:
    """A text of a file, checked; that of an ``is_input`` is a pair of positional arguments and named ones."""
    if len(text) > MOST_CHARACTERS:
        raise BadNestingError(f"has {len(text)} characters, at most {MOST_CHARACTERS} are read")
    try:
        version, root = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise BadNestingError("is no JSON of a version and a structure") from None
    if type(version) is not int or version != 1:
        raise BadNestingError("is of an unknown version")
    reader = _Reader()
    plain = reader.node(root, 0)
    if is_input:
        kinds = [child["type"] for child in plain["children_spec"]]
        if plain["type"] != "builtins.tuple" or kinds != ["builtins.tuple", "builtins.dict"]:
            raise BadNestingError("is no pair of a tuple and a dict, as the arguments of a call are")
    return Nesting(json.dumps([1, plain]), reader.leaves, frozenset(reader.types))


def flat_nesting(leaves: int, is_input: bool) -> str:
    """The text of so many leaves in a tuple; where it ``is_input``, of a call with as many positional arguments."""
    flat = {**_FLAT, "children_spec": [_LEAF] * leaves}
    named = {"type": "builtins.dict", "context": "[]", "children_spec": []}
    return json.dumps([1, {**_FLAT, "children_spec": [flat, named]} if is_input else flat])


def check_types(types: frozenset[str]) -> None:
    """BadNestingError for a type that this process has not registered with torch, or that reads its context itself."""
    for name in sorted(types):
        known = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name)
        if known is None:
            raise BadNestingError(f"has '{name}', which is not registered here: import the module that does so")
        own = known.__module__.partition(".")[0] not in (torch.__name__, "builtins", "collections")
        reads = pytree.SUPPORTED_SERIALIZED_TYPES[known].from_dumpable_context
        if not own or not (reads is None or pytree.is_namedtuple_class(known)):
            raise BadNestingError(f"has '{name}': only tuples, lists, dicts and plain types are read from a file")


class _Reader:
    """Reads the nodes of one text."""

    def __init__(self) -> None:
        self.leaves, self._nodes = 0, 0
        self.types: set[str] = set()

    def node(self, node: Any, depth: int) -> dict[str, Any]:
        """A node with all below it, of what torch reads alone."""
        self._nodes += 1
        if depth > MOST_DEPTH or self._nodes > MOST_NODES:
            raise BadNestingError(f"has more than {MOST_NODES} nodes, or is more than {MOST_DEPTH} deep")
        if not isinstance(node, dict) or not node.keys() >= _LEAF.keys():
            raise BadNestingError("has a node without type, context or children")
        kind, context, children = node["type"], node["context"], node["children_spec"]
        if not isinstance(children, list):
            raise BadNestingError("has children that are no list")
        if kind is None and context is None and not children:
            self.leaves += 1
            return _LEAF
        if not isinstance(kind, str):
            raise BadNestingError("has a type that is no text")
        if not isinstance(context, str):  # that of a factory, which torch would import, is a dict
            raise BadNestingError(f"has a {kind[:60]!r} whose context is no text")
        plain = self._context(kind, context, len(children))
        made = [self.node(child, depth + 1) for child in children]
        return {"type": kind, "context": plain, "children_spec": made}

    def _context(self, kind: str, context: str, children: int) -> str:
        if kind == _NAMED_TUPLE:
            self._name(context)
            return context
        try:
            value = json.loads(context)
        except (ValueError, RecursionError):
            raise BadNestingError(f"has a {kind[:60]!r} with a context that is no JSON") from None
        if kind in _SEQUENCES:
            fits = value is None
        elif kind in _MAPPINGS:
            fits = isinstance(value, list) and len(value) == children and all(map(_is_key, value))
            fits = fits and len(set(value)) == children
        elif kind == _DEQUE:
            fits = value is None or (type(value) is int and children <= value < 1 << 31)
        else:
            self._name(kind)
            fits = _is_plain_value(value, 0)
        if not fits:
            raise BadNestingError(f"has a {kind[:60]!r} with the context {context[:60]!r}")
        return json.dumps(value)

    def _name(self, name: str) -> None:
        if not all(part.isidentifier() for part in name.split(".")) or name in pytree_names():
            raise BadNestingError(f"has {name[:60]!r}: only tuples, lists, dicts and types that you register are read")
        self.types.add(name)


def pytree_names() -> frozenset[str]:
    """Types that torch knows, and a file may not have: some read their contexts by importing what these name."""
    return frozenset(("collections.defaultdict", _NAMED_TUPLE, "NO_SERIALIZED_TYPE_NAME_FOUND"))


def _is_key(value: Any) -> bool:
    return value is None or (isinstance(value, int | str) and len(str(value)) <= 256 and str(value).isprintable())


def _is_plain_value(value: Any, depth: int) -> bool:
    if isinstance(value, list):
        return depth < 4 and all(_is_plain_value(inner, depth + 1) for inner in value)
    return isinstance(value, float) or _is_key(value)
