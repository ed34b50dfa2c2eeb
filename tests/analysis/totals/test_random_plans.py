"""Exact totals of plans that nobody wrote: random tiles, pads, swizzles, layouts, types, boundaries and targets."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cugen.analysis.verdicts.report import analyze_kernel
from cugen.kernel import generate
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from tests.drawn import examples

TARGETS = [
    *("sm_10", "sm_11", "sm_12", "sm_13", "sm_20", "sm_21", "sm_30", "sm_35", "sm_37", "sm_50", "sm_52", "sm_60"),
    *("sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"),
]
DTYPES = ["float64", "float32", "float16", "int8", "int16", "int64"]
SIZES = st.integers(1, 70)
MEMORIES = [
    "shared",
    "{space: shared, pad: 1}",
    "{space: shared, pad: 3}",
    "{space: shared, pad: 8}",
    "{space: shared, swizzle: xor}",
    "{space: shared, dynamic: true}",
]


@st.composite
def products(draw):
    m, k, n = draw(st.integers(1, 50)), draw(st.integers(1, 30)), draw(st.integers(1, 50))
    rows, columns = draw(st.sampled_from([4, 8, 16, 20, 32])), draw(st.sampled_from([4, 8, 12, 16, 32]))
    share = (draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 4])))
    transposed = draw(st.booleans())
    shape, subscripts = ("[K, M]", "k, m") if transposed else ("[M, K]", "m, k")
    dtype = draw(st.sampled_from(["float64", "float32", "float16", "int8"]))
    layout = draw(st.sampled_from(["row", "column"]))
    return f"""
cugen: 1
kernel: product
params: {{M: {m}, K: {k}, N: {n}}}
arrays:
  A: {{shape: {shape}, dtype: {dtype}, layout: {layout}, memory: {draw(st.sampled_from(MEMORIES))}}}
  B: {{shape: [K, N], dtype: {dtype}, memory: {draw(st.sampled_from(MEMORIES))}}}
  C: {{shape: [M, N], dtype: {"int32" if dtype == "int8" else dtype}}}
compute: C[m, n] = sum(A[{subscripts}] * B[k, n], k)
schedule:
  block: {{m: {rows}, n: {columns}}}
  thread: {{m: {share[0]}, n: {share[1]}}}
  step: {{k: {draw(st.sampled_from([4, 5, 8, 16]))}}}
"""


@st.composite
def transposes(draw):
    memory = draw(st.sampled_from(MEMORIES))
    return f"""
cugen: 1
kernel: turned
params: {{M: {draw(SIZES)}, N: {draw(SIZES)}}}
arrays:
  A: {{shape: [M, N], dtype: {(dtype := draw(st.sampled_from(DTYPES)))}, memory: {memory}}}
  B: {{shape: [N, M], dtype: {dtype}}}
compute: B[n, m] = A[m, n]
"""


@st.composite
def maps(draw):
    """Contiguous statements, which the generator may widen to vectors."""
    n = draw(st.one_of(st.integers(1, 300), st.sampled_from([64, 256, 1024, 2000])))
    dtype = draw(st.sampled_from(DTYPES))
    return f"""
cugen: 1
kernel: mapped
params: {{M: {draw(st.integers(1, 9))}, N: {n}}}
arrays:
  x: {{shape: [M, N], dtype: {dtype}}}
  w: {{shape: [N], dtype: {dtype}, memory: {draw(st.sampled_from(["global", "readonly", "constant"]))}}}
  y: {{shape: [M, N], dtype: {dtype}}}
compute: y[i, j] = x[i, j] * w[j]
"""


@st.composite
def stencils(draw):
    """Shifted, strided and permuted reads with every boundary mode, on grids of one to three dimensions."""
    rank = draw(st.integers(1, 3))
    names = "ijk"[:rank]
    extents = "MNP"[:rank]
    sizes = [draw(st.integers(1, 40 if rank < 3 else 12)) for _ in names]
    forms = ["{i} + {c}", "{i} - {c}", "2 * {i}", "{i} // 2", "{i} % 3", "{n} - 1 - {i}"]
    reads = []
    for _ in range(draw(st.integers(1, 2))):
        chosen = [draw(st.sampled_from(forms)) for _ in names]
        subscripts = [
            f.format(i=i, n=n, c=draw(st.integers(0, 3))) for f, i, n in zip(chosen, names, extents, strict=True)
        ]
        reads.append(f"A[{', '.join(subscripts)}]")
    boundary = draw(st.sampled_from(["zero", "clamp", "wrap", "reflect", "symmetric"]))
    where = draw(st.sampled_from(["", f" if {names[0]} % 2 == 0 else A[{', '.join(names)}]"]))
    block = draw(st.sampled_from(["", f"schedule: {{family: direct, block: {{{names[-1]}: 16}}}}"]))
    params = ", ".join(f"{n}: {s}" for n, s in zip(extents, sizes, strict=True))
    shape = f"[{', '.join(extents)}]"
    dtype = draw(st.sampled_from(DTYPES))
    return f"""
cugen: 1
kernel: stencil
params: {{{params}}}
arrays:
  A: {{shape: {shape}, dtype: {dtype}, boundary: {boundary}}}
  C: {{shape: {shape}, dtype: {dtype}}}
compute: "C[{", ".join(names)}] = {" + ".join(reads)}{where}"
{block}
"""


@st.composite
def sums(draw):
    """Reductions with bounds that depend on outer indices, and scans."""
    bound = draw(st.sampled_from(["", ", where=k <= i", ", where=k >= i - 2 and k <= i + 1", ", where=k != i"]))
    statement = draw(st.sampled_from([f"y[i, j] = sum(x[i, k] * x[k, j], k{bound})", "y[i, j] = cumsum(x[i, j], j)"]))
    return f"""
cugen: 1
kernel: summed
params: {{N: {draw(st.integers(1, 40))}}}
arrays:
  x: {{shape: [N, N], dtype: float32, layout: {draw(st.sampled_from(["row", "column"]))}}}
  y: {{shape: [N, N], dtype: float32}}
compute: {statement}
"""


PLANS = st.one_of(products(), transposes(), maps(), stencils(), sums())


def check(walk, text: str, target: str, offset: int) -> None:
    try:
        kernels = [generate(spec) for spec in load_text(text)]
    except SpecError:
        assume(False)
    for kernel in kernels:
        params = {p.name: p.value for p in kernel.spec.params}
        for launch in kernel.plan.kernels:
            wide = max((dict(launch.alignments).values()), default=0)
            first = kernel.spec.arrays[0]
            offsets = {first.name: offset * max(first.dtype.bytes, wide)} if launch.arrays else {}
            offsets = {name: value for name, value in offsets.items() if name in {a.name for a in launch.arrays}}
            walked = walk(launch, params, target, offsets).sums
            for actual in analyze_kernel(launch, target, params, offsets=offsets).accesses:
                expected = walked.get(id(actual.access), Counter())
                assert actual.totals is not None, (actual.text, actual.reason)
                got = {name: getattr(actual.totals, name) for name in expected}
                assert got == dict(expected), actual.text
                assert (actual.verdict == "ideal") <= (actual.cost == actual.ideal)
                assert len(re.sub(r" in [\dx +]+ bytes", "", actual.claim.removeprefix("assumed: "))) <= 70
                if not expected:
                    assert actual.totals.warps == 0


@settings(max_examples=examples(15))
@given(PLANS, st.sampled_from(TARGETS), st.integers(0, 9))
def test_random_plans_cost_what_a_walk_over_them_finds(walk, text, target, offset):
    check(walk, text, target, offset)


@pytest.mark.slow
@settings(max_examples=250, suppress_health_check=list(HealthCheck))
@given(PLANS, st.sampled_from(TARGETS), st.integers(0, 9))
def test_many_random_plans_cost_what_a_walk_over_them_finds(walk, text, target, offset):
    check(walk, text, target, offset)
