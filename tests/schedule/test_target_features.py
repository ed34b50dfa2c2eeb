"""What a target lacks: refused with the feature's name, or computed by a family that doesn't use it."""

from __future__ import annotations

import pytest

from cugen.kernel import Kernel, generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.diagnostics import Diagnostic, SpecError
from cugen.spec.load import load_text

ROWS = """\
cugen: 1
kernel: rows
params: {M: 40, N: 96}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M, N], dtype: float32}
"""
SOFTMAX = f"{ROWS}compute: y[m, n] = exp(x[m, n]) / sum(exp(x[m, k]), k)\n"


def made(text: str, name: str) -> Kernel:
    (spec,) = load_text(text, target=name)
    return generate(spec)


def refused(text: str, name: str) -> list[Diagnostic]:
    with pytest.raises(SpecError) as caught:
        made(text, name)
    return caught.value.diagnostics


@pytest.mark.parametrize(
    ("dtype", "without", "first"),
    [
        ("float64", "sm_12", "sm_13"),
        ("float16", "sm_13", "sm_20"),
        ("bfloat16", "sm_20", "sm_35"),
        ("float8_e4m3", "sm_30", "sm_35"),
    ],
)
def test_a_type_is_refused_where_a_target_lacks_it(dtype: str, without: str, first: str) -> None:
    text = ROWS.replace("float32", dtype) + "compute: y[m, n] = 2 * x[m, n]\n"
    (finding,) = refused(text, without)
    assert finding.code == "CG3104"
    assert finding.message.startswith(f"`x` needs {dtype}: {without} has no ")
    assert finding.message.endswith(f"; {first} and newer have")
    assert finding.span.line == 5
    assert made(text, first).manifest.target == first


def test_float64_of_an_accumulator_or_a_conversion_is_refused_too() -> None:
    text = ROWS.replace("y: {shape: [M, N]", "y: {shape: [M]")
    (finding,) = refused(f"{text}compute: y[m] = sum(x[m, n], n)\naccumulate: float64\n", "sm_12")
    assert finding.message == "`y[m] = sum(x[m, n], n)` needs float64: sm_12 has no float64; sm_13 and newer have"
    (finding,) = refused(f"{ROWS}compute: y[m, n] = float16(x[m, n])\n", "sm_13")
    assert "float16" in finding.message


def test_the_read_only_cache_begins_with_3_5() -> None:
    text = ROWS.replace("x: {shape: [M, N]", "x: {memory: readonly, shape: [M, N]")
    text += "compute: y[m, n] = 2 * x[m, n]\nschedule: {family: direct}\n"
    (finding,) = refused(text, "sm_30")
    assert finding.code == "CG3104"
    assert "`x` is in the read-only cache: sm_30 has no loads through a read-only cache; sm_35" in finding.message
    assert "__ldg" in made(text, "sm_35").source


def test_texture_objects_begin_with_3_0() -> None:
    text = ROWS.replace("x: {shape: [M, N]", "x: {memory: texture, shape: [M, N]")
    text += "compute: y[m, n] = 2 * x[m, n]\n"
    (finding,) = refused(text, "sm_21")
    assert (finding.code, finding.key) == ("CG3104", "arrays.x.memory")
    assert finding.message == "`x` is a texture: sm_21 has no texture objects; sm_30 and newer have"

    assert "tex1Dfetch<float>(" in made(text, "sm_30").source


def test_2d_texture_objects_begin_with_3_0() -> None:
    memory = "memory: {space: texture, dims: 2}, pitch: {align: 32}"
    text = ROWS.replace("x: {shape: [M, N]", f"x: {{{memory}, shape: [M, N]")
    text += "compute: y[m, n] = 2 * x[m, n]\n"
    (finding,) = refused(text, "sm_21")
    assert (finding.code, finding.key) == ("CG3104", "arrays.x.memory")
    assert "tex2D<float>(" in made(text, "sm_30").source


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["sm_10", "sm_13", "sm_20"])
def test_rows_are_reduced_without_shuffles_before_3_0(name: str) -> None:
    kernel = made(SOFTMAX, name)
    assert "__shfl" not in kernel.source
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed
    assert "__shfl_xor_sync" in made(SOFTMAX, "sm_30").source


def test_a_family_that_is_asked_for_is_refused_with_the_feature() -> None:
    text = f"{SOFTMAX}schedule: {{family: rowwise}}\n"
    (finding,) = refused(text, "sm_20")
    assert finding.code == "CG2102"
    assert finding.notes == ("rowwise: sm_20 has no warp shuffles; sm_30 and newer have",)


def test_a_split_of_k_that_is_asked_for_is_refused_where_blocks_cannot_wait() -> None:
    text = """\
cugen: 1
kernel: product
params: {M: 40, N: 64, K: 128}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 4}, step: {k: 8}, split_k: 4}
"""
    (finding,) = refused(text, "sm_61")
    assert "sm_61 has no independent thread scheduling, which spin-waits need; sm_70 and newer have" in finding.notes[0]
    assert "atomicInc(&" in made(text, "sm_70").source


def test_code_that_no_compiler_takes_says_what_it_is_for() -> None:
    text = f"{ROWS}compute: y[m, n] = 2 * x[m, n]\n"
    assert "// target    for reading and analysis: no CUDA release that knows C++17" in made(text, "sm_30").source
    assert "for reading" not in made(text, "sm_35").source
