"""The accesses of a plan as its nodes execute, for the threads of some blocks: no proof, and no code of the analysis.

Loops of many trips run their first and last ones. What data decides isn't executed: nothing is said of it."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from contextlib import suppress
from functools import cache

import numpy as np

from cugen.plan.kernel import Kernel
from cugen.plan.memory import ARGUMENTS, Access, Array, Element
from cugen.plan.nodes import COMPARISONS, Copy, Define, For, Guard, If, Load, LoadBlockId, ReturnUnless
from cugen.plan.pipeline_nodes import TensorLoad, TensorStore, Wgmma
from cugen.plan.symbols import BitXor, Choice, FloorDiv, Maximum, Minimum, Mod, symbol
from cugen.plan.traversal.walking import accesses_of, values_of
from cugen.spec.expressions import Select, walk

_BLOCKS = 6
_TRIPS = 4  # of a loop: beyond, the first half and the last half of these


class Outside(dict[int, str]):
    """The accesses that were seen outside of their arrays, by serial number."""


def executed(kernel: Kernel, params: Mapping[str, int]) -> Outside:
    """Executes a kernel for the values of its params by their names in C."""
    return _Execution(kernel, params).outside


class _Execution:
    def __init__(self, kernel: Kernel, params: Mapping[str, int]) -> None:
        self.kernel, self.outside = kernel, Outside()
        env = {symbol(name): np.int64(value) for name, value in params.items()}
        self.grid = [int(value(extent, env)) for extent in kernel.grid]
        if min(self.grid) < 1:
            return
        x, y, _ = kernel.block
        threads = np.arange(math.prod(kernel.block))
        thread = (threads % x, threads // x % y, threads // (x * y))
        count = math.prod(self.grid)
        numbers = np.unique(np.linspace(0, count - 1, min(count, _BLOCKS)).astype(np.int64))[:, None]
        block = (
            numbers % self.grid[0],
            numbers // self.grid[0] % self.grid[1],
            numbers // (self.grid[0] * self.grid[1]),
        )
        for axis, of_thread, of_block in zip("xyz", thread, block, strict=True):
            env |= {symbol(f"threadIdx.{axis}"): of_thread, symbol(f"blockIdx.{axis}"): of_block}
        self.alive = np.ones((len(numbers), len(threads)), np.bool_)
        self.run(kernel.body, env, self.alive)

    def run(self, nodes, env, runs) -> None:
        env = dict(env)
        for node in nodes:
            active = runs & self.alive
            if not active.any():
                return
            with suppress(KeyError):  # a value that is read from memory
                self.step(node, env, active)

    def step(self, node, env, active) -> None:
        guarded = active
        if isinstance(node, Load | Copy) and node.guard is not None:
            guarded = active & holds(node.guard, env)
        chosen = _operands(node)
        for access in accesses_of(node):
            if access.serial in chosen:
                if chosen[access.serial]:
                    self.check(access, node, env, active)
            elif isinstance(node, Copy) and access is node.target:
                self.check(access, node, env, active)
            else:
                self.check(access, node, env, guarded)
        match node:
            case Define(index=index) | LoadBlockId(index=index):
                env[index.symbol] = value(index.definition, env)
            case ReturnUnless(guard=guard):
                self.alive = self.alive & (holds(guard, env) | ~active)
            case For():
                self.loop(node, env, active)
            case If(condition=Guard() as guard):
                self.run(node.then, env, active & holds(guard, env))
                self.run(node.orelse, env, active & ~holds(guard, env))

    def loop(self, node: For, env, active) -> None:
        loop = node.loop
        start, stop = value(loop.start, env), value(loop.stop, env)
        trips = np.maximum(-(-(stop - start) // loop.step), 0)
        longest = int(np.max(np.where(active, trips, 0)))
        half = _TRIPS // 2
        for trip in range(longest) if longest <= _TRIPS else (*range(half), *range(longest - half, longest)):
            index = stop - 1 - loop.step * trip if loop.downward else start + loop.step * trip
            if loop.halves or loop.doubles:
                index = loop.halves >> trip or loop.doubles << trip
            self.run(node.body, env | {loop.index.symbol: index}, active & (trip < trips))

    def check(self, access: Access, node, env, runs) -> None:
        array = access.array
        if array.space == "tensor" or array.texture_2d is not None or access.coordinates:
            return
        try:
            first, elements = value(access.offset(), env), _elements(array, env)
        except KeyError:
            return
        wrong = runs & ((first < 0) | (first + _taken(access, node, env) > elements))
        if wrong.any():
            self.outside.setdefault(
                access.serial, f"{array.symbol} of {elements}: {np.broadcast_to(first, runs.shape)[wrong][0]}"
            )


def _operands(node) -> dict[int, bool]:
    """Memory operands in the values of a node, and whether they are read in any case."""
    operands: dict[int, bool] = {}
    for expr in values_of(node):
        leaves = [part for part in walk(expr) if isinstance(part, Element)]
        is_sure = not any(isinstance(part, Select) or getattr(part, "name", "") in ("and", "or") for part in walk(expr))
        operands |= {
            leaf.access.serial: is_sure and not (isinstance(node, Load) and expr is node.otherwise) for leaf in leaves
        }
    return operands


def _elements(array: Array, env) -> int:
    shape = array.padded_shape if array.space not in (*ARGUMENTS, "constant", "table") else array.shape
    return 1 + sum(int((value(n, env) - 1) * value(s, env)) for n, s in zip(shape, array.strides, strict=True))


def _taken(access: Access, node, env) -> int:
    """Elements from the first to the last that an access takes."""
    match node:
        case TensorLoad(source=mapped) | TensorStore(target=mapped) if access.array.space == "shared":
            return 1 if access.kind == "barrier" else math.prod(mapped.array.tensor_map.box)
        case Wgmma() if access.kind == "operand":
            strides = [int(value(stride, env)) for stride in access.array.strides]
            extent = 64 if access is node.a else node.n
            if not (node.a_block_bytes if access is node.a else node.b_block_bytes):
                return (extent - 1) * strides[-2] + node.instruction.k
            row = 128 // access.array.dtype.bytes
            return (-(-extent // row) - 1) * strides[-3] + (node.instruction.k - 1) * strides[-2] + row
    return access.width


def holds(guard: Guard, env) -> np.ndarray:
    terms = [COMPARISONS[term.operator](value(term.left, env), value(term.right, env)) for term in guard.terms]
    return np.logical_and.reduce(np.broadcast_arrays(*terms)) if terms else np.True_


def value(expr, env):
    """The value of an expression. KeyError for one that isn't known."""
    return _evaluator(expr)(env)


@cache
def _evaluator(expr):
    if expr.is_Integer:
        number = np.int64(int(expr))
        return lambda env: number
    if expr.is_Symbol:
        return lambda env: env[expr]
    args, function = tuple(map(_evaluator, expr.args)), _function(expr)
    return lambda env: function(*(arg(env) for arg in args))


def _function(expr):
    if expr.is_Add:
        return lambda *args: sum(args[1:], args[0])
    if expr.is_Mul:
        return lambda *args: math.prod(args[1:], start=args[0])
    if expr.is_Pow:
        return operator.pow
    match expr:
        case FloorDiv():
            return lambda a, b: a // np.where(b == 0, 1, b)
        case Mod():
            return lambda a, b: a % np.where(b == 0, 1, b)
        case BitXor():
            return operator.xor
        case Minimum():
            return np.minimum
        case Maximum():
            return np.maximum
        case Choice():
            return lambda a, b, then, otherwise: np.where(a < b, then, otherwise)
    raise TypeError(expr)
