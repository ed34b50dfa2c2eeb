"""The registers of a thread: all copies of unrolled code in order, with the live range of each value in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import sympy

from cugen.plan.context import Context
from cugen.plan.kernel import Kernel
from cugen.plan.memory import ARGUMENTS, Access, Component, Element, Start, Vector
from cugen.plan.nodes import (
    Accumulate,
    Assign,
    Barrier,
    ClusterBarrier,
    ConvertFragment,
    Declare,
    Define,
    For,
    Guard,
    If,
    Index,
    Let,
    Load,
    LoadBlockId,
    LoadMatrix,
    Loop,
    Mma,
    NamedBarrier,
    Node,
    ReturnUnless,
    Store,
)
from cugen.plan.pipeline_nodes import ArriveBarrier, AwaitBarrier, Wgmma
from cugen.plan.registers.addresses import POINTER, addresses, pointers
from cugen.plan.registers.known_values import Integers, evaluator, position_of
from cugen.plan.registers.timeline import Timeline, Value
from cugen.plan.symbols import Integer
from cugen.plan.traversal.walking import accesses_of, values_of
from cugen.spec.expressions import Cast, Const, Expr, Local, walk
from cugen.spec.types import BOOL, DType

WORD = 4  # bytes of a register
BASE = 12  # registers of any kernel: temporaries of expressions and addresses (measured with nvcc 13.0)


def registers(kernel: Kernel, context: Context) -> int:
    """The estimated registers of a thread, had it as many as it needs."""
    return Estimate(kernel, context).registers()


def dynamic_arrays(kernel: Kernel, context: Context) -> frozenset[str]:
    """The arrays in registers, by their C names, that are indexed at run time: compilers keep them in local memory."""
    estimate = Estimate(kernel, context)
    estimate.registers()
    return frozenset(estimate.dynamic)


class Estimate:
    """The estimate of one kernel. `dynamic` collects the arrays in registers that are indexed at run time."""

    def __init__(self, kernel: Kernel, context: Context) -> None:
        self.kernel = kernel
        found = list(addresses(kernel, context))
        self.addresses = {address.access.serial: address for address in found}
        self.written = {a.access.array.symbol for a in found if not a.access.is_load}
        self.pointers = pointers(found)
        self.fixed = {
            name: low
            for name, (low, high) in kernel.ranges
            if low == high and name not in {context.symbols[p.name] for p in context.spec.params if p.is_dynamic}
        }
        self.evaluators: dict[Integer, Callable[[Integers], int | None]] = {}
        self.leaves: dict[int, tuple[Local, ...]] = {}
        self.dynamic: set[str] = set()

    def registers(self) -> int:
        code = _Code(self, dict(self.fixed))
        code.run(self.kernel.body)
        return BASE + code.timeline.peak()

    def value(self, expr: Integer, known: Integers) -> int | None:
        """The value of an expression that a compiler knows."""
        if expr not in self.evaluators:
            self.evaluators[expr] = evaluator(expr)
        return self.evaluators[expr](known)

    def locals(self, node: Node) -> tuple[Local, ...]:
        """The locals in the values of a node."""
        if id(node) not in self.leaves:
            self.leaves[id(node)] = tuple(
                leaf for value in values_of(node) for leaf in walk(value) if isinstance(leaf, Local)
            )
        return self.leaves[id(node)]


@dataclass
class _Code:
    """Code that a loop repeats at run time, or the kernel's: a sequence without other loops than unrolled ones.

    `outer` are the names from outside that it uses, and `invariant` the elements of memory that all trips load, with
    their registers and the loop variables on which their address depends."""

    estimate: Estimate
    known: Integers
    loop: sympy.Symbol | None = None
    timeline: Timeline = field(default_factory=Timeline)
    declared: dict[str, int] = field(default_factory=dict)  # registers of an element
    current: dict[object, Value] = field(default_factory=dict)
    outer: dict[object, None] = field(default_factory=dict)
    invariant: dict[Value, tuple[int, frozenset[sympy.Symbol]]] = field(default_factory=dict)
    conditions: tuple[int, ...] = ()
    movable: set[Value] = field(default_factory=set)  # loads that may be done at any time
    count: int = 0

    def run(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self.node(node)

    def node(self, node: Node) -> None:
        match node:
            case For(loop=loop):
                if loop.unroll and (trips := self.trips(loop)) is not None:
                    for trip in trips:
                        self.known[loop.index.symbol] = trip
                        self.run(node.body)
                    self.known.pop(loop.index.symbol, None)
                else:
                    self.repeat(node)
                return
            case If():
                self.branch(node)
                return
            case Declare(array=array):
                if array.space == "register":
                    self.declare(array.symbol, _words(array.dtype))
                return
            case Define(index=index, then=then):
                self.define_index(index, index.definition, late=then is None)
                return
        self.timeline.event()
        if isinstance(node, Barrier | NamedBarrier | ClusterBarrier | ReturnUnless):
            self.timeline.branch()
        for access in accesses_of(node):
            is_element = isinstance(node, Store | Accumulate | LoadMatrix | ConvertFragment | Mma | Wgmma)
            if not (is_element and access.array.space == "register"):
                self.use_access(access)
        for local in self.estimate.locals(node):
            self.use_local(local)
        match node:
            case Let(local=local, value=value):
                if isinstance(local, Vector) and value is None:
                    self.declare(local.name, _vector_words(local))
                else:
                    self.define_local(local, late=self.is_movable(value))
            case Load(local=local, access=access):
                self.define_local(local, late=self.is_read_only(access))
            case Assign(local=local, value=value):
                self.assign(local)
            case LoadBlockId(index=index):
                self.define(index.name, 1, late=False)
            case Start(name=name, array=array, subscripts=subscripts):
                self.use_symbols(subscripts)
                self.define(name, 1 if array.space == "shared" else POINTER, late=True)
            case Store(access=access, value=value) if access.array.space == "register":
                self.define_element(access, late=self.is_movable(value))
            case Accumulate(access=access):
                self.use_element(access)
            case LoadMatrix(target=target):
                self.define_elements(target)
            case ConvertFragment(target=target, source=source):
                self.use_element(source, source.width)
                self.define_elements(target)
            case Mma():
                self.use_element(node.acc_upper, 2)
                self.use_element(node.acc_lower, 2)
                self.use_element(node.a, node.instruction.a_registers)
                self.use_element(node.b, node.instruction.b_registers)
            case Wgmma():
                self.use_element(node.acc_upper, node.acc_upper.width)
                self.use_element(node.acc_lower, node.acc_lower.width)
                self.use_symbols((node.k,))
            case AwaitBarrier(parity=count) | ArriveBarrier(expected_bytes=count) if count is not None:
                self.use_symbols((count,))

    # Loops and branches

    def trips(self, loop: Loop) -> Iterable[int] | None:
        start, stop = self.value(loop.start), self.value(loop.stop)
        if start is None or stop is None:
            span = self.value(sympy.expand(loop.stop - loop.start))
            return None if span is None else range(0, span, loop.step)
        values = range(start, stop, loop.step)
        return reversed(values) if loop.downward else values

    def repeat(self, node: For) -> None:
        """A loop at run time: what it uses from outside is live throughout."""
        loop = node.loop
        inner = _Code(self.estimate, self.known, loop.index.symbol)
        saved = self.known.pop(loop.index.symbol, None)
        inner.define(loop.index.name, 2 if loop.index.is_wide else 1, late=False)
        inner.run(node.body)
        inner.timeline.event()
        inner.use_name(loop.index.name)
        if saved is not None:
            self.known[loop.index.symbol] = saved
        self.timeline.event(inner.timeline.peak() + self.estimate.pointers.get(id(node), 0))
        self.timeline.branch()
        self.use_symbols((loop.start, loop.stop))
        for name in inner.outer:
            if name not in self.current and isinstance(name, tuple) and name[0] in self.declared:
                self.define(name, self.declared[name[0]], late=False)
            self.use_name(name)
        for value, (size, varies) in inner.invariant.items():
            if self.is_repeated(varies):
                self.invariant[value] = (size, varies)
            else:
                self.timeline.define((value, id(node), self.count), size, late=True)
                self.timeline.use((value, id(node), self.count))

    def branch(self, node: If) -> None:
        self.timeline.event()
        if isinstance(node.condition, Guard):
            self.use_symbols(side for term in node.condition.terms for side in (term.left, term.right))
        else:
            for local in self.estimate.locals(node):
                self.use_local(local)
        if not _is_predicated((*node.then, *node.orelse)):
            self.timeline.branch()
        outer = self.conditions
        for body in (node.then, node.orelse):
            self.count += 1
            self.conditions = (*outer, self.count)
            self.run(body)
        self.conditions = outer

    # Names

    def declare(self, name: str, size: int) -> None:
        self.declared[name] = size
        for key in [key for key in self.current if isinstance(key, tuple) and key[0] == name]:
            del self.current[key]

    def define(self, name: object, size: int, *, late: bool) -> None:
        self.count += 1
        self.current[name] = (name, self.count)
        if late:
            self.movable.add(self.current[name])
        self.timeline.define(self.current[name], size, late=late)

    def define_index(self, index: Index, definition: Integer, *, late: bool) -> None:
        value = self.value(definition) if late else None
        if value is not None:
            self.known[index.symbol] = value
            return
        self.known.pop(index.symbol, None)
        self.timeline.event()
        self.use_symbols((definition,))
        if not index.constant:
            self.define(index.name, 2 if index.is_wide else 1, late=late)

    def define_local(self, local: Local, *, late: bool) -> None:
        if isinstance(local, Vector):
            if local.index is not None or local.row is not None:
                self.define_or_keep((local.name, self.vector_position(local)), late)
            else:
                self.declare(local.name, _vector_words(local))
                self.define((local.name, 0), _vector_words(local), late=late)
        else:
            self.define(local.name, _local_words(local), late=late)

    def define_or_keep(self, name: tuple[str, int | None], late: bool) -> None:
        if name[1] is None:
            self.use_all(name[0])
        elif name[0] in self.declared and (not self.conditions or (late and name not in self.current)):
            self.define(name, self.declared[name[0]], late=late)
        elif not late:
            self.use_name(name)

    def define_element(self, access: Access, *, late: bool) -> None:
        self.define_or_keep((access.array.symbol, self.position(access)), late)

    def define_elements(self, access: Access) -> None:
        """The consecutive elements that one access assigns."""
        position = self.position(access)
        for word in range(access.width):
            name = (access.array.symbol, None if position is None else position + word)
            self.define_or_keep(name, late=False)

    def assign(self, local: Local) -> None:
        match local:
            case Component(vector=vector):
                self.use_local(vector)
            case Vector():
                self.use_local(local)
            case _:
                self.use_name(local.name)

    # Uses

    def use_name(self, name: object) -> None:
        if name in self.current:
            self.timeline.use(self.current[name])
            return
        if isinstance(name, tuple) and name[0] in self.declared:
            self.define(name, self.declared[name[0]], late=True)
            self.timeline.use(self.current[name])
        else:
            self.outer[name] = None

    def use_all(self, name: str) -> None:
        """Of an array that is indexed by what only a thread knows, any element."""
        self.estimate.dynamic.add(name)
        for key in [key for key in self.current if isinstance(key, tuple) and key[0] == name]:
            self.use_name(key)

    def use_local(self, local: Local) -> None:
        match local:
            case Element(access=access):
                self.use_access(access)
            case Component():
                self.use_component(local)
            case Vector():
                position = self.vector_position(local)
                if position is None:
                    self.use_all(local.name)
                else:
                    self.use_name((local.name, position))
            case _:
                self.use_name(local.name)

    def use_component(self, component: Component) -> None:
        """One of a narrow vector is converted once, and kept for all of its uses."""
        vector, lane = component.vector, self.value(component.index)
        packed = self.current.get((vector.name, self.vector_position(vector)))
        if vector.element.bytes >= WORD or lane is None or packed is None:
            self.use_local(vector)
            return
        converted = (packed, lane)
        if converted not in self.timeline.sizes:
            self.use_local(vector)
            self.timeline.define(converted, _words(component.dtype), late=True)
        self.timeline.use(converted)

    def use_symbols(self, expressions: Iterable[Integer]) -> None:
        for expr in expressions:
            for name in expr.free_symbols:
                if name not in self.known:
                    self.use_name(name.name)

    def use_access(self, access: Access) -> None:
        if access.array.space == "register":
            self.use_element(access)
            return
        if access.start is not None:
            self.use_name(access.start.name)
        else:
            self.use_symbols(access.subscripts)
        if access.kind == "load" and self.is_read_only(access) and not access.coordinates:
            address = self.estimate.addresses[access.serial]
            size = math.ceil(access.width * access.array.dtype.bytes / WORD)
            if self.is_repeated(address.varies):
                self.invariant[(*address.key(self.known), access.width)] = (size, address.varies)

    def is_repeated(self, varies: frozenset[sympy.Symbol]) -> bool:
        """Whether all trips of the loop load the same, which compilers then load before it."""
        return self.loop is not None and not self.conditions and self.loop not in varies

    def use_element(self, access: Access, count: int = 1) -> None:
        position = self.position(access)
        if position is None:
            self.use_all(access.array.symbol)
            return
        for element in range(position, position + count):
            self.use_name((access.array.symbol, element))

    # Values

    def value(self, expr: Integer) -> int | None:
        return self.estimate.value(expr, self.known)

    def position(self, access: Access) -> int | None:
        """The element of an array in registers."""
        return position_of(access, self.value)

    def vector_position(self, vector: Vector) -> int | None:
        index = 0 if vector.index is None else self.value(vector.index)
        row = 0 if vector.row is None else self.value(vector.row)
        return None if index is None or row is None else index + (row << 16)

    def is_read_only(self, access: Access) -> bool:
        array = access.array
        return array.space in ARGUMENTS and array.symbol not in self.estimate.written

    def is_movable(self, value: Expr | None) -> bool:
        """Whether a value is a constant, or was loaded from memory that doesn't change: it can be had at any time."""
        while isinstance(value, Cast):
            value = value.arg
        match value:
            case None | Const():
                return True
            case Element(access=access) if access.array.space != "register":
                return self.is_read_only(access)
            case Component(vector=vector):
                return self.current.get((vector.name, self.vector_position(vector))) in self.movable
            case Local(name=name):
                return self.current.get(name) in self.movable
        return False


def _is_predicated(nodes: Iterable[Node]) -> bool:
    """Whether nodes under a condition need no branch: they only move values."""
    return all(
        isinstance(node, Define | Load | Assign | Store)
        or (isinstance(node, For) and node.loop.unroll and _is_predicated(node.body))
        or (isinstance(node, If) and _is_predicated((*node.then, *node.orelse)))
        for node in nodes
    )


def _vector_words(vector: Vector) -> int:
    """Registers of one vector."""
    return math.ceil(vector.width * vector.element.bytes / WORD)


def _local_words(local: Local) -> int:
    return 0 if local.dtype == BOOL else _words(local.dtype)


def _words(dtype: DType) -> int:
    return max(1, dtype.bytes // WORD)
