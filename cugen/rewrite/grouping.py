"""Groups statements into kernels (loop fusion), and inlines temporaries that are cheaper to recompute than to store.

    t[i] = 2 * x[i];  y[i] = t[i] + 1       one kernel, t in a register
    t[i] = 2 * x[i];  y[i] = t[i - 1]       y[i] = 2 * x[i - 1]: t recomputed
A statement is fused with earlier ones if each thread reads no results but those that it computed itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cugen.plan.request import Group
from cugen.plan.traversal.substitution import substitute
from cugen.spec.expressions import Cast, Expr, IndexValue, Read, Reduce, Scan, walk
from cugen.spec.model import Spec, Statement

_MAX_INLINED_NODES = 400  # nodes of an expression with inlined temporaries; beyond, they are stored (heuristic)
_MAX_MIXED_STATEMENTS = 24  # statements over different indices that are offered as one kernel: bounds planning time


@dataclass(frozen=True, slots=True)
class Grouping:
    groups: tuple[Group, ...]
    stored: tuple[str, ...]  # temporaries that need a workspace
    notes: tuple[str, ...]


CanFuse = Callable[[tuple[Statement, ...], tuple[str, ...]], bool]  # by statements and their stored temporaries


def group_statements(spec: Spec, can_fuse: CanFuse | None = None) -> Grouping:
    """The statements in order, grouped into kernels.

    `can_fuse`: whether some family takes statements over different indices (rows and their elements), or with reads of
    other threads' results, as one kernel. The longest such run becomes a mixed group."""
    statements, notes = _recompute(spec)
    groups: list[list[Statement]] = []
    mixed: dict[int, None] = {}  # groups to which no statement is added
    position = 0
    while position < len(statements):
        statement = statements[position]
        run = _longest_mixed_run(spec, statements, position, can_fuse) if can_fuse else 0
        if run:
            mixed[len(groups)] = None
            groups.append(statements[position : position + run])
            position += run
            continue
        open_ = groups and len(groups) - 1 not in mixed
        if open_ and (aligned := _aligned(statement, groups[-1][0])) and _is_fusible(aligned, groups[-1]):
            groups[-1].append(aligned)
        else:
            groups.append([statement])
        position += 1
    stored = []
    for array in spec.arrays:
        if array.role != "temporary":
            continue
        writers = [n for n, group in enumerate(groups) for s in group if s.target == array.name]
        readers = [n for n, group in enumerate(groups) for s in group if _reads(s, array.name)]
        if any(reader not in writers for reader in readers) or (writers and array.memory.space == "scratch"):
            stored.append(array.name)
            notes.append(f"{array.name} is stored in the workspace: a later kernel needs all of it")
        elif writers:
            is_shared = any(_is_read_by_other_threads(s, array.name) for n in readers for s in groups[n])
            notes.append(f"{array.name} stays in {'shared memory' if is_shared else 'registers'}")
    return Grouping(
        tuple(Group(tuple(group), n in mixed) for n, group in enumerate(groups)), tuple(stored), tuple(notes)
    )


def _longest_mixed_run(spec: Spec, statements: list[Statement], first: int, can_fuse: CanFuse) -> int:
    """The length of the longest mixed group that starts at `first`; 0 where there is none."""
    end = min(len(statements), first + _MAX_MIXED_STATEMENTS)
    max_count = 1
    while first + max_count < end and _is_related(statements, first, first + max_count):
        max_count += 1
    for count in range(max_count, 1, -1):
        run, later = tuple(statements[first : first + count]), statements[first + count :]
        has_shared = any(spec.array(s.target).memory.space == "shared" for s in run)
        if not has_shared and not any(isinstance(node, Reduce) for s in run for node in walk(s.value)):
            return 0
        if _is_elementwise_group(run):
            continue
        stored = tuple(
            array.name
            for array in spec.arrays
            if array.role == "temporary" and any(s.target == array.name for s in run)
            if array.memory.space == "scratch" or any(_reads(s, array.name) for s in later)
        )
        if can_fuse(run, stored):
            return count
    return 0


def _is_elementwise_group(run: tuple[Statement, ...]) -> bool:
    """Whether the statements can be fused over the indices of the first."""
    group = [run[0]]
    for statement in run[1:]:
        aligned = _aligned(statement, run[0])
        if aligned is None or not _is_fusible(aligned, group):
            return False
        group.append(aligned)
    return True


def _is_related(statements: list[Statement], first: int, last: int) -> bool:
    """Whether the last statement accesses an array that an earlier one accesses."""
    arrays = _touched(statements[last])
    return any(arrays & _touched(statement) for statement in statements[first:last])


def _touched(statement: Statement) -> set[str]:
    return {statement.target, *(read.array for read in _array_reads(statement))}


def _recompute(spec: Spec) -> tuple[list[Statement], list[str]]:
    """The statements with cheap temporaries inlined where they are read, and notes on these."""
    inlined: dict[str, Statement] = {}
    notes: list[str] = []
    result: list[Statement] = []
    written: dict[str, int] = {}
    for statement in spec.statements:
        written[statement.target] = written.get(statement.target, 0) + 1
    for position, statement in enumerate(spec.statements):
        value = _inline(statement.value, inlined, spec)
        if sum(1 for _ in walk(value)) > _MAX_INLINED_NODES:
            value = statement.value
        current = replace(statement, value=value)
        later = spec.statements[position + 1 :]
        if (
            _is_cheap_temporary(current, spec, written)
            and not _reads_overwritten(current, later)
            and _needs_other_elements(current, later)
        ):
            inlined[statement.target] = current
            notes.append(f"{statement.target} is recomputed where it is read: it has no reduction of its own")
        result.append(current)
    # A temporary that is inlined in all its readers needs no statement.
    needed = [
        s for n, s in enumerate(result) if s.target not in inlined or any(_reads(t, s.target) for t in result[n + 1 :])
    ]
    computed = {s.target for s in needed}
    return needed, [note for note in notes if note.split(" ", 1)[0] not in computed]


def _is_cheap_temporary(statement: Statement, spec: Spec, written: Mapping[str, int]) -> bool:
    array = spec.array(statement.target)
    return (
        array.role == "temporary"
        and array.memory.space in (None, "register")
        and array.boundary is None
        and written[statement.target] == 1
        and not statement.accumulate
        and all(isinstance(sub, IndexValue) for sub in statement.subscripts)
        and not any(isinstance(node, Reduce | Scan) for node in walk(statement.value))
    )


def _needs_other_elements(statement: Statement, later: tuple[Statement, ...]) -> bool:
    """Whether a later statement reads elements that other threads compute."""
    for reader in later:
        if not _reads(reader, statement.target):
            continue
        aligned = _aligned(reader, statement)
        if aligned is None:
            return True
        reads = [r for r in _array_reads(aligned) if r.array == statement.target]
        if any(read.subscripts != statement.subscripts for read in reads):
            return True
    return False


def _is_read_by_other_threads(statement: Statement, array: str) -> bool:
    """Whether the array is read at compound subscripts."""
    reads = [read for read in _array_reads(statement) if read.array == array]
    return any(not isinstance(sub, IndexValue) for read in reads for sub in read.subscripts)


def _reads_overwritten(statement: Statement, later: tuple[Statement, ...]) -> bool:
    """Whether a later statement writes an array that this one reads, so that recomputing would read new values."""
    return any(isinstance(node, Read) and any(s.target == node.array for s in later) for node in walk(statement.value))


def _inline(value: Expr, inlined: Mapping[str, Statement], spec: Spec) -> Expr:
    def on_read(read: Read) -> Expr | None:
        source = inlined.get(read.array)
        if source is None or read.boundary is not None or read.exact:
            return None
        names = [sub.name for sub in source.subscripts if isinstance(sub, IndexValue)]
        expression = substitute(source.value, dict(zip(names, read.subscripts, strict=True)))
        dtype = spec.array(read.array).dtype
        return expression if dtype == expression.dtype else Cast(expression, dtype)

    return substitute(value, {}, on_read)


def _reads(statement: Statement, array: str) -> bool:
    expressions = (statement.value, *statement.subscripts)
    return any(isinstance(node, Read) and node.array == array for expr in expressions for node in walk(expr))


def _aligned(statement: Statement, first: Statement) -> Statement | None:
    """The statement over the index names of `first`; None where their domains differ."""
    if len(statement.indices) != len(first.indices):
        return None
    if any(a.extent != b.extent for a, b in zip(statement.indices, first.indices, strict=True)):
        return None
    renames: dict[str, Expr] = {
        a.name: IndexValue(b.name) for a, b in zip(statement.indices, first.indices, strict=True) if a.name != b.name
    }
    if not renames:
        return statement
    return replace(
        statement,
        indices=first.indices,
        subscripts=tuple(substitute(sub, renames) for sub in statement.subscripts),
        value=substitute(statement.value, renames),
    )


def _is_fusible(statement: Statement, group: list[Statement]) -> bool:
    """Whether each thread accesses common arrays at one element only, and all scans run along one index."""
    if not all(_have_same_scans(statement, earlier) for earlier in group):
        return False
    for earlier in group:
        for read in _array_reads(statement):
            if read.array == earlier.target and (read.subscripts != earlier.subscripts or read.exact):
                return False
        for read in _array_reads(earlier):
            if read.array == statement.target and read.subscripts != statement.subscripts:
                return False
    return True


def _have_same_scans(a: Statement, b: Statement) -> bool:
    """Whether both scan along the same indices in the same direction, or one has neither scan nor reduction."""
    scans = [{(node.outer, node.reverse): None for node in walk(s.value) if isinstance(node, Scan)} for s in (a, b)]
    if all(scans) or not any(scans):
        return scans[0].keys() == scans[1].keys()
    without_scan = a if scans[1] else b
    return not any(isinstance(node, Reduce) for node in walk(without_scan.value))


def _array_reads(statement: Statement) -> list[Read]:
    return [node for node in walk(statement.value) if isinstance(node, Read)]
