"""No pass takes the types of two values for a proof that they have the same sizes: ``?`` is not ``?``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from source_trees import ROOT, tree

# Where the types of two values may be compared, and why that is no claim about sizes. Rather shorten this than add to it.
ALLOWED = {
    ("passes/graph/composites/attention.py", "_scale_of"): "each element is a number times the one at its own place",
    ("passes/analysis/in_place.py", "_is_read_in_place"): "one op's loops walk both, dim by dim",
    (
        "passes/graph/recognize_composites.py",
        "_find",
    ): "a first choice: a match reads the tensor where the root's loops are",
    ("passes/graph/sink_views.py", "_undo"): "what a view made is what the same view the other way began with",
    ("passes/normalize/store_bools.py", "_hand_on"): "scalars",
    ("passes/analysis/masked_writes.py", "find_masked_write"): "one op walks both whole",
    ("passes/normalize/widen_floats.py", "_compute_wide"): "scalars",
    ("passes/lower/prefetch_rows.py", "_choose_like"): "decides what is fetched ahead, not what is computed",
    ("passes/lower/prefetch_rows.py", "_prefetch"): "likewise",
    (
        "passes/schedule/tiling/plain_loops.py",
        "write_into",
    ): "both are the kernel's result: a cast where the types differ",
    ("passes/schedule/scripts/scripted.py", "_drop"): "both are tiles of one loop",
    ("passes/schedule/tiles/structured.py", "store"): "the whole of a region of known sizes",
}
# A shape as a type has it, in which unknown extents are equal numbers: `shape_of` and `SizeClasses` give others.
RAW = ("shape", "type")


def comparisons() -> Iterator[tuple[str, str, int]]:
    """Comparisons of two values' types, or of two types' shapes: file, function and line."""
    for path in sorted((ROOT / "passes").rglob("*.py")):
        for function in [n for n in ast.walk(tree(path)) if isinstance(n, ast.FunctionDef)]:
            for node in ast.walk(function):
                if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
                    sides = (node.left, *node.comparators)
                    if all(isinstance(side, ast.Attribute) and side.attr in RAW for side in sides):
                        yield str(path.relative_to(ROOT)), function.name, node.lineno


def test_types_are_no_proof_of_equal_sizes():
    found = {(file, function): line for file, function, line in comparisons()}
    new = {
        f"{file}:{line} in {function}" for (file, function), line in found.items() if (file, function) not in ALLOWED
    }
    assert not new, "ask SizeClasses whether sizes are equal, or say in ALLOWED why none is claimed to be"
    assert not set(ALLOWED) - set(found), "these compare no types any more"


# Where numbers of an attribute are compared with the mark of an unknown extent.
OF_ATTRIBUTES = {
    ("passes/schedule/scripts/given.py", "_check_sequence"),
    ("passes/schedule/scripts/forall.py", "_write_as_loop"),
    ("passes/schedule/scripts/scripted_nest.py", "_read_indices"),
    ("passes/analysis/independent_steps.py", "_find_dims"),
    ("passes/graph/convert_layout.py", "_permute_lists"),
    ("passes/ir/dynamic_sizes.py", "slice_amounts"),
    ("passes/ir/slices.py", "read_under_slice"),
    ("passes/lower/lower_transfers.py", "_find_open_rows"),
    ("passes/normalize/crop_pads.py", "apply"),
    ("passes/normalize/crop_pads.py", "_crop"),
}


def test_the_mark_of_unknown_extents_is_compared_in_attributes_alone():
    """An extent of ``shape_of`` refuses to be compared with the mark when it runs; raw shapes must not do so unseen."""
    found = set()
    for path in sorted((ROOT / "passes").rglob("*.py")):
        for function in [n for n in ast.walk(tree(path)) if isinstance(n, ast.FunctionDef)]:
            for node in ast.walk(function):
                if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
                    sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
                    found |= {(str(path.relative_to(ROOT)), function.name)} if "DYNAMIC" in sides else set()
    assert found == OF_ATTRIBUTES
