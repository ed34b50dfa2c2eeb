"""Fuses dense output indices of elementwise statements and drops unit ones.

    y[i, j] = 2 * x[i, j]                   row-major x and y, [I, J]
becomes
    y[i] = 2 * x[i]                         over I * J elements
"""

from __future__ import annotations

from cugen.plan.request import Request
from cugen.plan.symbols import bounds
from cugen.rewrite.fresh_names import fresh
from cugen.rewrite.fuse_dimensions import FusedStatements, fused, without_unit_dimensions
from cugen.rewrite.readers import array_reads
from cugen.spec.expressions import Expr, Index, IndexValue, Read, children, free_indices
from cugen.spec.model import Statement

_MAX_NAME_LENGTH = 8  # of a fused index, in characters


def canonical(request: Request) -> FusedStatements:
    """The group's statements without unit indices and with dense ones fused, unless the schedule has tile sizes.

    Indices in compound subscripts or under a boundary are kept."""
    context, form = request.context, FusedStatements(request.group.statements, request.context.arrays)
    if request.schedule.block or request.schedule.thread:
        return form
    form = without_unit_dimensions(form, context, keeps_output=True)
    fixed = frozenset[str]().union(*(index_values(s.value) | _compound_indices(s) for s in form.statements))

    def name(slow: Index, fast: Index, _: tuple[Index, ...], taken: set[str]) -> str:
        """`i` if the result is the only index, else `bh` of `b` and `h`, unless that is too long."""
        names = taken | context.symbols.keys()
        if not taken:
            return "i" if "i" not in names else "element"
        joined = slow.name + fast.name
        return fresh(joined if len(joined) <= _MAX_NAME_LENGTH else "fused", names)

    return fused(form, context, name, fixed=fixed, allow_parts=True)


def iteration_order(request: Request, form: FusedStatements) -> tuple[Index, ...]:
    """The indices by their strides in the first stored array, the contiguous one first."""
    context = request.context
    statement = next(filter(request.is_stored, form.statements), form.statements[0])
    strides = {
        name: bounds(stride, context.ranges)[1]
        for sub, stride in zip(statement.subscripts, form.arrays[statement.target].strides, strict=True)
        for name in free_indices(sub)
    }
    order = statement.indices
    return tuple(sorted(order, key=lambda index: (strides[index.name], -order.index(index))))


def index_values(expr: Expr) -> frozenset[str]:
    """The indices whose value `expr` uses outside of subscripts."""
    if isinstance(expr, Read):
        return frozenset()
    if isinstance(expr, IndexValue):
        return frozenset((expr.name,))
    return frozenset[str]().union(*map(index_values, children(expr)))


def _compound_indices(statement: Statement) -> frozenset[str]:
    """The indices of compound subscripts, and of reads with a boundary."""
    subs: list[Expr] = [sub for sub in statement.subscripts if not isinstance(sub, IndexValue)]
    for read in array_reads(statement):
        is_plain = read.boundary is None and not read.exact
        subs += [sub for sub in read.subscripts if not is_plain or not isinstance(sub, IndexValue)]
    return frozenset[str]().union(*map(free_indices, subs))
