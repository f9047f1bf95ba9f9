"""The transform dialect's vocabulary: small functions that emit one op each at the insertion point.

A schedule module has one named sequence; ``sequence()`` opens it and ``apply()`` runs it on a payload.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import transform as upstream
from mlir.dialects.transform import interpreter, loop, structured

from ..core.errors import InternalError
from .context import MLIRError

Handle = ir.Value
ENTRY, SEQUENCE = "__transform_main", "transform.named_sequence"

# What the names of a reduction's ops (``tw.stage``) end with: of what it begins with, and of the copy of its result. No
# name that a user gives has a colon.
INIT, STORE = ":init", ":store"

# The budget of a pattern set, a few seconds: patterns that undo each other's work would rewrite until memory is full.
# Kernels of the zoo are done in 3 iterations of a few hundred rewrites. Rewrites are counted in each iteration anew.
MAX_ITERATIONS, MAX_REWRITES = 10, 10_000
_NO_FIXPOINT = "greedy pattern application failed"  # how upstream says that it was not enough


class EndlessRewriteError(InternalError):
    """A pattern set was not done when it had used up its iterations."""


def _any() -> ir.Type:
    return upstream.AnyOpType.get()


@dataclass
class Script:
    """A module with a named sequence; ``root`` is the handle to the payload's root, ``sequence`` what is run."""

    module: ir.Module
    root: Handle
    sequence: ir.Operation


@contextmanager
def sequence() -> Iterator[Script]:
    """Open a new schedule module; transform ops built inside go to its named sequence."""
    module = ir.Module.create()
    _ = module.context.dialects["transform"]  # loads it
    module.operation.attributes["transform.with_named_sequence"] = ir.UnitAttr.get()
    with ir.InsertionPoint(module.body):
        consumed = {"transform.consumed": ir.UnitAttr.get()}
        named = upstream.NamedSequenceOp(ENTRY, [_any()], [], arg_attrs=[consumed])
    with ir.InsertionPoint(named.body):
        yield Script(module, named.bodyTarget, named.operation)
        upstream.YieldOp([])


def parse_script(text: str, name: str = ENTRY) -> Script:
    """The script that a text is, whose sequence has this name. Raises ValueError where there is none."""
    module = ir.Module.parse(text)
    for op in module.body.operations:
        if isinstance(op, upstream.NamedSequenceOp) and op.sym_name.value == name:
            if len(op.body.arguments) != 1:
                raise ValueError(f"the sequence '@{name}' takes {len(op.body.arguments)} arguments: it gets the kernel")
            return Script(module, op.bodyTarget, op.operation)
    raise ValueError(f"it has no sequence '@{name}'")


def print_sequence(script: Script, name: str) -> str:
    """The sequence of a script as text, under another name."""
    copy = script.sequence.clone(ip=False)
    copy.attributes["sym_name"] = ir.StringAttr.get(name)
    return str(copy.get_asm(use_local_scope=True)).rstrip()


def apply(script: Script, payload: ir.Module | ir.OpView) -> None:
    """Run the schedule on the payload, which is changed in place.

    Raises InternalError when a transform fails, of the kind EndlessRewriteError when a pattern set finds no end.
    """
    try:
        interpreter.apply_named_sequence(payload.operation, script.sequence, script.module)
    except (ValueError, MLIRError) as error:
        kind = EndlessRewriteError if _NO_FIXPOINT in str(error) else InternalError
        raise kind(f"a schedule could not be applied: {' '.join(str(error).split())}") from error


def match(root: Handle, *ops: str, attributes: dict[str, ir.Attribute] | None = None) -> Handle:
    """All payload ops of these names (and attributes); matching nothing is an error when the schedule runs."""
    found = structured.MatchOp(_any(), root, ops=list(ops) or None, op_attrs=attributes).result
    split = upstream.SplitHandleOp([_any()], found, pass_through_empty_handle=False, overflow_result=0)
    return split.results[0]


def match_any(root: Handle, *ops: str) -> Handle:
    """All payload ops of these names, which may be none."""
    return structured.MatchOp(_any(), root, ops=list(ops)).result


def match_linalg(root: Handle, attributes: dict[str, ir.Attribute]) -> Handle:
    """All structured ops (with these attributes), which may be none."""
    interface = structured.MatchInterfaceEnum.LinalgOp
    return structured.MatchOp(_any(), root, interface=interface, op_attrs=attributes or None).result


@contextmanager
def foreach(handle: Handle) -> Iterator[Handle]:
    """The block that runs once for each payload op of ``handle``."""
    op = upstream.ForeachOp([], [handle])
    with ir.InsertionPoint(op.body):
        yield op.body.arguments[0]
        upstream.YieldOp([])


def tile_using_for(handle: Handle, sizes: Sequence[int], order: Sequence[int] | None = None) -> list[Handle]:
    """Tile with ``scf.for`` loops; 0 leaves a loop whole. Returns the tiled op and the loops.

    The loops stand as the op has them, or in an ``order`` of all of these.
    """
    return list(structured.TileUsingForOp(handle, sizes=list(sizes), interchange=order).results)


def fuse_into(producer: Handle, loop: Handle) -> tuple[Handle, Handle]:
    """Compute in each step of a loop the part of what ``producer`` makes that is read there.

    Returns the ops that do, one for each read, and the loop, whose old handle must not be used any more.
    """
    made = structured.FuseIntoContainingOp(_any(), _any(), producer, loop)
    return made.results[0], made.results[1]


def coalesce(handle: Handle) -> Handle:
    """One loop in place of a loop and those that it alone consists of."""
    return loop.LoopCoalesceOp(_any(), handle).result


def peel(handle: Handle) -> None:
    """A loop of whole steps, and the last step, if that is smaller, behind it. Nothing is done where all are whole."""
    loops = upstream.OperationType.get("scf.for")
    attempt = upstream.SequenceOp(upstream.FailurePropagationMode.Suppress, [], handle)
    with ir.InsertionPoint(attempt.body):
        loop.LoopPeelOp(_any(), _any(), upstream.CastOp(loops, attempt.bodyTarget).result)
        upstream.YieldOp([])


def annotate(handle: Handle, name: str, value: ir.Attribute) -> None:
    """Put an attribute on the payload ops."""
    any_param = ir.Type.parse("!transform.any_param")
    upstream.AnnotateOp(handle, name, param=upstream.ParamConstantOp(any_param, value).param)


def vectorize(handle: Handle) -> None:
    """Make vectors of the whole iteration space; a contraction becomes a named one, reads at indices gathers."""
    structured.structured_vectorize(handle, [], create_named_contraction=True, vectorize_nd_extract=True)


def hoist(root: Handle) -> None:
    """Move what a loop does not change out of it; accumulators become loop-carried vectors."""
    loops = match_any(root, "scf.for")
    upstream.ApplyLoopInvariantCodeMotionOp(loops)
    loop.HoistLoopInvariantSubsetsOp(loops)


def unroll(handle: Handle, factor: int) -> None:
    """Unroll an ``scf.for``."""
    loop.LoopUnrollOp(handle, factor=factor)


def cse(root: Handle) -> None:
    upstream.ApplyCommonSubexpressionEliminationOp(root)


def apply_patterns(root: Handle, *names: str, **strategies: str) -> None:
    """Apply pattern sets together, greedily, until nothing changes or the budget is used up.

    ``names`` are what follows ``transform.apply_patterns.``; ``strategies`` gives a set its ``lowering_strategy``
    (key: the name with dots and its last word joined by ``_``), e.g. ``vector_lower_contraction="outerproduct"``.
    """
    texts = [f"transform.apply_patterns.{name}" for name in names]
    body = "\n".join(texts)
    for key, strategy in strategies.items():
        dialect, _, rest = key.partition("_")
        body += f'\ntransform.apply_patterns.{dialect}.{rest} lowering_strategy = "{strategy}"'
    budget = f"{{max_iterations = {MAX_ITERATIONS} : i64, max_num_rewrites = {MAX_REWRITES} : i64}}"
    _parse_into(f"transform.apply_patterns to %root {{\n{body}\n}} {budget} : !transform.any_op", root)


_LOWER_PACKS = """
  %packs = transform.structured.match ops{["linalg.pack"]} in %root
    : (!transform.any_op) -> !transform.op<"linalg.pack">
  transform.foreach %packs : !transform.op<"linalg.pack"> {
  ^bb0(%op: !transform.op<"linalg.pack">):
    transform.structured.lower_pack %op {lowerPadLikeWithInsertSlice = false} : (!transform.op<"linalg.pack">)
      -> (!transform.op<"tensor.pad">, !transform.op<"tensor.expand_shape">, !transform.op<"linalg.transpose">)
  }
  %unpacks = transform.structured.match ops{["linalg.unpack"]} in %root
    : (!transform.any_op) -> !transform.op<"linalg.unpack">
  transform.foreach %unpacks : !transform.op<"linalg.unpack"> {
  ^bb0(%op: !transform.op<"linalg.unpack">):
    transform.structured.lower_unpack %op {lowerUnpadLikeWithExtractSlice = false} : (!transform.op<"linalg.unpack">)
      -> (!transform.op<"tensor.empty">, !transform.op<"linalg.transpose">, !transform.op<"tensor.collapse_shape">,
          !transform.op<"tensor.extract_slice">)
  }"""


def lower_packs(root: Handle) -> None:
    """``linalg.pack`` as pad, reshape and transpose; ``linalg.unpack`` as transpose, reshape and slice."""
    _parse_into(_LOWER_PACKS, root)


def _parse_into(text: str, root: Handle) -> None:
    """Clone ops written as text over ``%root`` to the insertion point."""
    source = f"""module attributes {{transform.with_named_sequence}} {{
      transform.named_sequence @{ENTRY}(%root: !transform.any_op) {{ {text}
        transform.yield }} }}"""
    module = ir.Module.parse(source)  # its ops die with it
    block = module.body.operations[0].regions[0].blocks[0]
    mapping: dict[ir.Value, ir.Value] = {block.arguments[0]: root}
    for parsed in list(block.operations)[:-1]:
        op = parsed.operation.clone()
        for i, operand in enumerate(op.operands):
            op.operands[i] = mapping[operand]
        mapping.update(zip(parsed.operation.results, op.results, strict=True))
