"""Parts of tiles that groups of threads access, with barriers of their own: the slices of sliced-K."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import sympy
from numpy.typing import NDArray

from cugen.analysis.pipelines.claims import NotRecognised
from cugen.analysis.pipelines.expressions import THREAD
from cugen.analysis.totals.affine import evaluator
from cugen.plan.memory import Access
from cugen.plan.symbols import Integer, integer, symbol


@dataclass
class Slices:
    """The parts of tiles that groups of threads access, with barriers of their own: `groups` has the number of each
    thread's."""

    groups: NDArray[np.int64]
    accessed: dict[tuple[str, int], dict[int, set[int]]] = field(default_factory=dict)  # array, dimension -> by group
    met: set[tuple[Integer, ...]] = field(default_factory=set)  # subscripts, with the array's name

    def add(self, access: Access, values: Mapping[sympy.Symbol, Integer], loops: Mapping[sympy.Symbol, range]) -> None:
        """Adds what an access of a tile reads or writes, in each dimension behind the stage."""
        subscripts = tuple(subscript.xreplace(values) for subscript in access.subscripts[1:])
        if (key := (symbol(access.array.symbol), integer(_elements(access)), *subscripts)) in self.met:
            return
        self.met.add(key)
        last = len(subscripts)
        for dimension, subscript in enumerate(subscripts, 1):
            width = _elements(access) if dimension == last else 1
            by_group = self.accessed.setdefault((access.array.symbol, dimension), {})
            indices = self._values(subscript, loops)
            for group in np.unique(self.groups):
                first = set(map(int, np.unique(indices[self.groups == group])))
                by_group.setdefault(int(group), set()).update(n + i for n in first for i in range(width))

    def _values(self, expr: Integer, loops: Mapping[sympy.Symbol, range]) -> NDArray[np.int64]:
        """The values of an expression for each thread, in all iterations of the loops round it."""
        free = sorted(expr.free_symbols - {THREAD}, key=str)
        if not all(name in loops for name in free):
            raise NotRecognised(f"`{expr}` isn't a function of the thread and of loops with constant bounds")
        shape = (len(self.groups), *(len(loops[name]) for name in free))
        numbers = {THREAD: np.arange(len(self.groups)).reshape(-1, *(1 for _ in free))}
        for axis, name in enumerate(free, 1):
            numbers[name] = np.array(loops[name]).reshape([-1 if n == axis else 1 for n in range(len(shape))])
        ranges = {name: (int(n.min()), int(n.max())) for name, n in numbers.items()}
        return np.broadcast_to(evaluator(expr, ranges)(numbers), shape)

    def check(self) -> None:
        """NotRecognised unless each tile has a dimension in which the groups' parts are disjoint."""
        for array in {name for name, _ in self.accessed}:
            dimensions = [groups for (name, _), groups in self.accessed.items() if name == array]
            if not any(sum(map(len, g.values())) == len(set().union(*g.values())) for g in dimensions):
                raise NotRecognised(f"groups of threads with barriers of their own share parts of `{array}`")


def _elements(access: Access) -> int:
    """Consecutive elements that a thread accesses: of a matrix, a row of 16 bytes."""
    return 16 // access.array.dtype.bytes if access.kind == "matrix_load" else access.width
