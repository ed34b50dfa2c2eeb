"""Products with a matrix that each row gathers, for all matrices, of which each row then takes its own.

    y[m, n] = sum(x[m, k] * w[e[m], k, n], k)
becomes
    y_of_all[matrix, m, n] = sum(x[m, k] * w[matrix, k, n], k);  y[m, n] = y_of_all[e[m], m, n]
as of the experts of a mixture: a batched GEMM, which reads each matrix once, in place of once for each row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.sums.factors import Factor, factors_of, product_of
from cugen.rewrite.temporaries import Temporary, temporary
from cugen.spec.expressions import Expr, Index, IndexValue, Read, Reduce, Scan, free_indices, walk
from cugen.spec.model import Spec, Statement
from cugen.spec.rewriting import converted, replaced


@dataclass(frozen=True, slots=True)
class AllMatrices:
    """The statements that store products with all matrices, and the one in which each row takes its own; `gathered` are
    the arrays of the matrices."""

    stored: tuple[Temporary, ...]
    statement: Statement
    gathered: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Product:
    """A sum of products with the matrix `chosen`, for all matrices; factors of it, and indices of a sum over it."""

    of_all: Reduce
    matrix: Index
    chosen: Expr
    factors: tuple[Factor, ...]
    summed: tuple[Index, ...]
    gathered: tuple[str, ...]


def with_all_matrices(statement: Statement, spec: Spec) -> AllMatrices | None:
    """The statement in two steps; None where no sum of it gathers a matrix by other indices than those of its terms."""
    taken = taken_names(spec, statement.indices)
    matrix = fresh("matrix", taken)
    stored: dict[Reduce, Temporary] = {}
    changed: dict[Expr, Expr] = {}
    gathered: dict[str, None] = {}
    for reduction in dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce)):
        product = _product(reduction, matrix, statement, spec)
        if product is None:
            continue
        if product.of_all not in stored:
            stored[product.of_all] = _stored(product, statement, spec, taken)
        changed[reduction] = _with_own(product, stored[product.of_all], reduction)
        gathered |= dict.fromkeys(product.gathered)
    if not stored:
        return None
    last = replace(statement, value=replaced(statement.value, changed.get))
    return AllMatrices(tuple(stored.values()), last, tuple(gathered))


def _product(reduction: Reduce, matrix: str, statement: Statement, spec: Spec) -> _Product | None:
    """The sum for all matrices, without the factors and the indices by which a matrix is gathered."""
    loops = (node for node in walk(reduction.body) if isinstance(node, Reduce | Scan))
    reads = [node for node in walk(reduction.body) if isinstance(node, Read)]
    if reduction.kind != "sum" or reduction.where is not None or any(loops):
        return None
    gathers = {
        sub: spec.array(read.array).shape[dimension]
        for read in reads
        for dimension, sub in enumerate(read.subscripts)
        if any(isinstance(node, Read) for node in walk(sub))
    }
    rows = [read for read in reads if any(sub in gathers for sub in read.subscripts)]
    if len(gathers) != 1 or any(read.array == statement.target or read.boundary or read.exact for read in rows):
        return None
    ((chosen, extent),) = gathers.items()
    if any(spec.array(r.array).shape[n] != extent for r in rows for n, s in enumerate(r.subscripts) if s == chosen):
        return None
    by = free_indices(chosen)
    inner = tuple(index for index in reduction.indices if index.name not in by)
    names = {index.name for index in inner}
    factors = list(factors_of(reduction.body))
    inside = [factor for factor in factors if factor.indices & names]
    if not by or not names or all(factor.is_divisor for factor in inside):
        return None
    others = (factor.indices for factor in inside if not any(read in walk(factor.expr) for read in rows))
    columns = {name for read in rows for sub in read.subscripts if sub != chosen for name in free_indices(sub)}
    if not columns - names - by - frozenset[str]().union(*others):
        return None  # of rows that are gathered, a GEMM takes a copy
    of_all: dict[Expr, Expr] = {
        read: replace(read, subscripts=tuple(IndexValue(matrix) if s == chosen else s for s in read.subscripts))
        for read in rows
    }
    body = replaced(product_of(inside), of_all.get)
    summed = tuple(index for index in reduction.indices if index not in inner)
    if matrix not in free_indices(body) or free_indices(body) & {index.name for index in summed}:
        return None
    product = replace(reduction, body=body, indices=inner)
    outside = tuple(factor for factor in factors if factor not in inside)
    return _Product(product, Index(matrix, extent), chosen, outside, summed, tuple(read.array for read in rows))


def _stored(product: _Product, statement: Statement, spec: Spec, taken: set[str]) -> Temporary:
    """Products in the type of the results where these are nothing else."""
    names = free_indices(product.of_all)
    indices = [index for index in statement.indices if index.name in names]
    after = _index_after(product.matrix.name, product.of_all)
    # Rows of all matrices, one after the other in memory, are those of one; else matrices are a batch.
    position = next((n for n, index in enumerate(indices) if index.name == after), 0)
    indices.insert(position, product.matrix)
    what = f"products with all matrices of: {statement.text}"
    stored = temporary(
        fresh(f"{statement.target}_of_all", taken), tuple(indices), product.of_all, what, statement, is_stored=True
    )
    is_result = isinstance(statement.value, Reduce) and not product.factors and not product.summed
    dtype = spec.array(statement.target).dtype if is_result else stored.array.dtype
    return replace(stored, array=replace(stored.array, dtype=dtype), read=replace(stored.read, dtype=dtype.compute))


def _index_after(name: str, reduction: Reduce) -> str | None:
    """The index of the dimension after the one that an index alone subscripts."""
    for read in (node for node in walk(reduction.body) if isinstance(node, Read)):
        for sub, following in pairwise(read.subscripts):
            if sub == IndexValue(name) and isinstance(following, IndexValue):
                return following.name
    return None


def _with_own(product: _Product, stored: Temporary, reduction: Reduce) -> Expr:
    """The sum, of products with the chosen matrix."""
    subscripts = (product.chosen if s == IndexValue(product.matrix.name) else s for s in stored.read.subscripts)
    read = converted(replace(stored.read, subscripts=tuple(subscripts)), reduction.dtype)
    terms = product_of([Factor(read), *product.factors])
    return replace(reduction, body=terms, indices=product.summed) if product.summed else terms
