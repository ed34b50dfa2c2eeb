"""The estimate of a thread's registers: what is live at the same time, and the addresses that loops keep."""

from __future__ import annotations

import pytest

from cugen.families.gemm.skinny.recognition import SkinnyGemm
from cugen.machine import target
from cugen.machine.occupancy import max_registers
from cugen.plan.registers.estimate import dynamic_arrays, registers
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_text

SKINNY = """
cugen: 1
kernel: skinny
target: sm_90
params: {{M: {m}, N: 4096, K: {k}, S: {step}}}
arrays:
  x: {{shape: [M, K, S], dtype: {dtype}}}
  w: {{shape: [N, K], dtype: {dtype}}}
  y: {{shape: [M, N], dtype: float32}}
compute: y[m, n] = sum(cast(x[m, k, 0], float32) * cast(w[n, k], float32), k)
schedule: {{family: skinny{schedule}}}
"""

STENCIL = """
cugen: 1
kernel: stencil
target: sm_90
params: {{H: 4096, W: 4096}}
arrays:
  x: {{shape: [H, W], dtype: {dtype}, boundary: zero}}
  w: {{shape: [{size}, {size}], dtype: {dtype}, memory: constant}}
  y: {{shape: [H, W], dtype: {dtype}}}
indices: {{r: {size}, s: {size}}}
compute: y[i, j] = sum(x[i + r, j + s] * w[r, s], r, s)
"""


def estimate(text: str) -> int:
    plan = make_plan(load_text(text)[0])
    return max(registers(kernel, plan.context) for kernel in plan.kernels)


def skinny(m: int = 4, k: str = "4096", step: str = "1", dtype: str = "float32", schedule: str = "") -> str:
    return SKINNY.format(m=m, k=k, step=step, dtype=dtype, schedule=schedule)


def test_accumulators_are_live_throughout_the_main_loop():
    assert estimate(skinny(16, schedule=", tile_n: 4, split_k: 1")) >= 16 * 4
    assert estimate(skinny(16, schedule=", tile_n: 4, split_k: 1")) > estimate(
        skinny(16, schedule=", tile_n: 2, split_k: 1")
    )


def test_operands_and_accumulators_of_several_outputs_are_live_in_a_walk():
    def of_outputs(count: int) -> int:
        schedule = f"{{block: {{i: {64 * count}}}, thread: {{i: {count}}}, step: {{j: 64}}}}"
        return estimate(
            "cugen: 1\nkernel: density\narrays:\n  x: {shape: [9000], dtype: float32}\n"
            "  p: {shape: [9000], dtype: float32, memory: shared}\n  y: {shape: [9000], dtype: float32}\n"
            f"compute: y[i] = sum(exp(-(x[i] - p[j])**2), j)\nschedule: {schedule}\n"
        )

    assert of_outputs(8) >= of_outputs(2) + 2 * 6


WGMMA = """
cugen: 1
kernel: product
target: sm_90a
params: {{M: 4096, N: 4096, K: 4096}}
arrays:
  A: {{shape: [M, K], dtype: bfloat16}}
  B: {{shape: [N, K], dtype: bfloat16}}
  C: {{shape: [M, N], dtype: {out}}}
compute: C[m, n] = sum(A[m, k] * B[n, k], k)
schedule: {{family: wgmma, block: {{m: {m}, n: {n}}}, split_k: 1}}
"""


@pytest.mark.parametrize(
    ("m", "n", "out", "compiled"),
    [
        (64, 64, "bfloat16", 60),
        (64, 256, "bfloat16", 155),
        (128, 256, "bfloat16", 158),
        (256, 128, "float32", 154),
    ],
)
def test_accumulators_of_wgmma_are_live_in_the_main_loop_and_addresses_of_the_epilogue_are_not(m, n, out, compiled):
    """`compiled`: by nvcc 13.0."""
    assert estimate(WGMMA.format(m=m, n=n, out=out)) == pytest.approx(compiled, abs=4)


def test_a_float64_takes_two_registers():
    narrow, wide = (estimate(STENCIL.format(size=5, dtype=dtype)) for dtype in ("float32", "float64"))
    assert narrow < wide < 2.2 * narrow


def test_a_larger_window_takes_more():
    assert estimate(STENCIL.format(size=3, dtype="float32")) < estimate(STENCIL.format(size=7, dtype="float32"))


def test_a_loop_keeps_an_address_for_each_stride_that_only_the_caller_knows():
    """Addresses that are a constant apart are one pointer and offsets in the instructions."""
    static = skinny(8, schedule=", split_k: 1, warps: 8")
    dynamic = skinny(8, "{multiple_of: 4}", "{range: [1, 8]}", schedule=", split_k: 1, warps: 8")
    assert estimate(dynamic) > estimate(static) + 64


SOFTMAX = """
cugen: 1
kernel: channels
params: {{N: {{range: [1, 1000]}}, F: {{range: [1, 100000]}}, H: {{range: [3, 1000]}}, W: {{range: [3, 1000]}}}}
arrays:
  x: {{shape: [N, F, {height}, {width}], dtype: float32}}
  y: {{shape: [N, F, {height}, {width}], dtype: float32}}
compute: y[n, f, i, j] = softmax(x[n, f, i, j], f)
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("height", "width"), [("H - 2", "W"), ("H", "W - 2"), ("H - 2", "W + 1")])
def test_a_stride_of_several_terms_is_one_stride(height, width):
    """Unrolled steps along f are as many addresses, whatever the product of the other extents is."""
    (kernel,) = make_plan(load_text(SOFTMAX.format(height=height, width=width))[0]).kernels
    assert kernel.family == "rowwise"
    assert estimate(SOFTMAX.format(height=height, width=width)) == estimate(SOFTMAX.format(height="H", width="W"))


@pytest.mark.parametrize(("threads", "blocks", "expected"), [(512, 1, 128), (256, 1, 255), (256, 4, 64), (1024, 1, 64)])
def test_a_launch_limits_the_registers_of_a_thread(threads, blocks, expected):
    assert max_registers(target("sm_90"), threads, blocks) == expected


def test_a_kernel_that_would_spill_gets_smaller_blocks(monkeypatch):
    monkeypatch.setattr(SkinnyGemm, "pays", True)
    text = skinny(8, "{multiple_of: 4}", "{range: [1, 8]}")
    (forced,) = make_plan(load_text(text)[0]).kernels
    (chosen,) = make_plan(load_text(text.replace("schedule: {family: skinny}", ""))[0]).kernels
    assert (forced.threads, chosen.family, chosen.threads) == (512, "skinny", 256)


def test_sizes_in_the_schedule_are_kept():
    (kernel,) = make_plan(
        load_text(skinny(8, "{multiple_of: 4}", "{range: [1, 8]}", schedule=", warps: 16"))[0]
    ).kernels
    assert kernel.threads == 512


def test_arrays_in_registers_are_indexed_by_constants():
    plan = make_plan(load_text(STENCIL.format(size=5, dtype="float32"))[0])
    assert [dynamic_arrays(kernel, plan.context) for kernel in plan.kernels] == [frozenset()]
