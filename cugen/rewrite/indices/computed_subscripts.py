"""Computed subscripts, such as rounded coordinates, in the launch that reads at them.

    iy[i] = cast(floor(s * i), int32);  y[c, i, j] = x[c, iy[i], j]
becomes
    y_iy[c, i, j] = cast(floor(s * i), int32);  y[c, i, j] = x[c, y_iy[c, i, j], j]
so that each thread has its subscript in a register, and no launch stores `iy` before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.plan.subscripts import is_subscript
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.grouping import inlined_statements, is_single_temporary
from cugen.rewrite.readers import Readers, array_reads
from cugen.rewrite.schedules import schedule_of
from cugen.rewrite.temporaries import Temporary, temporary
from cugen.spec.expressions import Expr, IndexValue, Read, Reduce, Scan, walk
from cugen.spec.model import Schedule, Spec, Statement
from cugen.spec.rewriting import converted


@dataclass(frozen=True, slots=True)
class ComputedSubscripts:
    """A spec in which the arrays `targets` have subscripts of the statement that follows them."""

    spec: Spec
    targets: tuple[str, ...]


def with_computed_subscripts(spec: Spec, position: int) -> ComputedSubscripts | None:
    """The spec with the temporaries in subscripts of the statement at `position` computed beside it; None if it has
    none, or is no map. `_recompute` inlines those that are subscripts themselves."""
    statement = spec.statements[position]
    if schedule_of(spec, (statement,)) != Schedule() or not _is_map(statement):
        return None
    inlined = {(s.target, s.subscripts): s.value for s in inlined_statements(spec)}
    value = inlined.get((statement.target, statement.subscripts), statement.value)
    sources = _sources(spec, position)
    names = [name for name in _in_subscripts(value) if name in sources and not is_subscript(sources[name].value)]
    indices = {index.name for index in statement.indices}
    aligned = tuple(IndexValue(index.name) for index in statement.indices)
    taken = taken_names(spec)
    computed: dict[Expr, Temporary] = {}
    for read in (node for node in walk(value) if isinstance(node, Read) and node.array in names):
        is_plain = all(isinstance(sub, IndexValue) and sub.name in indices for sub in read.subscripts)
        if not is_plain or read.subscripts == aligned:
            return None
        if read not in computed:
            name = fresh(f"{statement.target}_{read.array}", taken)
            what = f"{read.array} of: {statement.text}"
            computed[read] = temporary(name, statement.indices, _value(read, sources, spec), what, statement)
    if not computed:
        return None
    value = substitute(value, {}, lambda read: computed[read].read if read in computed else None)
    arrays = (*spec.arrays, *(t.array for t in computed.values()))
    before, after = spec.statements[:position], spec.statements[position + 1 :]
    statements = (*before, *(t.statement for t in computed.values()), replace(statement, value=value), *after)
    changed = _without_unread(replace(spec, statements=statements, arrays=arrays))
    return ComputedSubscripts(changed, tuple(t.array.name for t in computed.values()))


def _is_map(statement: Statement) -> bool:
    return not any(isinstance(node, Reduce | Scan) for node in walk(statement.value))


def _in_subscripts(value: Expr) -> list[str]:
    """The arrays that are read in subscripts."""
    reads = (node for node in walk(value) if isinstance(node, Read))
    inside = (node.array for read in reads for sub in read.subscripts for node in walk(sub) if isinstance(node, Read))
    return list(dict.fromkeys(inside))


def _sources(spec: Spec, position: int) -> Mapping[str, Statement]:
    """The temporaries that may be computed again at a position, by statements without reductions: what they read has
    the values that it had before."""
    counts = Counter(statement.target for statement in spec.statements)
    sources: dict[str, Statement] = {}
    for number, statement in enumerate(spec.statements[:position]):
        array = spec.array(statement.target)
        written = {later.target for later in spec.statements[number:position]}
        if (
            array.is_temporary
            and array.memory.space is None
            and is_single_temporary(statement, spec, counts)
            and _is_map(statement)
            and not written & {read.array for read in array_reads(statement)}
        ):
            sources[array.name] = statement
    return sources


def _value(read: Read, sources: Mapping[str, Statement], spec: Spec) -> Expr:
    """The value of an element of a temporary, with those that it reads in turn."""
    source = sources[read.array]
    names = [sub.name for sub in source.subscripts if isinstance(sub, IndexValue)]
    value = substitute(source.value, dict(zip(names, read.subscripts, strict=True)))

    def on_read(inner: Read) -> Expr | None:
        return _value(inner, sources, spec) if inner.array in sources and not inner.exact else None

    return converted(substitute(value, {}, on_read), spec.array(read.array).dtype)


def _without_unread(spec: Spec) -> Spec:
    """The spec without the statements of temporaries that nothing reads any more."""
    statements = list(spec.statements)
    while True:
        readers = Readers(statements)
        needed = [s for s in statements if not spec.array(s.target).is_temporary or readers.positions(s.target)]
        if len(needed) == len(statements):
            arrays = {s.target for s in statements}
            kept = (a for a in spec.arrays if not a.is_temporary or a.name in arrays)
            return replace(spec, statements=tuple(statements), arrays=tuple(kept))
        statements = needed
