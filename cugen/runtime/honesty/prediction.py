"""What a plan says that its kernels do to memory: for every thread the sequence of addresses, from the plan alone.

The walk runs the nodes of a kernel for all threads of the launch at once, with masks for guards, and never looks at
the text of the .cu; only the line of each access comes from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import sympy
from numpy.typing import NDArray

from cugen.plan.kernel import Kernel, Plan
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import (
    Accumulate,
    Arrive,
    Assign,
    Await,
    Copy,
    Define,
    For,
    Guard,
    If,
    Let,
    Load,
    Node,
    Publish,
    ReturnUnless,
    Store,
    TakeTicket,
    Ticket,
)
from cugen.plan.symbols import Integer, symbol
from cugen.plan.walking import accesses, walk_nodes
from cugen.reference.tracked import Tracked
from cugen.runtime.device import Job
from cugen.runtime.honesty.integers import Numbers, holds, value_of
from cugen.runtime.honesty.values import (
    Mask,
    Memory,
    Values,
    deciding_locals,
    has_elements,
    memory_of,
    merged,
    unknown,
    unsure,
)
from cugen.spec.expressions import Expr, Op, Select, children

# As a table of predicted accesses has them; `place` is the access's number in the plan, `thread` counts through the
# whole launch, `step` the statements that the walk had run before.
EVENT = np.dtype([("launch", "<u4"), ("thread", "<u4"), ("place", "<u4"), ("step", "<u4"), ("offset", "<i8")])


@dataclass(frozen=True, slots=True)
class Place:
    """One access of the plan and where it stands in the .cu."""

    kernel: str
    text: str  # `load As[ty, k]`
    array: str  # as traces call it
    kind: str  # read, write or atomic
    bytes: int
    line: int


@dataclass(frozen=True)
class Prediction:
    """`table` (dtype `EVENT`) holds the accesses outside registers; those of one thread are in program order.

    `unknown` holds pairs: where data that isn't known decides whether or where a thread makes an access, the table
    lacks it. `threads` are those of a block, for each launch."""

    places: tuple[Place, ...]
    table: NDArray[np.void]
    unknown: NDArray[np.void]  # of EVENT; launch, thread and place count
    threads: tuple[int, ...]


def predicted(plan: Plan, lines: Mapping[int, int], job: Job) -> Prediction:
    """What the plan predicts of a job's launches. `lines` are those of `cugen.emit.provenance.access_lines`."""
    params = {**job.manifest.params, **job.params}
    names = {symbol(in_c): params[name] for name, in_c in plan.param_symbols}
    memory = memory_of(plan, job)
    places: list[Place] = []
    tables: list[NDArray[np.void]] = []
    unknowns: list[NDArray[np.void]] = []
    for launch, kernel in enumerate(plan.kernels):
        planned = list(accesses(kernel.body))
        numbers = {id(access): len(places) + n for n, access in enumerate(planned)}
        places += [_place(kernel, access, lines[numbers[id(access)]]) for access in planned]
        walk = _Walk(launch, kernel, names, numbers, memory, job)
        walk.run()
        tables += walk.events
        unknowns += walk.unknown
    nothing = np.zeros(0, EVENT)
    return Prediction(
        tuple(places),
        np.concatenate([nothing, *tables]),
        np.concatenate([nothing, *unknowns]),
        tuple(kernel.threads for kernel in plan.kernels),
    )


def _place(kernel: Kernel, access: Access, line: int) -> Place:
    array = access.array
    text = f"{access.kind} {array.symbol}[{', '.join(map(str, access.subscripts))}]"
    kind = {"load": "read", "atomic": "atomic"}.get(access.kind, "write")
    return Place(kernel.name, text, traced_name(array), kind, access.width * array.dtype.bytes, line)


def traced_name(array: Array) -> str:
    """What a trace calls the memory that the array lies in."""
    if array.dynamic:
        return "shared_memory"
    return array.name if array.space in ("global", "readonly") else array.symbol


@dataclass
class _Walk:
    """All threads of one launch. `names` holds indices, `locals` the values that decide about accesses, `doubt` the
    threads whose value of a name is not known."""

    launch: int
    kernel: Kernel
    params: Mapping[sympy.Symbol, int]
    numbers: Mapping[int, int]
    memory: Memory
    job: Job
    names: dict[sympy.Symbol, Numbers] = field(default_factory=dict)
    doubt: dict[sympy.Symbol, Mask] = field(default_factory=dict)
    locals: dict[str, Tracked] = field(default_factory=dict)
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
        self.decides = deciding_locals(self.kernel.body)
        self.offsets = {id(access): access.offset() for access in accesses(self.kernel.body)}
        self.values = Values(self.job, self.locals, self.names, self._read)
        if self.count:
            self._nodes(self.kernel.body, np.ones(self.count, np.bool_))

    def _nodes(self, nodes: tuple[Node, ...], on: Mask) -> Mask:
        """Runs the nodes for the threads `on`; those of them that have not returned."""
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
            case Ticket():
                self._access(node.access, on)
                self._name(node.index.symbol, node.index.definition)
            case TakeTicket() | Arrive():
                self._access(node.counter, on)
                self._access(node.target, on)
            case Publish() | Await():
                # Blocks run one after another where they are traced: an awaited flag is set when it is asked for, and
                # blocks arrive in their order.
                self._access(node.access, on)
            case ReturnUnless():
                on, open_question = self._guard(node.guard, on)
                self._give_up(self.kernel.body, open_question)
            case For():
                self._loop(node, on)
            case If():
                self._choice(node, on)
            case Copy():
                inside = on if node.guard is None else self._held(node.guard, on, (node.source,))
                self._access(node.source, inside)
                self._access(node.target, on)
            case Load():
                self._load(node, on)
            case Store():
                self._value(node.value, on)
                self._access(node.access, on)
            case Accumulate():
                self._value(node.value, on)
            case Let() | Assign():
                if node.value is not None:
                    self._value(node.value, on)
                    if node.local.name in self.decides:
                        self._keep(node.local.name, self.values.of(node.value), on)
        return on

    def _load(self, node: Load, on: Mask) -> None:
        inside = on if node.guard is None else self._held(node.guard, on, (node.access,))
        self._access(node.access, inside)
        if node.otherwise is not None:
            self._value(node.otherwise, on & ~inside)
        if node.local.name in self.decides:
            value = self._read(node.access)
            if node.otherwise is not None:
                value = merged(value, self.values.of(node.otherwise), inside)
            self._keep(node.local.name, value, on)

    def _name(self, name: sympy.Symbol, definition: Integer) -> None:
        self.names[name] = value_of(definition, self.names)
        self.doubt[name] = self._doubt(definition)

    def _keep(self, name: str, value: Tracked, on: Mask) -> None:
        """A local's new value, also as a name in subscripts where it is an integer."""
        value = merged(value, self.locals.get(name), on)
        self.locals[name] = value
        if value.value.dtype.kind in "iu":
            self.names[symbol(name)] = value.value.astype(np.int64)
            self.doubt[symbol(name)] = unsure(value)

    def _doubt(self, *expressions: Integer) -> Mask:
        """The threads for which one of the expressions has no known value."""
        doubt = np.zeros((), np.bool_)
        for expr in expressions:
            for name in expr.free_symbols:
                doubt = doubt | self.doubt.get(name, False)
        return doubt

    def _guard(self, guard: Guard, on: Mask) -> tuple[Mask, Mask]:
        """The threads for which the guard surely holds, and those for which that is not known."""
        holding, doubt = on, np.zeros((), np.bool_)
        for term in guard.terms:
            holding = holding & holds(term, self.names)
            doubt = doubt | self._doubt(term.left, term.right)
        return holding & ~doubt, on & doubt

    def _held(self, guard: Guard, on: Mask, held: tuple[Access, ...]) -> Mask:
        """The threads for which the guard surely holds; for the doubtful ones the `held` accesses are unknown."""
        inside, open_question = self._guard(guard, on)
        for access in held:
            self._unknown(access, open_question)
        return inside

    def _choice(self, node: If, on: Mask) -> None:
        if isinstance(node.condition, Guard):
            then, open_question = self._guard(node.condition, on)
        else:
            self._value(node.condition, on)
            then, open_question = self._condition(node.condition, on)
        self._give_up((*node.then, *node.orelse), open_question)
        self._nodes(node.then, then)
        self._nodes(node.orelse, on & ~then & ~open_question)

    def _condition(self, condition: Expr, on: Mask) -> tuple[Mask, Mask]:
        truth = self.values.of(condition)
        doubt = unsure(truth)
        return on & truth.value & ~doubt, on & doubt

    def _loop(self, node: For, on: Mask) -> None:
        loop = node.loop
        open_question = on & self._doubt(loop.start, loop.stop)
        self._give_up(node.body, open_question)
        on = on & ~open_question
        start, stop = value_of(loop.start, self.names), value_of(loop.stop, self.names)
        distance = 0
        while (running := on & (start + distance < stop)).any():
            self.names[loop.index.symbol] = stop - 1 - distance if loop.downward else start + distance
            self._nodes(node.body, running)
            distance += loop.step

    def _give_up(self, nodes: tuple[Node, ...], threads: Mask) -> None:
        """What the nodes would do in these threads is not known."""
        if not threads.any():
            return
        for access in accesses(nodes):
            self._unknown(access, threads)
        for node in walk_nodes(nodes):
            if isinstance(node, Let | Load | Assign) and node.local.name in self.decides:
                self._keep(node.local.name, unknown(node.local.dtype), threads)

    def _value(self, expr: Expr, on: Mask) -> None:
        """Makes the accesses of an expression, of a choice only those that are chosen."""
        if not has_elements(expr):
            return
        match expr:
            case Element():
                self._access(expr.access, on)
            case Select():
                self._value(expr.condition, on)
                then, open_question = self._condition(expr.condition, on)
                self._value(expr.then, then)
                self._value(expr.orelse, on & ~then & ~open_question)
                self._unknown_elements(expr.then, open_question)
                self._unknown_elements(expr.orelse, open_question)
            case Op() if expr.name in ("and", "or") and has_elements(expr.args[1]):
                self._value(expr.args[0], on)
                truth, open_question = self._condition(expr.args[0], on)
                on = truth if expr.name == "and" else on & ~truth & ~open_question
                self._value(expr.args[1], on)
                self._unknown_elements(expr.args[1], open_question)
            case _:
                for child in children(expr):
                    self._value(child, on)

    def _unknown_elements(self, expr: Expr, threads: Mask) -> None:
        if isinstance(expr, Element):
            self._unknown(expr.access, threads)
        for child in children(expr):
            self._unknown_elements(child, threads)

    def _offset(self, access: Access) -> Numbers:
        return value_of(self.offsets[id(access)], self.names)

    def _read(self, access: Access) -> Tracked:
        """The element, for each thread; anything for those that don't read it."""
        value = self.memory.read(access, self._offset(access))
        doubt = self._doubt(self.offsets[id(access)])
        if not doubt.any():
            return value
        return merged(unknown(access.array.dtype.compute), value, doubt)

    def _access(self, access: Access, on: Mask) -> None:
        array = access.array
        if array.space == "register" or not on.any():
            return
        if access.rank is not None:  # a trace has only what a block does to its own
            self._unknown(access, on)
            return
        doubt = on & self._doubt(self.offsets[id(access)])
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
        rows["launch"], rows["thread"], rows["place"] = self.launch, threads, self.numbers[id(access)]
        rows["step"], rows["offset"] = self.step, offsets
        return rows
