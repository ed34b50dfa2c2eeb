"""Exact totals equal a walk over every block, warp, loop and lane, and cost no more for large problems."""

from __future__ import annotations

import time
from collections import Counter

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis import warp_request
from cugen.analysis.report import analyze_kernel
from cugen.kernel import Kernel, generate
from cugen.plan import ir
from cugen.plan.symbols import BitXor, FloorDiv, Maximum, Minimum, Mod
from cugen.spec.load import load_text

SPACES = {"shared": "shared", "constant": "constant", "global": "global", "readonly": "global", "table": "global"}


class Walk:
    """The oracle: runs the nodes of a kernel for every warp, lane by lane in lockstep, and adds up single requests."""

    def __init__(self, kernel: ir.Kernel, params: dict[str, int], target: str) -> None:
        self.kernel, self.target = kernel, target
        self.params = {sympy.Symbol(name, integer=True): value for name, value in params.items()}
        self.sums: dict[int, Counter[str]] = {}
        grid = [int(e.xreplace({s: sympy.Integer(v) for s, v in self.params.items()})) for e in kernel.grid]
        threads = [
            (x, y, z) for z in range(kernel.block[2]) for y in range(kernel.block[1]) for x in range(kernel.block[0])
        ]
        for block in [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]:
            for first in range(0, len(threads), 32):
                lanes = [self._environment(block, thread) for thread in threads[first : first + 32]]
                self._run(kernel.body, lanes, [True] * len(lanes))

    def _environment(self, block, thread):
        names = [f"{which}Idx.{axis}" for which in ("block", "thread") for axis in "xyz"]
        place = {sympy.Symbol(n, integer=True): v for n, v in zip(names, (*block, *thread), strict=True)}
        return {**self.params, **place}

    def _run(self, nodes, lanes, active) -> list[bool]:
        """Runs the nodes; the mask that is left, since lanes may have returned."""
        for node in nodes:
            match node:
                case ir.Define():
                    for lane, on in zip(lanes, active, strict=True):
                        if on:
                            lane[node.index.symbol] = value_of(node.index.definition, lane)
                case ir.ReturnUnless():
                    active = self._mask(node.guard, lanes, active)
                case ir.For():
                    self._loop(node, lanes, active)
                case ir.If() if isinstance(node.condition, ir.Guard):
                    then = self._mask(node.condition, lanes, active)
                    self._run(node.then, lanes, then)
                    self._run(node.orelse, lanes, [a and not t for a, t in zip(active, then, strict=True)])
                case ir.Load():
                    mask = active if node.guard is None else self._mask(node.guard, lanes, active)
                    self._request(node.access, lanes, mask)
                    self._inline(node, lanes, active)
                case ir.Copy():
                    mask = active if node.guard is None else self._mask(node.guard, lanes, active)
                    self._request(node.source, lanes, mask)
                    self._request(node.target, lanes, active)
                case ir.Store() | ir.Accumulate():
                    self._inline(node, lanes, active)
                    self._request(node.access, lanes, active)
                case _:
                    self._inline(node, lanes, active)
        return active

    def _inline(self, node, lanes, active) -> None:
        from cugen.spec.expressions import walk

        for value in ir.values_of(node):
            for leaf in walk(value):
                if isinstance(leaf, ir.Element):
                    self._request(leaf.access, lanes, active)

    def _loop(self, node, lanes, active) -> None:
        loop = node.loop
        at = [value_of(loop.start, lane) if on else 0 for lane, on in zip(lanes, active, strict=True)]
        stop = [value_of(loop.stop, lane) if on else 0 for lane, on in zip(lanes, active, strict=True)]
        while True:
            mask = [on and a < s for on, a, s in zip(active, at, stop, strict=True)]
            if not any(mask):
                return
            for lane, value, on in zip(lanes, at, mask, strict=True):
                if on:
                    lane[loop.index.symbol] = value
            self._run(node.body, lanes, mask)
            at = [a + loop.step for a in at]

    def _mask(self, guard, lanes, active):
        return [on and all(holds(t, lane) for t in guard.terms) for lane, on in zip(lanes, active, strict=True)]

    def _request(self, access, lanes, active) -> None:
        if access.array.space not in SPACES or not any(active):
            return
        size = access.array.dtype.bytes
        addresses = [
            value_of(access.offset(), lane) * size if on else None for lane, on in zip(lanes, active, strict=True)
        ]
        addresses += [None] * (32 - len(addresses))
        low = min(a for a in addresses if a is not None)
        lift = 0 if low >= 0 else -low // 256 * 256 + 256
        found = warp_request(
            SPACES[access.array.space],
            access.kind,
            size * access.width,
            [None if a is None else a + lift for a in addresses],
            self.target,
        )
        sums = self.sums.setdefault(id(access), Counter())
        sums.update(warps=1, requests=found.requests, wavefronts=found.wavefronts, sectors=found.sectors)
        sums.update(ideal_wavefronts=found.ideal_wavefronts, ideal_sectors=found.ideal_sectors)


def value_of(expr, values) -> int:
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return values[expr]
    parts = [value_of(arg, values) for arg in expr.args]
    if expr.is_Add:
        return sum(parts)
    if expr.is_Mul:
        result = 1
        for part in parts:
            result *= part
        return result
    functions = {
        FloorDiv: lambda a, b: a // b,
        Mod: lambda a, b: a % b,
        BitXor: lambda a, b: a ^ b,
        Minimum: min,
        Maximum: max,
    }
    return functions[type(expr)](*parts)


def holds(term, values) -> bool:
    a, b = value_of(term.left, values), value_of(term.right, values)
    return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[term.operator]


def params_of(kernel: Kernel) -> dict[str, int]:
    return {p.name: p.value for p in kernel.spec.params if p.value is not None}


def check_against_walk(text: str, target: str = "sm_90") -> None:
    for spec in load_text(text):
        kernel = generate(spec)
        for launch in kernel.plan.kernels:
            walked = Walk(launch, params_of(kernel), target).sums
            report = analyze_kernel(launch, target, params_of(kernel))
            for found in report.accesses:
                expected = walked.get(id(found.access), Counter())
                assert found.totals is not None, found.reason
                got = {name: getattr(found.totals, name) for name in expected}
                assert got == dict(expected), (found.access.array.symbol, found.access.subscripts)
                if not expected:
                    assert found.totals.warps == 0


def product_spec(m: int, k: int, n: int, extra: str = "", a: str = "[M, K]", at: str = "m, k") -> str:
    return f"""
cugen: 1
kernel: product
params: {{M: {m}, K: {k}, N: {n}}}
arrays:
  A: {{shape: {a}, dtype: float32, memory: {{space: shared, pad: 1}}}}
  B: {{shape: [K, N], dtype: float32, memory: shared}}
  C: {{shape: [M, N], dtype: float32}}
compute: C[m, n] = sum(A[{at}] * B[k, n], k)
{extra}
"""


@pytest.mark.parametrize("target", ["sm_10", "sm_13", "sm_20", "sm_35", "sm_61", "sm_90"])
def test_a_tiled_product_costs_what_a_walk_over_it_finds(target):
    check_against_walk(product_spec(33, 20, 50, "schedule: {block: {m: 16, n: 16}}"), target)


@pytest.mark.parametrize(
    "extra",
    [
        "schedule: {block: {m: 32, n: 16}, thread: {m: 4, n: 2}, step: {k: 8}}",
        "schedule: {block: {m: 8, n: 32}, step: {k: 5}}",
        "schedule: {block: {m: 20, n: 12}, step: {k: 7}}",
    ],
)
def test_tiles_of_any_shape_cost_what_a_walk_finds(extra):
    check_against_walk(product_spec(45, 19, 37, extra))


def test_a_transposed_operand_costs_what_a_walk_finds():
    check_against_walk(product_spec(33, 20, 50, "schedule: {block: {m: 16, n: 16}}", "[K, M]", "k, m"))


STATEMENTS = {
    "triangle": ("A: {shape: [M, M], dtype: float32}", "C[m, n] = sum(A[m, k] * B[k, n], k, where=k <= m)", "[M, N]"),
    "band": (
        "A: {shape: [M, M], dtype: float32}",
        "C[m, n] = sum(A[m, k] * B[k, n], k, where=k >= m - 2 and k <= m + 1)",
        "[M, N]",
    ),
    "clamped": ("A: {shape: [1], dtype: float32}", "C[m, n] = B[m - 1, n + 2] + A[0]", "[M, N]"),
    "wrapped": ("A: {shape: [1], dtype: float32}", "C[m, n] = B[m + 3, n - 2] * A[0]", "[M, N]"),
    "strided": ("A: {shape: [M], dtype: float32}", "C[m, n] = B[m // 2, n % 5] + A[m]", "[M, N]"),
    "even rows": ("A: {shape: [M], dtype: float32}", "C[m, n] = B[m, n] if m % 3 == 0 else A[m]", "[M, N]"),
}


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("size", [(7, 5), (17, 33), (40, 70)])
def test_statements_of_the_direct_family_cost_what_a_walk_finds(name, size):
    array, statement, shape = STATEMENTS[name]
    mode = {"clamped": "clamp", "wrapped": "wrap"}.get(name, "zero")
    check_against_walk(f"""
cugen: 1
kernel: statement
params: {{M: {size[0]}, N: {size[1]}}}
arrays:
  {array}
  B: {{shape: {shape}, dtype: float32, boundary: {mode}}}
  C: {{shape: [M, N], dtype: float32}}
compute: "{statement}"
schedule: {{family: direct}}
""")


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    st.integers(1, 70),
    st.integers(1, 70),
    st.sampled_from(["float64", "float32", "int16", "int8"]),
    st.sampled_from(["", "pitch: 72,", "pitch: 97,", "layout: column,"]),
    st.sampled_from(["sm_13", "sm_20", "sm_90"]),
)
def test_copies_of_any_type_and_layout_cost_what_a_walk_finds(m, n, dtype, layout, target):
    check_against_walk(
        f"""
cugen: 1
kernel: copy
params: {{M: {m}, N: {n}}}
arrays:
  A: {{shape: [M, N], {layout} dtype: {dtype}}}
  C: {{shape: [M, N], dtype: {dtype}}}
compute: C[m, n] = A[m, n]
schedule: {{family: direct, block: {{m: 4, n: 16}}}}
""",
        target,
    )


def test_a_large_product_is_analysed_about_as_fast_as_a_small_one():
    def seconds(size: int) -> float:
        (spec,) = load_text(product_spec(size, size, size, "schedule: {block: {m: 16, n: 16}}"))
        kernel = generate(spec)
        start = time.process_time()
        analyze_kernel(kernel.plan.kernels[0], "sm_90", params_of(kernel))
        return time.process_time() - start

    seconds(64)
    assert seconds(8192) < 4 * seconds(64) + 0.05
