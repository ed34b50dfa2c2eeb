"""Views of arrays with a dimension split, where all subscripts of it are an outer and inner indices; and indices split,
where quotients and remainders of them are read.

    y[b, i, h * D + d] = sum(p[b, h, i, j] * v[b, j, h * D + d], j)       v: [B, S, H * D]
becomes
    y[b, i, h, d] = sum(p[b, h, i, j] * v[b, j, h, d], j)                 v as [B, S, H, D]
with the same elements at the same places, for families that take subscripts of one index each. Before that,
    y[i] = sum(a[i, k // Q, k % Q] * b[k], k)
becomes
    y[i] = sum(a[i, k_outer, k_inner] * b[k_outer * Q + k_inner], k_outer, k_inner)
The quotient may be split again: `c // (P * Q), c // Q % P, c % Q` are three indices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import permutations
from math import inf

from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.spec.expressions import (
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    ParamValue,
    Read,
    Reduce,
    Scan,
    bound_indices,
    free_indices,
    walk,
)
from cugen.spec.model import Array, Param, Spec, Statement
from cugen.spec.prove.affine import AffineForm, affine_form, multiply
from cugen.spec.resolve.keys.layout import dense_strides, product
from cugen.spec.rewriting import rebuild, replaced
from cugen.spec.types import INT64

MAX_PARTS = 4  # of a dimension; all orders of its indices are tried
MAX_PERIOD = 8  # consecutive outputs that a thread computes together, with a constant phase for each (heuristic)


@dataclass(frozen=True, slots=True)
class _Split:
    """The indices of one subscript `outer * extent of inner + inner`, or of more parts, the outermost first."""

    parts: tuple[Index, ...]

    @property
    def lengths(self) -> tuple[Expr, ...]:
        """The extents of all parts but the outermost."""
        return tuple(index.extent for index in self.parts[1:])


def with_split_dimensions(spec: Spec, *, temporaries: bool = False) -> Spec:
    """The spec with all indices and dimensions split that can be; the same object if there are none. With `temporaries`
    these are split, too, where statements read factors by groups of an index, as the keys of grouped-query attention,
    and the same object where none does."""
    params = {param.name: param for param in spec.params}
    if temporaries and not any(map(_has_grouped_factors, spec.statements)):
        return spec
    statements = tuple(
        _with_split_indices(statement, spec, params, temporaries=temporaries) for statement in spec.statements
    )
    if temporaries:
        statements = _with_equal_parts(statements, spec, params)
    spec = spec if statements == spec.statements else replace(spec, statements=statements)
    accesses: dict[tuple[str, int], list[_Split | None]] = {}
    for statement in spec.statements:
        indices = _indices(statement)
        for read in _accesses(statement):
            shape = spec.array(read.array).shape
            for dimension, sub in enumerate(read.subscripts):
                is_inside = read.boundary is None and not read.exact
                split = _split(sub, shape[dimension], indices, params) if is_inside else None
                accesses.setdefault((read.array, dimension), []).append(split)
    chosen = {key: splits[0] for key, splits in accesses.items() if splits[0] and _agree(splits, params)}
    arrays = tuple(array if array.is_temporary and not temporaries else _array(array, chosen) for array in spec.arrays)
    if arrays == spec.arrays:
        return spec
    changed = {array.name for array, old in zip(arrays, spec.arrays, strict=True) if array != old}
    kept = {key: split for key, split in chosen.items() if key[0] in changed}
    statements = tuple(_statement(statement, kept, spec, params) for statement in spec.statements)
    return replace(spec, arrays=arrays, statements=statements)


def _has_grouped_factors(statement: Statement) -> bool:
    reductions = [node for node in walk(statement.value) if isinstance(node, Reduce)]
    return any(_selects_factors(index, reductions) for index in statement.indices)


def _with_split_indices(
    statement: Statement, spec: Spec, params: Mapping[str, Param], *, temporaries: bool
) -> Statement:
    """The statement with indices split that it reads as `index // extent` and `index % extent`; as `index // extent`
    alone those of sums, such as the scales of groups, and those of results by which one factor of a sum is read, such
    as the keys of grouped-query attention. But for indices whose value is the result of an argmax or argmin."""
    is_temporary = spec.array(statement.target).is_temporary
    if any(isinstance(node, Scan) for node in walk(statement.value)) or (is_temporary and not temporaries):
        return statement
    taken = taken_names(spec, _indices(statement).values())
    reductions = [node for node in walk(statement.value) if isinstance(node, Reduce)]
    summed = {index for node in reductions if node.kind == "sum" for index in node.indices}
    positions = {index for node in reductions if node.is_position for index in node.indices}
    queue = list(_indices(statement).values())
    while queue:
        index = queue.pop(0)
        if index in positions or _has_phases(statement, index, params):
            continue
        quotients = _divisors(statement, "floordiv", index)
        split = quotients if _selects_factors(index, reductions) else []
        if not is_temporary:
            split = [*split, *_divisors(statement, "mod", index), *_group_extents(statement, index)]
            split += quotients if index in summed else []
        divisor = min((d for d in quotients if d in split), key=partial(_constant, params), default=None)
        count = None if divisor is None else quotient_of(index.extent, divisor, params)
        if divisor is not None and count is not None:
            count = _as_dimension(
                count, Op("floordiv", (IndexValue(index.name), divisor), INT64), statement, spec, params
            )
            outer = Index(fresh(f"{index.name}_outer", taken), count)
            inner = Index(fresh(f"{index.name}_inner", taken), divisor)
            statement = with_parts(statement, index, outer, inner, params)
            summed |= {outer, inner} if index in summed else set()
            queue.insert(0, outer)
    return statement


def _accesses(statement: Statement) -> list[Read]:
    """The target, as a read, and all reads of a statement."""
    target = Read(statement.target, statement.subscripts, statement.value.dtype)
    return [target, *(node for node in walk(statement.value) if isinstance(node, Read))]


def _with_equal_parts(
    statements: tuple[Statement, ...], spec: Spec, params: Mapping[str, Param]
) -> tuple[Statement, ...]:
    """The statements with the indices split of whole dimensions of temporaries, which others access by two parts."""
    while True:
        inner: dict[tuple[str, int], Expr] = {}
        for statement in statements:
            for read in _accesses(statement):
                shape = spec.array(read.array).shape if spec.array(read.array).is_temporary else ()
                for dimension, extent in enumerate(shape):
                    split = _split(read.subscripts[dimension], extent, _indices(statement), params)
                    if split is not None and len(split.parts) == 2:
                        inner.setdefault((read.array, dimension), split.parts[1].extent)
        changed = tuple(_with_equal_part(statement, inner, spec, params) for statement in statements)
        if changed == statements:
            return statements
        statements = changed


def _with_equal_part(
    statement: Statement, inner: Mapping[tuple[str, int], Expr], spec: Spec, params: Mapping[str, Param]
) -> Statement:
    """The statement with one index split by which it accesses a dimension that has such inner parts."""
    indices, taken = _indices(statement), taken_names(spec, _indices(statement).values())
    if any(isinstance(node, Scan) for node in walk(statement.value)):
        return statement
    reductions = (node for node in walk(statement.value) if isinstance(node, Reduce))
    positions = {index for node in reductions if node.is_position for index in node.indices}
    for read in _accesses(statement):
        for dimension, sub in enumerate(read.subscripts):
            extent = inner.get((read.array, dimension))
            index = indices.get(sub.name) if isinstance(sub, IndexValue) else None
            if extent is None or index is None or index in positions:
                continue
            if (count := quotient_of(index.extent, extent, params)) is not None:
                outer = Index(fresh(f"{index.name}_outer", taken), count)
                return with_parts(statement, index, outer, Index(fresh(f"{index.name}_inner", taken), extent), params)
    return statement


def _selects_factors(index: Index, reductions: list[Reduce]) -> bool:
    """Whether some factors of a sum are read at an index, and all others that mention it at a quotient of it."""
    value = IndexValue(index.name)

    def is_quotient(sub: Expr) -> bool:
        return isinstance(sub, Op) and sub.name == "floordiv" and sub.args[0] == value

    for reduction in reductions:
        reads = [node for node in walk(reduction.body) if isinstance(node, Read) and index.name in free_indices(node)]
        whole = [read for read in reads if value in read.subscripts]
        grouped = [read for read in reads if any(map(is_quotient, read.subscripts))]
        if reduction.kind == "sum" and whole and grouped and len(whole) + len(grouped) == len(reads):
            return True
    return False


def _as_dimension(count: Expr, quotient: Expr, statement: Statement, spec: Spec, params: Mapping[str, Param]) -> Expr:
    """The number of a quotient's values, or the param that is the extent of a dimension that it subscripts."""
    reads = (node for node in walk(statement.value) if isinstance(node, Read))
    pairs = (pair for read in reads for pair in zip(read.subscripts, spec.array(read.array).shape, strict=True))
    form = affine_form(count, params)
    extents = (extent for sub, extent in pairs if sub == quotient and isinstance(extent, ParamValue))
    return next((extent for extent in extents if affine_form(extent, params) == form), count)


def _constant(params: Mapping[str, Param], divisor: Expr) -> float:
    """A divisor that is a number, of which the smallest is split off first; others are last."""
    form = affine_form(divisor, params)
    return form.constant if form.is_constant else inf


def _has_phases(statement: Statement, index: Index, params: Mapping[str, Param]) -> bool:
    """Whether a quotient of an index by a short period is moved by the index of a reduction, as in a transposed
    convolution: consecutive outputs read the same window."""
    forms = [affine_form(divisor, params) for divisor in _moved_divisors(statement, index)]
    return any(form.is_constant and form.constant <= MAX_PERIOD for form in forms)


def _group_extents(statement: Statement, index: Index) -> list[Expr]:
    """Divisors whose quotient is the group of an output that the index of a reduction moves: `f // F * C + c`, as in a
    grouped convolution."""
    return _moved_divisors(statement, index) if index in statement.indices else []


def _moved_divisors(statement: Statement, index: Index) -> list[Expr]:
    """Divisors of an index whose quotient has the index of a reduction beside it in a subscript."""
    summed = {bound.name for bound in bound_indices(statement.value)} - {index.name}
    subscripts = (sub for node in walk(statement.value) if isinstance(node, Read) for sub in node.subscripts)
    moved = {node for sub in subscripts if summed & free_indices(sub) for node in walk(sub)}
    value = IndexValue(index.name)
    divisors = _divisors(statement, "floordiv", index)
    return [divisor for divisor in divisors if Op("floordiv", (value, divisor), INT64) in moved]


def _divisors(statement: Statement, name: str, index: Index) -> list[Expr]:
    return [
        node.args[1]
        for node in walk(statement.value)
        if isinstance(node, Op) and node.name == name and node.args[0] == IndexValue(index.name)
    ]


def quotient_of(extent: Expr, divisor: Expr, params: Mapping[str, Param]) -> Expr | None:
    """`extent / divisor` if that is a whole number of at least 2, for a divisor of at least 2."""
    whole, part = affine_form(extent, params), affine_form(divisor, params)
    if isinstance(extent, Op) and extent.name == "mul":
        for factor, cofactor in (extent.args, extent.args[::-1]):
            if affine_form(factor, params) == part:
                return cofactor
    if not whole.is_constant or not part.is_constant or part.constant < 2 or whole.constant % part.constant:
        return None
    return Const(whole.constant // part.constant, INT64) if whole.constant > part.constant else None


def with_parts(
    statement: Statement, index: Index, outer: Index, inner: Index, params: Mapping[str, Param]
) -> Statement:
    """The statement with `outer * extent of inner + inner` for an index; its quotient by a multiple of that extent is
    one of the outer index."""
    value, divided = IndexValue(index.name), (IndexValue(index.name), inner.extent)
    quotient, remainder = IndexValue(outer.name), IndexValue(inner.name)

    def parts(indices: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(part for old in indices for part in ((outer, inner) if old == index else (old,)))

    def change(expr: Expr) -> Expr | None:
        match expr:
            case Op(name="floordiv", args=args) if args == divided:
                return quotient
            case Op(name="mod", args=args) if args == divided:
                return remainder
            case Op(name="floordiv", args=(dividend, divisor)) if (
                dividend == value and (multiple := quotient_of(divisor, inner.extent, params)) is not None
            ):
                return Op("floordiv", (quotient, multiple), INT64)
            case Reduce(indices=indices) if index in indices:
                return replaced(replace(expr, indices=parts(indices)), change)
        if expr == value:
            return Op("add", (Op("mul", (quotient, inner.extent), INT64), remainder), INT64)
        return None

    return replace(
        statement,
        indices=parts(statement.indices),
        subscripts=tuple(replaced(sub, change) for sub in statement.subscripts),
        value=replaced(statement.value, change),
    )


def _indices(statement: Statement) -> dict[str, Index]:
    """All indices of a statement by their names."""
    return {index.name: index for index in (*statement.indices, *bound_indices(statement.value))}


def _split(sub: Expr, extent: Expr, indices: Mapping[str, Index], params: Mapping[str, Param]) -> _Split | None:
    """The indices of a subscript that runs over the whole dimension; None for any other."""
    if isinstance(sub, IndexValue):
        return None
    form, whole = affine_form(sub, params), affine_form(extent, params)
    names = [node.name for node in walk(sub) if isinstance(node, IndexValue)]
    if not 2 <= len(names) <= MAX_PARTS or any(name not in indices for name in names):
        return None
    for order in permutations(names):
        total: AffineForm | None = AffineForm()
        length: AffineForm | None = AffineForm((), 1)
        for name in reversed(order):
            scaled = None if length is None else multiply(affine_form(IndexValue(name), params), length)
            total = None if total is None or scaled is None else total + scaled
            length = None if length is None else multiply(length, affine_form(indices[name].extent, params))
        if total == form and length == whole:
            return _Split(tuple(indices[name] for name in order))
    return None


def _agree(splits: list[_Split | None], params: Mapping[str, Param]) -> bool:
    """Whether all accesses split a dimension into equal parts."""
    lengths = [None if split is None else [affine_form(n, params) for n in split.lengths] for split in splits]
    return lengths.count(lengths[0]) == len(lengths)


def _array(array: Array, chosen: Mapping[tuple[str, int], _Split | None]) -> Array:
    """The view of an array that the caller or the launcher lays out, without a placement."""
    if array.memory.space is not None or array.values is not None:
        return array
    shape: list[Expr] = []
    strides: list[Expr] = []
    for dimension, (extent, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        split = chosen.get((array.name, dimension))
        parts = [index.extent for index in split.parts] if split else [extent]
        shape += parts
        strides += [reduce(product, reversed(parts[n + 1 :]), stride) for n in range(len(parts))]
    is_dense = array.strides == dense_strides(array.shape)
    return replace(array, shape=tuple(shape), strides=dense_strides(shape) if is_dense else tuple(strides))


def _statement(
    statement: Statement, chosen: Mapping[tuple[str, int], _Split | None], spec: Spec, params: Mapping[str, Param]
) -> Statement:
    indices = _indices(statement)

    def subscripts(name: str, subs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        result: list[Expr] = []
        for dimension, sub in enumerate(subs):
            if (name, dimension) not in chosen:
                result.append(sub)
            elif split := _split(sub, spec.array(name).shape[dimension], indices, params):
                result += [IndexValue(index.name) for index in split.parts]
        return tuple(result)

    def change(expr: Expr) -> Expr:
        expr = rebuild(expr, change)
        return replace(expr, subscripts=subscripts(expr.array, expr.subscripts)) if isinstance(expr, Read) else expr

    return replace(
        statement, subscripts=subscripts(statement.target, statement.subscripts), value=change(statement.value)
    )
