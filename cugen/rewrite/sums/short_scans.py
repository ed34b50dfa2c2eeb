"""Short scans that only reductions along them read, such as angles along the joints of an arm, as their terms.

    t[b, j] = cumsum(q[b, j], j);  x[b] = sum(cos(t[b, j]), j)                      j from 0 to 2
becomes
    x[b] = cos(q[b, 0]) + cos(q[b, 0] + q[b, 1]) + cos(q[b, 0] + q[b, 1] + q[b, 2])
so that one thread scans a row in registers: the sums are common subexpressions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.grouping import is_single_temporary
from cugen.rewrite.hoist_reductions import elements
from cugen.rewrite.readers import Readers, array_reads
from cugen.rewrite.schedules import schedule_of
from cugen.rewrite.sums.short_reductions import OPERATORS
from cugen.spec.expressions import Const, Expr, IndexValue, Op, Read, Reduce, Scan, walk
from cugen.spec.model import Schedule, Spec, Statement
from cugen.spec.prove.affine import affine_form
from cugen.spec.rewriting import converted, rebuild, replaced
from cugen.spec.types import INT64

# Heuristics: beyond them the scan is stored.
_MAX_TERMS = 8
_MAX_NODES = 1000  # of the expression of all terms


def with_short_scan(spec: Spec, position: int) -> tuple[Spec, tuple[Statement, ...]] | None:
    """The spec with the scans of the statement at a position as terms of the statements that read it, and these; None
    where it isn't a temporary of short scans that reductions along them alone read."""
    scanned = spec.statements[position]
    scans = [node for node in walk(scanned.value) if isinstance(node, Scan)]
    outer = {scan.outer for scan in scans}
    if len(outer) != 1 or any(isinstance(node, Reduce) for node in walk(scanned.value)):
        return None
    if not all(scan.kind in OPERATORS and scan.where is None and not scan.exclusive for scan in scans):
        return None
    if any(isinstance(node, Scan) for scan in scans for node in walk(scan.body)):
        return None
    (along,) = outer
    count = elements(tuple(index for index in scanned.indices if index.name == along), spec)
    written = Counter(statement.target for statement in spec.statements)
    if count is None or not 2 <= count <= _MAX_TERMS or not is_single_temporary(scanned, spec, written):
        return None
    positions = Readers(spec.statements).positions(scanned.target, position + 1)
    readers = [spec.statements[n] for n in positions]
    sources = {read.array for read in array_reads(scanned)}
    between = spec.statements[position + 1 : positions[-1]] if positions else ()
    if not readers or any(statement.target in sources for statement in between):
        return None
    if not all(_is_free(statement, spec) for statement in (scanned, *readers)):
        return None
    values = [_of_row(scanned, along, number, count, spec) for number in range(count)]
    results = tuple(_with_terms(reader, scanned, along, values, spec) for reader in readers)
    if any(_reads(result, scanned.target) for result in results):
        return None
    if any(sum(1 for _ in walk(result.value)) > _MAX_NODES for result in results):
        return None
    changed = dict(zip(positions, results, strict=True))
    statements = (changed.get(n, statement) for n, statement in enumerate(spec.statements) if n != position)
    arrays = tuple(array for array in spec.arrays if array.name != scanned.target)
    return replace(spec, statements=tuple(statements), arrays=arrays), results


def _is_free(statement: Statement, spec: Spec) -> bool:
    spaces = (spec.array(read.array).memory.space for read in array_reads(statement))
    return schedule_of(spec, (statement,)) == Schedule() and all(space in (None, "global") for space in spaces)


def _reads(statement: Statement, array: str) -> bool:
    """Whether a statement reads an array, in its value or its subscripts."""
    nodes = (node for expr in (statement.value, *statement.subscripts) for node in walk(expr))
    return any(isinstance(node, Read) and node.array == array for node in nodes)


def _of_row(scanned: Statement, along: str, number: int, count: int, spec: Spec) -> Expr:
    """The value at a number of the index `along`, with scans as the terms up to it, or from the end on down to it."""

    def change(node: Expr) -> Expr | None:
        if not isinstance(node, Scan):
            return None
        numbers = reversed(range(number, count)) if node.reverse else range(number + 1)
        first, *others = (converted(_with_number(node.body, node.inner.name, n), node.dtype) for n in numbers)
        for term in others:
            first = Op(OPERATORS[node.kind], (first, term), node.dtype)
        return first

    value = _with_number(replaced(scanned.value, change), along, number)
    return converted(value, spec.array(scanned.target).dtype)


def _with_number(expr: Expr, name: str, number: int) -> Expr:
    """The expression at a number of an index."""
    return substitute(expr, {name: Const(number, INT64)})


def _with_terms(reader: Statement, scanned: Statement, along: str, values: list[Expr], spec: Spec) -> Statement:
    """The statement with the reductions along the scan as their terms. A read is left where it is at other elements
    than the reader's own, each of which would then scan a row."""
    names = [sub.name for sub in scanned.subscripts if isinstance(sub, IndexValue)]
    position = names.index(along)
    indices = {index.name for index in reader.indices}
    params = {param.name: param for param in spec.params}

    def inlined(read: Read) -> Expr | None:
        if read.array != scanned.target or read.boundary is not None or read.exact:
            return None
        number, others = affine_form(read.subscripts[position], params), list(read.subscripts)
        del others[position]
        if not number.is_constant or number.constant not in range(len(values)) or len(others) != len(indices):
            return None
        if {sub.name for sub in others if isinstance(sub, IndexValue)} != indices:
            return None
        known: Mapping[str, Expr] = dict(zip(names, read.subscripts, strict=True))
        return substitute(values[number.constant], known)

    def change(node: Expr) -> Expr:
        if not isinstance(node, Reduce) or not is_along(node):
            return rebuild(node, change)
        terms = (
            _with_number(node.body, node.indices[0].name, number) for number in range(elements(node.indices, spec) or 0)
        )
        first, *others = (converted(term, node.dtype) for term in terms)
        for term in others:
            first = Op(OPERATORS[node.kind], (first, term), node.dtype)
        return first

    def is_along(node: Reduce) -> bool:
        if node.kind not in OPERATORS or node.where is not None:
            return False
        reads = [part for part in walk(node.body) if isinstance(part, Read) and part.array == scanned.target]
        is_nested = any(isinstance(part, Reduce | Scan) for part in walk(node.body))
        index = [IndexValue(index.name) for index in node.indices]
        are_at_it = bool(reads) and all([read.subscripts[position]] == index for read in reads)
        return are_at_it and not is_nested and elements(node.indices, spec) in range(1, len(values) + 1)

    return replace(reader, value=substitute(change(reader.value), {}, inlined))
