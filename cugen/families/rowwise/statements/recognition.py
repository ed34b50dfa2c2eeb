"""Matches groups of statements over rows, normalised to the same row and column indices.

Statements per row (`m[i] = max(x[i, j], j)`) and per element (`y[i, j] = x[i, j] - m[i]`) get the same index names,
also for the indices that a reduction binds. Reads of arrays that the group computes are replaced by their expressions.
The result is a list of outputs, each an expression of elementwise operations and nested reductions over inputs alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import islice, permutations

from cugen.families.rowwise.statements.groups import split_groups
from cugen.plan.memory import Array
from cugen.plan.request import Request
from cugen.plan.traversal.substitution import over_indices
from cugen.rewrite.fresh_names import fresh
from cugen.spec.expressions import (
    Expr,
    Index,
    IndexValue,
    Op,
    Read,
    Reduce,
    Scan,
    Span,
    children,
    free_indices,
    walk,
)
from cugen.spec.model import Statement
from cugen.spec.rewriting import converted, rebuild

MAX_EXPRESSION_NODES = 2000  # of all outputs, which bounds the length of the kernel; heuristic


class NotRowwise(Exception):
    """Why statements don't match the family."""


@dataclass(frozen=True, slots=True)
class Output:
    """A stored value: one per element of the row with `is_per_element`, else one per row."""

    target: str
    subscripts: tuple[Expr, ...]
    value: Expr
    is_per_element: bool
    span: Span  # of the statement

    @property
    def element(self) -> Read:
        return Read(self.target, self.subscripts, self.value.dtype, span=self.span)


@dataclass(frozen=True, slots=True)
class Domain:
    """The row indices, slowest first, and the column indices, along which rows are reduced."""

    rows: tuple[Index, ...]
    columns: tuple[Index, ...]

    @property
    def column_names(self) -> frozenset[str]:
        return frozenset(index.name for index in self.columns)


@dataclass(frozen=True, slots=True)
class RowProblem:
    """The outputs of a group over one domain.

    `names` are the spec's names of subexpressions, `arrays` the spec's with the dimensions that the outputs use."""

    domain: Domain
    outputs: tuple[Output, ...]
    request: Request
    names: Mapping[Expr, str]
    arrays: Mapping[str, Array]

    @property
    def column(self) -> Index:
        """The column index, once there is a single one."""
        (column,) = self.domain.columns
        return column


def match_rows(request: Request) -> RowProblem:
    """The group's outputs over one domain; NotRowwise with the reason if there are none."""
    statements, arrays = split_groups(request.group.statements, request.context)
    for statement in statements:
        if any(isinstance(node, Scan) for node in walk(statement.value)):
            raise NotRowwise("reduces and maps rows; here is a scan")
    if not any(isinstance(node, Reduce) for s in statements for node in walk(s.value)):
        raise NotRowwise("needs a reduction along rows; here is none")
    domain, aligned = _aligned(statements)
    inliner = _Inliner(request, domain)
    outputs = inliner.run(aligned)
    _check_size(output.value for output in outputs)
    _check_hazards(outputs)
    names = {value: target for (target, _), value in inliner.computed.items()}
    return RowProblem(domain, outputs, request, names, arrays)


# One domain for all statements


def _aligned(statements: tuple[Statement, ...]) -> tuple[Domain, tuple[Statement, ...]]:
    """The domain, and the statements with its index names; the indices of reductions are renamed later."""
    rank = max(len(s.indices) for s in statements)
    first = next(s for s in statements if len(s.indices) == rank)
    full_rank = {n: _renamed(s, first.indices) for n, s in enumerate(statements) if len(s.indices) == rank}
    lower_rank = {n: s for n, s in enumerate(statements) if n not in full_rank}
    readers = tuple(full_rank.values())
    names = _row_names(readers, tuple(lower_rank.values()))
    rows = tuple(index for index in first.indices if index.name in names)
    if lower_rank and not names:
        rows = first.indices[: len(next(iter(lower_rank.values())).indices)]
    columns = tuple(index for index in first.indices if index not in rows)
    if not columns:
        columns = _bound_columns(readers, {index.name for index in rows})
    aligned = full_rank | {n: _renamed(s, _row_indices(s, readers, rows)) for n, s in lower_rank.items()}
    return Domain(rows, columns), tuple(aligned[n] for n in range(len(statements)))


def _renamed(statement: Statement, indices: tuple[Index, ...]) -> Statement:
    """The statement with its indices renamed to others of the same extents."""
    if [i.extent for i in statement.indices] != [i.extent for i in indices]:
        raise NotRowwise("takes statements over the same rows; these have different extents")
    return over_indices(statement, indices)


def _row_names(full_rank: tuple[Statement, ...], lower_rank: tuple[Statement, ...]) -> frozenset[str]:
    """The free indices of reductions, and of reads of values that are computed per row."""
    targets = {s.target for s in lower_rank}
    names = frozenset[str]()
    for statement in full_rank:
        for node in evaluated_nodes(statement.value):
            if isinstance(node, Reduce) or (isinstance(node, Read) and node.array in targets):
                names |= free_indices(node)
    return names


def evaluated_nodes(expr: Expr, cached: Set[Expr] = frozenset()) -> Iterator[Expr]:
    """The nodes that are evaluated per element: none inside reductions, none below a cached value."""
    yield expr
    if not isinstance(expr, Reduce) and expr not in cached:
        for child in children(expr):
            yield from evaluated_nodes(child, cached)


def _bound_columns(statements: tuple[Statement, ...], taken: set[str]) -> tuple[Index, ...]:
    """The indices of the first reduction, where nothing is stored per element."""
    for node in (node for statement in statements for node in walk(statement.value)):
        if isinstance(node, Reduce):
            return tuple(replace(index, name=fresh(index.name, taken)) for index in node.indices)
    raise NotRowwise("needs a reduction along rows; here is none")


def _row_indices(statement: Statement, readers: tuple[Statement, ...], rows: tuple[Index, ...]) -> tuple[Index, ...]:
    """The domain's index for each of the statement's, from the subscripts by which `readers` read its target."""
    if len(statement.indices) != len(rows):
        raise NotRowwise("takes statements over the same rows; these have different extents")
    known = {index.name: index for index in rows}
    for node in (node for reader in readers for node in evaluated_nodes(reader.value)):
        if isinstance(node, Read) and node.array == statement.target:
            row_of = {
                index.name: known[sub.name]
                for index, sub in zip(statement.subscripts, node.subscripts, strict=True)
                if isinstance(index, IndexValue) and isinstance(sub, IndexValue) and sub.name in known
            }
            if len(row_of) == len(rows):
                return tuple(row_of[index.name] for index in statement.indices)
    return rows


# The statements as expressions of inputs alone


@dataclass
class _Inliner:
    """Inlines the statements in order. `computed` are the expressions of the elements written so far."""

    request: Request
    domain: Domain
    computed: dict[tuple[str, tuple[Expr, ...]], Expr] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    def run(self, statements: tuple[Statement, ...]) -> tuple[Output, ...]:
        spec = self.request.context.spec
        outputs: dict[tuple[str, tuple[Expr, ...]], Output] = {}
        for statement in statements:
            element = (statement.target, statement.subscripts)
            declared = spec.array(statement.target)
            value = self._canonical(statement.value, {})
            _check_size((value,))  # at each statement: values that are read twice by the next double
            if statement.accumulate:
                old = Read(*element, declared.dtype.compute)
                value = Op("add", (self.computed.get(element, old), value), old.dtype)
            self.computed[element] = converted(value, declared.dtype)
            self.written.add(statement.target)
            if self.request.is_stored(statement):
                is_per_element = bool({i.name for i in statement.indices} & self.domain.column_names)
                outputs[element] = Output(*element, value, is_per_element, statement.span)
        return tuple(outputs.values())

    def _canonical(self, expr: Expr, names: Mapping[str, str]) -> Expr:
        """The expression with index names replaced; `names` maps those that reductions bind to the domain's columns."""
        match expr:
            case IndexValue(name=name):
                return IndexValue(names.get(name, name))
            case Reduce():
                return self._reduction(expr, names)
        result = rebuild(expr, lambda part: self._canonical(part, names))
        return self._read(result) if isinstance(result, Read) else result

    def _read(self, read: Read) -> Expr:
        known = self.computed.get((read.array, read.subscripts))
        if known is not None and not read.exact:
            return known
        if read.array in self.written:
            raise NotRowwise(f"{read.array} is read at elements that other threads computed")
        return read

    def _reduction(self, reduction: Reduce, names: Mapping[str, str]) -> Expr:
        columns = self.domain.columns
        extents = [column.extent for column in columns]
        orders = (order for order in permutations(reduction.indices) if [i.extent for i in order] == extents)
        if (order := next(orders, None)) is None:
            along = ", ".join(index.name for index in columns)
            reduced = ", ".join(index.name for index in reduction.indices)
            raise NotRowwise(f"reduces rows along {along}; here a {reduction.kind} runs over {reduced}")
        inside = {**names, **{index.name: column.name for index, column in zip(order, columns, strict=True)}}
        outer = {names.get(name, name) for name in free_indices(reduction)}
        if outer & self.domain.column_names:
            raise NotRowwise(f"reduces once per row; here a {reduction.kind} is computed per element")
        return rebuild(replace(reduction, indices=columns), lambda part: self._canonical(part, inside))


def _check_size(values: Iterable[Expr]) -> None:
    """NotRowwise where expressions are too large together; no more of them is walked than is allowed."""
    nodes = (node for value in values for node in walk(value))
    if next(islice(nodes, MAX_EXPRESSION_NODES, None), None) is not None:
        raise NotRowwise(f"the fused expressions exceed {MAX_EXPRESSION_NODES} nodes")


def _check_hazards(outputs: tuple[Output, ...]) -> None:
    """NotRowwise where a thread may read an element before or after another thread overwrites it."""
    writers = {output.target: output for output in outputs}
    for reader in outputs:
        for node in walk(reader.value):
            if not isinstance(node, Read) or node.array not in writers:
                continue
            output = writers[node.array]
            if node.subscripts != output.subscripts or (not output.is_per_element and reader != output):
                raise NotRowwise(f"{node.array} is read and overwritten by different threads")
