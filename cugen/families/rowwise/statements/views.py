"""Fuses several column indices into one: arrays that are dense over them get one dimension in their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import sympy

from cugen.families.rowwise.statements.recognition import Domain, NotRowwise, Output, RowProblem
from cugen.plan.memory import Array
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, integer
from cugen.plan.traversal.substitution import rebuilt
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, Reduce, free_indices, walk
from cugen.spec.types import INT64


def fuse_columns(problem: RowProblem, params: Mapping[str, Integer]) -> RowProblem:
    """The problem over a single column index. `params` are the symbols of the parameters."""
    if len(problem.domain.columns) == 1:
        return problem
    return _Fuser(problem, params).run()


@dataclass
class _Fuser:
    """Rewrites the outputs. `views` are the arrays with fused dimensions, `fused` which dimensions these were."""

    problem: RowProblem
    params: Mapping[str, Integer]
    views: dict[str, Array] = field(default_factory=dict)
    fused: dict[str, tuple[int, ...]] = field(default_factory=dict)
    unfused: dict[str, None] = field(default_factory=dict)  # arrays with accesses by their own dimensions

    def run(self) -> RowProblem:
        problem = self.problem
        self.order = self._memory_order()
        self.extents = {c.name: to_integer(c.extent, self.params) for c in self.order}
        taken = {index.name for index in (*problem.domain.rows, *problem.domain.columns)}
        self.name = "element" if "element" not in taken else "element_"
        total: Expr = self.order[0].extent
        for column in self.order[1:]:
            total = Op("mul", (total, column.extent), INT64)
        self.column = Index(self.name, total)
        self.coordinates = self._coordinates()
        outputs = tuple(self._output(output) for output in problem.outputs)
        names = {self._rewritten(value): name for value, name in problem.names.items()}
        if conflicts := self.views.keys() & self.unfused.keys():
            raise NotRowwise(f"{sorted(conflicts)[0]} is accessed with and without fused dimensions")
        domain = Domain(problem.domain.rows, (self.column,))
        return RowProblem(domain, outputs, names, {**problem.arrays, **self.views})

    def _memory_order(self) -> tuple[Index, ...]:
        """The column indices, slowest first, in the memory order of the first array over all of them."""
        columns = self.problem.domain.columns
        names = self.problem.domain.column_names
        accesses = [(o.target, o.subscripts) for o in self.problem.outputs if o.is_per_element]
        accesses += [
            (n.array, n.subscripts) for o in self.problem.outputs for n in walk(o.value) if isinstance(n, Read)
        ]
        for array, subscripts in accesses:
            order = [s.name for s in subscripts if isinstance(s, IndexValue) and s.name in names]
            if sorted(order) != sorted(names):
                continue
            dimensions = [d for d, s in enumerate(subscripts) if isinstance(s, IndexValue) and s.name in names]
            strides = self.problem.arrays[array].strides
            if strides[dimensions[0]] == 1:
                order.reverse()
            return tuple(next(c for c in columns if c.name == name) for name in order)
        return columns

    def _coordinates(self) -> dict[str, Expr]:
        """The value of each column index as a function of the fused one."""
        coordinates: dict[str, Expr] = {}
        scale: Expr = Const(1, INT64)
        for position, column in enumerate(reversed(self.order)):
            quotient: Expr = IndexValue(self.name)
            if position:
                quotient = Op("floordiv", (quotient, scale), INT64)
            if position < len(self.order) - 1:
                coordinates[column.name] = Op("mod", (quotient, column.extent), INT64)
                scale = column.extent if position == 0 else Op("mul", (scale, column.extent), INT64)
            else:
                coordinates[column.name] = quotient
        return coordinates

    def _output(self, output: Output) -> Output:
        value = self._rewritten(output.value)
        if not output.is_per_element:
            return replace(output, value=value)
        subscripts = self._subscripts(output.target, output.subscripts)
        return replace(output, value=value, subscripts=subscripts)

    def _rewritten(self, expr: Expr) -> Expr:
        match expr:
            case IndexValue(name=name):
                return self.coordinates.get(name, expr)
            case Read():
                return self._read(expr)
            case Reduce():
                expr = replace(expr, indices=(self.column,))
        return rebuilt(expr, self._rewritten)

    def _read(self, read: Read) -> Read:
        if not free_indices(read) & self.extents.keys():
            self.unfused[read.array] = None
            return read
        if read.boundary is None and not read.exact:
            return replace(read, subscripts=self._subscripts(read.array, read.subscripts))
        return self._unfused_read(read)

    def _unfused_read(self, read: Read) -> Read:
        self.unfused[read.array] = None
        exact = tuple((self._rewritten(dividend), divisor) for dividend, divisor in read.exact)
        return replace(read, subscripts=tuple(map(self._rewritten, read.subscripts)), exact=exact)

    def _subscripts(self, name: str, subscripts: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The subscripts into the array's view: one for all columns where the array is dense over them."""
        array = self.problem.arrays[name]
        dense = self._dense_dimensions(array, subscripts)
        if dense is None or self.fused.setdefault(name, dense) != dense:
            self.unfused[name] = None
            return tuple(map(self._rewritten, subscripts))
        outer = [d for d in range(len(subscripts)) if d not in dense]
        count = sympy.Mul(*(array.shape[d] for d in dense))
        self.views[name] = replace(
            array,
            shape=(*(array.shape[d] for d in outer), count),
            strides=(*(array.strides[d] for d in outer), integer(1)),
        )
        return (*(subscripts[d] for d in outer), IndexValue(self.name))

    def _dense_dimensions(self, array: Array, subscripts: tuple[Expr, ...]) -> tuple[int, ...] | None:
        """The dimensions of the columns, slowest first, if the array is dense over them."""
        dimension_of = {
            sub.name: d for d, sub in enumerate(subscripts) if isinstance(sub, IndexValue) and sub.name in self.extents
        }
        outer = [sub for sub in subscripts if not (isinstance(sub, IndexValue) and sub.name in self.extents)]
        if len(dimension_of) != len(self.order) or any(free_indices(sub) & self.extents.keys() for sub in outer):
            return None
        if not array.flat or len(subscripts) != len(outer) + len(dimension_of):
            return None
        expected: Integer = integer(1)
        for column in reversed(self.order):
            dimension = dimension_of[column.name]
            if (array.strides[dimension] - expected).expand() != 0:
                return None
            expected = expected * self.extents[column.name]
        return tuple(dimension_of[column.name] for column in self.order)
