"""What a thread of a product holds of both tiles: its part of a column of A and of a row of B, for one k and the next.

The values of the next k are read while those of this one are multiplied, also across the barrier at the end of a step:
so few warps as fit a multiprocessor with such tiles can't cover the way from shared memory otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cugen.families.gemm.coordinates import Place
from cugen.families.gemm.copy.pipeline import Ring
from cugen.plan.memory import Start, Vector
from cugen.plan.nodes import For, Let, Load, Loop, Node
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer
from cugen.spec.expressions import Expr, Read


@dataclass(frozen=True)
class Fragment:
    """A thread's part of one operand: `count` groups of `vector.width` neighbours that lie `span` apart in the tile,
    from `start` on; twice. `which` is the loop's index over them all. `own` is the place from which reads count."""

    ring: Ring
    start: Integer
    span: int
    count: int
    vector: Vector
    which: Integer
    own: Start | None

    def group(self, number: Integer, turn: Integer) -> Vector:
        """One group of those that are held by turns."""
        return self.vector.one(turn) if self.count == 1 else self.vector.one(number, turn)


class Fragments:
    """Those of both operands. `turn`, 0 or 1, says which of the two."""

    what = "the values of one k and of the next"

    def __init__(self, place: Place, rings: list[Ring], groups: tuple[int, int]) -> None:
        shape, found = place.shape, place.found
        self.place = place
        i, j = place.loop_index("i", shape.thread_rows), place.loop_index("j", shape.thread_columns)
        sides = (
            (place.row, shape.thread_rows, shape.lanes),
            (place.column, shape.thread_columns, shape.lane_columns),
        )
        self._each = []
        for ring, (start, owned, lanes), width in zip(rings, sides, groups, strict=True):
            dtype = ring.tile.dtype
            name = place.lowering.names.allocate(f"{ring.operand.read.array.lower()}{width}")
            count = owned // width
            vector = Vector(name, dtype.compute, dtype, width, count, rows=2)
            if count == 1:
                vector = Vector(name, dtype.compute, dtype, width, 2)
            which = i.symbol if ring.operand in found.a_operands else j.symbol
            own = self._own(ring, start) if shape.reads == "pointer" else None
            self._each.append(Fragment(ring, start, lanes * width, count, vector, which, own))

    def _own(self, ring: Ring, start: Integer) -> Start:
        """Where the thread's part of the first stage begins."""
        place = self.place
        name = place.lowering.names.allocate(f"{ring.operand.read.array.lower()}_own")
        return Start(name, ring.tile, (integer(0), place.slice * place.shape.own_step, start))

    def declarations(self) -> tuple[Node, ...]:
        starts = tuple(fragment.own for fragment in self._each if fragment.own is not None)
        return (*starts, *(Let(fragment.vector, None, mutable=True) for fragment in self._each))

    def read(self, stage: Integer, k: Integer, turn: Integer) -> Iterator[Node]:
        """The loads of one k of a stage."""
        for fragment in self._each:
            ring, vector, count = fragment.ring, fragment.vector, fragment.count
            u = self.place.loop_index("u", count) if count > 1 else None
            number = u.symbol if u is not None else integer(0)
            access = ring.read(stage, k, fragment.start + number * fragment.span, vector.width)
            access = replace(access, start=fragment.own)
            load: Node = Load(fragment.group(number, turn), access)
            yield load if u is None else For(Loop(u, integer(0), integer(count), unroll=True), (load,))

    def factors(self, turn: Integer) -> dict[Read, Expr]:
        """What stands for the operands in the product of row i and column j."""
        found: dict[Read, Expr] = {}
        for fragment in self._each:
            width = integer(fragment.vector.width)
            one = fragment.group(FloorDiv(fragment.which, width), turn)
            found[fragment.ring.operand.read] = one.component(Mod(fragment.which, width))
        return found
