"""Branches inside expressions: choices that compilers may branch on, and functions that branch on their operands.

A compiler decides, and the analysis has none: this is a bound. Below it, compilers of CUDA 13 select for sm_75 to
sm_120; above it, the code may branch. `tests/compiled/test_branches.py` compares it with machine code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import sympy

from cugen.analysis.totals.sites import THREAD, ProgramPoint, Step
from cugen.machine import Target, is_known
from cugen.machine.functions import EXTREMUM_INSTRUCTIONS, STRAIGHT_FUNCTIONS
from cugen.plan.intervals import fits
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Component, Element, IndexLocal, Shuffled
from cugen.plan.nodes import Assign, Define, For, Load, Node, Store
from cugen.plan.symbols import FloorDiv, Mod, Range, bounds, symbol
from cugen.plan.traversal.usage import integers
from cugen.plan.traversal.walking import values_of, walk_nodes
from cugen.spec.expressions import Cast, Const, Expr, Op, ParamValue, ScalarValue, Select, children, walk
from cugen.spec.types import INT32, DType, Kind

# Machine instructions of each side of a choice up to which it is selected. CUDA 13 branches from 7 on (measured).
MAX_SELECTED_INSTRUCTIONS = 4
_MANY = 1 << 10  # instructions: of what is never cheap

_SINGLE = ("add", "sub", "mul", "fma", "neg", "abs", "floor", "ceil", "round", "trunc", "fmax")
_LOGIC = ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "bitand", "bitor", "bitxor", "invert")
_EXTREMA = ("maximum", "minimum")
_WIDE_PRODUCT_INSTRUCTIONS = 4  # of 64-bit integers
_STRAIGHT_OF_INTEGERS = ("shl", "shr", "sign")
_HARDWARE_FLOAT8 = (8, 9)  # compute capability from which on float8 is converted by instructions

LOCAL_MEMORY_BYTES = 64  # per thread, at most: of the range reduction of sin, cos and tan
_REDUCES_RANGE = ("sin", "cos", "tan")


@dataclass(frozen=True, slots=True)
class ConditionalCode:
    """What may branch inside an expression. `kind`: choice, function or conversion; `name`: of the last two."""

    kind: str
    reason: str
    expr: Expr | None = None
    name: str = ""


def conditional_code(step: Step, target: Target) -> Iterator[ConditionalCode]:
    """What may branch in the values of a node: choices whose condition may differ within a warp, without those inside
    of others, and functions."""
    for value in values_of(step.node):
        yield from _choices(value, step.point)
        for leaf in walk(value):
            if isinstance(leaf, Op) and may_branch(leaf):
                name = f"{leaf.name} of {leaf.args[0].dtype.name}"
                yield ConditionalCode("function", FUNCTION, None, name)
    if not (is_known(target.name) and target.capability >= _HARDWARE_FLOAT8):
        for name in sorted({dtype.name for dtype in _converted(step)}):
            reason = f"{target.name} has no instruction for it, and its code branches on the value"
            yield ConditionalCode("conversion", reason, None, f"conversion of {name}")


def wide_divisions(kernel: Kernel) -> Iterator[Node]:
    """The nodes that divide an index which differs within a warp in 64 bits, by a value unknown to a compiler."""
    ranges = dict(kernel.ranges)
    varying = set(THREAD)
    for node in walk_nodes(kernel.body):
        if any(_is_wide_division(q, ranges, varying) for e in integers((node,)) for q in e.atoms(FloorDiv, Mod)):
            yield node
        match node:
            case Define(index=index) if index.definition.free_symbols & varying:
                varying.add(index.symbol)
            case Load(local=local):
                varying.add(symbol(local.name))
            case For(loop=loop) if loop.start.free_symbols & varying:
                varying.add(loop.index.symbol)


def _is_wide_division(quotient: sympy.Expr, ranges: Mapping[sympy.Symbol, Range], varying: set[sympy.Symbol]) -> bool:
    is_unknown = any(not _is_fixed(ranges.get(name)) for name in quotient.args[1].free_symbols)
    is_wide = any(not fits(bounds(arg, ranges), INT32) for arg in quotient.args)
    return is_unknown and is_wide and bool(quotient.free_symbols & varying)


def _is_fixed(values: Range | None) -> bool:
    return values is not None and values[0] == values[1]


def _choices(expr: Expr, point: ProgramPoint) -> Iterator[ConditionalCode]:
    if is_choice(expr) and not is_selected(expr) and not _is_uniform(condition_of(expr), point):
        yield ConditionalCode("choice", _CHOICE, expr)
    else:
        for part in children(expr):
            yield from _choices(part, point)


_CHOICE = (
    f"a side may take more than {MAX_SELECTED_INSTRUCTIONS} instructions, or has a choice itself: compilers may branch"
    " or select"
)
FUNCTION = "its code branches on its operands"


def selects(expr: Expr) -> int:
    """The number of `a ? b : c` that are selected, without those inside of choices that may branch."""
    if is_choice(expr) and not is_selected(expr):
        return 0
    return isinstance(expr, Select) + sum(map(selects, children(expr)))


def is_choice(expr: Expr | None) -> bool:
    """Whether C evaluates only some operands: `a ? b : c`, `a && b`, `a || b`."""
    return isinstance(expr, Select) or (isinstance(expr, Op) and expr.name in ("and", "or"))


def condition_of(choice: Expr) -> Expr:
    return choice.condition if isinstance(choice, Select) else children(choice)[0]


def is_selected(choice: Expr) -> bool:
    """Whether compilers surely evaluate all operands and select."""
    sides = (choice.then, choice.orelse) if isinstance(choice, Select) else children(choice)[1:]
    return all(_instructions(side) <= MAX_SELECTED_INSTRUCTIONS for side in sides)


def may_branch(op: Op) -> bool:
    """Whether the code of an operator or function may branch on its operands."""
    dtype = op.args[0].dtype
    if op.name in (*_SINGLE, *_LOGIC, *_EXTREMA):
        return False
    if dtype.is_float:
        return op.name not in STRAIGHT_FUNCTIONS[dtype.name] and not _multiplies(op)
    if op.name in ("floordiv", "mod"):
        divisor = op.args[1]
        while isinstance(divisor, Cast):
            divisor = divisor.arg
        return not (isinstance(divisor, Const) and divisor.value)
    return op.name not in _STRAIGHT_OF_INTEGERS


def reduces_range(op: Op) -> bool:
    """Whether the code of a function has an array in local memory, for operands of large magnitude."""
    return op.name in _REDUCES_RANGE


def _multiplies(op: Op) -> bool:
    """Whether a division is by a power of two: compilers multiply by its reciprocal."""
    divisor = op.args[-1]
    return (
        op.name == "div"
        and isinstance(divisor, Const)
        and 2.0**-100 < abs(divisor.value) < 2.0**100
        and math.frexp(abs(divisor.value))[0] == 0.5
    )


def _instructions(expr: Expr) -> int:
    """An upper bound of the instructions of an operand."""
    if isinstance(expr, Select | Shuffled) or (isinstance(expr, Element) and expr.access.array.space != "register"):
        return _MANY
    if isinstance(expr, Cast):
        return _of_conversion(expr.to) + _of_conversion(expr.arg.dtype) + _instructions(expr.arg)
    if isinstance(expr, Component):
        return _of_conversion(expr.vector.element)
    if isinstance(expr, Element):
        return _of_conversion(expr.access.array.dtype)
    return (_of(expr) if isinstance(expr, Op) else 0) + sum(map(_instructions, children(expr)))


def _of_conversion(dtype: DType) -> int:
    if dtype.is_float and dtype.bits == 8:
        return _MANY
    return 1 if dtype.bits < 32 or (dtype.is_integer and dtype.bits == 64) else 0


def _of(op: Op) -> int:
    """An upper bound on all targets, where `operation_instructions` has the rounded count on one."""
    dtype = op.args[0].dtype
    if op.name in ("floordiv", "mod") or op.name not in (*_SINGLE, *_LOGIC, *_EXTREMA):
        return _MANY if not _multiplies(op) else 1
    if op.name in _EXTREMA and dtype.is_float:
        return EXTREMUM_INSTRUCTIONS
    if op.name == "mul" and dtype.is_integer and dtype.bits == 64:
        return _WIDE_PRODUCT_INSTRUCTIONS
    is_narrow = dtype.kind in (Kind.INT, Kind.UINT) and dtype.bits < 32
    return 2 if is_narrow or dtype.bits == 64 else 1


def _is_uniform(condition: Expr, point: ProgramPoint) -> bool:
    """Whether a condition is the same for all lanes of a warp: over constants, params, block indices and counters."""
    counters = {counter.symbol for counter in point.counters}
    return all(_is_uniform_leaf(leaf, point.definitions, counters) for leaf in walk(condition))


def _is_uniform_leaf(leaf: Expr, definitions: Mapping[sympy.Symbol, sympy.Expr], counters: set[sympy.Symbol]) -> bool:
    if isinstance(leaf, Const | ParamValue | ScalarValue | Op | Cast | Select):
        return True
    if isinstance(leaf, IndexLocal):
        value = definitions.get(symbol(leaf.name))
        return value is not None and not value.free_symbols & set(THREAD) and value.free_symbols <= counters
    return False


def _converted(step: Step) -> set[DType]:
    """The float8 types that a node converts from or to."""
    types = [leaf.to for value in values_of(step.node) for leaf in walk(value) if isinstance(leaf, Cast)]
    for value in values_of(step.node):
        types += [leaf.access.array.dtype for leaf in walk(value) if isinstance(leaf, Element)]
        types += [leaf.vector.element for leaf in walk(value) if isinstance(leaf, Component)]
    match step.node:
        case Load(access=access) | Store(access=access) if access.width == 1:
            types.append(access.array.dtype)
        case Assign(local=Component(vector=vector)):
            types.append(vector.element)
    return {dtype for dtype in types if dtype.is_float and dtype.bits == 8}
