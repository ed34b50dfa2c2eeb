"""Factors that groups of consecutive terms of a sum have in common, such as the scales of quantised blocks:

    c[m, n] = sum(sa[m, k // 128] * sb[n // 128, k // 128] * a[m, k] * b[n, k], k)
is the contraction of a and b whose partial sums of 128 terms are multiplied by sa and sb. A group may be numbered by an
index of its own, `sum(sa[m, g] * a[m, g, k] * b[n, g, k], g, k)`: that is fused with the terms' where all operands are
dense."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cugen.plan.context import Context
from cugen.plan.request import Request
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.rewrite.dense_indices import index_values
from cugen.rewrite.fuse_dimensions import delinearised
from cugen.rewrite.sums.factors import Factor, factors_of, product_of
from cugen.spec.expressions import Expr, Index, IndexValue, Op, Read, Reduce, Sample, Scan, free_indices, walk
from cugen.spec.rewriting import replaced, without_quotients
from cugen.spec.types import FLOAT32

_OPERANDS = 2


@dataclass(frozen=True, slots=True)
class Scales:
    """The factors, each the same for aligned groups of `length` terms; 0 where each is the same for all."""

    factors: tuple[Factor, ...]
    length: int

    @staticmethod
    def of(factors: tuple[Factor, ...], k: Index, origins: Mapping[str, tuple[Index, ...]], context: Context) -> Scales:
        """The scales of a sum over k, where indices were fused of the `origins`."""
        parts: dict[str, Expr] = {}
        for name, indices in origins.items():
            values = delinearised(IndexValue(name), tuple(index.extent for index in indices))
            parts |= {index.name: value for index, value in zip(indices, values, strict=True)}

        def change(node: Expr) -> Expr | None:
            return parts.get(node.name) if isinstance(node, IndexValue) else None

        fused = tuple(replace(factor, expr=replaced(factor.expr, change)) for factor in factors)
        return Scales(fused, math.gcd(*(_group_length(factor.expr, k.name, context) for factor in fused)))

    def reads(self) -> Iterator[Read]:
        for factor in self.factors:
            yield from (node for node in walk(factor.expr) if isinstance(node, Read))


def without_scales(request: Request) -> tuple[Request, tuple[Factor, ...]] | None:
    """The request with a float32 sum of two factors, and those that groups of its terms have in common; None where a
    sum has none."""
    statements = request.group.statements
    loops = list(dict.fromkeys(n for s in statements for n in walk(s.value) if isinstance(n, Reduce | Scan)))
    reduction = loops[0] if len(loops) == 1 else None
    if not isinstance(reduction, Reduce) or reduction.kind != "sum" or reduction.where is not None:
        return None
    if not reduction.body.dtype == reduction.dtype == FLOAT32:
        return None
    factors, names = list(factors_of(reduction.body)), {index.name for index in reduction.indices}
    operands = [factor for factor in factors if names <= free_indices(without_quotients(factor.expr))]
    scales = tuple(factor for factor in factors if factor not in operands)
    if not scales or len(operands) != _OPERANDS or any(factor.is_divisor for factor in operands):
        return None
    if not all(_is_of_elements(factor.expr) for factor in scales):
        return None
    sums: dict[Expr, Expr] = {reduction: replace(reduction, body=product_of(operands))}
    changed = tuple(replace(s, value=replaced(s.value, sums.get)) for s in statements)
    return request.with_statements(changed), scales


def _is_of_elements(factor: Expr) -> bool:
    """Whether a factor is computed of array elements, of which none is gathered, and not of indices."""
    if any(isinstance(node, Reduce | Scan | Sample) for node in walk(factor)) or index_values(factor):
        return False
    subscripts = (sub for read in walk(factor) if isinstance(read, Read) for sub in read.subscripts)
    return not any(isinstance(node, Read) for sub in subscripts for node in walk(sub))


def _group_length(factor: Expr, k: str, context: Context) -> int:
    """The consecutive terms, from a multiple of them on, for which a factor is the same; 0 for one of all terms."""
    return 1 if k in free_indices(without_quotients(factor)) else math.gcd(*group_lengths(factor, k, context))


def group_lengths(expr: Expr, index: str, context: Context) -> Iterator[int]:
    """The values of an index for which each of its quotients in an expression is the same; 1 where that is unknown."""
    for node in walk(expr):
        match node:
            case Op(name="floordiv", args=(IndexValue(name=name), divisor)) if name == index:
                try:
                    length = context.static(to_integer(divisor, context.symbols))
                except NotAnInteger:
                    length = None
                yield length or 1
            case Op(name="floordiv", args=(dividend, _)) if index in free_indices(without_quotients(dividend)):
                yield 1
