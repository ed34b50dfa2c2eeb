"""Exact totals equal a walk over every block, warp, loop and lane, and cost no more for large problems."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.analysis.totals.affine import evaluator
from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.exact import totals
from cugen.analysis.totals.sites import Counter as LoopCounter
from cugen.analysis.totals.sites import Predicate
from cugen.analysis.verdicts.report import analyze_kernel
from cugen.kernel import Kernel, generate
from cugen.plan.symbols import BitXor, FloorDiv, Integer, Minimum, Mod, integer, symbol
from cugen.spec.load import load_text
from tests.drawn import examples


@dataclass(frozen=True)
class Domain:
    """A subscript over threads and counters, under guards."""

    offset: Integer
    counters: tuple[LoopCounter, ...] = ()
    predicates: tuple[Predicate, ...] = ()
    opaque: str = ""


def measured(addresses):
    """No cost: the patterns are compared."""
    return (0, 0, 0, 0, 0)


def params_of(kernel: Kernel) -> dict[str, int]:
    return {p.name: p.value for p in kernel.spec.params if p.value is not None}


def check_against_walk(walk, text: str, target: str = "sm_90") -> None:
    for spec in load_text(text):
        kernel = generate(spec)
        for launch in kernel.plan.kernels:
            walked = walk(launch, params_of(kernel), target).sums
            report = analyze_kernel(launch, target, params_of(kernel))
            for actual in report.accesses:
                expected = walked.get(id(actual.access), Counter())
                assert actual.totals is not None, actual.reason
                got = {name: getattr(actual.totals, name) for name in expected}
                assert got == dict(expected), (actual.access.array.symbol, actual.access.subscripts)
                if not expected:
                    assert actual.totals.warps == 0


def product_spec(m: int, k: int, n: int, extra: str = "", a: str = "[M, K]", subscripts: str = "m, k") -> str:
    return f"""
cugen: 1
kernel: product
params: {{M: {m}, K: {k}, N: {n}}}
arrays:
  A: {{shape: {a}, dtype: float32, memory: {{space: shared, pad: 1}}}}
  B: {{shape: [K, N], dtype: float32, memory: shared}}
  C: {{shape: [M, N], dtype: float32}}
compute: C[m, n] = sum(A[{subscripts}] * B[k, n], k)
{extra}
"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", ["sm_10", "sm_13", "sm_20", "sm_35", "sm_61", "sm_90"])
def test_a_tiled_product_costs_what_a_walk_over_it_finds(walk, target):
    check_against_walk(walk, product_spec(33, 20, 50, "schedule: {block: {m: 16, n: 16}}"), target)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "extra",
    [
        "schedule: {block: {m: 32, n: 16}, thread: {m: 4, n: 2}, step: {k: 8}}",
        "schedule: {block: {m: 8, n: 32}, step: {k: 5}}",
        "schedule: {block: {m: 20, n: 12}, step: {k: 7}}",
    ],
)
def test_tiles_of_any_shape_cost_what_a_walk_finds(walk, extra):
    check_against_walk(walk, product_spec(45, 19, 37, extra))


GEMM = "schedule: {family: gemm, block: {m: 32, n: 32}, thread: {m: 4, n: 4}, step: {k: 8}, stages: %d}"


@pytest.mark.sampled(8)
@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize(
    ("memory", "becomes"),
    [
        ("", "C[m, n] = sum(A[m, k] * B[k, n], k)"),
        (", memory: {space: shared, stages: %d, swizzle: xor}", "C[m, n] = sum(A[m, k] * B[k, n], k)"),
        ("", "C[m, n] = sum(A[m, k] * B[k, n], k, where=m - 3 <= k and k <= m + 5)"),
        ("", "C[m, n] = sum(A[m, k] * B[k, n], k) / sum(abs(A[m, k]) * B[k, n], k)"),
    ],
    ids=["plain", "swizzled", "banded", "two sums"],
)
def test_a_gemm_costs_what_a_walk_finds(walk, stages, memory, becomes):
    text = product_spec(64, 44, 64, GEMM % stages)
    for placed in (", memory: {space: shared, pad: 1}", ", memory: shared"):
        text = text.replace(placed, memory.replace("%d", str(stages)))
    check_against_walk(walk, text.replace("C[m, n] = sum(A[m, k] * B[k, n], k)", becomes))


def test_a_transposed_operand_costs_what_a_walk_finds(walk):
    check_against_walk(walk, product_spec(33, 20, 50, "schedule: {block: {m: 16, n: 16}}", "[K, M]", "k, m"))


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


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.parametrize("size", [(7, 5), (17, 33), (40, 70)])
def test_statements_of_the_direct_family_cost_what_a_walk_finds(walk, name, size):
    array, statement, shape = STATEMENTS[name]
    mode = {"clamped": "clamp", "wrapped": "wrap"}.get(name, "zero")
    check_against_walk(
        walk,
        f"""
cugen: 1
kernel: statement
params: {{M: {size[0]}, N: {size[1]}}}
arrays:
  {array}
  B: {{shape: {shape}, dtype: float32, boundary: {mode}}}
  C: {{shape: [M, N], dtype: float32}}
compute: "{statement}"
schedule: {{family: direct}}
""",
    )


@settings(max_examples=examples(15), deadline=None, derandomize=True)
@given(
    st.integers(1, 70),
    st.integers(1, 70),
    st.sampled_from(["float64", "float32", "int16", "int8"]),
    st.sampled_from(["", "pitch: 72,", "pitch: 97,", "layout: column,"]),
    st.sampled_from(["sm_13", "sm_20", "sm_90"]),
)
def test_copies_of_any_type_and_layout_cost_what_a_walk_finds(walk, m, n, dtype, layout, target):
    check_against_walk(
        walk,
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


def test_a_guard_that_repeats_along_an_axis_leaves_the_axis_its_addresses(walk):
    check_against_walk(
        walk,
        """
cugen: 1
kernel: even_rows
params: {M: 16, N: 1}
arrays:
  A: {shape: [M, N], dtype: float64}
  C: {shape: [M, N], dtype: float64}
compute: "C[i, j] = A[i, j] if i % 2 == 0 else -A[i, j]"
schedule: {family: direct}
""",
        "sm_10",
    )


def test_a_large_product_is_analysed_in_about_as_many_steps_as_a_small_one():
    def calls(size: int) -> int:
        (spec,) = load_text(product_spec(size, size, size, "schedule: {block: {m: 16, n: 16}}"))
        kernel = generate(spec)
        events: Counter[str] = Counter()
        sys.setprofile(lambda frame, event, argument: events.update((event,)))
        try:
            analyze_kernel(kernel.plan.kernels[0], "sm_90", params_of(kernel))
        finally:
            sys.setprofile(None)
        return events["call"]

    calls(64)
    assert calls(8192) < 2 * calls(64)


def test_sizes_whose_product_exceeds_64_bits_are_unknown_and_no_error():
    text = """
cugen: 1
kernel: groups_of_five
params: {N: {range: [1, 16383]}, I: dynamic, J: dynamic}
arrays:
  x: {shape: [N, I, J], dtype: float32}
  u: {shape: [N, I, (J + 4) // 5], dtype: float32}
  y: {shape: [N, I, J], dtype: float32, layout: column}
compute: y[n, i, j] = x[n, i, j] + u[n, i, j // 5]
"""
    (spec,) = load_text(text)
    assert "__global__" in generate(spec).source


LIMIT = 1 << 62  # bytes: beyond, NumPy's integers could wrap


@pytest.mark.parametrize(
    ("columns", "verdict"),
    [((LIMIT // 4 - 32) // 127, "exact"), (LIMIT // 4 // 127 + 8, "unknown"), (1 << 61, "unknown")],
)
def test_addresses_are_computed_up_to_64_bits_and_unknown_beyond(columns, verdict):
    rows, threads = symbol("blockIdx.x"), symbol("threadIdx.x")
    stride = columns // 8 * 8  # of rows that start at a sector
    site = Domain(stride * rows + threads, (LoopCounter(rows, 128),))
    if verdict == "unknown":
        with pytest.raises(Unknown, match="exceed 64 bits"):
            totals(site, (32, 1, 1), 4, 32, measured)
    else:
        counted = totals(site, (32, 1, 1), 4, 32, measured)
        assert [(p.addresses(), p.warps) for p in counted.patterns] == [(tuple(range(0, 128, 4)), 128)]


@pytest.mark.parametrize("coefficient", [LIMIT // 31 - 1, LIMIT // 31 + 1])
def test_guards_are_computed_up_to_64_bits_and_unknown_beyond(coefficient):
    threads = symbol("threadIdx.x")
    site = Domain(threads, (), (Predicate(((coefficient * threads - 5, "<"),)),))
    if coefficient * 31 + 5 < LIMIT:
        assert totals(site, (32, 1, 1), 4, 32, measured).lanes == 1
    else:
        with pytest.raises(Unknown, match="exceed 64 bits"):
            totals(site, (32, 1, 1), 4, 32, measured)


X, Y = symbol("x"), symbol("y")


@pytest.mark.parametrize(
    ("expr", "is_exact"),
    [
        (X * Y, True),
        (X * Y * 4, False),
        (X * Y * 2 - 2 * Y, False),
        (FloorDiv(X * Y * 8, integer(8)), False),
        (Mod(X * Y, integer(7)) + Minimum(X, Y), True),
        (Mod(X * Y * 2, Y), True),
        (Mod(X * Y * 3, Y), False),
        (BitXor(X * Y * 2, Y), False),
        (X**2, True),
        (X**3, False),
    ],
)
def test_every_part_of_an_index_must_fit_in_63_bits(expr, is_exact):
    ranges = {X: (-(1 << 30), 1 << 30), Y: (1, (1 << 31) - 1)}
    if is_exact:
        values = {X: np.array([-(1 << 30), 1 << 30]), Y: np.array([(1 << 31) - 1] * 2)}
        wide = {name: numbers.astype(object) for name, numbers in values.items()}  # Python's integers
        assert evaluator(expr, ranges)(values).tolist() == evaluator(expr, ranges)(wide).tolist()
    else:
        with pytest.raises(OverflowError):
            evaluator(expr, ranges)


@pytest.mark.parametrize("pitch", [1 << 29, 1 << 30, 1 << 31])
def test_a_kernel_with_dynamic_sizes_near_64_bits_has_exact_costs_or_unknown_ones(pitch):
    (spec,) = load_text(f"""
cugen: 1
kernel: huge
params: {{M: {{range: [1, 2147483647]}}, N: {{range: [1, 2147483647]}}, P: {pitch - 8}}}
arrays:
  x: {{shape: [M, N, P], dtype: float32}}
  y: {{shape: [M, N, P], dtype: float32}}
compute: y[m, n, p] = x[m, n, p] * 2
schedule: {{family: direct}}
""")
    kernel = generate(spec)
    params = {"M": 2, "N": 2, "P": pitch - 8}
    for launch, report in zip(kernel.plan.kernels, kernel.reports, strict=True):
        exact = {id(a.access): a for a in analyze_kernel(launch, spec.target, params).accesses}
        for access in report.accesses:
            assert access.verdict in ("unknown", exact[id(access.access)].verdict)
