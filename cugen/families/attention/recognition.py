"""Recognises attention: a softmax of scores `q·k`, whose weights sum rows of `v`.

    weight[i, j] = exp(score(sum(q[i, c] * k[j, c], c), i, j) - max over j of score)
    o[i, d]      = f(sum(weight[i, j] * v[j, d], j), sum(weight[i, j], j), i, d)

`score` is any function of the product and of indices and elements that don't depend on c or d, as a scale, a bias or a
mask. Factors that are the same for all j, as the softmax's own divisor, are multiplied after the sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

from cugen.families.contraction.k_range import grows_with
from cugen.pieces.kernels import new_lowering
from cugen.plan.context import Context
from cugen.plan.lowering.reductions import loop_bound
from cugen.plan.memory import ADDRESSED, Array
from cugen.plan.request import Refusal, Request
from cugen.plan.symbols import slope, symbol
from cugen.spec.expressions import (
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    Read,
    Reduce,
    Sample,
    Scan,
    Select,
    children,
    conjuncts,
    factors_of_product,
    free_indices,
    outermost_reductions,
    walk,
)
from cugen.spec.rewriting import rename, replaced
from cugen.spec.types import FLOAT32

TYPES = ("float16", "bfloat16")  # of q, k and v
_EXPONENTIALS = ("exp", "exp2")


class NotAttention(ValueError):
    """Statements of another form; the message says what the family takes."""


@dataclass(frozen=True, slots=True)
class Attention:
    """The parts of the statement, whose sums have the index `key` in common.

    `product` is the sum of `query` times `keys` over `depth`, `score` a function of it. `weight` is the exponential of
    `score` relative to `maximum`; `weighted` the sum of weights times `values`, with the row's factors, and `totals`
    are the sums of weights. `row` and `column` are the output's indices of `query` and of `values`."""

    request: Request
    _: KW_ONLY
    row: Index
    column: Index
    key: Index
    depth: Index
    batch: tuple[Index, ...]
    query: Read
    keys: Read
    values: Read
    product: Reduce
    score: Expr
    weight: Expr
    maximum: Reduce
    weighted: Reduce
    row_factors: tuple[tuple[str, Expr], ...]  # operators `mul` and `div`, and what they are applied with
    totals: tuple[Reduce, ...]
    conditions: tuple[Expr, ...]  # bounds of keys outside of which scores are -inf, each linear in the row

    @property
    def context(self) -> Context:
        return self.request.context

    @property
    def divides_by_total(self) -> bool:
        """Whether the weighted sum is only used divided by a sum of weights: a row whose scores are all -inf, with sums
        of 0, is NaN then, as its weights are."""
        if any(operator == "div" and factor in self.totals for operator, factor in self.row_factors):
            return True
        (statement,) = self.request.group.statements
        return self._is_divided(statement.value)

    def _is_divided(self, expr: Expr) -> bool:
        """Whether each weighted sum in an expression is divided by a sum of weights."""
        match expr:
            case Op(name="div", args=(dividend, divisor)) if divisor in self.totals:
                factors = [factor for operator, factor in _flattened(dividend) if operator == "mul"]
                return self.weighted in factors or self._is_divided(dividend)
        return expr != self.weighted and all(map(self._is_divided, children(expr)))

    @property
    def grows_with_rows(self) -> bool:
        """Whether later rows have more keys."""
        return bool(self.conditions) and grows_with(self.request, self.conditions, self.key.name, self.row.name)

    def array(self, read: Read) -> Array:
        return self.context.arrays[read.array]


def recognise(request: Request) -> Attention | Refusal:
    """The attention of the group's only statement, or why there is none."""
    try:
        return _recognise(request)
    except NotAttention as error:
        return Refusal(str(error))


def _recognise(request: Request) -> Attention:
    if len(request.group.statements) != 1:
        raise NotAttention("takes one statement with a softmax of products")
    (statement,) = request.group.statements
    reductions = tuple(dict.fromkeys(outermost_reductions(statement.value)))
    if any(isinstance(node, Scan | Sample) for node in walk(statement.value)) or not any(map(_is_weighted, reductions)):
        raise NotAttention("takes sums of exponentials times elements, `sum(exp(s[i, j] - m[i]) * v[j, d], j)`")
    weighted = [reduction for reduction in reductions if _has_values(reduction)]
    if len(weighted) != 1:
        raise NotAttention("takes one sum of weights times elements")
    key = weighted[0].indices[0]
    weight, values, row_factors = _factors(weighted[0])
    maximum = _maximum_of(weight)
    score = _with_key(maximum, key)
    _check_weight(weight, score, maximum)
    product = _product(score)
    query, keys = _operands(product, key)
    (depth,) = product.indices
    totals = tuple(r for r in reductions if r != weighted[0] and r != maximum)
    rows = [factor for _, factor in row_factors]
    totals += tuple(r for factor in rows for r in outermost_reductions(factor) if r not in (*totals, maximum))
    for total in totals:
        if total.kind != "sum" or total.where is not None or len(total.indices) != 1 or _with_key(total, key) != weight:
            raise NotAttention("takes sums of the weights, and none of other terms")
    known: dict[Expr, Expr] = dict.fromkeys((weighted[0], *totals), Const(1.0, FLOAT32))
    without_sums = (with_replaced(expr, known) for expr in (statement.value, *rows))
    if any(isinstance(node, Reduce) for expr in without_sums for node in walk(expr)):
        raise NotAttention("takes functions of the sums, and of no other reduction, as the maximum itself")
    row, column, batch = _output_indices(request, query, keys, values, key, depth)
    return Attention(
        request,
        row=row,
        column=column,
        key=key,
        depth=depth,
        batch=batch,
        query=query,
        keys=keys,
        values=values,
        product=product,
        score=score,
        weight=weight,
        maximum=maximum,
        weighted=weighted[0],
        row_factors=row_factors,
        totals=totals,
        conditions=_conditions(request, score, key, row),
    )


def _conditions(request: Request, score: Expr, key: Index, row: Index) -> tuple[Expr, ...]:
    """The bounds of keys, linear in the row and the same for all columns, outside of which a score is -inf."""
    match score:
        case Select(condition=condition, orelse=Const(value=value)) if value == -math.inf:
            pass
        case _:
            return ()
    lowering = new_lowering(request)
    (statement,) = request.group.statements
    names = {index.name: symbol(f"{index.name} of the spec") for index in (*statement.indices, key)}
    lowering.symbols.update(names)

    def is_bound(part: Expr) -> bool:
        bound = loop_bound(lowering, part, names[key.name])
        return bound is not None and slope(bound.right, names[row.name]) is not None

    return tuple(filter(is_bound, conjuncts(condition)))


def _is_weighted(reduction: Reduce) -> bool:
    """Whether it is a float32 sum over one index, of what has an exponential, and a maximum in that."""
    is_sum = reduction.kind == "sum" and reduction.where is None and len(reduction.indices) == 1
    return is_sum and reduction.dtype == FLOAT32 and any(_is_exponential(node) for node in walk(reduction.body))


def _is_exponential(node: Expr) -> bool:
    has_maximum = (part for part in walk(node) if isinstance(part, Reduce) and part.kind == "max")
    return isinstance(node, Op) and node.name in _EXPONENTIALS and next(has_maximum, None) is not None


def _has_values(reduction: Reduce) -> bool:
    """Whether one of the factors of a sum of weights is an element."""
    if not _is_weighted(reduction):
        return False
    factors = [factor for _, factor in _flattened(reduction.body)]
    return any(isinstance(factor, Read) and reduction.indices[0].name in free_indices(factor) for factor in factors)


def _flattened(expr: Expr) -> Iterator[tuple[str, Expr]]:
    """The factors and divisors of a float32 product, each with `mul` or `div`."""
    match expr:
        case Op(name="mul", args=(a, b), dtype=dtype) if dtype == FLOAT32:
            yield from _flattened(a)
            yield from _flattened(b)
        case Op(name="div", args=(a, b), dtype=dtype) if dtype == FLOAT32:
            yield from _flattened(a)
            yield "div", b
        case _:
            yield "mul", expr


def _factors(weighted: Reduce) -> tuple[Expr, Read, tuple[tuple[str, Expr], ...]]:
    """The weight, the element and the row's factors of a sum's terms."""
    name = weighted.indices[0].name
    weights, elements, others = list[Expr](), list[Read](), list[tuple[str, Expr]]()
    for operator, factor in _flattened(weighted.body):
        if name not in free_indices(factor):
            others.append((operator, factor))
        elif operator == "mul" and isinstance(factor, Read):
            elements.append(factor)
        elif operator == "mul" and _is_exponential(factor):
            weights.append(factor)
        else:
            raise NotAttention("takes terms that are an exponential times an element")
    if len(weights) != 1 or len(elements) != 1:
        raise NotAttention("takes terms that are an exponential times an element")
    return weights[0], elements[0], tuple(others)


def _maximum_of(weight: Expr) -> Reduce:
    maxima = dict.fromkeys(node for node in walk(weight) if isinstance(node, Reduce) and node.kind == "max")
    (maximum, *others) = maxima
    if others or maximum.where is not None or len(maximum.indices) != 1 or maximum.dtype != FLOAT32:
        raise NotAttention("takes exponentials relative to one maximum of the row")
    return maximum


def _with_key(reduction: Reduce, key: Index) -> Expr:
    """What is reduced, over the index `key`."""
    (index,) = reduction.indices
    if index.extent != key.extent:
        raise NotAttention("takes reductions over one length of a row")
    return rename(reduction.body, {index.name: key.name})


def _check_weight(weight: Expr, score: Expr, maximum: Reduce) -> None:
    """The weight must be exp(c * (score - maximum)) with a positive constant c: rescaled to another maximum it is a
    product."""
    assert isinstance(weight, Op)
    argument = weight.args[0]
    while True:
        match argument:
            case Op(name="mul", args=(Const(value=value), inner) | (inner, Const(value=value))):
                pass
            case Op(name="div", args=(inner, Const(value=value))):
                pass
            case _:
                break
        if not 0 < value < math.inf:
            break
        argument = inner
    if argument != Op("sub", (score, maximum), FLOAT32):
        raise NotAttention("takes exponentials of scores minus their maximum, times a positive constant")


def _product(score: Expr) -> Reduce:
    products = dict.fromkeys(outermost_reductions(score))
    if len(products) != 1:
        raise NotAttention("takes scores of one product")
    (product,) = products
    is_sum = product.kind == "sum" and product.where is None and len(product.indices) == 1
    if not is_sum or len(factors_of_product(product.body, FLOAT32)) != 2:
        raise NotAttention("takes scores of sums of products, `sum(q[i, c] * k[j, c], c)`")
    return product


def _operands(product: Reduce, key: Index) -> tuple[Read, Read]:
    """The reads of q and of k."""
    reads = factors_of_product(product.body, FLOAT32)
    keys = [read for read in reads if key.name in free_indices(read)]
    if len(keys) != 1:
        raise NotAttention("takes products of which one factor has the index of the softmax")
    (query,) = (read for read in reads if read is not keys[0])
    return query, keys[0]


def _output_indices(
    request: Request, query: Read, keys: Read, values: Read, key: Index, depth: Index
) -> tuple[Index, Index, tuple[Index, ...]]:
    """The indices of rows, of columns, and all others of the output."""
    (statement,) = request.group.statements
    names = {index.name: index for index in statement.indices}
    rows = [n for n in names if IndexValue(n) in query.subscripts]
    rows = [n for n in rows if n not in free_indices(keys) | free_indices(values)]
    columns = [n for n in names if IndexValue(n) in values.subscripts]
    columns = [n for n in columns if n not in free_indices(keys) | free_indices(query)]
    if len(rows) != 1 or len(columns) != 1:
        raise NotAttention("takes one index of rows, of q alone, and one of columns, of v alone")
    (row,), (column,) = rows, columns
    matrices = ((query, row, depth.name), (keys, key.name, depth.name), (values, key.name, column))
    for read, outer, inner in matrices:
        array = request.context.arrays[read.array]
        if array.dtype.name not in TYPES:
            raise NotAttention(f"multiplies float16 and bfloat16, and {read.array} is {array.dtype.name}")
        if read.boundary is not None or read.exact or array.space not in ADDRESSED:
            raise NotAttention(f"copies tiles of matrices in global memory, inside of their bounds, as {read.array}")
        moving = [sub for sub in read.subscripts if free_indices(sub) & {outer, inner}]
        if sorted(map(repr, moving)) != sorted(map(repr, (IndexValue(outer), IndexValue(inner)))):
            raise NotAttention(f"reads {read.array} at its indices themselves")
        if any(isinstance(node, Read) for sub in read.subscripts for node in walk(sub)):
            raise NotAttention(f"reads {read.array} at indices, not at elements of arrays")
        if array.strides[read.subscripts.index(IndexValue(inner))] != 1:
            raise NotAttention(f"reads {read.array} contiguously along {inner}")
    if request.context.arrays[query.array].dtype != request.context.arrays[keys.array].dtype:
        raise NotAttention(f"multiplies one type, and {query.array} and {keys.array} have two")
    batch = tuple(index for name, index in names.items() if name not in (row, column))
    return names[row], names[column], batch


def with_replaced(expr: Expr, values: dict[Expr, Expr]) -> Expr:
    """The expression with values in place of its parts."""
    return replaced(expr, values.get)
