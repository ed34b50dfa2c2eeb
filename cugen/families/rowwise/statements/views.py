"""Several indices along a row as one: arrays whose part of a row is one stretch of memory get one dimension for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import sympy

from cugen.families.rowwise.statements.recognition import Domain, NotRows, Output, RowWork
from cugen.plan.memory import Array
from cugen.plan.subscripts import to_integer
from cugen.plan.substitution import rebuilt
from cugen.plan.symbols import Integer, integer
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, Reduce, free_indices, walk
from cugen.spec.types import INT64


def merge_columns(work: RowWork, params: Mapping[str, Integer]) -> RowWork:
    """The work over one index along the row, which counts its elements. `params` are their symbols."""
    if len(work.domain.columns) == 1:
        return work
    return _Merger(work, params).run()


@dataclass
class _Merger:
    """Rewrites the outputs; `chains` holds for each array that is seen anew which dimensions became one."""

    work: RowWork
    params: Mapping[str, Integer]
    views: dict[str, Array] = field(default_factory=dict)
    chains: dict[str, tuple[int, ...]] = field(default_factory=dict)
    apart: dict[str, None] = field(default_factory=dict)  # arrays that are read otherwise

    def run(self) -> RowWork:
        work = self.work
        self.order = self._memory_order()
        self.extents = {c.name: to_integer(c.extent, self.params) for c in self.order}
        taken = {index.name for index in (*work.domain.rows, *work.domain.columns)}
        self.name = "element" if "element" not in taken else "element_"
        total: Expr = self.order[0].extent
        for column in self.order[1:]:
            total = Op("mul", (total, column.extent), INT64)
        self.column = Index(self.name, total)
        self.places = self._places()
        outputs = tuple(self._output(output) for output in work.outputs)
        names = {self._rewritten(value): name for value, name in work.names.items()}
        if both := self.views.keys() & self.apart.keys():
            raise NotRows(f"{sorted(both)[0]} is read as a whole row and otherwise")
        domain = Domain(work.domain.rows, (self.column,))
        return RowWork(domain, outputs, names, {**work.arrays, **self.views})

    def _memory_order(self) -> tuple[Index, ...]:
        """The columns from the slowest to the fastest in what is stored or read over all of them."""
        columns = self.work.domain.columns
        names = self.work.domain.column_names
        places = [(o.target, o.subscripts) for o in self.work.outputs if o.wide]
        places += [(n.array, n.subscripts) for o in self.work.outputs for n in walk(o.value) if isinstance(n, Read)]
        for array, subscripts in places:
            at = [s.name for s in subscripts if isinstance(s, IndexValue) and s.name in names]
            if sorted(at) != sorted(names):
                continue
            dimensions = [d for d, s in enumerate(subscripts) if isinstance(s, IndexValue) and s.name in names]
            strides = self.work.arrays[array].strides
            if strides[dimensions[0]] == 1:
                at.reverse()
            return tuple(next(c for c in columns if c.name == name) for name in at)
        return columns

    def _places(self) -> dict[str, Expr]:
        """Where along each column the element with a number stands."""
        places: dict[str, Expr] = {}
        scale: Expr = Const(1, INT64)
        for position, column in enumerate(reversed(self.order)):
            at: Expr = IndexValue(self.name)
            if position:
                at = Op("floordiv", (at, scale), INT64)
            if position < len(self.order) - 1:
                places[column.name] = Op("mod", (at, column.extent), INT64)
                scale = column.extent if position == 0 else Op("mul", (scale, column.extent), INT64)
            else:
                places[column.name] = at
        return places

    def _output(self, output: Output) -> Output:
        value = self._rewritten(output.value)
        if not output.wide:
            return replace(output, value=value)
        subscripts = self._subscripts(output.target, output.subscripts)
        return replace(output, value=value, subscripts=subscripts)

    def _rewritten(self, expr: Expr) -> Expr:
        match expr:
            case IndexValue(name=name):
                return self.places.get(name, expr)
            case Read():
                return self._read(expr)
            case Reduce():
                expr = replace(expr, indices=(self.column,))
        return rebuilt(expr, self._rewritten)

    def _read(self, read: Read) -> Read:
        if not free_indices(read) & self.extents.keys():
            self.apart[read.array] = None
            return read
        if read.boundary is None and not read.exact:
            return replace(read, subscripts=self._subscripts(read.array, read.subscripts))
        return self._apart(read)

    def _apart(self, read: Read) -> Read:
        self.apart[read.array] = None
        exact = tuple((self._rewritten(dividend), divisor) for dividend, divisor in read.exact)
        return replace(read, subscripts=tuple(map(self._rewritten, read.subscripts)), exact=exact)

    def _subscripts(self, name: str, subscripts: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The subscripts of the array as a row is seen: one for all columns where they are one stretch of it."""
        array = self.work.arrays[name]
        chain = self._chain(array, subscripts)
        if chain is None or self.chains.setdefault(name, chain) != chain:
            self.apart[name] = None
            return tuple(map(self._rewritten, subscripts))
        rest = [d for d in range(len(subscripts)) if d not in chain]
        count = sympy.Mul(*(array.shape[d] for d in chain))
        self.views[name] = replace(
            array,
            shape=(*(array.shape[d] for d in rest), count),
            strides=(*(array.strides[d] for d in rest), integer(1)),
        )
        return (*(subscripts[d] for d in rest), IndexValue(self.name))

    def _chain(self, array: Array, subscripts: tuple[Expr, ...]) -> tuple[int, ...] | None:
        """The dimensions of the columns, slowest first, where together they are one stretch of memory."""
        at = {
            sub.name: d for d, sub in enumerate(subscripts) if isinstance(sub, IndexValue) and sub.name in self.extents
        }
        others = [sub for sub in subscripts if not (isinstance(sub, IndexValue) and sub.name in self.extents)]
        if len(at) != len(self.order) or any(free_indices(sub) & self.extents.keys() for sub in others):
            return None
        if not array.flat or len(subscripts) != len(others) + len(at):
            return None
        expected: Integer = integer(1)
        for column in reversed(self.order):
            dimension = at[column.name]
            if (array.strides[dimension] - expected).expand() != 0:
                return None
            expected = expected * self.extents[column.name]
        return tuple(at[column.name] for column in self.order)
