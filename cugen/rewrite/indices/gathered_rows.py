"""Computes elements of a row's values where they are gathered, in place of storing all of them.

    p[i, j] = log_softmax(x[i, j], j);  loss = -mean(p[i, t[i]], i)
becomes
    loss = -mean(x[i, t[i]] - max(x[i, j], j) - log(sum(exp(x[i, j] - max(x[i, j], j)), j)), i)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.grouping import is_short, is_single_temporary
from cugen.rewrite.readers import Readers, array_reads
from cugen.spec.expressions import Expr, IndexValue, Read, Reduce, Scan, free_indices, walk
from cugen.spec.model import Spec, Statement
from cugen.spec.rewriting import converted


def with_gathered_rows(spec: Spec) -> Spec:
    """The spec with such elements in the statements that gather them; the same object if there are none."""
    statements, written = list(spec.statements), Counter(s.target for s in spec.statements)
    position = 0
    while position < len(statements):
        rows, number = statements[position], position
        position += 1
        readers = Readers(statements).positions(rows.target, position)
        is_placed = spec.array(rows.target).memory.space is not None
        if len(readers) != 1 or is_placed or not is_single_temporary(rows, spec, written):
            continue
        reader = statements[readers[0]]
        changed = {s.target for s in statements[number : readers[0] + 1]}
        value = substitute(reader.value, {}, partial(_gathered, rows, spec))
        if value == reader.value or not is_short(value) or changed & {read.array for read in array_reads(rows)}:
            continue
        statements[readers[0]] = replace(reader, value=value)
        if not any(isinstance(node, Read) and node.array == rows.target for node in walk(value)):
            del statements[number]
            position -= 1
    if statements == list(spec.statements):
        return spec
    left = {s.target for s in statements}
    arrays = tuple(a for a in spec.arrays if a.role != "temporary" or a.name in left or a.name not in written)
    return replace(spec, statements=tuple(statements), arrays=arrays)


def _gathered(rows: Statement, spec: Spec, read: Read) -> Expr | None:
    """The value of an element that is gathered along the index that all reductions of its row bind; None for others."""
    if read.array != rows.target or read.boundary is not None or read.exact:
        return None
    names = [sub.name for sub in rows.subscripts if isinstance(sub, IndexValue)]
    loops = [node for node in walk(rows.value) if isinstance(node, Reduce | Scan)]
    moving = {name for name, sub in zip(names, read.subscripts, strict=True) if not isinstance(sub, IndexValue)}
    has_gathers = any(isinstance(node, Read) for sub in read.subscripts for node in walk(sub))
    if not loops or not has_gathers or any(isinstance(node, Scan) or free_indices(node) & moving for node in loops):
        return None
    value = substitute(rows.value, dict(zip(names, read.subscripts, strict=True)))
    return converted(value, spec.array(read.array).dtype)
