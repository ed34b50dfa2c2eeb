"""What is predicted of compiled code against what counters of an H200 showed, or an H100: of `argmax` and `row_sum`."""

from __future__ import annotations

from pathlib import Path

import pytest

from cugen.compiled.predictions import CONSTANT_REPLAYS, CONSTANT_REQUESTS, METRICS, predictions
from cugen.emit.resources import data_folder
from cugen.kernel import generate
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compile_cubin, compile_ptx, compilers
from tests.benchmarks import benchmark

ROOT = Path(__file__).parents[2]
counters = benchmark("machine.counters")
MEASURED = (ROOT / "tests" / "data" / "sm90_launches.csv").read_text()
KERNELS = (
    "argmax",
    "blur5x5",
    "conv_channels",
    "jacobi2d",
    "matmul_f64",
    "matmul_lower_triangular",
    "matmul_tiled",
    "matmul_tiled_even",
    "polynomial",
    "row_sum",
    "saxpy",
    "transpose_padded",
    "transpose_swizzled",
)

NOT_PREDICTED = {
    "argmax": (
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    )
}


def test_counters_are_read_as_the_profiler_prints_them():
    actual = counters.read_counters(MEASURED)
    assert tuple(actual) == KERNELS
    assert list(actual["matmul_tiled"]) == list(METRICS)
    assert actual["matmul_tiled"]["smsp__sass_inst_executed_op_shared_ld.sum"] == 16_299_360


def test_a_profiler_that_printed_no_table_is_quoted():
    with pytest.raises(ValueError, match="==ERROR== no GPU"):
        counters.read_counters("==PROF== Connected\n==ERROR== no GPU\n")


def test_figures_of_instructions_are_read_by_kernel_and_place():
    text = """==PROF== Connected
"Kernel Name","copy(float *)",
"Address","Source","Instructions Executed","Predicated-On Thread Instructions Executed","L2 Theoretical Sectors Global"
"0x7f0000100","      LDC R1, c[0x0][0x28]","8","256","0"
"0x7f0000110","      LDG.E R2, desc[UR4][R2.64]","8","250","32"
"Kernel Name","other",
"Address","Source","Instructions Executed","Predicated-On Thread Instructions Executed","L2 Theoretical Sectors Global"
"0x7f0000900","      EXIT","1","32","0"
"""
    assert counters.read_instructions(text) == {
        "copy": {
            "0": {"executed": 8, "lanes": 256, "sectors": 0},
            "16": {"executed": 8, "lanes": 250, "sectors": 32},
        },
        "other": {"0": {"executed": 1, "lanes": 32, "sectors": 0}},
    }


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", KERNELS)
def test_predictions_equal_the_counters(name):
    if not any(c.name == "nvrtc" and c.version == "13.0" for c in compilers()):
        pytest.skip("the counters are those of code that NVRTC 13.0 compiled")
    (kernel,) = counters.kernels(data_folder("specs"), (name,))
    image = compile_cubin(kernel.source, kernel.name, "sm_90", prefer="nvrtc").image
    ptx = compile_ptx(kernel.source, kernel.name, "sm_90", prefer="nvrtc")
    (launch,) = counters.as_compiled(kernel, image, ptx, kernel.access_lines(), "sm_90")
    measured = counters.read_counters(MEASURED)[name]
    row = counters.launch_row(launch, measured, {})
    different = {metric: actual for metric, actual in row["counters"].items() if actual["verdict"] != "equal"}
    for metric in NOT_PREDICTED.get(name, ()):  # its lanes diverge on data within a loop of loads
        assert different.pop(metric)["verdict"] == "not predicted"
    if "of these the compiler's own, as measured" in row["counters"][CONSTANT_REQUESTS]:
        del different[CONSTANT_REQUESTS]  # needs the figures of single instructions
    assert different == {}


@pytest.mark.slow
def test_what_each_trip_of_an_unrolled_loop_moves_again_is_counted_once():
    """144 trips load of `w` what 36 trips move: the 4 outputs in a row of a thread take the same weight."""
    if not any(c.name == "nvrtc" and c.version == "13.0" for c in compilers()):
        pytest.skip("the figures are those of code that NVRTC 13.0 compiled")
    (kernel,) = counters.kernels(data_folder("specs"), ("conv_channels",))
    image = compile_cubin(kernel.source, kernel.name, "sm_90", prefer="nvrtc").image
    ptx = compile_ptx(kernel.source, kernel.name, "sm_90", prefer="nvrtc")
    (launch,) = counters.as_compiled(kernel, image, ptx, kernel.access_lines(), "sm_90")
    (weights,) = (a for a in launch.accesses if a.access.array.symbol == "w")
    assert len(weights.instructions) == 36
    assert weights.changes == ("reused: one element for every v", "unrolled: 36 instructions for 36 trips")
    assert weights.written.lanes == 4 * 449_280
    assert sum(tally.lanes for tally in weights.compiled) == 449_280  # as Nsight Compute counted both on an H200
    assert sum(tally.sectors for tally in weights.compiled) == 15_120


@pytest.mark.slow
def test_pointers_that_are_loaded_where_their_stores_run_are_counted():
    """Each store of the unrolled loop has its own load of the pointer, under its own predicate or in its own block."""
    (kernel,) = counters.kernels(data_folder("specs"), ("cumulative_sum",))
    image = compile_cubin(kernel.source, kernel.name, "sm_90").image
    ptx = compile_ptx(kernel.source, kernel.name, "sm_90")
    (launch,) = counters.as_compiled(kernel, image, ptx, kernel.access_lines(), "sm_90")
    assert any(i.name == "LDC" and i.predicate for i in launch.program.instructions)
    actual = predictions(launch)[CONSTANT_REQUESTS]
    (store,) = (a for a in launch.accesses if a.access.kind == "store")
    assert actual.value is not None
    assert actual.value >= launch.warps + store.executions


@pytest.mark.slow
@pytest.mark.parametrize(("count", "is_known"), [(2048, True), (2049, False)])
def test_requests_of_more_constants_than_an_sm_caches_are_unknown(count, is_known):
    (spec,) = load_text(f"""
cugen: 1
kernel: lookup
arrays:
  t: {{shape: [{count}], dtype: float32, memory: constant}}
  y: {{shape: [8192], dtype: float32}}
compute: y[i] = t[i % {count}]
schedule: {{family: direct}}
""")
    kernel = generate(spec)
    image = compile_cubin(kernel.source, kernel.name, "sm_90").image
    ptx = compile_ptx(kernel.source, kernel.name, "sm_90")
    (launch,) = counters.as_compiled(kernel, image, ptx, kernel.access_lines(), "sm_90")
    for metric in (CONSTANT_REQUESTS, CONSTANT_REPLAYS):
        actual = predictions(launch)[metric]
        assert (actual.value is not None) == is_known
        assert is_known or actual.reason == "unproved: the read hits the constant cache of 8,192 bytes"


@pytest.mark.slow
def test_stores_into_the_shared_memory_of_another_block_are_counted_and_their_wavefronts_are_not():
    if not any(c.name == "nvrtc" and c.version == "13.0" for c in compilers()):
        pytest.skip("the figures are those of code that NVRTC 13.0 compiled")
    (kernel,) = counters.kernels(data_folder("specs"), ("softmax_long_rows",))
    image = compile_cubin(kernel.source, kernel.name, "sm_90", prefer="nvrtc").image
    ptx = compile_ptx(kernel.source, kernel.name, "sm_90", prefer="nvrtc")
    (launch,) = counters.as_compiled(kernel, image, ptx, kernel.access_lines(), "sm_90")
    actual = predictions(launch)
    assert actual["smsp__sass_inst_executed_op_shared_st.sum"].value == 1224
    wavefronts = actual["smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum"]
    assert wavefronts.value is None
    assert "distributed shared memory" in wavefronts.reason
