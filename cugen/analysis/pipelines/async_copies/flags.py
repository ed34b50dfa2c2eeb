"""Claims about release flags between blocks, as stream-K has them: each wait is for a flag that a block with a lower
dynamic id sets, once, after its writes.

Which blocks and threads wait and release follows from the conditions round these statements, which are evaluated for
every block, thread and iteration of a launch with known sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import sympy
from numpy.typing import NDArray

from cugen.analysis.pipelines.claims import Claim, Fault, NotRecognised, claim_of
from cugen.analysis.pipelines.expressions import BLOCK, THREAD, reduced
from cugen.analysis.totals.affine import evaluator
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import (
    COMPARISONS,
    AcquireSpinWait,
    Barrier,
    Comparison,
    Define,
    FetchBlockId,
    For,
    Guard,
    If,
    LoadBlockId,
    NamedBarrier,
    Node,
    ReleaseFlag,
)
from cugen.plan.symbols import Integer, integer
from cugen.plan.traversal.walking import accesses_of, walk_nodes

_MAX_CASES = 1 << 24  # blocks x threads x iterations


@dataclass(frozen=True, slots=True)
class _Step:
    """A statement with the conditions and loops round it; None for a condition on data."""

    node: Node
    conditions: tuple[Comparison | None, ...]
    loops: tuple[tuple[sympy.Symbol, range], ...]
    values: Mapping[sympy.Symbol, Integer]


def flags(kernel: Kernel) -> Claim | None:
    """The claim about a kernel's release flags; None for one without."""
    nodes = list(walk_nodes(kernel.body))
    if not any(isinstance(node, ReleaseFlag) for node in nodes):
        return None
    reason = (
        "each flag that a block waits for is set once, by a block with a lower dynamic id and after a barrier that "
        "follows its writes"
    )
    return claim_of("flags", reason, _faults(kernel))


def _faults(kernel: Kernel) -> Iterator[Fault]:
    known = {name: integer(low) for name, (low, high) in kernel.ranges if low == high}
    steps = list(_steps(kernel.body, (), (), known))
    yield from _id_faults(kernel, steps)
    released = list(_flags_of(kernel, [step for step in steps if isinstance(step.node, ReleaseFlag)]))
    awaited = list(_flags_of(kernel, [step for step in steps if isinstance(step.node, AcquireSpinWait)]))
    setters: dict[int, int] = {}
    for flag, block in released:
        if flag in setters:
            yield Fault(f"flag {flag} is set twice, by blocks {setters[flag]} and {block}")
        setters[flag] = block
    for flag, block in awaited:
        if flag not in setters:
            yield Fault(f"block {block} waits for flag {flag}, which none sets")
        elif setters[flag] >= block:
            yield Fault(f"block {block} waits for block {setters[flag]}, which may begin later")
    waits = [flag for flag, _ in awaited]
    if len(waits) != len(set(waits)) or set(waits) != set(setters):
        yield Fault("a flag isn't awaited by exactly one thread, which clears it", refutes=False)
    yield from _order_faults(kernel, steps)


def _id_faults(kernel: Kernel, steps: list[_Step]) -> Iterator[Fault]:
    """Unless one thread of each block fetches a dynamic id, which others read after a barrier."""
    fetches = [n for n, step in enumerate(steps) if isinstance(step.node, FetchBlockId)]
    loads = [n for n, step in enumerate(steps) if isinstance(step.node, LoadBlockId)]
    if not fetches or not loads:
        yield Fault("blocks have no dynamic ids: one may wait for another that hasn't begun", refutes=False)
        return
    blocks = [block for _, block in _flags_of(kernel, [steps[n] for n in fetches])]
    if len(blocks) != len(set(blocks)):
        yield Fault("several threads of a block fetch ids: some belong to none")
    for load in loads:
        if not any(_has_barrier(steps[n:load], steps[n], steps[load]) for n in fetches):
            yield Fault("the block id is read without a barrier after it has been fetched")


def _order_faults(kernel: Kernel, steps: list[_Step]) -> Iterator[Fault]:
    """Unless a barrier is between the writes of a block and its release, and between a wait and the reads."""
    guarded = {step.access.array.symbol for step in _flag_nodes(steps)}
    exchanged = {array.symbol for array in kernel.workspace} - guarded

    def accesses(step: _Step, *, loads: bool) -> bool:
        return any(a.array.symbol in exchanged and a.is_load == loads for a in accesses_of(step.node))

    for position, step in enumerate(steps):
        if isinstance(step.node, ReleaseFlag):
            before = [n for n in range(position) if accesses(steps[n], loads=False)]
            if before and not all(_has_barrier(steps[n:position], steps[n], step) for n in before):
                yield Fault("a flag is set without a barrier after the writes of the block's threads")
        if isinstance(step.node, AcquireSpinWait):
            after = [n for n in range(position, len(steps)) if accesses(steps[n], loads=True)]
            if after and not _has_barrier(steps[position : after[0]], step, steps[after[0]]):
                yield Fault("data is read without a barrier after the wait for its flag")


def _has_barrier(steps: list[_Step], first: _Step, last: _Step) -> bool:
    """Whether a barrier is among steps that all threads pass between two of them: one of the block under no other
    conditions than the last one's, or a named one, with a single number, under none but those of both."""

    def separates(step: _Step) -> bool:
        conditions = set(step.conditions)
        match step.node:
            case Barrier():
                return conditions <= set(last.conditions)
            case NamedBarrier(number=number) if not step.node.is_of_warp:
                return number.is_Integer and conditions <= set(first.conditions) & set(last.conditions)
        return False

    return any(map(separates, steps))


def _flag_nodes(steps: list[_Step]) -> list[ReleaseFlag | AcquireSpinWait]:
    return [step.node for step in steps if isinstance(step.node, ReleaseFlag | AcquireSpinWait)]


def _steps(
    nodes: tuple[Node, ...],
    conditions: tuple[Comparison | None, ...],
    loops: tuple[tuple[sympy.Symbol, range], ...],
    values: Mapping[sympy.Symbol, Integer],
) -> Iterator[_Step]:
    """All statements in source order."""
    values = dict(values)
    for node in nodes:
        match node:
            case Define() if node.then is None:
                values[node.index.symbol] = reduced(node.index.definition.xreplace(values))
            case LoadBlockId():
                values[node.index.symbol] = node.index.definition.xreplace(values)
                yield _Step(node, conditions, loops, values)
            case For():
                start, stop = (reduced(end.xreplace(values)) for end in (node.loop.start, node.loop.stop))
                inner = loops
                if start.is_Integer and stop.is_Integer:
                    trips = range(int(start), int(stop), int(node.loop.step))
                    inner = (*loops, (node.loop.index.symbol, trips))
                yield from _steps(node.body, conditions, inner, values)
            case If():
                terms = node.condition.terms if isinstance(node.condition, Guard) else (None,)
                resolved = tuple(
                    term and Comparison(term.left.xreplace(values), term.operator, term.right.xreplace(values))
                    for term in terms
                )
                yield from _steps(node.then, (*conditions, *resolved), loops, values)
                yield from _steps(node.orelse, (*conditions, *_negated(resolved)), loops, values)
            case _:
                yield _Step(node, conditions, loops, values)


def _negated(terms: tuple[Comparison | None, ...]) -> tuple[Comparison | None, ...]:
    if len(terms) != 1 or terms[0] is None:
        return (None,)
    return (terms[0].opposite,)


def _flags_of(kernel: Kernel, steps: list[_Step]) -> Iterator[tuple[int, int]]:
    """The flags, or the counter, that steps access, with their blocks, once for each thread and iteration."""
    blocks = kernel.grid[0].xreplace({name: integer(low) for name, (low, high) in kernel.ranges if low == high})
    if not blocks.is_Integer or kernel.grid[1:] != (1, 1):
        raise NotRecognised("the number of blocks is known at launch only")
    for step in steps:
        axes = ((BLOCK, range(int(blocks))), (THREAD, range(kernel.threads)), *step.loops)
        shape = tuple(len(values) for _, values in axes)
        if np.prod(shape) > _MAX_CASES:
            raise NotRecognised("a launch has too many blocks, threads and iterations")
        numbers = {
            name: np.array(values).reshape([-1 if n == axis else 1 for n in range(len(axes))])
            for axis, (name, values) in enumerate(axes)
        }
        executes = np.ones(shape, dtype=bool)
        for term in step.conditions:
            if term is None:
                raise NotRecognised("a flag is under a condition of data")
            executes &= COMPARISONS[term.operator](_values(term.left, numbers), _values(term.right, numbers))
        flag = np.broadcast_to(_values(_subscript(step), numbers), shape)
        block = np.broadcast_to(numbers[BLOCK], shape)
        yield from zip(map(int, flag[executes]), map(int, block[executes]), strict=True)


def _subscript(step: _Step) -> Integer:
    node = step.node
    assert isinstance(node, ReleaseFlag | AcquireSpinWait | FetchBlockId)
    access = node.counter if isinstance(node, FetchBlockId) else node.access
    return access.subscripts[0].xreplace(step.values)


def _values(expr: Integer, numbers: Mapping[sympy.Symbol, NDArray[np.int64]]) -> NDArray[np.int64]:
    if not expr.free_symbols <= numbers.keys():
        raise NotRecognised(f"`{expr}` isn't a function of the block, the thread and loops with constant bounds")
    ranges = {name: (int(values.min(initial=0)), int(values.max(initial=0))) for name, values in numbers.items()}
    result: NDArray[np.int64] = np.asarray(evaluator(expr, ranges)(numbers))
    return result
