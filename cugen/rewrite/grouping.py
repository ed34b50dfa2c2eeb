"""Which statements share a kernel, and which temporaries are recomputed instead of stored.

A later statement may stand in the same kernel as an earlier one where every thread needs no more of the earlier
results than the element that it made itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cugen.plan.request import Group
from cugen.plan.substitution import substitute
from cugen.spec.expressions import Cast, Expr, IndexValue, Read, Reduce, Scan, walk
from cugen.spec.model import Spec, Statement

# A recomputed temporary may make the tree that uses it this much larger; beyond, it is stored.
_INLINE_NODES = 400
_LONGEST_RUN = 24  # statements that are offered as one kernel at most


@dataclass(frozen=True, slots=True)
class Grouping:
    groups: tuple[Group, ...]
    stored: tuple[str, ...]  # temporaries that need a workspace
    notes: tuple[str, ...]


Takes = Callable[[tuple[Statement, ...], tuple[str, ...]], bool]


def group_statements(spec: Spec, takes: Takes | None = None) -> Grouping:
    """The statements in order, cut into kernels.

    `takes` says whether statements over unlike indices, such as rows and the elements of rows, or of which one reads
    neighbours of what another makes, are one kernel where the temporaries named beside them are stored; the longest run
    of those that are becomes a group."""
    statements, notes = _recompute(spec)
    groups: list[list[Statement]] = []
    mixed: dict[int, None] = {}  # the groups that nothing joins
    position = 0
    while position < len(statements):
        statement = statements[position]
        run = _longest_run(spec, statements, position, takes) if takes else 0
        if run:
            mixed[len(groups)] = None
            groups.append(statements[position : position + run])
            position += run
            continue
        open_ = groups and len(groups) - 1 not in mixed
        if open_ and (aligned := _aligned(statement, groups[-1][0])) and _may_join(aligned, groups[-1]):
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
            beside = any(_is_read_beside(s, array.name) for n in readers for s in groups[n])
            notes.append(f"{array.name} stays in {'shared memory' if beside else 'registers'}")
    return Grouping(
        tuple(Group(tuple(group), n in mixed) for n, group in enumerate(groups)), tuple(stored), tuple(notes)
    )


def _longest_run(spec: Spec, statements: list[Statement], first: int, takes: Takes) -> int:
    """How many statements from `first` on are one kernel though their indices differ; 0 where none are."""
    most = 1
    while first + most < min(len(statements), first + _LONGEST_RUN) and _is_related(statements, first, first + most):
        most += 1
    for count in range(most, 1, -1):
        run, later = tuple(statements[first : first + count]), statements[first + count :]
        shares = any(spec.array(s.target).memory.space == "shared" for s in run)
        if not shares and not any(isinstance(node, Reduce) for s in run for node in walk(s.value)):
            return 0
        if _join(run):
            continue
        stored = tuple(
            array.name
            for array in spec.arrays
            if array.role == "temporary" and any(s.target == array.name for s in run)
            if array.memory.space == "scratch" or any(_reads(s, array.name) for s in later)
        )
        if takes(run, stored):
            return count
    return 0


def _join(run: tuple[Statement, ...]) -> bool:
    """Whether all of the statements share a kernel as they are, over the indices of the first."""
    group = [run[0]]
    for statement in run[1:]:
        aligned = _aligned(statement, run[0])
        if aligned is None or not _may_join(aligned, group):
            return False
        group.append(aligned)
    return True


def _is_related(statements: list[Statement], first: int, last: int) -> bool:
    """Whether the last statement reads or writes an array that an earlier one touches as well."""
    own = _touched(statements[last])
    return any(own & _touched(statement) for statement in statements[first:last])


def _touched(statement: Statement) -> set[str]:
    return {statement.target, *(read.array for read in _array_reads(statement))}


def _recompute(spec: Spec) -> tuple[list[Statement], list[str]]:
    """The statements with cheap temporaries put in place of their reads."""
    inlined: dict[str, Statement] = {}
    notes: list[str] = []
    result: list[Statement] = []
    written: dict[str, int] = {}
    for statement in spec.statements:
        written[statement.target] = written.get(statement.target, 0) + 1
    for position, statement in enumerate(spec.statements):
        value = _inline(statement.value, inlined, spec)
        if sum(1 for _ in walk(value)) > _INLINE_NODES:
            value = statement.value
        current = replace(statement, value=value)
        later = spec.statements[position + 1 :]
        if (
            _is_cheap_temporary(current, spec, written)
            and not _reads_what_changes(current, later)
            and _is_read_elsewhere(current, later)
        ):
            inlined[statement.target] = current
            notes.append(f"{statement.target} is recomputed where it is read: it has no reduction of its own")
        result.append(current)
    # A temporary whose every reader took its expression is not computed on its own.
    needed = [
        s for n, s in enumerate(result) if s.target not in inlined or any(_reads(t, s.target) for t in result[n + 1 :])
    ]
    kept = {s.target for s in needed}
    return needed, [note for note in notes if note.split(" ", 1)[0] not in kept]


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


def _is_read_elsewhere(statement: Statement, later: tuple[Statement, ...]) -> bool:
    """Whether a thread that computes a later statement needs elements other than its own."""
    for reader in later:
        if not _reads(reader, statement.target):
            continue
        aligned = _aligned(reader, statement)
        if aligned is None:
            return True
        own = [r for r in _array_reads(aligned) if r.array == statement.target]
        if any(read.subscripts != statement.subscripts for read in own):
            return True
    return False


def _is_read_beside(statement: Statement, array: str) -> bool:
    """Whether elements of the array are read that aren't at bare indices."""
    reads = [read for read in _array_reads(statement) if read.array == array]
    return any(not isinstance(sub, IndexValue) for read in reads for sub in read.subscripts)


def _reads_what_changes(statement: Statement, later: tuple[Statement, ...]) -> bool:
    """Whether a later statement writes an array that this one reads: recomputing would then see other values."""
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


def _may_join(statement: Statement, group: list[Statement]) -> bool:
    """Whether what crosses between the statement and the group is only touched at each thread's own element, and
    whether all scans run alike: along one index a thread can then walk with running values."""
    if not all(_run_alike(statement, earlier) for earlier in group):
        return False
    for earlier in group:
        for read in _array_reads(statement):
            if read.array == earlier.target and (read.subscripts != earlier.subscripts or read.exact):
                return False
        for read in _array_reads(earlier):
            if read.array == statement.target and read.subscripts != statement.subscripts:
                return False
    return True


def _run_alike(a: Statement, b: Statement) -> bool:
    walks = [{(node.outer, node.reverse): None for node in walk(s.value) if isinstance(node, Scan)} for s in (a, b)]
    if all(walks) or not any(walks):
        return walks[0].keys() == walks[1].keys()
    plain = a if walks[1] else b
    return not any(isinstance(node, Reduce) for node in walk(plain.value))


def _array_reads(statement: Statement) -> list[Read]:
    return [node for node in walk(statement.value) if isinstance(node, Read)]
