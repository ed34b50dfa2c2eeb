"""Computes a convolution of 3 x 3 taps by Winograd's algorithm F(2 x 2, 3 x 3), where the spec allows that.

    y[n, o, i, j] = sum(x[n, c, i + r - 1, j + s - 1] * w[o, c, r, s], c, r, s)
becomes, for the tiles h, w of 2 x 2 outputs and the elements a, b of their transforms,
    y_filter[4 * a + b, c, o] = (G g G^T)[a, b]                   g: the taps w[o, c]
    y_tile[4 * a + b, c, n, h, w] = (B^T d B)[a, b]               d: the 4 x 4 inputs of x[n, c] that a tile reads
    y_product[e, o, n, h, w] = sum(y_filter[e, c, o] * y_tile[e, c, n, h, w], c)
    y[n, o, 2 * h + p, 2 * w + q] = (A^T m A)[p, q]               m: the products y_product[., o, n, h, w]
A transform has a statement for each element, all in one launch. The rows of its first factor are in registers: `bd10`
is the element (1, 0) of B^T d. The products are a batched GEMM. What is computed of the sum, such as a bias, is
computed of the transformed products.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod

from cugen.plan.request import Single, Steps
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.temporaries import MAX_TEMPORARY_BYTES, Temporary, temporary
from cugen.spec.expressions import Boundary, Const, Expr, Index, IndexValue, Op, Read, free_indices
from cugen.spec.model import Array, Schedule, Statement
from cugen.spec.prove.affine import AffineForm, Variable, expression_of
from cugen.spec.rewriting import replaced
from cugen.spec.types import FLOAT32, INT64
from cugen.spec.winograd.recognition import Convolution, convolution_of
from cugen.spec.winograd.transforms import (
    FILTER_TRANSFORM,
    INPUT_TRANSFORM,
    OUTPUT_TRANSFORM,
    OUTPUTS,
    TAPS,
    TILE,
    Matrix,
)

_MAX_ELEMENTS = MAX_TEMPORARY_BYTES // FLOAT32.bytes
_NOTHING = Const(0.0, FLOAT32)  # the value of a temporary whose elements have statements of their own
ALGORITHM = f"Winograd's F({OUTPUTS} x {OUTPUTS}, {TAPS} x {TAPS})"

Elements = Mapping[tuple[int, int], Expr]  # of a matrix, by row and column


def with_winograd(single: Single) -> Steps | str:
    """The steps, or why there are none."""
    statement, context = single.statement, single.context
    convolution = convolution_of(statement, context.spec)
    if isinstance(convolution, str):
        return convolution
    if single.schedule != Schedule():
        return "the schedule is for the convolution in one launch"
    indices = (*statement.indices, *convolution.channels)
    if any(context.static_extent(index) is None for index in indices):
        return "it is for sizes that are known when the kernel is generated"
    if any(context.max_extent(index) == 0 for index in indices):
        return "there is nothing to compute"
    return _Rewriting(single, convolution).steps()


class _Rewriting:
    """The steps of one statement."""

    def __init__(self, single: Single, convolution: Convolution) -> None:
        self._statement, self._context, self._convolution = single.statement, single.context, convolution
        spec = single.context.spec
        self._taken = taken_names(spec, (*self._statement.indices, *convolution.reduction.indices))
        self._element = Index(fresh("element", self._taken), _number(TILE * TILE))  # of transformed matrices
        self._extents = {index.name: single.context.max_extent(index) for index in self._statement.indices}
        self._tiles = {
            axis.index: Index(
                fresh(f"{axis.index}_tile", self._taken), _number(-(-self._extents[axis.index] // OUTPUTS))
            )
            for axis in convolution.axes
        }
        self._rows: list[Array] = []  # of transforms, in registers

    def steps(self) -> Steps | str:
        """The transforms of the weights and of the inputs, the GEMM, and the transform of its results."""
        convolution, indices = self._convolution, self._statement.indices
        of_inputs, of_weights = free_indices(convolution.inputs), free_indices(convolution.weights)
        batch = tuple(i for i in indices if i.name in of_inputs & of_weights)
        features = tuple(i for i in indices if i.name not in of_inputs)
        positions = tuple(self._tiles.get(i.name, i) for i in indices if i.name not in of_weights)
        channels = convolution.channels
        target = Read(self._statement.target, self._statement.subscripts, FLOAT32)
        weights = self._stored("filter", "transformed taps", (*batch, *channels, *features))
        of_tiles = self._ordered(convolution.inputs, channels, positions)
        tiles = self._stored("tile", "transformed tiles", (*batch, *of_tiles))
        terms = Op("mul", (weights.read, tiles.read), FLOAT32)
        total = replace(convolution.reduction, body=terms, indices=channels, where=None)
        of_products = self._ordered(target, features, positions)
        products = self._stored("product", "products of transforms", (*batch, *of_products), total)
        stored = (weights, tiles, products)
        if any(prod(map(self._context.max_extent, made.statement.indices)) > _MAX_ELEMENTS for made in stored):
            return f"its workspace would have an array of more than {MAX_TEMPORARY_BYTES >> 20} MiB"
        statements = (
            *self._transformed(weights, FILTER_TRANSFORM, "gg", self._taps()),
            *self._transformed(tiles, INPUT_TRANSFORM, "bd", self._inputs()),
            products.statement,
            *self._results(products),
        )
        arrays = (*(made.array for made in stored), *self._rows)
        statements = tuple(replace(statement, algorithm=ALGORITHM) for statement in statements)
        return Steps(statements, arrays, tuple(array.name for array in arrays), opens_last=True)

    def _stored(self, name: str, what: str, indices: tuple[Index, ...], value: Expr = _NOTHING) -> Temporary:
        """A temporary of the elements of transforms, over `indices`."""
        statement = self._statement
        name = fresh(f"{statement.target}_{name}", self._taken)
        return temporary(
            name, (self._element, *indices), value, f"{what} of: {statement.text}", statement, is_stored=True
        )

    def _ordered(self, array: Read, others: tuple[Index, ...], positions: tuple[Index, ...]) -> tuple[Index, ...]:
        """Positions and other indices, those last along which the array is contiguous."""
        strides = self._context.arrays[array.array].strides
        contiguous = next((sub for sub, stride in zip(array.subscripts, strides, strict=True) if stride == 1), None)
        are_last = contiguous is not None and free_indices(contiguous) & {index.name for index in others}
        return (*positions, *others) if are_last else (*others, *positions)

    def _taps(self) -> Elements:
        weights, (down, across) = self._convolution.weights, self._convolution.axes
        return {
            (row, column): _read_at(
                weights,
                {
                    down.of_weights: _number(down.first_weight + down.weight_step * row),
                    across.of_weights: _number(across.first_weight + across.weight_step * column),
                },
            )
            for row, column in product(range(TAPS), repeat=2)
        }

    def _inputs(self) -> Elements:
        """The inputs of a tile. At the edges some are of no output, and may be outside of the array."""
        inputs, (down, across) = self._convolution.inputs, self._convolution.axes
        if any(self._extents[axis.index] % OUTPUTS for axis in (down, across)):
            inputs = replace(inputs, boundary=inputs.boundary or Boundary("zero"))
        return {
            (row, column): _read_at(
                inputs,
                {
                    down.of_inputs: self._position(down.index, down.first + row),
                    across.of_inputs: self._position(across.index, across.first + column),
                },
            )
            for row, column in product(range(TILE), repeat=2)
        }

    def _position(self, index: str, distance: int) -> Expr:
        """The position at a distance from the first output of a tile."""
        return expression_of(AffineForm(((Variable(self._tiles[index].name), OUTPUTS),), distance), {})

    def _transformed(self, made: Temporary, matrix: Matrix, name: str, elements: Elements) -> Iterator[Statement]:
        """The statements that store `matrix · elements · matrix^T`."""
        indices = made.statement.indices[1:]
        rows, statements = self._with_rows(matrix, name, elements, indices, made.statement)
        yield from statements
        subscripts = tuple(IndexValue(index.name) for index in indices)
        for (row, column), value in _from_right(rows, matrix).items():
            yield replace(made.statement, subscripts=(_element(row, column), *subscripts), indices=indices, value=value)

    def _results(self, products: Temporary) -> Iterator[Statement]:
        """The statements that store the outputs of a tile."""
        statement, (down, across) = self._statement, self._convolution.axes
        indices = tuple(self._tiles.get(index.name, index) for index in statement.indices)
        elements = {
            (row, column): _read_at(products.read, {0: _element(row, column)})
            for row, column in product(range(TILE), repeat=2)
        }
        rows, statements = self._with_rows(OUTPUT_TRANSFORM, "am", elements, indices, products.statement)
        yield from statements
        for (row, column), total in _from_right(rows, OUTPUT_TRANSFORM).items():
            ends = {down.index: row, across.index: column}
            if any(self._extents[name] <= distance for name, distance in ends.items()):
                continue
            moved = {name: self._position(name, distance) for name, distance in ends.items()}
            value = replaced(statement.value, partial(self._instead_of_sum, total))
            yield replace(
                statement,
                subscripts=tuple(substitute(sub, moved) for sub in statement.subscripts),
                indices=indices,
                value=substitute(value, moved),
                is_partial=any(distance and self._extents[name] % OUTPUTS for name, distance in ends.items()),
            )

    def _instead_of_sum(self, total: Expr, part: Expr) -> Expr | None:
        return total if part == self._convolution.reduction else None

    def _with_rows(
        self, matrix: Matrix, name: str, elements: Elements, indices: tuple[Index, ...], source: Statement
    ) -> tuple[Elements, tuple[Statement, ...]]:
        """The elements of `matrix · elements`, and the statements that compute those of them that are sums."""
        made: dict[tuple[int, int], Expr] = {}
        statements: list[Statement] = []
        for (row, column), value in _from_left(matrix, elements).items():
            if isinstance(value, Read):
                made[row, column] = value
                continue
            stored = temporary(fresh(f"{name}{row}{column}", self._taken), indices, value, "", source)
            self._rows.append(stored.array)
            statements.append(replace(stored.statement, text=source.text))
            made[row, column] = stored.read
        return made, tuple(statements)


def _from_left(matrix: Matrix, elements: Elements) -> Elements:
    """The elements of `matrix · elements`."""
    columns = dict.fromkeys(column for _, column in elements)
    return {
        (row, column): _combination(factors, [elements[k, column] for k in range(len(factors))])
        for row, factors in enumerate(matrix)
        for column in columns
    }


def _from_right(elements: Elements, matrix: Matrix) -> Elements:
    """The elements of `elements · matrix^T`."""
    rows = dict.fromkeys(row for row, _ in elements)
    return {
        (row, column): _combination(factors, [elements[row, k] for k in range(len(factors))])
        for row in rows
        for column, factors in enumerate(matrix)
    }


def _combination(factors: tuple[float, ...], values: list[Expr]) -> Expr:
    """The sum of values with factors of one magnitude, positive ones first."""
    terms = sorted(((f, value) for f, value in zip(factors, values, strict=True) if f), key=lambda term: term[0] < 0)
    (size, total), *others = terms
    for factor, value in others:
        total = Op("add" if factor > 0 else "sub", (total, value), FLOAT32)
    return total if size == 1 else Op("mul", (Const(size, FLOAT32), total), FLOAT32)


def _read_at(read: Read, subscripts: Mapping[int, Expr]) -> Read:
    return replace(read, subscripts=tuple(subscripts.get(n, sub) for n, sub in enumerate(read.subscripts)))


def _element(row: int, column: int) -> Const:
    return _number(TILE * row + column)


def _number(value: int) -> Const:
    return Const(value, INT64)
