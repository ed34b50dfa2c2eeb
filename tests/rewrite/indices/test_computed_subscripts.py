"""Subscripts that are computed are in registers of the launch that reads at them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.kernel import Kernel, generate
from cugen.rewrite.indices.computed_subscripts import with_computed_subscripts
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Spec

HEAD = """cugen: 1
kernel: resized
params: {C: 3, H: %s, W: %s, M: %s, N: %s}
arrays:
  x: {shape: [C, H, W], dtype: float32, boundary: clamp}
  y: {shape: [C, M, N], dtype: float32}
compute: |
"""
COORDINATES = """
  fy[i] = (cast(i, float32) + 0.5) * (H / M) - 0.5
  iy[i] = cast(floor(fy[i]), int32)
  ix[j] = cast(round((cast(j, float32) + 0.5) * (W / N) - 0.5), int32)
"""
NEAREST = f"{COORDINATES}  y[c, i, j] = x[c, iy[i], ix[j]]\n"
LINEAR = f"""{COORDINATES}  a[i] = cast(fy[i] - iy[i], float32)
  y[c, i, j] = (1 - a[i]) * x[c, iy[i], ix[j]] + a[i] * x[c, iy[i] + 1, ix[j]]
"""


def spec_of(compute: str, sizes: tuple[int, int, int, int] = (27, 48, 54, 96), arrays: str = "") -> Spec:
    (spec,) = load_text((HEAD % sizes).replace("compute:", f"{arrays}compute:") + compute)
    return spec


def passes(kernel: Kernel) -> bool:
    return verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


@pytest.mark.parametrize("compute", [NEAREST, LINEAR], ids=["nearest", "linear"])
def test_a_resized_image_is_one_launch_without_a_workspace(compute: str) -> None:
    kernel = generate(spec_of(compute), analysis=False)
    assert [launch.family for launch in kernel.plan.kernels] == ["map"]
    assert not kernel.manifest.workspace
    assert passes(kernel)


LEFT = {
    "a position": "  t[i] = argmax(x[0, i, w], w)\n  y[c, i, j] = x[c, i, t[i]]\n",
    "placed": f"{COORDINATES}  y[c, i, j] = x[c, iy[i], ix[j]]\n",
    "of the same indices": "  t[c, i, j] = cast(floor(x[c, i, j]), int32)\n  y[c, i, j] = x[c, i, t[c, i, j]]\n",
    "in a sum": f"{COORDINATES}  y[c, i, j] = sum(x[c, iy[i], ix[j] + k], k)\n",
}


@pytest.mark.parametrize("name", LEFT)
def test_other_subscripts_are_left_as_they_are(name: str) -> None:
    arrays = {
        "placed": "".join(f"  i{a}: {{shape: [{n}], dtype: int32, memory: scratch}}\n" for a, n in ("yM", "xN")),
        "in a sum": "indices: {k: 3}\n",
    }
    sizes = (54, 96, 54, 96) if "x[c, i, " in LEFT[name] else (27, 48, 54, 96)
    spec = spec_of(LEFT[name], sizes, arrays.get(name, ""))
    assert with_computed_subscripts(spec, len(spec.statements) - 1) is None


def test_a_subscript_of_an_element_that_is_overwritten_is_computed_before() -> None:
    compute = """
  t[i] = cast(floor(s[i]), int32)
  s[i] = 0.0
  y[c, i, j] = x[c, t[i], j]
"""
    spec = spec_of(compute, (54, 96, 54, 96), "  s: {shape: [M], dtype: float32}\n")
    assert with_computed_subscripts(spec, len(spec.statements) - 1) is None


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 60), st.integers(1, 300)),
    compute=st.sampled_from([NEAREST, LINEAR]),
)
def test_results_are_those_of_the_reference(sizes: tuple[int, int, int, int], compute: str) -> None:
    assert passes(generate(spec_of(compute, sizes), analysis=False))


TABLE = """cugen: 1
kernel: looked_up
params: {M: 30, N: 9, V: 256}
arrays:
  t: {shape: [V], dtype: float32%s}
  q: {shape: [M, N], dtype: %s}
  u: {shape: [V, N], dtype: float32%s}
  y: {shape: [M], dtype: float32}
  z: {shape: [M, N], dtype: float32}
compute: |
"""
SUMMED = "  y[m] = sum(t[c[m, n]], n)\n  z[m, n] = u[k[m], n]\n"


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("dtype", "boundary", "element", "row"),
    [
        ("uint8", "", "q[m, n] * 3 + 7", "q[m, 0] - 100"),
        ("uint8", "", "cast(q[m, n] & 15, int32)", "q[m, 0] & 15"),
        ("uint32", "clamp", "q[m, n] - 5", "q[m, 0] - 5"),
        ("int8", "clamp", "q[m, n] * 2", "-q[m, 0]"),
        ("int16", "wrap", "q[m, n] * 300", "q[m, 0] * 300"),
        ("float32", "clamp", "cast(floor(40 * q[m, n]), int32)", "cast(round(q[m, 0] * 9), int32) + 1"),
        ("int32", "zero", "q[m, n] + m if q[m, n] > 2 else n", "maximum(q[m, 0], 3) // 2"),
    ],
)
def test_subscripts_wrap_and_round_as_the_temporaries_do_that_they_are(
    dtype: str, boundary: str, element: str, row: str
) -> None:
    outside = f", boundary: {boundary}" if boundary else ""
    compute = f"  c[m, n] = {element}\n  k[m] = {row}\n{SUMMED}"
    (spec,) = load_text(TABLE % (outside, dtype, outside) + compute)
    assert passes(generate(spec, analysis=False))


def test_a_subscript_of_an_index_alone_may_be_rounded_in_a_reduction() -> None:
    compute = "  c[m, n] = cast(floor(0.37 * m + 0.1 * n), int32)\n  k[m] = cast(floor(0.37 * m), int32)\n"
    compute += SUMMED.replace("t[c[m, n]]", "u[c[m, n], n]")
    (spec,) = load_text(TABLE % ("", "float32", "") + compute.replace("= u[k", "= t[0] + q[0, 0] + u[k"))
    kernel = generate(spec, analysis=False)
    assert not kernel.manifest.workspace
    assert passes(kernel)


STREAMED = """cugen: 1
kernel: streamed
params: {M: 30, N: 9}
arrays:
  x: {shape: [9, M, N], dtype: float32, boundary: wrap}
  d: {shape: [9], dtype: int32}
  z: {shape: [9, M, N], dtype: float32}
compute: |
  p[s, m, n] = x[s, m - d[s], n]
  a[m, n] = sum(p[s, m, n] * d[s], s)
  z[s, m, n] = p[s, m, n] - a[m, n] * d[s]
"""


def test_elements_that_are_subscripts_of_others_are_kept_in_registers_beside_them() -> None:
    (spec,) = load_text(STREAMED)
    kernel = generate(spec, analysis=False)
    assert [launch.family for launch in kernel.plan.kernels] == ["rowwise"]
    assert passes(kernel)


LOOKED_UP = """cugen: 1
kernel: looked_up
params: {N: NN, K: KK}
arrays:
  q: {shape: [N, K], dtype: uint8}
  p: {shape: [N, K], dtype: float32}
  t: {shape: [16], dtype: float32}
  b: {shape: [40], dtype: float32, boundary: zero}
  y: {shape: [N], dtype: float32}
compute: |
"""
IN_TERMS = {
    "bits": "  at[i, k] = cast(q[i, k], int32) & 15\n  y[i] = sum(t[at[i, k]] * p[i, k] + b[k + 0], k)\n",
    "a chain": "  u[i, k] = q[i, k] * 7 + k\n  at[i, k] = (u[i, k] ^ (u[i, k] >> 3)) & 15\n"
    "  y[i] = max(t[at[i, k]] + p[i, k] + b[i + 0], k)\n",
    "rounded numbers": "  c[i, k] = p[i, k] * 50\n  at[i, k] = cast(floor(c[i, k]), int32)\n"
    "  y[i] = sum((c[i, k] - floor(c[i, k])) * b[at[i, k] + 1] + t[0], k, where=q[i, k] > 7)\n",
    "of all results": "  at[i, k] = cast(q[i, k], int32) & 15\n  s = sum(t[at[i, k]] * p[i, k], i, k)\n"
    "  y[i] = s * b[i + 0]\n",
    "of columns": "  at[i, k] = cast(q[i, k], int32) & 15\n  s[k] = sum(t[at[i, k]] + b[i + 0], i)\n"
    "  y[i] = sum(s[k] * p[i, k], k)\n",
}


def table_of(name: str, n: int, k: int) -> Kernel:
    (spec,) = load_text(LOOKED_UP.replace("NN", str(n)).replace("KK", str(k)) + IN_TERMS[name])
    return generate(spec, analysis=False)


@pytest.mark.parametrize("name", IN_TERMS)
def test_subscripts_of_terms_are_computed_in_the_loop_that_reads_at_them(name: str) -> None:
    assert "at" not in [array.name for array in table_of(name, 100_000, 512).manifest.workspace]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", IN_TERMS)
@pytest.mark.parametrize(("n", "k"), [(37, 33), (5, 200), (1, 1)])
def test_results_of_terms_with_computed_subscripts_are_right(name: str, n: int, k: int) -> None:
    assert passes(table_of(name, n, k))


def test_a_subscript_that_several_terms_read_is_stored() -> None:
    arrays = "  w: {shape: [M, 8], dtype: float32}\n  z: {shape: [M, N], dtype: float32}\nindices: {k: 8}\n"
    compute = f"{COORDINATES}  y[c, i, j] = x[c, i, 0]\n  z[i, j] = sum(w[i, k] * x[0, k, ix[j]], k)\n"
    kernel = generate(spec_of(compute.replace("x[c, i, 0]", "x[c, iy[i], 0]"), arrays=arrays), analysis=False)
    assert "ix" in [array.name for array in kernel.manifest.workspace]
