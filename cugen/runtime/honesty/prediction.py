"""The predicted access sequence of a plan: the addresses that each thread of its kernels accesses.

An interpreter executes the nodes of a kernel for all threads of a launch, with masks for guards. It doesn't use the
text of the .cu, except for the line of each access. TMA, wgmma and mbarriers access memory without loads and stores of
threads: traces have none of them, and there is no prediction either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import sympy
from numpy.typing import NDArray

from cugen.plan.kernel import Kernel, Plan
from cugen.plan.memory import ARGUMENTS, UNKNOWN_OFFSET, Access, Array, Component, Element, Vector
from cugen.plan.nodes import (
    Accumulate,
    AcquireSpinWait,
    Assign,
    AtomicAdd,
    Copy,
    CountArrival,
    Define,
    FetchBlockId,
    For,
    Guard,
    If,
    Let,
    Load,
    LoadBlockId,
    LoadMatrix,
    Node,
    ReleaseFlag,
    ReturnUnless,
    Store,
    StoreMatrix,
)
from cugen.plan.pipeline_nodes import PipelineNode
from cugen.plan.symbols import Integer, symbol
from cugen.plan.traversal.walking import accesses, walk_nodes
from cugen.reference.tracked import Tracked
from cugen.runtime.device import Job
from cugen.runtime.honesty.integers import Numbers, holds, value_of
from cugen.runtime.honesty.values import (
    Mask,
    Memory,
    Values,
    has_elements,
    memory_of,
    merged,
    relevant_locals,
    unknown,
    unsure,
)
from cugen.spec.expressions import Expr, Op, Select, children

# A predicted access: `thread` is linear in the launch, `access` the number in the plan, `step` counts the
# statements executed before.
EVENT = np.dtype([("launch", "<u4"), ("thread", "<u4"), ("access", "<u4"), ("step", "<u4"), ("offset", "<i8")])


@dataclass(frozen=True, slots=True)
class PlannedAccess:
    """An access of the plan, with its line in the .cu."""

    kernel: str
    text: str  # `load As[ty, k]`
    array: str  # its name in traces
    kind: str  # read, write or atomic
    bytes: int
    line: int


@dataclass(frozen=True)
class Prediction:
    """`table` (dtype `EVENT`) has the memory accesses, those of one thread in program order.

    `unknown` has the accesses of threads whose predicate or address depends on unknown data; they are not in the table.
    `threads` are the threads per block of each launch."""

    accesses: tuple[PlannedAccess, ...]
    table: NDArray[np.void]
    unknown: NDArray[np.void]  # of EVENT; launch, thread and access are valid
    threads: tuple[int, ...]


def predict(plan: Plan, lines: Mapping[int, int], job: Job) -> Prediction:
    """The predicted accesses of a job's launches. `lines` are those of `cugen.emit.provenance.access_lines`."""
    params = {**job.manifest.params, **job.params}
    names = {symbol(in_c): params[name] for name, in_c in plan.param_symbols}
    memory = memory_of(plan, job)
    predicted: list[PlannedAccess] = []
    tables: list[NDArray[np.void]] = []
    unknowns: list[NDArray[np.void]] = []
    for launch, kernel in enumerate(plan.kernels):
        planned = list(accesses(kernel.body))
        numbers = {access.serial: len(predicted) + n for n, access in enumerate(planned)}
        predicted += [_planned_access(kernel, access, lines[numbers[access.serial]]) for access in planned]
        interpreter = _Interpreter(launch, kernel, names, numbers, memory, job)
        interpreter.run()
        tables += interpreter.events
        unknowns += interpreter.unknown
    nothing = np.zeros(0, EVENT)
    return Prediction(
        tuple(predicted),
        np.concatenate([nothing, *tables]),
        np.concatenate([nothing, *unknowns]),
        tuple(kernel.threads for kernel in plan.kernels),
    )


def _planned_access(kernel: Kernel, access: Access, line: int) -> PlannedAccess:
    array = access.array
    text = f"{access.kind} {array.symbol}[{', '.join(map(str, access.subscripts))}]"
    kind = {"load": "read", "matrix_load": "read", "atomic": "atomic"}.get(access.kind, "write")
    return PlannedAccess(kernel.name, text, traced_name(array), kind, access.width * array.dtype.bytes, line)


def traced_name(array: Array) -> str:
    """Name of the array's memory in traces."""
    if array.dynamic:
        return "shared_memory"
    return array.name if array.space in ARGUMENTS else array.symbol


@dataclass(frozen=True, slots=True)
class _LoadedVector:
    """A vector in registers: where its first element was, and the threads for which that is unknown."""

    array: Array
    offset: Numbers
    doubt: Mask


@dataclass
class _Interpreter:
    """SIMT interpreter of one launch.

    `names` are values of indices, `locals` those that accesses depend on, `doubt` masks of the threads for which a name
    is unknown."""

    launch: int
    kernel: Kernel
    params: Mapping[sympy.Symbol, int]
    numbers: Mapping[int, int]
    memory: Memory
    job: Job
    names: dict[sympy.Symbol, Numbers] = field(default_factory=dict)
    doubt: dict[sympy.Symbol, Mask] = field(default_factory=dict)
    locals: dict[str, Tracked] = field(default_factory=dict)
    vectors: dict[str, _LoadedVector] = field(default_factory=dict)  # by name, those that one access loaded
    events: list[NDArray[np.void]] = field(default_factory=list)
    unknown: list[NDArray[np.void]] = field(default_factory=list)
    step: int = 0

    def run(self) -> None:
        self.names.update({name: np.asarray(value, np.int64) for name, value in self.params.items()})
        grid = tuple(int(value_of(extent, self.names)) for extent in self.kernel.grid)
        x, y, z = self.kernel.block
        extents = (grid[2], grid[1], grid[0], z, y, x)
        self.count = int(np.prod(extents))
        axes = [a.ravel() for a in np.indices(extents, np.int64)]
        for name, axis in zip(("blockIdx.z", "blockIdx.y", "blockIdx.x"), axes[:3], strict=True):
            self.names[symbol(name)] = axis
        for name, axis in zip(("threadIdx.z", "threadIdx.y", "threadIdx.x"), axes[3:], strict=True):
            self.names[symbol(name)] = axis
        self.relevant = relevant_locals(self.kernel.body)
        self.offsets = {access.serial: access.offset() for access in accesses(self.kernel.body)}
        self.values = Values(self.job, self.locals, self.names, self._read, self._component)
        self.names[UNKNOWN_OFFSET], self.doubt[UNKNOWN_OFFSET] = np.zeros((), np.int64), np.ones((), np.bool_)
        if self.count:
            self._nodes(self.kernel.body, np.ones(self.count, np.bool_))

    def _nodes(self, nodes: tuple[Node, ...], on: Mask) -> Mask:
        """Executes the nodes for the active threads `on`; returns those that have not returned."""
        for node in nodes:
            if not on.any():
                return on
            self.step += 1
            on = self._node(node, on)
        return on

    def _node(self, node: Node, on: Mask) -> Mask:
        match node:
            case Define():
                self._name(node.index.symbol, node.index.definition)
            case LoadBlockId():
                self._access(node.access, on)
                self._name(node.index.symbol, node.index.definition)
            case FetchBlockId() | CountArrival():
                self._access(node.counter, on)
                self._access(node.target, on)
            case ReleaseFlag() | AcquireSpinWait():
                # Traced blocks run sequentially: a flag is already set when a later block reads it.
                self._access(node.access, on)
            case ReturnUnless():
                on, doubtful = self._guard(node.guard, on)
                self._mark_unknown(self.kernel.body, doubtful)
            case For():
                self._loop(node, on)
            case If():
                self._choice(node, on)
            case Copy():
                inside = on if node.guard is None else self._masked(node.guard, on, (node.source,))
                self._access(node.source, inside)
                self._access(node.target, on)
            case LoadMatrix():
                self._access(node.source, on)
            case StoreMatrix():
                inside = on if node.guard is None else self._masked(node.guard, on, (node.target,))
                self._access(node.target, inside)
            case Load():
                self._load(node, on)
            case Store() | AtomicAdd():
                self._value(node.value, on)
                self._access(node.access, on)
            case Accumulate():
                self._value(node.value, on)
            case Let() | Assign():
                if isinstance(node.local, Vector | Component):
                    self.vectors.pop(node.local.name, None)
                if node.value is not None:
                    self._value(node.value, on)
                    if node.local.name in self.relevant:
                        self._update(node.local.name, self.values.of(node.value), on)
            case _ if isinstance(node, PipelineNode):
                pass  # accesses nothing by loads and stores of threads
        return on

    def _load(self, node: Load, on: Mask) -> None:
        inside = on if node.guard is None else self._masked(node.guard, on, (node.access,))
        self._access(node.access, inside)
        if isinstance(node.local, Vector):
            self._load_vector(node, node.local)
            return
        if node.otherwise is not None:
            self._value(node.otherwise, on & ~inside)
        if node.local.name in self.relevant:
            value = self._read(node.access)
            if node.otherwise is not None:
                value = merged(value, self.values.of(node.otherwise), inside)
            self._update(node.local.name, value, on)

    def _load_vector(self, node: Load, vector: Vector) -> None:
        """Remembers where a vector comes from; one of an array of vectors, or under a guard, is unknown."""
        self.vectors.pop(vector.name, None)
        if node.guard is None and vector.index is None:
            offset = self.offsets[node.access.serial]
            doubt = np.asarray(self._doubt(offset))
            self.vectors[vector.name] = _LoadedVector(node.access.array, value_of(offset, self.names), doubt)

    def _component(self, part: Component) -> Tracked:
        """An element of a vector, in the same scope as its load."""
        loaded = self.vectors.get(part.vector.name)
        if loaded is None or part.vector.index is not None:
            return unknown(part.dtype)
        value = self.memory.read(loaded.array, loaded.offset + value_of(part.index, self.names))
        doubt = loaded.doubt | self._doubt(part.index)
        return merged(unknown(part.dtype), value, doubt) if doubt.any() else value

    def _name(self, name: sympy.Symbol, definition: Integer) -> None:
        self.names[name] = value_of(definition, self.names)
        self.doubt[name] = self._doubt(definition)

    def _update(self, name: str, value: Tracked, on: Mask) -> None:
        """Updates a local, and the name in subscripts if it is an integer."""
        value = merged(value, self.locals.get(name), on)
        self.locals[name] = value
        if value.value.dtype.kind in "iu":
            self.names[symbol(name)] = value.value.astype(np.int64)
            self.doubt[symbol(name)] = unsure(value)

    def _doubt(self, *expressions: Integer) -> Mask:
        """Mask of the threads for which an expression is unknown."""
        doubt = np.zeros((), np.bool_)
        for expr in expressions:
            for name in expr.free_symbols:
                doubt = doubt | self.doubt.get(name, False)
        return doubt

    def _guard(self, guard: Guard, on: Mask) -> tuple[Mask, Mask]:
        """Masks of the threads for which the guard holds, and for which it is unknown."""
        holding, doubt = on, np.zeros((), np.bool_)
        for term in guard.terms:
            holding = holding & holds(term, self.names)
            doubt = doubt | self._doubt(term.left, term.right)
        return holding & ~doubt, on & doubt

    def _masked(self, guard: Guard, on: Mask, guarded: tuple[Access, ...]) -> Mask:
        """Mask of the threads for which the guard holds; where it is unknown, so are the guarded accesses."""
        inside, doubtful = self._guard(guard, on)
        for access in guarded:
            self._unknown(access, doubtful)
        return inside

    def _choice(self, node: If, on: Mask) -> None:
        if isinstance(node.condition, Guard):
            then, doubtful = self._guard(node.condition, on)
        else:
            self._value(node.condition, on)
            then, doubtful = self._condition(node.condition, on)
        self._mark_unknown((*node.then, *node.orelse), doubtful)
        self._nodes(node.then, then)
        self._nodes(node.orelse, on & ~then & ~doubtful)

    def _condition(self, condition: Expr, on: Mask) -> tuple[Mask, Mask]:
        truth = self.values.of(condition)
        doubt = unsure(truth)
        return on & truth.value & ~doubt, on & doubt

    def _loop(self, node: For, on: Mask) -> None:
        loop = node.loop
        doubtful = on & self._doubt(loop.start, loop.stop)
        self._mark_unknown(node.body, doubtful)
        on = on & ~doubtful
        start, stop = value_of(loop.start, self.names), value_of(loop.stop, self.names)
        distance = 0
        while (running := on & (start + distance < stop)).any():
            self.names[loop.index.symbol] = stop - 1 - distance if loop.downward else start + distance
            self._nodes(node.body, running)
            distance += loop.step

    def _mark_unknown(self, nodes: tuple[Node, ...], threads: Mask) -> None:
        """Marks the nodes' accesses and locals as unknown for these threads."""
        if not threads.any():
            return
        for access in accesses(nodes):
            self._unknown(access, threads)
        for node in walk_nodes(nodes):
            if isinstance(node, Let | Load | Assign) and node.local.name in self.relevant:
                self._update(node.local.name, unknown(node.local.dtype), threads)

    def _value(self, expr: Expr, on: Mask) -> None:
        """Adds the accesses of an expression; of a conditional one those of the selected branch."""
        if not has_elements(expr):
            return
        match expr:
            case Element():
                self._access(expr.access, on)
            case Select():
                self._value(expr.condition, on)
                then, doubtful = self._condition(expr.condition, on)
                self._value(expr.then, then)
                self._value(expr.orelse, on & ~then & ~doubtful)
                self._unknown_elements(expr.then, doubtful)
                self._unknown_elements(expr.orelse, doubtful)
            case Op() if expr.name in ("and", "or") and has_elements(expr.args[1]):
                self._value(expr.args[0], on)
                truth, doubtful = self._condition(expr.args[0], on)
                on = truth if expr.name == "and" else on & ~truth & ~doubtful
                self._value(expr.args[1], on)
                self._unknown_elements(expr.args[1], doubtful)
            case _:
                for child in children(expr):
                    self._value(child, on)

    def _unknown_elements(self, expr: Expr, threads: Mask) -> None:
        if isinstance(expr, Element):
            self._unknown(expr.access, threads)
        for child in children(expr):
            self._unknown_elements(child, threads)

    def _offset(self, access: Access) -> Numbers:
        return value_of(self.offsets[access.serial], self.names)

    def _read(self, access: Access) -> Tracked:
        """The element read by each thread; unspecified for inactive ones."""
        if access.width > 1:
            return unknown(access.array.dtype.compute)
        value = self.memory.read(access.array, self._offset(access))
        doubt = self._doubt(self.offsets[access.serial])
        if not doubt.any():
            return value
        return merged(unknown(access.array.dtype.compute), value, doubt)

    def _access(self, access: Access, on: Mask) -> None:
        array = access.array
        if array.space == "register" or not on.any():
            return
        if access.rank is not None:  # traces don't cover distributed shared memory
            self._unknown(access, on)
            return
        doubt = on & self._doubt(self.offsets[access.serial])
        self._unknown(access, doubt)
        threads = np.flatnonzero(on & ~doubt)
        offsets = np.broadcast_to(self._offset(access), (self.count,))[threads] * array.dtype.bytes
        self.events.append(self._rows(access, threads, offsets + array.dynamic_offset))

    def _unknown(self, access: Access, threads: Mask) -> None:
        if access.array.space != "register" and threads.any():
            numbers = np.flatnonzero(np.broadcast_to(threads, (self.count,)))
            self.unknown.append(self._rows(access, numbers, np.zeros(len(numbers), np.int64)))

    def _rows(self, access: Access, threads: NDArray[np.int64], offsets: Numbers) -> NDArray[np.void]:
        rows = np.zeros(len(threads), EVENT)
        rows["launch"], rows["thread"], rows["access"] = self.launch, threads, self.numbers[access.serial]
        rows["step"], rows["offset"] = self.step, offsets
        return rows
