"""Stores costly functions of few indices in tables: each value is computed once, and not for each output that has it.

    y[t, h, e] = x[t, h, e] * cos(t * f[e])
becomes
    y_table[t, e] = cos(t * f[e]);  y[t, h, e] = x[t, h, e] * y_table[t, e]
So are weights in reductions, which all windows have: `sum(exp(-r * r) * x[i + r], r)`, and what all pairs of elements
are compared by, `sum(sigmoid(x[j]) > sigmoid(x[i]), j)`, where no family takes them as operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import partial

from cugen.machine.functions import FUNCTION_INSTRUCTIONS
from cugen.plan.lowering.instructions import is_integer_power
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.hoist_reductions import are_in_bounds
from cugen.rewrite.temporaries import Temporary, temporary
from cugen.spec.expressions import (
    Cast,
    Expr,
    Index,
    IndexValue,
    Op,
    Read,
    Reduce,
    Sample,
    Scan,
    Select,
    bound_indices,
    free_indices,
    walk,
)
from cugen.spec.expressions import children as parts_of
from cugen.spec.model import Spec, Statement
from cugen.spec.rewriting import replaced

Pays = Callable[[Statement, Statement, tuple[Temporary, ...]], bool]  # a statement, the same with tables, and these


def with_tables(
    spec: Spec, inlined: Mapping[Statement, Statement], pays: Pays, has_operands: Callable[[Statement], bool]
) -> Spec:
    """The spec with tables where they pay; the same object where none does. `inlined` are statements with recomputed
    temporaries in place, whose functions may be tables. A family converts the elements of those that have `operands`,
    as of a GEMM.

    Tables are of arrays that no statement writes, so that all are computed first, and leave statements that share a
    launch together."""
    written = {statement.target for statement in spec.statements}
    in_use = {node.array for s in spec.statements for node in walk(s.value) if isinstance(node, Read)}
    taken = taken_names(spec)
    tables: dict[tuple[Expr, tuple[Index, ...]], Temporary] = {}  # by their values and indices
    statements: list[Statement] = []
    for statement in spec.statements:
        whole = inlined[statement]
        is_unread = spec.array(statement.target).is_temporary and statement.target not in in_use
        if is_unread or any(isinstance(node, Scan) for node in walk(whole.value)):
            statements.append(statement)
            continue
        indices, names = _by_stride(whole), set(taken)
        outputs = {index.name for index in whole.indices}
        reads: dict[Expr, Expr] = {}
        used: dict[tuple[Expr, tuple[Index, ...]], Temporary] = {}
        for value in dict.fromkeys(_tabled(whole.value, outputs, written, partial(has_operands, whole))):
            free = tuple(index for name, index in indices.items() if name in free_indices(value))
            source = _source(value, free, spec, {*names, *indices})
            if source is None:
                continue
            same = (stored.read_of(source.value, indices) for stored in used.values())
            read = next(filter(None, same), None)  # of another index
            if read is None:
                table = tables.get((source.value, source.indices))
                if table is None:
                    what = f"table of: {whole.text}"
                    name = fresh(f"{whole.target}_table", names)
                    table = temporary(name, source.indices, source.value, what, whole, is_stored=True)
                used[source.value, source.indices] = table
                read = table.read
            reads[value] = replaced(read, source.subscripts.get)
        with_reads = replace(whole, value=replaced(whole.value, reads.get))
        if not used or not pays(whole, with_reads, tuple(used.values())):
            statements.append(statement)
            continue
        tables |= used
        taken |= names
        statements.append(with_reads)
    if not tables:
        return spec
    arrays = (*spec.arrays, *(table.array for table in tables.values()))
    first = (table.statement for table in tables.values())
    return replace(spec, arrays=arrays, statements=(*first, *statements))


@dataclass(frozen=True, slots=True)
class _Source:
    """What a table stores: a value for all `indices`, which is read at `subscripts` in place of some of them."""

    value: Expr
    indices: tuple[Index, ...]
    subscripts: Mapping[Expr, Expr] = field(default_factory=dict)


def _source(value: Expr, free: tuple[Index, ...], spec: Spec, taken: set[str]) -> _Source | None:
    """The table of a value of the indices `free`, whose reads are in bounds for all of these, or else for all elements
    of an array along a dimension, at the one subscript that has the others: `c[20 * part + i]` for `c[n]`, as of the
    parts of a reduction, whose conditions keep that in bounds. None if there is neither."""
    if are_in_bounds(value, free, spec):
        return _Source(value, free)
    for read in (node for node in walk(value) if isinstance(node, Read)):
        for extent, subscript in zip(spec.array(read.array).shape, read.subscripts, strict=True):
            if not isinstance(subscript, Op) or any(isinstance(node, Read) for node in walk(subscript)):
                continue
            element = Index(fresh("n", set(taken)), extent)
            position: dict[Expr, Expr] = {subscript: IndexValue(element.name)}
            of_element = replaced(value, position.get)
            indices = (*(index for index in free if index.name not in free_indices(subscript)), element)
            is_whole = free_indices(of_element) == {index.name for index in indices}
            if is_whole and are_in_bounds(of_element, indices, spec):
                return _Source(of_element, indices, {IndexValue(element.name): subscript})
    return None


def is_costly(node: Expr) -> bool:
    """Whether it is a function of many instructions."""
    is_float = isinstance(node, Op) and node.dtype.is_float and node.name in FUNCTION_INSTRUCTIONS
    return is_float or is_integer_power(node)


def _by_stride(statement: Statement) -> dict[str, Index]:
    """The statement's indices by name, in the order of the dimensions that it writes: adjacent threads compute adjacent
    outputs, and read adjacent values. Those of reductions are before the fastest."""
    indices = {index.name: index for index in statement.indices}
    written = (node.name for sub in statement.subscripts for node in walk(sub) if isinstance(node, IndexValue))
    names = list(dict.fromkeys(name for name in (*written, *indices) if name in indices))
    indices |= {index.name: index for index in bound_indices(statement.value)}
    return {
        name: indices[name] for name in dict.fromkeys((*names[:-1], *(n for n in indices if n not in names), *names))
    }


def _tabled(
    expr: Expr, names: Set[str], written: Set[str], has_operands: Callable[[], bool], *, is_term: bool = False
) -> Iterator[Expr]:
    """The largest parts with costly functions of some but not all of the indices `names`; not those that a condition
    guards, and of the terms of a reduction that has operands none that converts the elements of an array."""
    if isinstance(expr, Reduce):
        bound = names | {index.name for index in expr.indices}
        yield from _tabled(expr.body, bound, written, has_operands, is_term=True)
        return
    free = free_indices(expr)
    nodes = list(walk(expr))
    is_read_only = not any(isinstance(node, Read) and node.array in written for node in nodes)
    is_number = isinstance(expr, Op | Select | Cast) and (expr.dtype.is_float or expr.dtype.is_integer)
    is_whole = not any(isinstance(node, Reduce) for node in nodes)
    if is_number and is_whole and free and free < names and is_read_only and any(map(is_costly, nodes)):
        is_operand = is_term and any(isinstance(node, Read) and free_indices(node) == free for node in nodes)
        if not any(isinstance(node, Sample) for node in nodes) and not (is_operand and has_operands()):
            yield expr
        return
    if not isinstance(expr, Read):
        for part in (expr.condition,) if isinstance(expr, Select) else parts_of(expr):
            yield from _tabled(part, names, written, has_operands, is_term=is_term)
