"""Moves factors of temporaries out of the sums of products that read these, so that what is summed is array elements.

    h[m, k] = x[m, k] * rsqrt(mean(x[m, j] ** 2, j));  y[m, n] = sum(h[m, k] * w[n, k], k)
becomes
    h_factor[m] = rsqrt(mean(x[m, j] ** 2, j));  y[m, n] = sum(x[m, k] * w[n, k], k) * h_factor[m]
A sum whose factors are written in it has the same form; it has no more roundings then, and tensor cores multiply x and
w in their own types, as they can't multiply h.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.grouping import is_single_temporary
from cugen.rewrite.readers import array_reads
from cugen.rewrite.schedules import schedule_of
from cugen.rewrite.sums.factors import Factor, factors_of, product_of, with_outer_factors
from cugen.rewrite.temporaries import Temporary, temporary
from cugen.spec.expressions import Expr, IndexValue, Read, Reduce, Scan, free_indices, walk
from cugen.spec.model import Schedule, Spec, Statement
from cugen.spec.rewriting import replaced


@dataclass(frozen=True, slots=True)
class _Product:
    """The statement of a temporary, whose value is an array's element times factors that fewer indices have."""

    statement: Statement
    element: Factor
    others: tuple[Factor, ...]


def with_factored_operands(spec: Spec) -> Spec:
    """The spec with such factors outside of the sums; the same object if there are none."""
    written = Counter(statement.target for statement in spec.statements)
    statements, arrays, taken = list(spec.statements), list(spec.arrays), taken_names(spec)
    position = 0
    while position < len(statements):
        product = _product(statements[position], spec, written)
        readers = _factored_readers(statements, position, product, spec) if product else {}
        if product is None or not readers:
            position += 1
            continue
        stored = [t for factor in product.others if (t := _stored(factor, product, taken)) is not None]
        reads: dict[Expr, Expr] = {t.statement.value: t.read for t in stored}
        statements[position] = replace(product.statement, value=replaced(product.statement.value, reads.get))
        product = _product(statements[position], spec, written)
        assert product is not None
        for reader in readers:
            statements[reader] = _factored(statements[reader], product)
        name = product.statement.target
        if not any(read.array == name for statement in statements for read in array_reads(statement)):
            del statements[position]
            arrays = [array for array in arrays if array.name != name]
        statements[position:position] = [t.statement for t in stored]
        arrays += [t.array for t in stored]
        position += len(stored)
    if tuple(statements) == spec.statements:
        return spec
    return replace(spec, statements=tuple(statements), arrays=tuple(arrays))


def _product(statement: Statement, spec: Spec, written: Counter[str]) -> _Product | None:
    """A temporary's product; None where it is none, or where the spec declares the temporary, which rounds it."""
    array = next((a for a in spec.arrays if a.name == statement.target), None)
    if array is None or not array.is_temporary or array.dtype != statement.value.dtype:
        return None
    if not is_single_temporary(statement, spec, written):
        return None
    names = {index.name for index in statement.indices}
    factors = list(factors_of(statement.value))
    elements = [factor for factor in factors if not factor.is_divisor and factor.indices >= names]
    if len(elements) != 1 or len(factors) < 2 or not _is_element(elements[0].expr):
        return None
    return _Product(statement, elements[0], tuple(factor for factor in factors if factor is not elements[0]))


def _is_element(expr: Expr) -> bool:
    """Whether an expression is computed of one array element."""
    nodes = list(walk(expr))
    return len({node for node in nodes if isinstance(node, Read)}) == 1 and not any(
        isinstance(node, Reduce | Scan) for node in nodes
    )


def _factored_readers(statements: list[Statement], position: int, product: _Product, spec: Spec) -> list[int]:
    """The statements whose sums have the product's factors outside, as far as its arrays aren't written again."""
    readers: list[int] = []
    arrays = {read.array for read in array_reads(product.statement)}
    for later, statement in enumerate(statements[position + 1 :], position + 1):
        is_free = schedule_of(spec, (statement,)) == Schedule()
        if is_free and _factored(statement, product).value != statement.value:
            readers.append(later)
        if statement.target in arrays:
            break
    return readers


def _factored(statement: Statement, product: _Product) -> Statement:
    return replace(statement, value=replaced(statement.value, lambda node: _factored_sum(node, product)))


def _factored_sum(node: Expr, product: _Product) -> Expr | None:
    """A sum of products of the temporary and others, with the temporary's factors outside."""
    if not isinstance(node, Reduce) or node.kind != "sum" or node.body.dtype != node.dtype or node.where is not None:
        return None
    factors = list(factors_of(node.body))
    read = next((f for f in factors if isinstance(f.expr, Read) and f.expr.array == product.statement.target), None)
    summed = {index.name for index in node.indices}
    if read is None or read.is_divisor or not isinstance(read.expr, Read) or read.expr.dtype != node.dtype:
        return None
    if not any(factor is not read and factor.indices & summed for factor in factors):
        return None
    names = (sub.name for sub in product.statement.subscripts if isinstance(sub, IndexValue))
    there = dict(zip(names, read.expr.subscripts, strict=True))

    def here(factor: Factor) -> Factor:
        return replace(factor, expr=substitute(factor.expr, there))

    if any(here(factor).indices & summed for factor in product.others):
        return None
    others = [factor for factor in factors if factor is not read]
    return with_outer_factors(
        replace(node, body=product_of([here(product.element), *others, *map(here, product.others)]))
    )


def _stored(factor: Factor, product: _Product, taken: set[str]) -> Temporary | None:
    """The temporary of a factor with loops, which a sum would repeat; None of another."""
    if not any(isinstance(node, Reduce | Scan) for node in walk(factor.expr)):
        return None
    source = product.statement
    indices = tuple(index for index in source.indices if index.name in free_indices(factor.expr))
    return temporary(fresh(f"{source.target}_factor", taken), indices, factor.expr, f"factor of: {source.text}", source)
