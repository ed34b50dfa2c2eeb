"""Brings statements over rows to one form: every value over the same row indices and the same indices along a row.

Statements over rows (`m[i] = max(x[i, j], j)`) and over all elements of them (`y[i, j] = x[i, j] - m[i]`) get the same
names for the same indices, also where a reduction binds them, and reads of what the group computed become what was
computed. What is left are outputs, each a tree of elementwise code and nested reductions over inputs alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations

from cugen.families.rowwise.statements.groups import cut_groups
from cugen.plan.memory import Array
from cugen.plan.request import Request
from cugen.plan.substitution import rebuilt, substitute
from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    Read,
    Reduce,
    Scan,
    children,
    free_indices,
    walk,
)
from cugen.spec.model import Statement

_LARGEST = 2000  # nodes of the outputs' trees; beyond, the kernel's text gets too long


class NotRows(Exception):
    """Why statements aren't of this kind."""


@dataclass(frozen=True, slots=True)
class Output:
    """What is stored: at each element of a row where it is `wide`, else once for the row."""

    target: str
    subscripts: tuple[Expr, ...]
    value: Expr
    wide: bool


@dataclass(frozen=True, slots=True)
class Domain:
    """`rows` count the rows, slowest first; `columns` are the indices along a row."""

    rows: tuple[Index, ...]
    columns: tuple[Index, ...]

    @property
    def column_names(self) -> frozenset[str]:
        return frozenset(index.name for index in self.columns)


@dataclass(frozen=True, slots=True)
class RowWork:
    """What a group does: `names` are the arrays whose elements the parts of the outputs' trees are, `arrays` the spec's
    as these trees subscript them."""

    domain: Domain
    outputs: tuple[Output, ...]
    names: Mapping[Expr, str]
    arrays: Mapping[str, Array]


def find_row_work(request: Request) -> RowWork:
    """The group's outputs over one domain. NotRows where it is no such group."""
    statements, arrays = cut_groups(request.group.statements, request.context)
    for statement in statements:
        if not all(isinstance(sub, IndexValue | Const) for sub in statement.subscripts):
            raise NotRows(f"writes {statement.target} at bare indices only")
        if any(isinstance(node, Scan) for node in walk(statement.value)):
            raise NotRows("keeps no running values, and there is a scan")
    if not any(isinstance(node, Reduce) for s in statements for node in walk(s.value)):
        raise NotRows("takes reductions of rows, and there are none")
    domain, aligned = _aligned(statements)
    inliner = _Inliner(request, domain)
    outputs = inliner.run(aligned)
    if sum(1 for output in outputs for _ in walk(output.value)) > _LARGEST:
        raise NotRows("put together, the statements are too long")
    _check_hazards(outputs)
    names = {value: target for (target, _), value in inliner.computed.items()}
    return RowWork(domain, outputs, names, arrays)


# One domain for all statements


def _aligned(statements: tuple[Statement, ...]) -> tuple[Domain, tuple[Statement, ...]]:
    """The domain, and the statements under its names; those bound by reductions are still their own."""
    most = max(len(s.indices) for s in statements)
    first = next(s for s in statements if len(s.indices) == most)
    wide = {n: _renamed(s, first.indices) for n, s in enumerate(statements) if len(s.indices) == most}
    narrow = {n: s for n, s in enumerate(statements) if n not in wide}
    names = _row_names(tuple(wide.values()), tuple(narrow.values()))
    rows = tuple(index for index in first.indices if index.name in names)
    if narrow and not names:
        rows = first.indices[: len(next(iter(narrow.values())).indices)]
    columns = tuple(index for index in first.indices if index not in rows)
    if not columns:
        columns = _bound_columns(tuple(wide.values()), {index.name for index in rows})
    aligned = []
    for n, statement in enumerate(statements):
        aligned.append(wide[n] if n in wide else _renamed(statement, _own_rows(statement, tuple(wide.values()), rows)))
    return Domain(rows, columns), tuple(aligned)


def _renamed(statement: Statement, indices: tuple[Index, ...]) -> Statement:
    """The statement over other names of indices with the same extents."""
    if [i.extent for i in statement.indices] != [i.extent for i in indices]:
        raise NotRows("takes statements over the same rows, and these differ")
    names: dict[str, Expr] = {
        a.name: IndexValue(b.name) for a, b in zip(statement.indices, indices, strict=True) if a.name != b.name
    }
    return replace(
        statement,
        indices=indices,
        subscripts=tuple(substitute(sub, names) for sub in statement.subscripts),
        value=substitute(statement.value, names),
    )


def _row_names(wide: tuple[Statement, ...], narrow: tuple[Statement, ...]) -> frozenset[str]:
    """The indices that reductions, and reads of what was computed for a row, leave free."""
    targets = {s.target for s in narrow}
    found = frozenset[str]()
    for statement in wide:
        for node in _outside(statement.value):
            if isinstance(node, Reduce) or (isinstance(node, Read) and node.array in targets):
                found |= free_indices(node)
    return found


def _outside(expr: Expr) -> Iterator[Expr]:
    """All nodes but those inside reductions."""
    yield expr
    if not isinstance(expr, Reduce):
        for child in children(expr):
            yield from _outside(child)


def _bound_columns(statements: tuple[Statement, ...], taken: set[str]) -> tuple[Index, ...]:
    """The indices of the first reduction, where nothing is stored for each element."""
    for statement in statements:
        for node in walk(statement.value):
            if isinstance(node, Reduce):
                return tuple(replace(i, name=i.name + "_" if i.name in taken else i.name) for i in node.indices)
    raise NotRows("takes reductions of rows, and there are none")


def _own_rows(statement: Statement, wide: tuple[Statement, ...], rows: tuple[Index, ...]) -> tuple[Index, ...]:
    """The domain's index for each of the statement's, by how the statements over elements read what it computes."""
    if len(statement.indices) != len(rows):
        raise NotRows("takes statements over the same rows, and these differ")
    known = {index.name: index for index in rows}
    for reader in wide:
        for node in _outside(reader.value):
            if isinstance(node, Read) and node.array == statement.target:
                at = {
                    own.name: known[sub.name]
                    for own, sub in zip(statement.subscripts, node.subscripts, strict=True)
                    if isinstance(own, IndexValue) and isinstance(sub, IndexValue) and sub.name in known
                }
                if len(at) == len(rows):
                    return tuple(at[index.name] for index in statement.indices)
    return rows


# What the statements compute from inputs alone


@dataclass
class _Inliner:
    """Goes through the statements in order; `computed` holds what elements have become so far."""

    request: Request
    domain: Domain
    computed: dict[tuple[str, tuple[Expr, ...]], Expr] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    def run(self, statements: tuple[Statement, ...]) -> tuple[Output, ...]:
        spec = self.request.context.spec
        outputs: dict[tuple[str, tuple[Expr, ...]], Output] = {}
        for statement in statements:
            place = (statement.target, statement.subscripts)
            declared = spec.array(statement.target)
            value = self._canonical(statement.value, {})
            if statement.accumulate:
                own = Read(*place, declared.dtype.compute)
                value = Op("add", (self.computed.get(place, own), value), own.dtype)
            self.computed[place] = value if declared.dtype == value.dtype else Cast(value, declared.dtype)
            self.written.add(statement.target)
            if declared.role != "temporary" or statement.target in self.request.stored:
                wide = bool({i.name for i in statement.indices} & self.domain.column_names)
                outputs[place] = Output(*place, value, wide)
        return tuple(outputs.values())

    def _canonical(self, expr: Expr, names: Mapping[str, str]) -> Expr:
        """The expression over the domain's columns, also where a reduction binds others."""

        def rewritten(node: Expr) -> Expr:
            return self._canonical(node, names)

        match expr:
            case IndexValue(name=name):
                return IndexValue(names.get(name, name))
            case Read():
                read = replace(
                    expr,
                    subscripts=tuple(map(rewritten, expr.subscripts)),
                    exact=tuple((rewritten(dividend), divisor) for dividend, divisor in expr.exact),
                )
                return self._read(read)
            case Reduce():
                return self._reduction(expr, names)
        return rebuilt(expr, rewritten)

    def _read(self, read: Read) -> Expr:
        known = self.computed.get((read.array, read.subscripts))
        if known is not None and not read.exact:
            return known
        if read.array in self.written:
            raise NotRows(f"{read.array} is read at other elements than the one just computed")
        return read

    def _reduction(self, reduction: Reduce, names: Mapping[str, str]) -> Reduce:
        columns = self.domain.columns
        order = next(
            (
                order
                for order in permutations(reduction.indices)
                if [i.extent for i in order] == [c.extent for c in columns]
            ),
            None,
        )
        if order is None:
            along = ", ".join(index.name for index in columns)
            own = ", ".join(index.name for index in reduction.indices)
            raise NotRows(f"walks a row along {along}, and a {reduction.kind} runs over {own}")
        inside = {**names, **{own.name: column.name for own, column in zip(order, columns, strict=True)}}
        outer = {names.get(name, name) for name in free_indices(reduction)}
        if outer & self.domain.column_names:
            raise NotRows(f"reduces rows, not anew for each element as the {reduction.kind} does")
        return replace(
            reduction,
            indices=columns,
            body=self._canonical(reduction.body, inside),
            where=None if reduction.where is None else self._canonical(reduction.where, inside),
        )


def _check_hazards(outputs: tuple[Output, ...]) -> None:
    """Old contents of what is overwritten may only be read by the thread that writes."""
    places = {output.target: output for output in outputs}
    for reader in outputs:
        for node in walk(reader.value):
            if not isinstance(node, Read) or node.array not in places:
                continue
            output = places[node.array]
            if node.subscripts != output.subscripts or (not output.wide and reader != output):
                raise NotRows(f"{node.array} is read and overwritten by different threads")
