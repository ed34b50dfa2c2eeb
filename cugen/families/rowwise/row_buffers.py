"""Allocates the buffers of values that are cached between passes: their storage, element type and name."""

from __future__ import annotations

from dataclasses import dataclass, field

from cugen.families.rowwise.config import RowConfig, reads_vector, storage_type
from cugen.families.rowwise.passes.cache import CachedValue
from cugen.families.rowwise.passes.schedule import reused_buffers
from cugen.families.rowwise.passes.storage_levels import Storage, StorageLevel
from cugen.families.rowwise.statements.names import RowNames, name_hint
from cugen.families.rowwise.statements.recognition import RowProblem
from cugen.families.rowwise.thread_group import RowThreadGroup
from cugen.plan.memory import Array
from cugen.plan.nodes import Node
from cugen.plan.symbols import integer
from cugen.spec.expressions import Expr
from cugen.spec.types import DType


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
        if level.storage != Storage.REGISTERS and expr in reused:
            self.cached[level.storage, resolved(expr)] = self.cached[level.storage, resolved(reused[expr])]
            return ()
        element = self._buffer_type(expr, level)
        if level.storage == Storage.REGISTERS:
            name = self.names.allocate(expr, name_hint(expr), str(width) if width > 1 else "_row")
            cached = CachedValue.in_registers(name, expr.dtype, element, width, level.slots)
        else:
            cached = self._in_shared_memory(self.names.allocate(expr, name_hint(expr), "_shared"), element, level)
        self.cached[level.storage, resolved(expr)] = cached
        return (cached.declaration(),)

    def _buffer_type(self, expr: Expr, level: StorageLevel) -> DType:
        """The element type of a buffer: as in global memory for values that are only loaded, else as computed."""
        is_raw = reads_vector(expr, self.problem, self.config.width.count) or level.storage != Storage.REGISTERS
        return storage_type(expr, self.problem) if is_raw and not level.as_computed else expr.dtype

    def _in_shared_memory(self, name: str, element: DType, level: StorageLevel) -> CachedValue:
        width, group = self.config.width.count, self.group
        threads = group.threads * group.rows
        count = level.slots * threads * width
        array = Array(
            "",
            name,
            element,
            (integer(count),),
            (integer(1),),
            "shared",
            dynamic=True,
            dynamic_offset=self.shared_bytes,
        )
        self.shared_bytes += -(-count * element.bytes // 16) * 16
        return CachedValue(width, None, array, threads, group.thread)
