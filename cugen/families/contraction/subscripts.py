"""What subscripts of operands the copies of their tiles can follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cugen.families.contraction.windows import Window
from cugen.pieces.grid import fastest_first
from cugen.pieces.kernels import new_lowering
from cugen.pieces.loop_variables import loop_variable
from cugen.plan.request import Refusal, Request
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.spec.expressions import (
    Expr,
    Index,
    IndexValue,
    ParamValue,
    Read,
    Reduce,
    Select,
    conjuncts,
    free_indices,
    walk,
)


def operand_refusal(reads: tuple[Read, ...], k: Index, windows: Mapping[Read, Window]) -> Refusal | None:
    """Why a read is no operand: one that is gathered, has a boundary, or isn't along K."""
    for read in reads:
        if read in windows and any(isinstance(node, Read) for sub in read.subscripts for node in walk(sub)):
            return Refusal(f"takes subscripts without a gather; {read.array} is gathered")
        if read.boundary is not None and _folds(read, windows):
            return Refusal(f"takes windows without a boundary, or zero outside; {read.array} has another boundary")
        if (read.boundary is not None and read not in windows) or read.exact:
            return Refusal(f"takes operands without a boundary; {read.array} has one")
        if k.name not in tile_indices(read, windows):
            return Refusal(f"{read.array} has no subscript that is {k.name} alone")
    return None


def store_refusal(request: Request, reads: tuple[Read, ...], batch: tuple[Index, ...]) -> Refusal | None:
    """Why blocks can't store rows: the output is contiguous along a batch index that all operands have in a compound
    subscript."""
    fastest = fastest_first(request)[0]
    along = fastest.name
    if fastest in batch and all(along in free_indices(read) and along not in bare_indices(read) for read in reads):
        return Refusal(f"stores rows along M, N or a batch; all operands are read at expressions in {along}")
    return None


def uniform_refusal(
    request: Request, reductions: tuple[Reduce, ...], reads: tuple[Read, ...], batch: set[str]
) -> Refusal | None:
    """Why a compound subscript can't be uniform in a block. All threads load tiles, also those whose sum is masked."""
    lowering = new_lowering(request)
    for index in request.group.statements[0].indices:
        lowering.symbols[index.name] = loop_variable(index.name, request.context.extent(index), lowering).symbol
    conditional = frozenset[str]().union(*map(_names, conditions_of(request, reductions)))
    for read in reads:
        for sub, extent in zip(read.subscripts, request.context.arrays[read.array].shape, strict=True):
            if isinstance(sub, IndexValue):
                continue
            if not free_indices(sub) <= batch or any(isinstance(node, Read) for node in walk(sub)):
                reason = f"takes subscripts that are one index, or uniform in a block; those of {read.array} aren't"
                return Refusal(reason)
            try:
                coordinate = to_integer(sub, lowering.symbols)
            except NotAnInteger:
                return Refusal(f"takes integer subscripts; those of {read.array} are not")
            if _names(sub) & conditional and lowering.inside((coordinate,), (extent,)).terms:
                return Refusal(f"loads tiles unconditionally; {read.array} is in bounds only under a condition")
    return None


def conditions_of(request: Request, reductions: tuple[Reduce, ...]) -> tuple[Expr, ...]:
    """The conditions under which terms are added, without those inside of terms."""
    return (*_select_conditions(request, reductions), *conjuncts(reductions[0].where))


def bare_indices(read: Read) -> tuple[str, ...]:
    """The indices that are a subscript by themselves."""
    return tuple(sub.name for sub in read.subscripts if isinstance(sub, IndexValue))


def tile_indices(read: Read, windows: Mapping[Read, Window]) -> frozenset[str]:
    """The indices along which a tile of the operand extends."""
    return free_indices(read) if read in windows else frozenset(bare_indices(read))


def _select_conditions(request: Request, reductions: tuple[Reduce, ...]) -> Iterator[Expr]:
    """The conditions of selects with a reduction in one of their branches."""
    for statement in request.group.statements:
        for node in walk(statement.value):
            if isinstance(node, Select) and any(n in reductions for b in (node.then, node.orelse) for n in walk(b)):
                yield node.condition


def _names(expr: Expr) -> frozenset[str]:
    return frozenset(node.name for node in walk(expr) if isinstance(node, IndexValue | ParamValue))


def _folds(read: Read, windows: Mapping[Read, Window]) -> bool:
    """Whether a window has elements outside of the array that are not zero."""
    return read in windows and read.boundary is not None and read.boundary.mode != "zero"
