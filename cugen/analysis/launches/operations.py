"""Work of a launch: operations of its value expressions times the lanes that evaluate them.

Not counted: address arithmetic, which compilers hoist and fold; conversions, comparisons, `abs` and negation, which are
operand modifiers or run on other units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from cugen.analysis.totals.executions import ExecutionCounts
from cugen.analysis.totals.sites import Step
from cugen.plan.nodes import Accumulate, AtomicAdd, Load, Mma
from cugen.plan.pipeline_nodes import Wgmma
from cugen.plan.traversal.walking import values_of
from cugen.spec.expressions import Expr, Op, Select, walk

_FREE = ("to_tf32", "funnel_shift", "neg", "abs", "not", "eq", "ne", "lt", "le", "gt", "ge", "and", "or")
_ARITHMETIC = ("add", "sub", "mul", "div", "divided_by", "fma", "maximum", "minimum", "fmax")
_KINDS = (
    "float32",
    "float64",
    "tensor_float64",
    "tensor_float16",
    "tensor_bfloat16",
    "tensor_tf32",
    "tensor_float8",
    "tensor_int8",
)  # keys of Device.peaks
_PLAIN = (*_ARITHMETIC, "floor", "ceil", "round", "trunc", "sign")


@dataclass(frozen=True, slots=True)
class Work:
    """Operations over a launch: an addition, multiplication, division or function is one, a multiply-add two.

    flop: by compute type (`float32`, `float64`, `tensor_float64` for tensor cores). functions: those of them with
    multi-instruction implementations (sqrt, exp …). An upper bound where not `exact`: both sides of a data-dependent
    choice are counted.
    """

    flop: tuple[tuple[str, int], ...]
    functions: int
    integer: int
    exact: bool

    @property
    def all_flop(self) -> int:
        return sum(count for _, count in self.flop)


def work(steps: Iterable[Step], executions: ExecutionCounts) -> Work:
    """Work of a launch. Raises Unknown if execution counts are unknown."""
    total: Counter[str] = Counter()
    exact = True
    for step in steps:
        counts, is_exact = _operations(step)
        if counts:
            tally = executions.of(step.point)
            exact = exact and is_exact and tally.exact
            for kind, count in counts.items():
                total[kind] += count * tally.lanes
    flop = tuple((kind, total[kind]) for kind in _KINDS if total[kind])
    return Work(flop, total["functions"], total["integer"], exact)


def _operations(step: Step) -> tuple[Counter[str], bool]:
    """Operations of one lane at a node, and whether they are always executed."""
    node = step.node
    counts: Counter[str] = Counter()
    exact = not isinstance(node, Load)  # the value of an out-of-bounds element is evaluated by some lanes only
    for value in values_of(node):
        for leaf in walk(value):
            match leaf:
                case Op():
                    counts.update(_of(leaf))
                case Select():
                    exact = exact and not (_has_operations(leaf.then) or _has_operations(leaf.orelse))
    if isinstance(node, Accumulate | AtomicAdd):
        dtype = node.access.array.dtype.compute
        counts[dtype.name if dtype.is_float else "integer"] += 1
    if isinstance(node, Mma | Wgmma):
        counts[node.instruction.peak] += 2 * node.multiply_adds
    return counts, exact


def _of(op: Op) -> Counter[str]:
    if op.name in _FREE or not (op.dtype.is_float or op.dtype.is_integer):
        return Counter()
    if op.dtype.is_integer:
        return Counter({"integer": 1})
    counts = Counter({op.dtype.name: 2 if op.name == "fma" else 1})
    if op.name not in _PLAIN:
        counts["functions"] = 1
    return counts


def _has_operations(expr: Expr) -> bool:
    return any(isinstance(leaf, Op) and _of(leaf) for leaf in walk(expr))
