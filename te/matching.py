"""Whether a tile computes what an intrinsic does: the same expression, of the same shapes, in memory that fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from ..core.errors import ScheduleError
from ..core.sizes import Extent, Sym
from .attachment import consumers_of, extent_at, first_of, is_sliced, reads_of, sizes_at, tile_shape
from .expr import Expr, IterVar, Literal, Operation, Placeholder, Read, Reduce, SizeVar
from .expr_parts import children_of
from .intrinsic import TensorIntrin, dense_strides
from .regions import LinearIndex, as_linear, is_inside
from .stage import Leaf, LoopPart, Stage
from .tensor import ComputeOp, Tensor

if TYPE_CHECKING:
    from .schedule import Schedule

_COMMUTATIVE = ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "equal", "not_equal")
Bound = Mapping[Expr, Expr]  # what parts of an intrinsic's expression are in the stage's


@dataclass(frozen=True, eq=False)
class Tensorization:
    """How a tile is the call of an intrinsic.

    ``reads`` are the elements that the intrinsic's inputs are of the stage, ``axes`` the axes of a tensor that are
    those of one of the intrinsic's; None for one that the tensor does not have. ``strides`` are what its symbols are.
    """

    reads: Mapping[Tensor, Read]
    axes: Mapping[Tensor, tuple[int | None, ...]]
    strides: Mapping[Sym, Extent]
    goes_on: bool  # with a sum that loops around have begun
    is_begun_alike: bool  # as many elements as the tile has


def match_intrinsic(schedule: Schedule, stage: Stage, var: IterVar, intrinsic: TensorIntrin) -> Tensorization:
    """How the loops from ``var`` on are the intrinsic; ScheduleError in words where they are not."""
    return _Matcher(schedule, stage, var, intrinsic).match()


class _Matcher:
    """The tile of a stage beside an intrinsic."""

    def __init__(self, schedule: Schedule, stage: Stage, var: IterVar, intrinsic: TensorIntrin) -> None:
        self.schedule, self.stage, self.intrinsic = schedule, stage, intrinsic
        self.verb = f"cannot tensorize '{var}' of '{stage.name}' by '{intrinsic.name}'"
        if not isinstance(stage.op, ComputeOp) or stage.automatic or stage.inline:
            self.refuse("it has no loops of its own")
        self.op: ComputeOp = stage.op
        stage.find(var, "tensorize")
        self.until = stage.position(var)
        self.exact = True
        self.strides: dict[Sym, Extent] = {}
        self.own: dict[IterVar, IterVar] = {}  # the stage's axes by the intrinsic's
        self.pairs: dict[Tensor, list[tuple[Read, Read]]] = {}  # reads of the intrinsic's inputs, and the stage's

    def refuse(self, why: str) -> NoReturn:
        """Raise ScheduleError."""
        raise ScheduleError(f"{self.verb}: {why}")

    def match(self) -> Tensorization:
        """How the tile is the intrinsic."""
        self.check_loops()
        self.tile = self.measure_tile()
        self.pair_axes(self.op.axis, self.intrinsic.op.axis)
        self.pair_axes(self.op.reduce_axis, self.intrinsic.op.reduce_axis)
        self.compare_bodies()
        reads = {tensor: self.choose_read(tensor, pairs) for tensor, pairs in self.pairs.items()}
        axes = {tensor: self.pair_indices(tensor, *pair) for tensor, pair in reads.items()}
        made = self.pair_results()
        for tensor, (_, read) in reads.items():
            self.check_memory(tensor, read.tensor, axes[tensor])
        for number, tensor in enumerate(self.intrinsic.outputs):
            axes[tensor] = made
            self.check_memory(tensor, self.op.output(number), made)
        around = self.stage.leaves[: self.until]
        goes_on = any(leaf.var.reduces and leaf.steps != 1 for leaf in around)
        if goes_on and not self.intrinsic.update:
            loop = next(leaf.var for leaf in around if leaf.var.reduces)
            self.refuse(f"'{loop}' around it goes on with a reduction: declare calls (whole, reset, update)")
        alike = tile_shape(self.schedule, self.stage) == [self.tile[axis] for axis in self.op.axis]
        return Tensorization({tensor: read for tensor, (_, read) in reads.items()}, axes, self.strides, goes_on, alike)

    # ---- loops and axes

    def check_loops(self) -> None:
        """Refuse a tile in which something else happens, and loops around whose last step may be smaller."""
        inner = self.stage.leaves[self.until :]
        if self.stage.joined:
            self.refuse(f"axes of '{self.stage.name}' are fused to one: split them instead")
        for leaf in inner:
            if leaf.mark:
                self.refuse(f"'{leaf.var}' inside of it is marked '{leaf.mark}', and would be no loop any more")
        for other in self.schedule.stages:
            if other.at is not None and other.at[0] is self.stage and any(other.at[1] is leaf.var for leaf in inner):
                self.refuse(f"'{other.name}' is computed inside of it")
        if self.stage.at is not None:
            self.check_reads(self.stage)
        below = self.stage
        while below.at is not None:
            below, around = below.at
            for leaf in below.leaves[: below.position(around) + 1]:
                for part in leaf.parts:
                    self.check_even(below, leaf, part)

    def check_reads(self, stage: Stage) -> None:
        """Refuse what is computed in a loop and read elsewhere than at its first element, of which there is more."""
        reads = [read for reader in consumers_of(self.schedule, stage) for read in reads_of(reader, stage)]
        if len(reads) != 1 or any(first_of(index) != 0 for index in reads[0].indices):
            where = ", ".join(f"'{read}'" for read in reads)
            self.refuse(f"'{stage.name}' is computed in a loop and read at {where}: leave it at the root")

    def check_even(self, stage: Stage, leaf: Leaf, part: LoopPart) -> None:
        """Refuse a loop around the stage whose last step may be smaller."""
        extent = extent_at(self.schedule, stage, leaf, part)
        if part.step == 1 or (isinstance(extent, int) and (extent % part.step == 0 or extent < part.step)):
            return
        self.refuse(f"the last step of '{leaf.var}' may be smaller than {part.step}: an intrinsic has one size")

    def measure_tile(self) -> dict[IterVar, int]:
        """How many elements of each axis the tile has."""
        sizes, made = sizes_at(self.schedule, self.stage), {}
        for axis in (*self.op.axis, *self.op.reduce_axis):
            whole = sizes[axis]
            around = [part.step for leaf in self.stage.leaves[: self.until] for part in leaf.parts if part.axis is axis]
            if isinstance(whole, int):
                around = [whole, *(min(step, whole) for step in around)]
            if not around or (not isinstance(whole, int) and around[-1] != 1):
                self.refuse(f"only the run knows how many elements of '{axis}' it has: split it evenly")
            made[axis] = around[-1]
            if made[axis] and any(step % made[axis] for step in around):
                self.refuse(f"the last step of '{axis}' may be smaller than {made[axis]}: an intrinsic has one size")
        return made

    def pair_axes(self, own: Sequence[IterVar], wanted: Sequence[IterVar]) -> None:
        """Let each axis of the intrinsic be one of the stage's, in order; of all others there is one element."""
        long = [axis for axis in own if self.tile[axis] != 1]
        chosen = long if len(long) == len(wanted) else list(own)[len(own) - len(wanted) :] if wanted else []
        rest = [axis for axis in long if not any(axis is each for each in chosen)]
        if (
            len(chosen) != len(wanted)
            or rest
            or any(self.tile[a] != b.dom.extent for a, b in zip(chosen, wanted, strict=True))
        ):
            tile = ", ".join(f"{axis}: {self.tile[axis]}" for axis in own) or "none"
            asked = ", ".join(f"{axis}: {axis.dom.extent}" for axis in wanted) or "none"
            kind = "reduced axes" if any(axis.reduces for axis in (*own, *wanted)) else "axes"
            self.refuse(f"the {kind} of a tile are {tile}, those of the intrinsic {asked}")
        self.own.update(zip(wanted, chosen, strict=True))

    # ---- expressions

    def compare_bodies(self) -> None:
        """Refuse a tile that computes something else, and note which elements the intrinsic's inputs are."""
        mine, theirs = self.op.body, self.intrinsic.op.body
        first, wanted = mine[0], theirs[0]
        pending = list(zip(mine, theirs, strict=False))
        alike = len(mine) == len(theirs) and isinstance(first, Reduce) == isinstance(wanted, Reduce)
        if alike and isinstance(first, Reduce) and isinstance(wanted, Reduce):
            one, other = first.combiner, wanted.combiner
            alike = len(first.sources) == len(wanted.sources) and all(
                (a.value, a.dtype) == (b.value, b.dtype) for a, b in zip(one.identity, other.identity, strict=True)
            )
            joined = dict(zip((*other.left, *other.right), (*one.left, *one.right), strict=False)) if alike else {}
            alike = alike and _unify(list(zip(one.made, other.made, strict=True)), dict(joined), self) is not None
            pending = list(zip(first.sources, wanted.sources, strict=True)) if alike else []
        bound = _unify(pending, {}, self) if alike else None
        if alike and bound is None:  # say where it reads something else, if that is all
            self.exact = False
            bound = _unify(pending, {}, self)
        if bound is None:
            what, asked = (", ".join(map(str, body)) for body in (mine, theirs))
            self.refuse(f"it computes {what}, the intrinsic {asked}")
        for wanted, own in bound.items():
            if isinstance(wanted, Read) and isinstance(own, Read):
                self.pairs.setdefault(wanted.tensor, []).append((wanted, own))

    def may_be(self, own: Read, wanted: Read) -> bool:
        """Return whether a read goes with the axes as the intrinsic's does."""
        try:
            self.pair_indices(wanted.tensor, wanted, own)
        except ScheduleError:
            return not self.exact
        return True

    def is_same_place(self, own: IterVar, wanted: IterVar) -> bool:
        """Return whether the number of an axis is the same in the intrinsic: the tile is all of it."""
        whole = self.tile.get(own) == own.dom.extent and own.dom.min == wanted.dom.min and self.stage.at is None
        return whole and self.own.get(wanted) is own

    # ---- where elements lie

    def choose_read(self, tensor: Tensor, pairs: Sequence[tuple[Read, Read]]) -> tuple[Read, Read]:
        """The read that begins where the intrinsic's tensor does; all others are as far from it as there."""
        wanted, own = next(((w, o) for w, o in pairs if _constants(w) == [0] * w.tensor.ndim), pairs[0])
        if _constants(wanted) != [0] * wanted.tensor.ndim:
            self.refuse(f"the intrinsic reads '{tensor.name}' at '{wanted}', and nowhere at its first element")
        axes = self.pair_indices(tensor, wanted, own)
        for other_wanted, other in pairs:
            distance = _distance(own, other)
            asked = _distance(wanted, other_wanted)
            moved: list[Extent] = [0] * own.tensor.ndim
            for place, steps in zip(axes, asked or [], strict=False):
                if place is not None:
                    moved[place] = steps
            if other.tensor != own.tensor or asked is None or distance != moved:
                self.refuse(f"it reads '{own}' and '{other}' where the intrinsic reads '{wanted}' and '{other_wanted}'")
        return wanted, own

    def pair_indices(self, tensor: Tensor, wanted: Read, own: Read) -> tuple[int | None, ...]:
        """The axes of what the stage reads that are those of the intrinsic's tensor, from the last one on."""
        left, made = list(range(own.tensor.ndim)), []
        for number in reversed(range(tensor.ndim)):
            linear = as_linear(wanted.indices[number])
            if linear is None:
                self.refuse(f"the intrinsic reads '{wanted}', not at a sum of its axes")
            terms = {self.own[axis]: times for axis, times in linear.terms.items()}
            terms = {axis: times for axis, times in terms.items() if self.tile[axis] != 1}
            while terms and left and not self.terms_of(own, left[-1]):
                left.pop()
            place = left.pop() if left and self.terms_of(own, left[-1]) == terms else None
            if place is None and (terms or tensor.shape[number] != 1):
                self.refuse(f"it reads '{own}' where the intrinsic reads '{wanted}'")
            made.insert(0, place)
        if any(self.terms_of(own, place) for place in left):
            self.refuse(f"it reads '{own}' where the intrinsic reads '{wanted}'")
        return tuple(made)

    def terms_of(self, read: Read, place: int) -> dict[IterVar, int]:
        """How an index grows with the axes of the tile."""
        index = read.indices[place]
        if not is_inside(index, read.tensor.shape[place]) or not is_sliced(self.schedule, index, self.stage):
            self.refuse(f"it reads '{read}', whose elements in a tile are no slice")
        linear = as_linear(index)
        if linear is None:
            assert isinstance(index, Operation) and isinstance(index.operands[0], IterVar)
            axis, divisor = index.operands[0], index.operands[1]
            assert isinstance(divisor, Literal)
            if int(divisor.value) % self.tile[axis]:
                self.refuse(f"it reads '{read}', whose elements in a tile are several blocks")
            linear = LinearIndex({axis: 1} if index.name == "mod" else {})
        return {axis: times for axis, times in linear.terms.items() if self.tile[axis] != 1}

    def pair_results(self) -> tuple[int | None, ...]:
        """The axes of what the stage makes that are those of the intrinsic's."""
        places = {axis: number for number, axis in enumerate(self.op.axis)}
        return tuple(places[self.own[axis]] for axis in self.intrinsic.op.axis)

    def check_memory(self, tensor: Tensor, own: Tensor, axes: Sequence[int | None]) -> None:
        """Refuse a tensor whose elements lie in other distances than the intrinsic's buffer says."""
        buffer, strides = self.intrinsic.buffers[tensor], self.find_strides(own)
        for number, (place, stride) in enumerate(zip(axes, buffer.extents, strict=True)):
            if place is None or tensor.shape[number] == 1:
                continue
            found = strides[place]
            if isinstance(stride, Sym):
                stride = self.strides.setdefault(stride, found)
            if found != stride:
                self.refuse(
                    f"neighbours along axis {place} of '{own.name}' lie {found} elements apart, in the intrinsic's"
                    f" buffer '{buffer.name}' {stride}: declare te.decl_buffer(..., strides=[...]), with te.var for any"
                )

    def find_strides(self, tensor: Tensor) -> tuple[Extent, ...]:
        """How the elements of a tensor lie where the tile finds it."""
        stage = next((each for each in self.schedule.stages if each.op is tensor.op), None)
        if stage is not None and stage.at is not None and stage is not self.stage:
            self.check_reads(stage)
        shape = None if stage is None or stage.at is None else tile_shape(self.schedule, stage)
        return dense_strides(shape or tensor.shape)


def _unify(pending: Sequence[tuple[Expr, Expr]], bound: dict[Expr, Expr], matcher: _Matcher) -> dict[Expr, Expr] | None:
    """The parts of ``pending``'s second expressions by those of the first ones that are the same; None if none are."""
    if not pending:
        return bound
    (own, wanted), *rest = pending
    if wanted in bound:
        return _unify(rest, bound, matcher) if bound[wanted] is own else None
    if own.dtype != wanted.dtype or type(own) is not type(wanted):
        return None
    if isinstance(own, Operation) and isinstance(wanted, Operation):
        if own.name != wanted.name:
            return None
        orders = [own.operands, own.operands[::-1]] if own.name in _COMMUTATIVE else [own.operands]
        for operands in orders:
            pairs = [*zip(operands, wanted.operands, strict=True), *rest]
            if (made := _unify(pairs, bound, matcher)) is not None:
                return made
        return None
    same = (
        (isinstance(own, Read) and isinstance(wanted, Read) and matcher.may_be(own, wanted))
        or (isinstance(own, Literal) and repr(own.value) == repr(getattr(wanted, "value", None)))
        or (isinstance(own, SizeVar) and own.extent == getattr(wanted, "extent", None))
        or (isinstance(own, IterVar) and isinstance(wanted, IterVar) and matcher.is_same_place(own, wanted))
    )
    if not same or isinstance(own, Placeholder) or any(isinstance(part, Read) for part in children_of(wanted)):
        return None
    return _unify(rest, {**bound, wanted: own} if isinstance(own, Read) else bound, matcher)


def _constants(read: Read) -> list[Extent | None]:
    """The constants of a read's indices."""
    found = [as_linear(index) for index in read.indices]
    return [None if linear is None else linear.const for linear in found]


def _distance(first: Read, second: Read) -> list[Extent] | None:
    """How far one read is from another along each axis, always; None where that is not known."""
    made: list[Extent] = []
    for one, other in zip(first.indices, second.indices, strict=True):
        if one is other:
            made.append(0)
            continue
        a, b = as_linear(one), as_linear(other)
        if a is None or b is None or dict(a.terms) != dict(b.terms):
            return None
        made.append(b.const - a.const)
    return made
