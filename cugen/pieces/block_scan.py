"""Prefix scans across the threads of a group: shuffles within a warp, shared memory between warps.

Threads hold consecutive segments of the elements, in the order of their numbers. The association is fixed: elements of
a thread, lanes at doubling distances (Hillis-Steele), then warps one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reductions import ACCUMULATORS, combine
from cugen.plan.memory import Array, Shuffled
from cugen.plan.nodes import Assign, For, Index, Let, Loop, Node
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Const, Expr, Local, Op, Scan, Select
from cugen.spec.types import BOOL, INT64

WARP = 32


@dataclass(frozen=True, slots=True)
class ScanLocals:
    """The locals of one scan in a kernel.

    `accumulator` runs over a thread's elements, `inclusive` and `exclusive` are its prefixes over the lanes,
    `vector_prefix` (one per vector of a thread) the prefix within the warp. `warp_total`, `block_total`: aggregates so
    far; `warp_prefix`: aggregate of the preceding warps. `shared` names the array of warp aggregates."""

    scan: Scan
    accumulator: Local
    inclusive: Local
    exclusive: Local
    warp_total: Local
    vector_prefix: str
    block_total: Local
    warp_prefix: Local
    shared: str

    @staticmethod
    def of(scan: Scan, lowering: Lowering) -> ScanLocals:
        base = ACCUMULATORS[scan.kind]

        def local(name_hint: str) -> Local:
            return Local(lowering.names.allocate(name_hint), scan.dtype)

        def name(name_hint: str) -> str:
            return lowering.names.allocate(name_hint)

        return ScanLocals(
            scan,
            local(base),
            local(f"inclusive_{base}"),
            local(f"exclusive_{base}"),
            local(f"warp_{base}"),
            name(f"{base}_before"),
            local(f"{base}_so_far"),
            local(f"preceding_{base}"),
            name(f"warp_{base}s"),
        )

    @property
    def locals(self) -> tuple[str, ...]:
        """The names of all locals that hold values of the scan."""
        values = (
            self.accumulator,
            self.inclusive,
            self.exclusive,
            self.warp_total,
            self.block_total,
            self.warp_prefix,
        )
        return (*(local.name for local in values), self.vector_prefix)


def combine_pair(names: ScanLocals, earlier: Expr, later: Expr) -> Expr:
    """The aggregate of two consecutive segments."""
    return combine(names.scan.kind, earlier, later)


def warp_scan(scans: Sequence[ScanLocals], lane: str, lanes: int, stride: int, lowering: Lowering) -> tuple[Node, ...]:
    """Scans `inclusive` over each segment of `lanes` lanes and stores the exclusive prefix in `exclusive`.

    Only every `stride`-th lane contributes. `exclusive` of the first lane is its own value."""
    trips = (lanes // stride - 1).bit_length()
    distance = Index(lowering.names.allocate("distance"), integer(0), (0, lanes - 1))
    lowering.ranges[distance.symbol] = distance.range
    in_reach = Op("ge", (Local(lane, INT64), Local(distance.name, INT64)), BOOL)
    steps: list[Node] = []
    for names in scans:
        combined = combine_pair(names, names.exclusive, names.inclusive)
        value = Select(in_reach, combined, names.inclusive, names.inclusive.dtype)
        steps += [_shuffle_up(names, distance.symbol, lanes), Assign(names.inclusive, value)]
    loop = Loop(distance, integer(0), integer(trips), unroll=True, doubles=stride)
    declared = tuple(Let(names.exclusive, None, mutable=True) for names in scans)
    return (*declared, For(loop, tuple(steps)), *(_shuffle_up(names, stride, lanes) for names in scans))


def segment_total(names: ScanLocals, lanes: int) -> Shuffled:
    """The aggregate of all lanes of a segment, after `warp_scan`."""
    return Shuffled(names.inclusive.name, names.inclusive.dtype, lanes - 1, "from", lanes)


def select_above(lane: str, distance: int, then: Expr, orelse: Expr) -> Select:
    """`then` in lanes from `distance` on."""
    condition = Op("ge", (Local(lane, INT64), Const(distance, INT64)), BOOL)
    return Select(condition, then, orelse, then.dtype)


def warp_totals(names: ScanLocals, warps: int, buffers: int) -> Array:
    """A shared array with one aggregate per warp, `buffers` times: [buffers, warps], or [warps] for one buffer."""
    shape: tuple[Integer, ...] = (integer(warps),) if buffers == 1 else (integer(buffers), integer(warps))
    strides = (integer(1),) if buffers == 1 else (integer(warps), integer(1))
    return Array("", names.shared, names.scan.dtype, shape, strides, "shared", flat=False)


def _shuffle_up(names: ScanLocals, distance: int | Integer, lanes: int) -> Assign:
    shuffled = Shuffled(names.inclusive.name, names.inclusive.dtype, distance, "up", lanes)
    return Assign(names.exclusive, shuffled)
