"""The addresses that every thread really touches are those that the plan's expressions give.

Equality means that the analysis, which reads the plan alone, speaks of the code that was emitted.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cugen.kernel import generate
from cugen.plan.traversal.walking import accesses
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load, load_all, load_text
from tests.gallery.specs import gallery

ROOT = Path(__file__).parents[3]
GALLERY = [(spec.file, spec.kernel) for spec in gallery().values()]
STATEMENTS = sorted((ROOT / "tests" / "families" / "statements").glob("*.yaml"))


def has_untraced_accesses(kernel) -> bool:
    """Whether textures are read between their elements, or distributed shared memory: the trace has no addresses of
    those."""
    planned = (access for launch in kernel.plan.kernels for access in accesses(launch.body))
    return any(array.is_filtered for array in kernel.spec.arrays) or any(a.rank is not None for a in planned)


def report(comparison) -> str:
    return "\n".join([comparison.summary, *map(str, comparison.mismatches[:10])])


@pytest.mark.sampled(228)
@pytest.mark.parametrize(("file", "name"), GALLERY, ids=[name for _, name in GALLERY])
def test_just_beyond_its_tiles_a_gallery_kernel_touches_what_its_plan_says(small, check, file, name):
    kernel = small(file, name, 1)
    comparison = check(kernel.kernel, kernel.dynamic)
    assert comparison.compared > 0
    assert not comparison.mismatches, report(comparison)
    assert comparison.unknown == 0 or has_untraced_accesses(kernel.kernel), report(comparison)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name"), GALLERY, ids=[name for _, name in GALLERY])
def test_just_below_its_tiles_a_gallery_kernel_touches_what_its_plan_says(small, check, file, name):
    kernel = small(file, name, -1)
    comparison = check(kernel.kernel, kernel.dynamic)
    assert not comparison.mismatches, report(comparison)
    assert comparison.unknown == 0 or has_untraced_accesses(kernel.kernel), report(comparison)


@pytest.mark.parametrize(("out", "stores"), [("bfloat16", 128 * 192 // 2), ("float32", 72 * 136 // 2)])
def test_threads_touch_what_the_plan_says_beside_what_tma_and_wgmma_access(check, out, stores):
    (spec,) = load_text(f"""
cugen: 1
kernel: product
target: sm_90a
params: {{M: 72, N: 136, K: 200}}
arrays:
  A: {{shape: [M, K], dtype: bfloat16}}
  B: {{shape: [N, K], dtype: bfloat16}}
  C: {{shape: [M, N], dtype: {out}}}
compute: C[m, n] = sum(A[m, k] * B[n, k], k)
schedule: {{family: wgmma, block: {{m: 64, n: 64}}, split_k: 1}}
""")
    comparison = check(generate(spec), {})
    assert comparison.compared == stores  # pairs of results: of whole tiles to shared, or to global memory
    assert not comparison.mismatches, report(comparison)
    assert comparison.unknown == 0


@pytest.mark.slow
@pytest.mark.parametrize("path", STATEMENTS, ids=[path.stem for path in STATEMENTS])
def test_statements_of_every_kind_touch_what_their_plans_say(check, path):
    for spec in load_all(path):
        dynamic = {
            p.name: max(min(p.maximum, 35) // p.multiple_of * p.multiple_of, p.minimum)
            for p in spec.params
            if p.is_dynamic
        }
        comparison = check(generate(spec), dynamic)
        assert not comparison.mismatches, f"{spec.kernel}: {report(comparison)}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["structures_of_three", "structures_of_bytes", "structures_of_pairs"])
def test_vectors_of_structures_touch_what_their_plans_say(check, name):
    spec = load(ROOT / "tests" / "families" / "statements" / "structures.yaml", kernel=name)
    comparison = check(generate(spec, analysis=False), {})
    assert comparison.compared > 0
    assert not comparison.mismatches, report(comparison)
    assert comparison.unknown == 0, report(comparison)


TILES = st.sampled_from(
    ["", "memory: shared,", "memory: {space: shared, pad: %d},", "memory: {space: shared, dynamic: true},"]
)
DTYPES = st.sampled_from(["float32", "float64", "float16", "int8", "int64"])
LAYOUTS = st.sampled_from(["", "layout: column,", "pitch: 48,", "pitch: 61,"])
MOSTLY_DENSE = st.one_of(st.just(""), st.just(""), LAYOUTS)
WIDE_LAYOUTS = st.sampled_from(["", "layout: column,", "pitch: 80,", "pitch: 97,"])


@st.composite
def products(draw) -> str:
    m, k, n = (draw(st.integers(1, 40)) for _ in range(3))
    tiles = [draw(TILES).replace("%d", str(draw(st.integers(1, 5)))) for _ in range(2)]
    dtype = draw(DTYPES)
    block = draw(
        st.sampled_from(["", "schedule: {block: {m: 8, n: 16}}", "schedule: {block: {m: 16, n: 8}, step: {k: 5}}"])
    )
    where = draw(st.sampled_from(["", "", "", ", where=k <= m", ", where=A[m, k] > 0"]))
    return f"""
params: {{M: {m}, K: {k}, N: {n}}}
arrays:
  A: {{shape: [M, K], {draw(MOSTLY_DENSE)} {tiles[0]} dtype: {dtype}}}
  B: {{shape: [K, N], {draw(MOSTLY_DENSE)} {tiles[1]} dtype: {dtype}}}
  C: {{shape: [M, N], dtype: {dtype}}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k{where})
{block}
"""


@st.composite
def stencils(draw) -> str:
    m, n = draw(st.integers(1, 30)), draw(st.integers(1, 70))
    shifts = draw(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=4))
    boundary = draw(st.sampled_from(["zero", "clamp", "wrap", "reflect", "symmetric", "{value: 2}"]))
    terms = " + ".join(f"x[i + {a}, j + {b}]".replace("+ -", "- ") for a, b in shifts)
    dtype = draw(DTYPES)
    return f"""
params: {{M: {m}, N: {n}}}
arrays:
  x: {{shape: [M, N], {draw(WIDE_LAYOUTS)} dtype: {dtype}, boundary: {boundary}}}
  y: {{shape: [M, N], dtype: {dtype}}}
compute: y[i, j] = {terms}
"""


@st.composite
def elementwise(draw) -> str:
    m, n = draw(st.integers(1, 12)), draw(st.integers(1, 70))
    names = [
        ("x", draw(WIDE_LAYOUTS), draw(st.sampled_from(["float32", "float16", "int8"]))),
        ("y", draw(WIDE_LAYOUTS), "float32"),
    ]
    arrays = "\n".join(f"  {name}: {{shape: [M, N], {layout} dtype: {dtype}}}" for name, layout, dtype in names)
    return f"""
params: {{M: {m}, N: {n}}}
arrays:
{arrays}
  b: {{shape: [N], dtype: float32}}
compute: y[i, j] = x[i, j] * b[j] + y[i, j]
"""


@st.composite
def transposes(draw) -> str:
    memory = draw(st.sampled_from(["shared", "{space: shared, pad: 1}", "{space: shared, swizzle: xor}"]))
    dtype = draw(DTYPES)
    return f"""
params: {{M: {draw(st.integers(1, 70))}, N: {draw(st.integers(1, 70))}}}
arrays:
  x: {{shape: [M, N], memory: {memory}, dtype: {dtype}}}
  y: {{shape: [N, M], dtype: {dtype}}}
compute: y[i, j] = x[j, i]
"""


@st.composite
def gathers(draw) -> str:
    statement = draw(st.sampled_from(["x[t[i], j] + x[i, j]", "x[j, t[j]] if t[i] > 5 else x[t[i], i]"]))
    memory = draw(
        st.sampled_from(["", "memory: readonly,", "memory: texture,", "memory: constant,", "memory: shared,"])
    )
    return f"""
params: {{N: {draw(st.integers(1, 40))}}}
arrays:
  t: {{shape: [N], {memory} dtype: int32}}
  x: {{shape: [N, N], {draw(LAYOUTS)} dtype: {draw(st.sampled_from(["float32", "float64"]))}}}
  y: {{shape: [N, N], dtype: float64}}
compute: "y[i, j] = {statement}"
"""


@st.composite
def rows(draw) -> str:
    value = draw(
        st.sampled_from(
            [
                "sum(x[i, k] * w[k], k)",
                "max(x[i, k] * w[k - 1], k, where=k > 0)",
                "sum(x[i, k] / w[k], k, where=w[k] != 0)",
                "argmax(x[i, k] + w[k], k)",
                "sum(x[i, k], k, where=x[i, k] > 0.5 and w[k] < 0.25)",
            ]
        )
    )
    memory = draw(
        st.sampled_from(
            ["", "memory: constant,", "memory: readonly,", "memory: texture,", "memory: {space: shared, pad: 2},"]
        )
    )
    return f"""
params: {{M: {draw(st.integers(1, 40))}, N: {draw(st.integers(1, 40))}}}
arrays:
  x: {{shape: [M, N], {draw(LAYOUTS)} dtype: float32}}
  w: {{shape: [N], {memory} dtype: float32}}
  y: {{shape: [M], dtype: float32}}
compute: y[i] = {value}
"""


SPECS = st.one_of(products(), products(), stencils(), elementwise(), transposes(), gathers(), rows())


def check_random(made, check, text: str) -> None:
    try:
        kernel = made(text)
    except SpecError:  # a placement that no family has for this statement
        assume(False)
    comparison = check(kernel, {})
    assert not comparison.mismatches, f"{report(comparison)}\n{text}\n{kernel.source}"


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(SPECS)
def test_random_kernels_touch_what_their_plans_say(made, check, text):
    check_random(made, check, text)
