"""How the threads of a team learn what the elements before theirs combine to: shuffles in a warp, shared memory between
warps.

Threads hold consecutive stretches of the elements, in the order of their numbers. The association is fixed: elements of
a thread, lanes by doubling distances, then warps one after another.
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
class Names:
    """The values of one scan in a kernel: of an element, of what a thread, the lanes below it and its warp combine to,
    and of all that comes before a stretch."""

    scan: Scan
    running: Local
    own: Local
    lower: Local
    warp: Local
    before: str  # one for each vector of a thread
    so_far: Local
    in_front: Local
    shared: str

    @staticmethod
    def of(scan: Scan, lowering: Lowering) -> Names:
        base = ACCUMULATORS[scan.kind]

        def local(wish: str) -> Local:
            return Local(lowering.names.allocate(wish), scan.dtype)

        def name(wish: str) -> str:
            return lowering.names.allocate(wish)

        return Names(
            scan,
            local(base),
            local(f"own_{base}"),
            local(f"lower_{base}"),
            local(f"warp_{base}"),
            name(f"{base}_before"),
            local(f"{base}_so_far"),
            local(f"{base}_in_front"),
            name(f"warp_{base}s"),
        )

    @property
    def locals(self) -> tuple[str, ...]:
        """The names of all locals that hold values of the scan."""
        own = (self.running, self.own, self.lower, self.warp, self.so_far, self.in_front)
        return (*(local.name for local in own), self.before)


def joined(names: Names, earlier: Expr, later: Expr) -> Expr:
    """What two stretches side by side combine to."""
    return combine(names.scan.kind, earlier, later)


def scan_lanes(scans: Sequence[Names], lane: str, lanes: int, apart: int, lowering: Lowering) -> tuple[Node, ...]:
    """Lets `own` of each scan hold what the own and all lanes below combine to, in each segment of so many lanes, and
    `lower` what those below do (the first has its own value); `apart` is from one lane to the next that counts."""
    trips = (lanes // apart - 1).bit_length()
    reach = Index(lowering.names.allocate("reach"), integer(0), (0, lanes - 1))
    lowering.ranges[reach.symbol] = reach.range
    far_enough = Op("ge", (Local(lane, INT64), Local(reach.name, INT64)), BOOL)
    steps: list[Node] = []
    for names in scans:
        taken = Select(far_enough, joined(names, names.lower, names.own), names.own, names.own.dtype)
        steps += [_lower(names, reach.symbol, lanes), Assign(names.own, taken)]
    loop = Loop(reach, integer(0), integer(trips), unroll=True, doubles=apart)
    declared = tuple(Let(names.lower, None, mutable=True) for names in scans)
    return (*declared, For(loop, tuple(steps)), *(_lower(names, apart, lanes) for names in scans))


def whole(names: Names, lanes: int) -> Shuffled:
    """What all lanes combine to, after `scan_lanes`."""
    return Shuffled(names.own.name, names.own.dtype, lanes - 1, "from", lanes)


def above(lane: str, distance: int, then: Expr, orelse: Expr) -> Select:
    """`then` in lanes from `distance` on."""
    condition = Op("ge", (Local(lane, INT64), Const(distance, INT64)), BOOL)
    return Select(condition, then, orelse, then.dtype)


def warp_results(names: Names, warps: int, buffers: int) -> Array:
    """A place in shared memory for the result of each warp, `buffers` times."""
    shape: tuple[Integer, ...] = (integer(warps),) if buffers == 1 else (integer(buffers), integer(warps))
    strides = (integer(1),) if buffers == 1 else (integer(warps), integer(1))
    return Array("", names.shared, names.scan.dtype, shape, strides, "shared", flat=False)


def _lower(names: Names, distance: int | Integer, lanes: int) -> Assign:
    return Assign(names.lower, Shuffled(names.own.name, names.own.dtype, distance, "up", lanes))
