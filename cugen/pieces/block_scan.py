"""Prefix scans across the threads of a group: shuffles within a warp, shared memory between warps.

Threads hold consecutive segments of the elements, in the order of their numbers. The association is fixed: elements of
a thread, lanes at doubling distances (Hillis-Steele), then warps one after another.
"""

from __future__ import annotations

from collections.abc import Sequence

from cugen.pieces.loop_variables import loop_variable
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS, combine
from cugen.plan.memory import IndexLocal, Shuffled, Vector
from cugen.plan.nodes import Assign, For, Let, Loop, Node
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Const, Expr, Local, Op, Scan, Select
from cugen.spec.types import BOOL, INT64


class ScanLocals:
    """The locals of one scan along a row, or along so many `columns` per thread, with vectors of what each column has;
    `shared` names the array of warp aggregates."""

    def __init__(self, scan: Scan, lowering: Lowering, columns: int = 0) -> None:
        base = ACCUMULATORS[scan.kind]

        def local(name_hint: str, width: int = 1) -> Local:
            name = lowering.names.allocate(name_hint)
            return Local(name, scan.dtype) if width <= 1 else Vector(name, scan.dtype, scan.dtype, width)

        self.scan = scan
        self.accumulator = local(base, columns)  # runs over a thread's elements
        self.inclusive = local(f"inclusive_{base}")  # prefixes of the threads' aggregates over the lanes
        self.exclusive = local(f"exclusive_{base}")
        self.partial = local(f"partial_{base}", columns) if columns else self.inclusive  # a thread's aggregate
        self.warp_total = local(f"warp_{base}")  # so far
        self.vector_prefix = local(f"{base}_before")  # within the warp, one per vector of a thread
        self.block_total = local(f"{base}_so_far", columns)
        self.warp_prefix = local(f"preceding_{base}")  # aggregate of the preceding warps
        self.locals = [value for value in vars(self).values() if isinstance(value, Local)]
        self.shared = lowering.names.allocate(f"warp_{base}s")

    def combine(self, earlier: Expr, later: Expr) -> Expr:
        """The aggregate of two consecutive segments."""
        return combine(self.scan.kind, earlier, later)

    def add(self, local: Local, later: Expr) -> Assign:
        """Extends an aggregate by that of the following elements."""
        return Assign(local, self.combine(local, later))


def warp_scan(scans: Sequence[ScanLocals], lane: str, lanes: int, stride: int, lowering: Lowering) -> tuple[Node, ...]:
    """Scans `inclusive` over each segment of `lanes` lanes and stores the exclusive prefix in `exclusive`.

    Only every `stride`-th lane contributes. `exclusive` of the first lane is its own value."""
    trips = (lanes // stride - 1).bit_length()
    index = loop_variable("distance", lanes, lowering) if trips > 1 else None
    distance = integer(stride) if index is None else index.symbol
    reach = Const(stride, INT64) if index is None else IndexLocal(index.name, INT64)
    in_reach = Op("ge", (IndexLocal(lane, INT64), reach), BOOL)
    steps: list[Node] = []
    for names in scans:
        combined = names.combine(names.exclusive, names.inclusive)
        value = Select(in_reach, combined, names.inclusive, names.inclusive.dtype)
        steps += [_shuffle_up(names, distance, lanes), Assign(names.inclusive, value)]
    declared = tuple(Let(names.exclusive, None, mutable=True) for names in scans)
    if index is not None:
        steps = [For(Loop(index, integer(0), integer(trips), unroll=True, doubles=stride), tuple(steps))]
    return (*declared, *steps, *(_shuffle_up(names, stride, lanes) for names in scans))


def segment_total(names: ScanLocals, lanes: int, last: int | Integer | None = None) -> Shuffled:
    """The aggregate of all lanes of a segment, after `warp_scan`: that of its `last` one which contributes."""
    source = lanes - 1 if last is None else last
    return Shuffled(names.inclusive.name, names.inclusive.dtype, source, "from", lanes)


def select_above(lane: str, distance: int, then: Expr, orelse: Expr) -> Select:
    """`then` in lanes from `distance` on."""
    condition = Op("ge", (Local(lane, INT64), Const(distance, INT64)), BOOL)
    return Select(condition, then, orelse, then.dtype)


def _shuffle_up(names: ScanLocals, distance: int | Integer, lanes: int) -> Assign:
    shuffled = Shuffled(names.inclusive.name, names.inclusive.dtype, distance, "up", lanes)
    return Assign(names.exclusive, shuffled)
