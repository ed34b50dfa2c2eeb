"""Buffers for values that a thread needs in several passes over its row, in registers or in shared memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import sympy

from cugen.families.rowwise.config import RowConfig
from cugen.families.rowwise.passes.schedule import reused_buffers
from cugen.families.rowwise.passes.storage_levels import Storage, StorageLevel
from cugen.families.rowwise.row_storage import storage_type
from cugen.families.rowwise.row_vectors import reads_vector
from cugen.families.rowwise.statements.names import RowNames, name_hint
from cugen.families.rowwise.statements.recognition import RowProblem
from cugen.families.rowwise.thread_group import RowThreadGroup
from cugen.pieces.kernels import dense_array
from cugen.plan.memory import Access, Array, Element, Vector
from cugen.plan.nodes import Assign, Declare, Let, Load, Node, Store
from cugen.plan.symbols import Integer
from cugen.spec.expressions import Const, Expr, Local, Read, walk
from cugen.spec.types import DType


@dataclass(frozen=True, slots=True)
class CachedValue:
    """The buffer of one value for all of the thread's elements: an array of register vectors, or an array in registers
    where `threads` is 0, else in shared memory with the elements of `threads` threads interleaved, vector by vector; a
    local for an edge element."""

    width: int
    buffer: Vector | Array | Local
    threads: int = 0
    thread: Integer = sympy.S.Zero

    @property
    def is_shared(self) -> bool:
        return self.threads > 0

    @property
    def element(self) -> DType:
        """The element type of the buffer."""
        return self.buffer.element if isinstance(self.buffer, Vector) else self.buffer.dtype

    def declaration(self) -> Node:
        if isinstance(self.buffer, Array):
            return Declare(self.buffer)
        # Threads without an edge element have 0, which none reads: else compilers warn that they might.
        edge = None if isinstance(self.buffer, Vector) else Const(0, self.buffer.dtype)
        return Let(self.buffer, edge, mutable=True)

    def access(self, slot: Integer, kind: str) -> Access:
        """The access to the thread's elements of a slot of an array."""
        assert isinstance(self.buffer, Array)
        offset = (slot * self.threads + self.thread) * self.width if self.is_shared else slot
        return Access(self.buffer, (offset.expand(),), kind, self.width)

    def get(self, slot: Integer, lane: Integer) -> Expr:
        """Element `lane` of a slot, without a vector load."""
        if isinstance(self.buffer, Vector):
            return self.buffer.indexed(slot).component(lane)
        if isinstance(self.buffer, Local):
            return self.buffer
        return Element.of(self.access(slot, "load"))

    def put(self, slot: Integer, lane: Integer, value: Expr) -> Node:
        if isinstance(self.buffer, Vector):
            return Assign(self.buffer.indexed(slot).component(lane), value)
        if isinstance(self.buffer, Local):
            return Assign(self.buffer, value)
        return Store(self.access(slot, "store"), value)

    def fill(self, slot: Integer, loaded: Vector, source: Access) -> tuple[Node, ...]:
        """A vector load into the slot; shared memory is written through the register vector `loaded`."""
        if isinstance(self.buffer, Vector):
            return (Load(self.buffer.indexed(slot), source),)
        return Load(loaded, source), Store(self.access(slot, "store"), loaded)


@dataclass
class RowBuffers:
    """The buffers by storage and expression, whose reductions are replaced by their results.

    `shared_bytes` of shared memory are allocated so far."""

    problem: RowProblem
    config: RowConfig
    group: RowThreadGroup
    names: RowNames
    cached: dict[tuple[Storage, Expr], CachedValue] = field(default_factory=dict)
    shared_bytes: int = 0

    def holds(self, expr: Expr) -> bool:
        return any(expr == cached for _, cached in self.cached)

    def allocate(self, level: StorageLevel, expr: Expr) -> tuple[Node, ...]:
        """Declares the buffer of a value, unless it overwrites that of a dead one."""
        resolved, width = self.names.results.resolved, self.config.width.count
        reused = reused_buffers(level.passes, lambda cached: self._buffer_type(cached, level)) or {}
        if expr in reused:
            self.cached[level.storage, resolved(expr)] = self.cached[level.storage, resolved(reused[expr])]
            return ()
        element = self._buffer_type(expr, level)
        if level.storage == Storage.EDGES:
            name = self.names.allocate(expr, "row" if expr in reused.values() else name_hint(expr), "_edge")
            cached = CachedValue(1, Local(name, expr.dtype))
        elif level.storage == Storage.REGISTERS:
            vector = str(width) if width > 1 else ""
            if expr in reused.values():
                name = self.names.lowering.names.allocate(f"row{vector}")
            else:
                name = self.names.allocate(expr, name_hint(expr), vector or "_row")
            if width > 1:
                cached = CachedValue(width, Vector(name, expr.dtype, element, width, level.slots))
            else:
                cached = CachedValue(1, dense_array(name, expr.dtype, (level.slots,), "register"))
        else:
            name = self.names.allocate(expr, name_hint(expr), "_shared")
            cached = self._in_shared_memory(name, element, level, self._pad(expr))
        self.cached[level.storage, resolved(expr)] = cached
        return (cached.declaration(),)

    def _buffer_type(self, expr: Expr, level: StorageLevel) -> DType:
        """The element type of a buffer: as in global memory for values that are only loaded, else as computed."""
        if level.storage == Storage.EDGES:
            return expr.dtype
        is_vector = reads_vector(expr, self.problem, self.config.width.count) and self.config.moves_vectors(expr)
        is_raw = is_vector or level.storage != Storage.REGISTERS
        return storage_type(expr, self.problem) if is_raw and not level.as_computed else expr.dtype

    def _pad(self, expr: Expr) -> int:
        """The padding that the spec requests for a buffer: for a single row, whose swizzle is the identity."""
        spec = self.problem.request.context.spec
        return max((spec.array(node.array).memory.pad for node in walk(expr) if isinstance(node, Read)), default=0)

    def _in_shared_memory(self, name: str, element: DType, level: StorageLevel, pad: int) -> CachedValue:
        width, group = self.config.width.count, self.group
        threads = group.threads * group.groups
        count = level.slots * threads * width
        tile = dense_array(name, element, (count,), "shared", pad)
        array = replace(tile, flat=True, dynamic=True, dynamic_offset=self.shared_bytes)
        self.shared_bytes += -(-(count + pad) * element.bytes // 16) * 16
        return CachedValue(width, array, threads, group.thread)
