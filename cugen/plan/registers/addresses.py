"""The addresses of a kernel's memory accesses as polynomials, and the registers that loops keep for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import sympy

from cugen.plan.context import Context
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access
from cugen.plan.nodes import Define, For, If, LoadBlockId, Loop, Node
from cugen.plan.pipeline_nodes import Wgmma
from cugen.plan.registers.polynomials import CONSTANT, Polynomial, add, multiply, polynomial
from cugen.plan.symbols import Integer
from cugen.plan.traversal.walking import accesses_of, walk_nodes

POINTER = 2  # registers of an address in global memory
MAX_VALUES = 4096  # that are enumerated; more are taken to be distinct


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """A loop. `copies` of its body are in the machine code: the trips of an unrolled loop, the unroll factor of
    another."""

    node: For
    copies: int
    unrolled: bool = False

    @property
    def variable(self) -> sympy.Symbol:
        return self.node.loop.index.symbol


@dataclass(frozen=True, slots=True)
class Address:
    """An access, its offset in elements, and the loops round it, outermost first. `depends`: the loop variables of
    which each atom of the offset is a function."""

    access: Access
    offset: Polynomial
    nests: tuple[Nest, ...]
    depends: Mapping[sympy.Expr, frozenset[sympy.Symbol]]

    def key(self, known: Mapping[sympy.Symbol, int]) -> tuple[object, ...]:
        """What tells its element from others, for some values of variables of unrolled loops."""
        sums: dict[tuple[sympy.Expr, ...], int] = {}
        opaque: set[tuple[str, int]] = set()
        for monomial, coefficient in self.offset.items():
            factors = tuple(atom for atom in monomial if atom not in known)
            factor = coefficient * math.prod(known[atom] for atom in monomial if atom in known)
            sums[factors] = sums.get(factors, 0) + factor
            for atom in factors:
                opaque |= {(name.name, known[name]) for name in self.depends[atom] if name in known}
        return (self.access.array.symbol, frozenset(sums.items()), frozenset(opaque))

    @property
    def varies(self) -> frozenset[sympy.Symbol]:
        """The loop variables on which it depends."""
        atoms = (atom for monomial in self.offset for atom in monomial)
        return frozenset[sympy.Symbol]().union(*(self.depends[atom] for atom in atoms))

    def copies(self, nests: Iterable[Nest]) -> int:
        """Distinct offsets over all copies of the bodies of some loops. Those that are a constant apart, which machine
        code adds in the instruction, count once."""
        trips = {nest.variable: nest.copies for nest in nests if nest.copies > 1}
        steps: dict[tuple[sympy.Expr, ...], dict[sympy.Expr, int]] = {}
        opaque: set[sympy.Symbol] = set()
        for monomial, coefficient in self.offset.items():
            variables = [atom for atom in monomial if atom in trips]
            within = frozenset[sympy.Symbol]().union(*(self.depends[atom] for atom in monomial)) & trips.keys()
            if len(variables) == 1 and within == {variables[0]}:
                factors = tuple(atom for atom in monomial if atom != variables[0])
                steps.setdefault(factors, {})[variables[0]] = coefficient
            else:
                opaque |= within
        steps.pop(CONSTANT, None)
        return math.prod(trips[variable] for variable in opaque) * _distinct(list(steps.values()), trips)


def _distinct(sums: list[dict[sympy.Expr, int]], trips: Mapping[sympy.Symbol, int]) -> int:
    """The distinct values that sums of multiples of counters have together."""
    counters = list(dict.fromkeys(counter for steps in sums for counter in steps))
    if math.prod(trips[counter] for counter in counters) > MAX_VALUES:
        return math.prod(trips[counter] for counter in counters)
    values = (dict(zip(counters, counts, strict=True)) for counts in product(*(range(trips[c]) for c in counters)))
    return len({tuple(sum(step * value[c] for c, step in steps.items()) for steps in sums) for value in values})


def addresses(kernel: Kernel, context: Context) -> Iterator[Address]:
    """Every access of the kernel by an address, in source order."""
    dynamic = {context.symbols[param.name] for param in context.spec.params if param.is_dynamic}
    fixed: dict[sympy.Symbol, Polynomial] = {
        name: {CONSTANT: low} if low else {}
        for name, (low, high) in kernel.ranges
        if low == high and name not in dynamic
    }
    yield from _Walk(fixed).addresses(kernel.body, ())


class _Walk:
    """One pass over the nodes, with the values of the indices that are defined so far."""

    def __init__(self, values: dict[sympy.Symbol, Polynomial]) -> None:
        self.values = values
        self.variables: dict[sympy.Symbol, frozenset[sympy.Symbol]] = {}

    def addresses(self, nodes: tuple[Node, ...], nests: tuple[Nest, ...]) -> Iterator[Address]:
        for node in nodes:
            match node:
                case Define(index=index, then=None):
                    self.define(index.symbol, index.definition)
                case Define() | LoadBlockId():
                    self.values.pop(node.index.symbol, None)
                    self.variables[node.index.symbol] = frozenset(nest.variable for nest in nests[-1:])
            for access in accesses_of(node):
                if access.array.space != "register" and not access.coordinates:
                    yield self.address(access, nests)
            match node:
                case For(loop=loop, body=body):
                    symbol = loop.index.symbol
                    self.values.pop(symbol, None)
                    self.variables[symbol] = frozenset((symbol,))
                    yield from self.addresses(body, (*nests, self.nest(node, loop)))
                case If():
                    yield from self.addresses(node.then, nests)
                    yield from self.addresses(node.orelse, nests)

    def nest(self, node: For, loop: Loop) -> Nest:
        if loop.unroll and (trips := self.trips(loop)):
            return Nest(node, trips, unrolled=True)
        return Nest(node, max(loop.unroll_by, 1))

    def trips(self, loop: Loop) -> int:
        """The number of trips if it is a constant, else 0."""
        stop, start = polynomial(loop.stop, self.values), polynomial(loop.start, self.values)
        span = add(stop, {monomial: -coefficient for monomial, coefficient in start.items()})
        return -(-span.get(CONSTANT, 0) // loop.step) if span.keys() <= {CONSTANT} else 0

    def define(self, symbol: sympy.Symbol, definition: Integer) -> None:
        self.variables[symbol] = self.depends_of(definition.free_symbols)
        self.values[symbol] = polynomial(definition, self.values)

    def depends_of(self, symbols: Iterable[sympy.Basic]) -> frozenset[sympy.Symbol]:
        return frozenset[sympy.Symbol]().union(*(self.variables.get(symbol, frozenset()) for symbol in symbols))

    def address(self, access: Access, nests: tuple[Nest, ...]) -> Address:
        offset: Polynomial = {}
        for subscript, stride in zip(access.physical_subscripts(), access.array.strides, strict=True):
            offset = add(offset, multiply(polynomial(subscript, self.values), polynomial(stride, self.values)))
        atoms = {atom for monomial in offset for atom in monomial}
        depends = {atom: self.depends_of(atom.free_symbols) for atom in atoms}
        return Address(access, offset, nests, depends)


def _at_run_time(address: Address) -> list[Nest]:
    """The loops round an access that aren't unrolled."""
    return [nest for nest in address.nests if not nest.unrolled]


def pointers(found: Iterable[Address]) -> dict[int, int]:
    """Registers of the addresses that each loop keeps, by the id of its node: those that are no constant apart. A loop
    round a main loop of wgmma keeps none throughout: compilers compute them again (measured with nvcc 13.0)."""
    found = list(found)
    nested = {id(nest.node): nest.node for address in found for nest in _at_run_time(address)[:-1]}
    around = {key for key, loop in nested.items() if any(isinstance(node, Wgmma) for node in walk_nodes(loop.body))}
    groups: dict[int, dict[tuple[object, ...], int]] = {}
    for address in found:
        loops = [position for position, nest in enumerate(address.nests) if not nest.unrolled]
        if not loops or address.access.array.space == "constant":
            continue
        inner = address.nests[loops[-1] :]
        if id(inner[0].node) in around:
            continue
        variables = {nest.variable for nest in inner if nest.unrolled}
        shape = frozenset(
            (monomial, coefficient)
            for monomial, coefficient in address.offset.items()
            if monomial and not (len(monomial) == 1 and monomial[0] in variables)
        )
        size = POINTER if address.access.array.space in ("global", "readonly") else 1
        count = address.copies(inner) * size
        groups.setdefault(id(inner[0].node), {})[(address.access.array.symbol, shape)] = count
    return {number: sum(counts.values()) for number, counts in groups.items()}
