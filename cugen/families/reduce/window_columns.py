"""Adjacent windows whose rows are short, and which are too few for a thread each: their columns are reduced first, by
threads that read whole rows.

    y[i, j] = sum(x[11 * i + r, 11 * j + s], r, s)
becomes
    y_columns[i, column] = sum(x[11 * i + r, column], r)
    y[i, j] = sum(y_columns[i, 11 * j + s], s)
The threads of one window would read a few bytes of each of its rows, and few sectors as a whole.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from cugen.families.reduce.rows import RowConfig
from cugen.machine.requests.warp import SECTOR_BYTES
from cugen.plan.request import Single, Steps
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.temporaries import steps_of, temporary
from cugen.spec.expressions import Expr, Index, IndexValue, Op, Read, Reduce, Scan, free_indices, walk
from cugen.spec.model import Schedule
from cugen.spec.prove.affine import Variable, affine_form, atom_form
from cugen.spec.resolve.keys.layout import product
from cugen.spec.rewriting import replaced
from cugen.spec.types import INT64

MIN_POINTS = 33  # of a window; one thread unrolls a smaller one
MIN_TERMS = 1 << 20  # of all windows, whose sectors outweigh a second launch (heuristic)
MIN_SECTORS_RATIO = 2  # of what windows and columns request (heuristic)
_KINDS = ("sum", "prod", "max", "min", "any", "all")


def with_stored_columns(single: Single, config: RowConfig) -> Steps | None:
    """The steps; None where threads of a window, in the mapping of `config`, request about as many sectors."""
    statement = single.statement
    loops = [node for node in walk(statement.value) if isinstance(node, Reduce | Scan)]
    reduction = loops[0] if loops else None
    if len(set(loops)) != 1 or not isinstance(reduction, Reduce) or reduction.where is not None:
        return None
    if reduction.kind not in _KINDS or len(reduction.indices) < 2:
        return None
    if not statement.indices or single.schedule != Schedule():
        return None
    for along in reduction.indices:
        taken = taken_names(single.context.spec, (*statement.indices, *reduction.indices))
        others = tuple(index for index in reduction.indices if index != along)
        column = Index(fresh("column", taken), product(statement.indices[-1].extent, along.extent))
        body = _body_of_columns(reduction, along, column, single)
        if body is None or not _is_profitable(reduction, along, config, single):
            continue
        name = fresh(f"{statement.target}_columns", taken)
        *outer, last = statement.indices
        value = replace(reduction, body=body, indices=others)
        what = f"{reduction.kind} of columns of: {statement.text}"
        columns = temporary(name, (*outer, column), value, what, statement, is_stored=True)
        subscript = Op("add", (Op("mul", (along.extent, IndexValue(last.name)), INT64), IndexValue(along.name)), INT64)
        read = replace(columns.read, subscripts=(*columns.read.subscripts[:-1], subscript))
        rows: dict[Expr, Expr] = {reduction: replace(reduction, body=read, indices=(along,))}
        return steps_of([columns], replace(statement, value=replaced(statement.value, rows.get)))
    return None


def _body_of_columns(reduction: Reduce, along: Index, column: Index, single: Single) -> Expr | None:
    """The terms with `column` in place of `extent * last + along`, where these indices occur in such subscripts of
    contiguous dimensions only."""
    context, params = single.context, {param.name: param for param in single.context.spec.params}
    last = single.statement.indices[-1]
    length = context.static_extent(along)
    if length is None:
        return None
    wanted = atom_form(Variable(last.name), length) + atom_form(Variable(along.name))

    def change(node: Expr) -> Expr | None:
        if not isinstance(node, Read) or node.boundary is not None:
            return None
        array = context.arrays[node.array]
        matches = [affine_form(sub, params) == wanted for sub in node.subscripts]
        if matches != [stride == 1 for stride in array.strides] or array.space != "global":
            return None
        subscripts = zip(node.subscripts, matches, strict=True)
        return replace(node, subscripts=tuple(IndexValue(column.name) if m else sub for sub, m in subscripts))

    body = replaced(reduction.body, change)
    is_replaced = column.name in free_indices(body) and not {last.name, along.name} & free_indices(body)
    return body if is_replaced else None


def _is_profitable(reduction: Reduce, along: Index, config: RowConfig, single: Single) -> bool:
    extent = single.context.planned_extent
    points, length = prod(map(extent, reduction.indices)), extent(along)
    if config.threads * config.outer_threads == 1:  # it finds the rest of its sectors in L1
        return False
    if points < MIN_POINTS or points * prod(map(extent, single.statement.indices)) < MIN_TERMS:
        return False
    run = min(config.threads * config.width, length)  # elements of a row that the threads of a window read at once

    def of_windows(element_bytes: int) -> float:
        """Sectors of a row of a window; each run begins anywhere in a sector."""
        return -(-length // run) * (run * element_bytes + SECTOR_BYTES - element_bytes) / SECTOR_BYTES

    reads = dict.fromkeys(node for node in walk(reduction.body) if isinstance(node, Read))
    sizes = [single.context.arrays[read.array].dtype.bytes for read in reads if along.name in free_indices(read)]
    stored = reduction.dtype.bytes
    columns = (sum(sizes) * points + stored * length) / SECTOR_BYTES + of_windows(stored)
    return points // length * sum(map(of_windows, sizes)) >= MIN_SECTORS_RATIO * columns
