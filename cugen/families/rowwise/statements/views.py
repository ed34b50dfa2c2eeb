"""Fuses several column indices into one: arrays that are dense over them, or the fastest of them, get one dimension."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cugen.families.rowwise.statements.recognition import Domain, NotRowwise, Output, RowProblem
from cugen.pieces.vectors import is_contiguous
from cugen.plan.memory import Array
from cugen.plan.symbols import Integer
from cugen.rewrite.fresh_names import fresh
from cugen.rewrite.fuse_dimensions import delinearised, fused_array, product
from cugen.spec.expressions import Expr, Index, IndexValue, Op, Read, Reduce, free_indices, walk
from cugen.spec.rewriting import rebuild
from cugen.spec.types import INT64


def fuse_columns(problem: RowProblem) -> RowProblem:
    """The problem over a single column index."""
    return problem if len(problem.domain.columns) == 1 else _Fuser(problem).run()


@dataclass
class _Fuser:
    """Rewrites the outputs. `views` are the arrays with fused dimensions, `fused` which dimensions these were."""

    problem: RowProblem
    views: dict[str, Array] = field(default_factory=dict)
    fused: dict[str, tuple[int, ...]] = field(default_factory=dict)
    unfused: dict[str, None] = field(default_factory=dict)  # arrays with accesses by their own dimensions

    def run(self) -> RowProblem:
        problem = self.problem
        self.order = self._memory_order()
        self.extents = {c.name: problem.request.context.extent(c) for c in self.order}
        taken = {index.name for index in (*problem.domain.rows, *problem.domain.columns)}
        self.name = fresh("element", taken)
        extents = tuple(column.extent for column in self.order)
        self.column = Index(self.name, product(extents))
        coordinates = delinearised(IndexValue(self.name), extents)
        self.coordinates = {c.name: value for c, value in zip(self.order, coordinates, strict=True)}
        outputs = tuple(self._output(output) for output in problem.outputs)
        names = {self._rewritten(value): name for value, name in problem.names.items()}
        if conflicts := self.views.keys() & self.unfused.keys():
            raise NotRowwise(f"{sorted(conflicts)[0]} is accessed with and without fused dimensions")
        domain = Domain(problem.domain.rows, (self.column,))
        return replace(problem, domain=domain, outputs=outputs, names=names, arrays={**problem.arrays, **self.views})

    def _memory_order(self) -> tuple[Index, ...]:
        """The column indices, slowest first, in the memory order of the first array over all of them."""
        columns = self.problem.domain.columns
        names = self.problem.domain.column_names
        accesses = [(o.target, o.subscripts) for o in self.problem.outputs if o.is_per_element]
        reads = (node for o in self.problem.outputs for node in walk(o.value) if isinstance(node, Read))
        accesses += [(read.array, read.subscripts) for read in reads]
        for array, subscripts in accesses:
            order = [s.name for s in subscripts if isinstance(s, IndexValue) and s.name in names]
            if sorted(order) != sorted(names):
                continue
            if is_contiguous(self.problem.arrays[array], subscripts, order[0]):
                order.reverse()
            return tuple(next(c for c in columns if c.name == name) for name in order)
        return columns

    def _output(self, output: Output) -> Output:
        output = replace(output, value=self._rewritten(output.value))
        if not output.is_per_element:
            return output
        return replace(output, subscripts=self._subscripts(output.target, output.subscripts))

    def _rewritten(self, expr: Expr) -> Expr:
        match expr:
            case IndexValue(name=name):
                return self.coordinates.get(name, expr)
            case Read() if expr.boundary is None and not expr.exact:
                return replace(expr, subscripts=self._subscripts(expr.array, expr.subscripts))
            case Read():
                self.unfused[expr.array] = None
            case Reduce():
                expr = replace(expr, indices=(self.column,))
        return rebuild(expr, self._rewritten)

    def _subscripts(self, name: str, subscripts: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The subscripts into the array's view: one for all columns over which the array is dense."""
        array = self.problem.arrays[name]
        dense = self._dense_dimensions(array, subscripts)
        if not dense or self.fused.setdefault(name, dense) != dense:
            self.unfused[name] = None
            return tuple(map(self._rewritten, subscripts))
        self.views[name] = fused_array(array, dense)
        column: Expr = IndexValue(self.name)
        if len(dense) < len(self.order):
            fast = product(tuple(c.extent for c in self.order[-len(dense) :]))
            column = Op("mod", (column, fast), INT64)
        return tuple(
            column if dimension == dense[-1] else self._rewritten(sub)
            for dimension, sub in enumerate(subscripts)
            if dimension not in dense[:-1]
        )

    def _dense_dimensions(self, array: Array, subscripts: tuple[Expr, ...]) -> tuple[int, ...]:
        """The dimensions of the fastest columns, slowest first, over which elements are equally far apart."""
        dimensions: list[int] = []
        expected: Integer | None = None
        for column in reversed(self.order if array.flat else ()):
            moved = [d for d, sub in enumerate(subscripts) if column.name in free_indices(sub)]
            if len(moved) != 1 or subscripts[moved[0]] != IndexValue(column.name):
                break
            stride = array.strides[moved[0]]
            if expected is not None and (stride - expected).expand() != 0:
                break
            dimensions.insert(0, moved[0])
            expected = stride * self.extents[column.name]
        return tuple(dimensions) if len(dimensions) > 1 else ()
