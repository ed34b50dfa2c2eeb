"""Groups statements into kernels (loop fusion), and inlines temporaries that are cheaper to recompute than to store.

    t[i] = 2 * x[i];  y[i] = t[i] + 1       one kernel, t in a register
    t[i] = 2 * x[i];  y[i] = t[i - 1]       y[i] = 2 * x[i - 1]: t recomputed
A statement is fused with earlier ones if each thread reads no results but those that it computed itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from cugen.plan.request import Group
from cugen.plan.subscripts import is_subscript
from cugen.plan.traversal.substitution import over_indices, substitute
from cugen.rewrite.readers import Readers, array_reads, reads_in_terms
from cugen.spec.expressions import Expr, IndexValue, Read, Reduce, Scan, walk
from cugen.spec.model import Spec, Statement
from cugen.spec.prove.affine import Variable, affine_form
from cugen.spec.rewriting import converted

_MAX_INLINED_NODES = 2000  # nodes of an expression with inlined temporaries; beyond, they are stored (heuristic)
_MAX_MIXED_STATEMENTS = 24  # statements over different indices that are offered as one kernel: bounds planning time


@dataclass(frozen=True, slots=True)
class Grouping:
    groups: tuple[Group, ...]
    stored: tuple[str, ...]  # temporaries that need a workspace
    notes: tuple[str, ...]


CanFuse = Callable[[tuple[Statement, ...], tuple[str, ...]], bool]  # by statements and their stored temporaries
MayJoin = Callable[[tuple[Statement, ...], Statement, tuple[str, ...]], bool]  # a group, a statement, what both store


def group_statements(spec: Spec, can_fuse: CanFuse | None = None, may_join: MayJoin | None = None) -> Grouping:
    """The statements in order, grouped into kernels.

    `can_fuse`: whether some family takes statements over different indices (rows and their elements), or with reads of
    other threads' results, as one kernel. The longest such run becomes a mixed group. `may_join`: whether a statement
    over the same indices as a group is computed as well in its kernel as in one of its own."""
    statements, notes = _recompute(spec)
    readers_of = Readers(statements)
    groups: list[list[Statement]] = []
    mixed: dict[int, None] = {}  # groups to which no statement is added
    position = 0
    fused: _FusedStatements | None = None  # the last group, unless it is mixed

    def joins_last(statement: Statement) -> bool:
        """Whether no family computes a reduction or a scan better in a kernel of its own."""
        has_scan = any(map(_scans, (*groups[-1], statement)))
        has_reduction = _has_reduction((statement, *groups[-1]))
        return is_computed_there(statement) if has_scan or has_reduction else True

    def is_computed_there(statement: Statement) -> bool:
        group = tuple(groups[-1])
        stored = _stored(spec, (*group, statement), readers_of, position + 1)
        return may_join is None or may_join(group, statement, stored)

    def completes_last(statement: Statement) -> bool:
        """Whether it is a map of what the last group reduces."""
        if _has_reduction((statement,)) or not _has_reduction(groups[-1]):
            return False
        targets = {s.target for s in groups[-1]}
        return any(read.array in targets for read in array_reads(statement)) and is_computed_there(statement)

    while position < len(statements):
        statement = statements[position]
        aligned = fused.aligned(statement) if fused else None
        starts_run = can_fuse is not None and (aligned is None or not completes_last(aligned))
        run = _longest_mixed_run(spec, statements, readers_of, position, can_fuse) if can_fuse and starts_run else 0
        if run:
            mixed[len(groups)] = None
            groups.append(statements[position : position + run])
            fused = None
        elif fused and aligned and joins_last(aligned):
            groups[-1].append(aligned)
            fused.add(aligned)
        else:
            groups.append([statement])
            fused = _FusedStatements(statement)
        position += run or 1
    stored, where = _temporaries(spec, groups, statements, readers_of)
    kernels = tuple(Group(tuple(group), n in mixed) for n, group in enumerate(groups))
    return Grouping(kernels, tuple(stored), (*notes, *where))


def _temporaries(
    spec: Spec, groups: Sequence[Sequence[Statement]], statements: Sequence[Statement], readers_of: Readers
) -> tuple[list[str], list[str]]:
    """The temporaries that need a workspace, and a note on where each one is."""
    stored, notes = list[str](), list[str]()
    kept: dict[tuple[str, str], list[str]] = {}  # those of one text, as the rows of a transform, by their space
    texts = {statement.target: statement.text for statement in statements}
    group_of = [n for n, group in enumerate(groups) for _ in group]
    writers_of: dict[str, set[int]] = defaultdict(set)
    for n, statement in zip(group_of, statements, strict=True):
        writers_of[statement.target].add(n)
    for array in spec.arrays:
        if array.role != "temporary":
            continue
        writers, reading = writers_of[array.name], readers_of.positions(array.name)
        if not {group_of[n] for n in reading} <= writers or (writers and array.memory.space == "scratch"):
            stored.append(array.name)
            notes.append(f"{array.name} is stored in the workspace: a later kernel needs all of it")
        elif writers:
            reads = (read for n in reading for read in array_reads(statements[n]) if read.array == array.name)
            is_shared = any(not isinstance(sub, IndexValue) for read in reads for sub in read.subscripts)
            space = "shared memory" if is_shared else "registers"
            names = kept.setdefault((space, texts[array.name]), [])
            names.append(array.name)
            if len(names) == 1:
                notes.append(_kept(names, space))
            else:
                notes[notes.index(_kept(names[:-1], space))] = _kept(names, space)
    return stored, notes


def _kept(names: Sequence[str], space: str) -> str:
    return f"{', '.join(names)} {'stays' if len(names) == 1 else 'stay'} in {space}"


def _longest_mixed_run(spec: Spec, statements: list[Statement], readers: Readers, first: int, can_fuse: CanFuse) -> int:
    """The length of the longest mixed group that starts at `first`; 0 where there is none."""
    candidates = statements[first : first + _MAX_MIXED_STATEMENTS]
    touched = [{s.target, *readers.in_value[n]} for n, s in enumerate(candidates, first)]
    elementwise_count = _elementwise_count(candidates)
    for count in range(len(candidates), max(elementwise_count, 1), -1):
        run = tuple(candidates[:count])
        if not _are_related(touched[:count]):
            continue
        has_shared = any(spec.array(s.target).memory.space == "shared" for s in run)
        if not has_shared and not _has_reduction(run):
            return 0
        if can_fuse(run, _stored(spec, run, readers, first + count)):
            return count
    return 0


def _stored(spec: Spec, run: tuple[Statement, ...], readers: Readers, later: int) -> tuple[str, ...]:
    """The temporaries that a kernel stores: statements from the position `later` on read them."""
    targets = {s.target for s in run}
    return tuple(
        array.name
        for array in spec.arrays
        if array.role == "temporary" and array.name in targets
        if array.memory.space == "scratch" or readers.positions(array.name, later)
    )


def _elementwise_count(statements: Sequence[Statement]) -> int:
    """How many of the statements can be fused over the indices of the first."""
    fused = _FusedStatements(statements[0])
    for count, statement in enumerate(statements[1:], 1):
        if (aligned := fused.aligned(statement)) is None:
            return count
        fused.add(aligned)
    return len(statements)


def _are_related(touched: Sequence[set[str]]) -> bool:
    """Whether statements that access these arrays are connected by common ones."""
    related, others = set(touched[0]), list(touched[1:])
    while connected := [arrays for arrays in others if arrays & related]:
        related |= set().union(*connected)
        others = [arrays for arrays in others if not arrays <= related]
    return not others


def inlined_statements(spec: Spec) -> tuple[Statement, ...]:
    """The statements with the temporaries inlined that are recomputed where they are read."""
    return tuple(_recompute(spec)[0])


def completed_statements(spec: Spec) -> tuple[Statement, ...]:
    """The statements with temporaries of reductions inlined into maps that alone read them, at their own elements."""
    return joined_statements(spec, lambda statement, joined: _has_reduction((statement,)))


def joined_statements(
    spec: Spec, may_join: Callable[[Statement, Statement], bool], *, in_runs: bool = False
) -> tuple[Statement, ...]:
    """The statements with temporaries inlined where one statement alone reads them, at its own elements, and only one
    of both has a reduction; where a temporary's statement `may_join` to be the second statement. With `in_runs`, those
    of which it reads several elements, none of which another of its elements reads."""
    statements = list(spec.statements)
    counts = Counter(statement.target for statement in statements)
    position = 0
    while position < len(statements):
        statement = statements[position]
        is_placed = spec.array(statement.target).memory.space is not None
        is_single = not is_placed and is_single_temporary(statement, spec, counts)
        if is_single and (found := _joined(statements, position, spec, in_runs=in_runs)):
            reader, joined = found
            if may_join(statement, joined):
                statements[reader] = joined
                del statements[position]
                continue
        position += 1
    return tuple(statements)


def _joined(
    statements: Sequence[Statement], position: int, spec: Spec, *, in_runs: bool
) -> tuple[int, Statement] | None:
    """The position of the statement that alone reads the target of another, and both in one."""
    statement = statements[position]
    positions = Readers(statements).positions(statement.target, position + 1)
    if len(positions) != 1 or _has_reduction((statement,)) == _has_reduction((statements[positions[0]],)):
        return None
    reader = statements[positions[0]]
    # What loops repeat, and subscripts, stay reads of one element.
    enclosing: list[Expr] = [node for node in walk(reader.value) if isinstance(node, Reduce | Scan)]
    enclosing += [sub for read in array_reads(reader) for sub in read.subscripts]
    enclosed = (node.array for outer in enclosing for node in walk(outer) if isinstance(node, Read))
    names = {index.name for index in reader.indices}
    reads = [read for read in array_reads(reader) if read.array == statement.target]
    between = {s.target for s in statements[position : positions[0]]}
    if (
        not reads
        or statement.target in enclosed
        or any(len(read.subscripts) != len(names) or read.boundary is not None or read.exact for read in reads)
        or (_are_of_several(reads, reader, spec) if in_runs else not _are_of_one(reads, names))
        or any(read.array in between for read in array_reads(statement))
    ):
        return None
    value = _inline(reader.value, {statement.target: statement}, spec)
    return (positions[0], replace(reader, value=value)) if is_short(value) else None


def _are_of_one(reads: Sequence[Read], names: Set[str]) -> bool:
    """Whether each read is at an element of its own for each element over the indices `names`."""
    return all({sub.name for sub in read.subscripts if isinstance(sub, IndexValue)} == names for read in reads)


def _are_of_several(reads: Sequence[Read], reader: Statement, spec: Spec) -> bool:
    """Whether several elements of a statement read one element, as far as can be told: not where the last subscript is
    `count * index + number`, with a number below the count for each read, and the others are the other indices; one
    that is a number is read by several elements unless the statement has one itself."""
    if any(not read.subscripts for read in reads):
        return bool(reader.indices) or len(reads) > 1
    params = {param.name: param for param in spec.params}
    for read in reads:
        *slower, last = read.subscripts
        form = affine_form(last, params)
        if len(form.terms) != 1:
            return True
        ((atom, count),) = form.terms
        names = {sub.name for sub in slower if isinstance(sub, IndexValue)}
        if not isinstance(atom, Variable) or not 0 <= form.constant < count or atom.name in names:
            return True
        if names | {atom.name} != {index.name for index in reader.indices}:
            return True
    return len({affine_form(read.subscripts[-1], params) for read in reads}) < len(reads)


def _recompute(spec: Spec) -> tuple[list[Statement], list[str]]:
    """The statements with cheap temporaries inlined where they are read, and notes on these."""
    inlined: dict[str, Statement] = {}
    notes: list[str] = []
    result: list[Statement] = []
    written = Counter(statement.target for statement in spec.statements)
    last_write = {statement.target: position for position, statement in enumerate(spec.statements)}
    recomputed = _recomputed_elsewhere(spec, written)
    for position, statement in enumerate(spec.statements):
        value = _inline(statement.value, inlined, spec)
        if not is_short(value):
            value = statement.value
        current = replace(statement, value=value)
        if (
            _is_cheap_temporary(current, spec, written)
            # Else recomputing would read new values.
            and not any(last_write.get(read.array, -1) > position for read in array_reads(current))
            and statement.target in recomputed
        ):
            inlined[statement.target] = current
            notes.append(f"{statement.target} is recomputed where it is read: it has no reduction of its own")
        result.append(current)
    # A temporary that is inlined in all its readers needs no statement.
    readers = Readers(result)
    needed = [s for n, s in enumerate(result) if s.target not in inlined or readers.positions(s.target, n + 1)]
    computed = {s.target for s in needed}
    return needed, [note for note in notes if note.split(" ", 1)[0] not in computed]


def _recomputed_elsewhere(spec: Spec, written: Mapping[str, int]) -> set[str]:
    """The cheap temporaries of which other elements are read or none, and those that one of these reads in turn. Of
    those read in subscripts that their values can't be part of, such as rounded numbers, the ones of which terms of
    reductions read an element each."""
    recomputed: set[str] = set()
    positions = _subscript_arrays(spec)
    readers_of = Readers(spec.statements)
    for position, statement in reversed(tuple(enumerate(spec.statements))):
        if not _is_cheap_temporary(statement, spec, written):
            continue
        readers = [spec.statements[n] for n in readers_of.positions(statement.target, position + 1)]
        if statement.target in positions and not is_subscript(statement.value):
            in_terms = (r.target in recomputed or reads_in_terms(r, statement, spec) for r in readers)
            if not readers or not all(in_terms):
                continue
        is_inner = any(reader.target in recomputed for reader in readers)
        if not readers or is_inner or _needs_other_elements(statement, readers):
            recomputed.add(statement.target)
    return recomputed


def _subscript_arrays(spec: Spec) -> set[str]:
    """The arrays of which subscripts are made, of temporaries also those that these read."""
    found: set[str] = set()
    for statement in reversed(spec.statements):
        reads = list(array_reads(statement))
        subscripts = (sub for read in reads for sub in read.subscripts)
        found |= {node.array for sub in subscripts for node in walk(sub) if isinstance(node, Read)}
        if statement.target in found:
            found |= {read.array for read in reads}
    return found


def _is_cheap_temporary(statement: Statement, spec: Spec, written: Mapping[str, int]) -> bool:
    loops = (node for node in walk(statement.value) if isinstance(node, Reduce | Scan))
    return is_single_temporary(statement, spec, written) and next(loops, None) is None


def is_single_temporary(statement: Statement, spec: Spec, written: Mapping[str, int]) -> bool:
    """Whether the statement alone writes a temporary, a whole one that the spec places in registers or nowhere."""
    array = spec.array(statement.target)
    return (
        array.role == "temporary"
        and array.memory.space in (None, "register")
        and array.boundary is None
        and written[statement.target] == 1
        and not statement.accumulate
        and all(isinstance(sub, IndexValue) for sub in statement.subscripts)
    )


def _needs_other_elements(statement: Statement, readers: Sequence[Statement]) -> bool:
    """Whether one of the readers of its target reads elements that other threads compute."""
    aligned = [_aligned(reader, statement) for reader in readers]
    reads = (read for reader in filter(None, aligned) for read in array_reads(reader) if read.array == statement.target)
    return None in aligned or any(read.subscripts != statement.subscripts for read in reads)


def is_short(value: Expr) -> bool:
    """Whether a value with temporaries inlined is short: in a chain of them that each read the one before twice it
    grows exponentially."""
    return sum(1 for _ in walk(value)) <= _MAX_INLINED_NODES


def _inline(value: Expr, inlined: Mapping[str, Statement], spec: Spec) -> Expr:
    def on_read(read: Read) -> Expr | None:
        source = inlined.get(read.array)
        if source is None or read.boundary is not None or read.exact:
            return None
        names = [sub.name for sub in source.subscripts if isinstance(sub, IndexValue)]
        expression = substitute(source.value, dict(zip(names, read.subscripts, strict=True)))
        return converted(expression, spec.array(read.array).dtype)

    return substitute(value, {}, on_read)


def _aligned(statement: Statement, first: Statement) -> Statement | None:
    """The statement over the index names of `first`; None where their domains differ."""
    if len(statement.indices) != len(first.indices):
        return None
    if any(a.extent != b.extent for a, b in zip(statement.indices, first.indices, strict=True)):
        return None
    return over_indices(statement, first.indices)


class _FusedStatements:
    """Statements over the indices of the first, where each thread accesses common arrays at one element only, and all
    scans run along one index in one direction; next to scans there is no other reduction."""

    def __init__(self, first: Statement) -> None:
        self._first = first
        self._written: dict[str, set[tuple[Expr, ...]]] = defaultdict(set)  # subscripts by array
        self._read: dict[str, set[tuple[Expr, ...]]] = defaultdict(set)
        self._scans: set[tuple[str, bool]] = set()
        self._has_reduction = False  # in a statement without scans
        self.add(first)

    def aligned(self, statement: Statement) -> Statement | None:
        """A statement over the common indices; None where it doesn't fit."""
        aligned = _aligned(statement, self._first)
        if aligned is None:
            return None
        scans = _scans(aligned)
        if scans and (self._has_reduction or (self._scans and scans != self._scans)):
            return None
        if self._scans and not scans and _has_reduction((aligned,)):
            return None
        for read in array_reads(aligned):
            written = self._written[read.array]
            if written and (read.exact or written != {read.subscripts}):
                return None
        return aligned if self._read[aligned.target] <= {aligned.subscripts} else None

    def add(self, statement: Statement) -> None:
        scans = _scans(statement)
        self._written[statement.target].add(statement.subscripts)
        for read in array_reads(statement):
            self._read[read.array].add(read.subscripts)
        self._scans |= scans
        self._has_reduction |= not scans and _has_reduction((statement,))


def _scans(statement: Statement) -> set[tuple[str, bool]]:
    """The index and direction of each scan."""
    return {(node.outer, node.reverse) for node in walk(statement.value) if isinstance(node, Scan)}


def _has_reduction(statements: Iterable[Statement]) -> bool:
    return any(isinstance(node, Reduce) for s in statements for node in walk(s.value))
