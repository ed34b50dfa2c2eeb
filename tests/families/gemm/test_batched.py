"""Small batched GEMM: shared-memory layouts, refusals, results."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cugen.kernel_report import analyze
from cugen.plan.traversal.walking import accesses
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.diagnostics import SpecError

BATCHED_GEMM = """
params: {{Z: {z}, M: {m}, K: {k}, N: {n}}}
arrays:
  A: {{shape: [{a}], dtype: {dtype}}}
  B: {{shape: [{b}], dtype: {dtype}}}
  C: {{shape: [Z, M, N], dtype: {out}}}
compute: C[z, m, n] = {value}
schedule: {{family: batched{schedule}}}
"""


def batched_gemm(z=37, m=16, k=16, n=16, transposed="", dtype="float32", out="", value="", schedule=""):
    a, a_at = ("Z, K, M", "z, k, m") if "a" in transposed else ("Z, M, K", "z, m, k")
    b, b_at = ("Z, N, K", "z, n, k") if "b" in transposed else ("Z, K, N", "z, k, n")
    value = value or f"sum(A[{a_at}] * B[{b_at}], k)"
    return BATCHED_GEMM.format(
        z=z, m=m, k=k, n=n, a=a, b=b, dtype=dtype, out=out or dtype, value=value, schedule=schedule
    )


def automatic(text: str) -> str:
    """The spec without its schedule."""
    return text.replace("schedule: {family: batched}", "")


# Heuristic


def test_a_batch_of_64_small_matrices_is_chosen_by_the_heuristic(planned):
    assert planned(automatic(batched_gemm(64))).family == "batched"
    assert planned(automatic(batched_gemm(63))).family == "tiled"
    assert planned(automatic(batched_gemm(z="dynamic"))).family == "batched"


UPSAMPLED = """
params: {{B: {b}, C: {c}, O: {o}, H: {h}, W: {h}}}
arrays:
  x: {{shape: [B, C, H, W], dtype: float16}}
  w: {{shape: [C, O, 2, 2], dtype: float16}}
  y: {{shape: [B, O, 2 * H, 2 * W], dtype: float16}}
compute: y[b, o, p, q] = sum(x[b, c, p // 2, q // 2] * w[c, o, p % 2, q % 2], c)
"""


def test_matrices_that_share_both_operands_are_those_of_a_larger_one(made, prove):
    """As a transposed convolution of 2 x 2 taps: pixels serve all features, weights all pixels."""
    families = [planned.family for planned in made(UPSAMPLED.format(b=8, c=256, o=128, h=64)).plan.kernels]
    assert "batched" not in families
    assert "gemm" in families
    prove(UPSAMPLED.format(b=2, c=40, o=33, h=20))


@pytest.mark.slow
def test_matrices_are_added_to_a_block_up_to_128_threads(planned):
    assert planned(batched_gemm(10_000)).block == (16, 8, 1)
    assert planned(batched_gemm(10_000, 8, 8, 8)).block == (4, 32, 1)
    assert planned(batched_gemm(10_000, 4, 4, 4)).block == (1, 32, 1)
    assert planned(batched_gemm(10_000, 64, 64, 64)).block == (128, 1, 1)
    assert planned(batched_gemm(10_000, schedule=", batch: 2")).block == (16, 2, 1)


def test_a_block_has_one_matrix_whose_threads_fill_warps(planned):
    """Copies from a single matrix take fewer instructions."""
    assert planned(batched_gemm(10_000, 37, 17, 41)).block == (55, 1, 1)
    assert planned(batched_gemm(10_000, 32, 25, 31)).block == (64, 1, 1)


@pytest.mark.slow
def test_layouts_without_conflicts_give_way_to_more_resident_blocks(planned):
    """Rows of 42 elements in place of 10 would have no conflicts either, but a third of the blocks."""
    launch = planned(batched_gemm(10_000, 27, 26, 10))
    assert launch.shared_bytes < 1.1 * 4 * (27 * 26 + 26 * 10) * launch.block[1]


def test_a_small_batch_is_spread_over_many_blocks(planned):
    assert planned(batched_gemm(300)).block == (16, 1, 1)


def read_ratios(kernel) -> list[float]:
    (launch,) = analyze(kernel).kernels
    shared = [report for report in launch.accesses if report.space == "shared" and report.access.kind == "load"]
    return [report.ratio for report in shared]


@pytest.mark.parametrize("transposed", ["", "ab"])
def test_shared_memory_reads_have_no_bank_conflicts(made, transposed):
    assert read_ratios(made(batched_gemm(1000, transposed=transposed))) == [1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8"])
@pytest.mark.parametrize("size", [4, 8, 16, 32])
def test_shared_memory_reads_of_any_size_have_no_bank_conflicts(made, size, dtype, transposed):
    assert read_ratios(made(batched_gemm(1000, size, size, size, transposed, dtype))) == [1, 1]


def test_loads_and_stores_of_global_memory_are_vectorised(planned):
    def widths(text):
        return {a.array.name: a.width for a in accesses(planned(text).body) if a.array.space == "global"}

    assert widths(batched_gemm()) == {"A": 4, "B": 4, "C": 4}
    assert widths(batched_gemm(dtype="float64")) == {"A": 2, "B": 2, "C": 2}
    assert widths(batched_gemm(dtype="float16")) == {"A": 8, "B": 8, "C": 4}
    assert widths(batched_gemm(n=18)) == {"A": 4, "B": 2, "C": 2}
    assert widths(batched_gemm(k=15)) == {"A": 1, "B": 4, "C": 4}


# Refusals


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(batched_gemm(m=65), "the extent of m may be up to 64", id="M of 65"),
        pytest.param(batched_gemm(k="dynamic"), "must be fixed", id="dynamic K"),
        pytest.param(batched_gemm(schedule=", block: {m: 16}"), "`batch` in place of", id="block"),
        pytest.param(batched_gemm(schedule=", thread: {z: 2}"), "not for z", id="thread"),
        pytest.param(batched_gemm(schedule=", batch: 128"), "too large", id="batch of 128"),
        pytest.param(batched_gemm(64, 64, 128, 64, dtype="float64"), "shared memory", id="tiles of float64"),
        pytest.param(batched_gemm(value="max(A[z, m, k] * B[z, k, n], k)"), "takes sums", id="max"),
    ],
)
def test_unsupported_batches_are_refused(reasons, text, why):
    assert why in " ".join(refusal.reason for refusal in reasons("batched", text))


# Results


@pytest.mark.sampled(10)
@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
@pytest.mark.parametrize("sizes", [(7, 5, 3), (10, 12, 18)])
def test_all_transposes_are_right(prove, sizes, transposed):
    prove(batched_gemm(37, *sizes, transposed))


@pytest.mark.slow
@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
@pytest.mark.parametrize("sizes", [(33, 20, 40), (1, 4, 1), (4, 4, 4), (64, 64, 64)])
def test_all_transposes_of_all_sizes_are_right(prove, sizes, transposed):
    prove(batched_gemm(5 if sizes[0] > 32 else 65, *sizes, transposed), races=True)


@pytest.mark.slow
@pytest.mark.parametrize("text", [batched_gemm(3, 30, 9, 37), batched_gemm(133, 9, 10, 5, "ab")])
def test_no_element_of_shared_memory_is_read_that_nobody_has_written(made, text):
    """Where thread tiles extend past a matrix, and a block past the last one."""
    kernel = made(text)
    device = CpuDevice(races=True, uninitialised=True)
    run = verify(kernel.spec, kernel.source, kernel.manifest, device, params={})
    assert run.verification.passed, "\n".join(run.verification.messages)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float8_e4m3", "int8", "int64"])
@pytest.mark.parametrize("transposed", ["", "ab"])
def test_all_element_types_are_right(prove, dtype, transposed):
    out = "float32" if dtype.startswith("float8") else ""
    prove(batched_gemm(300, 12, 16, 24, transposed, dtype, out), sanitize=True)
    prove(batched_gemm(300, 9, 7, 11, transposed, dtype, out))


@pytest.mark.slow
def test_a_dynamic_batch_of_any_length_is_right(prove):
    for z in (0, 1, 31, 33):
        prove(batched_gemm("dynamic", 4, 4, 4), {"Z": z})


@pytest.mark.slow
def test_several_batch_dimensions_are_right(prove):
    prove(SEVERAL.format(a="B, H, M, K", a_indices="b, h, m, k"))
    prove(SEVERAL.format(a="B, M, H, K", a_indices="b, m, h, k"))
    prove(SEVERAL.format(a="B, M, K", a_indices="b, m, k"))
    prove(SEVERAL.format(a="H, M, K", a_indices="h, m, k"))


SEVERAL = """
params: {{B: 5, H: 67, M: 12, K: 8, N: 10}}
arrays:
  A: {{shape: [{a}], dtype: float32}}
  W: {{shape: [B, H, K, N], dtype: float32}}
  bias: {{shape: [H, N], dtype: float32}}
  C: {{shape: [B, H, M, N], dtype: float32}}
compute: C[b, h, m, n] = relu(sum(A[{a_indices}] * W[b, h, k, n], k) + bias[h, n])
schedule: {{family: batched}}
"""

EPILOGUE = """
params: {Z: 33, M: 12, K: 9, N: 20}
scalars: {alpha: {dtype: float32}}
arrays:
  A: {shape: [Z, M, K], dtype: float16, memory: shared}
  B: {shape: [Z, K, N], dtype: float16}
  bias: {shape: [N], dtype: float32}
  C: {shape: [Z, M, N], dtype: float32}
  D: {shape: [Z, M, N], dtype: bfloat16, layout: column}
compute: |
  t[z, m, n] = sum(A[z, m, k] * B[z, k, n], k, where=k <= m + 2)
  C[z, m, n] += alpha * t[z, m, n] + sum(A[z, m, k] * abs(B[z, k, n]), k, where=k <= m + 2)
  D[z, m, n] = t[z, m, n] + bias[n] * n
schedule: {C: {family: batched}}
"""


@pytest.mark.slow
def test_several_masked_sums_in_an_epilogue_are_right(prove):
    prove(EPILOGUE)
    prove(EPILOGUE.replace(", layout: column", ", pitch: 24"))


PITCHED = """
params: {Z: 40, M: 9, K: 12, N: 20}
arrays:
  A: {shape: [Z, M, K], dtype: float32, pitch: 16}
  B: {shape: [Z, K, N], dtype: float32, layout: {strides: [300, 1, 13]}}
  C: {shape: [Z, M, N], dtype: float64, layout: {strides: [400, 21, 1]}}
compute: C[z, m, n] = sum(A[z, m, k] * B[z, k, n], k)
schedule: {family: batched, thread: {m: 8, n: 2}}
"""


@pytest.mark.slow
def test_pitched_matrices_are_right(prove):
    prove(PITCHED, sanitize=True)
    prove(PITCHED.replace("float64", "float32"), races=True)


@pytest.mark.slow
@settings(deadline=None, max_examples=10, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_drawn_sizes_are_right(prove, data):
    sizes = [data.draw(st.integers(1, 40), label=name) for name in "mkn"]
    transposed = data.draw(st.sampled_from(["", "a", "b", "ab"]))
    dtype = data.draw(st.sampled_from(["float32", "float64", "float16", "int8"]))
    tunables = data.draw(st.sampled_from(["", ", thread: {m: 2, n: 8}", ", thread: {m: 8, n: 1}", ", batch: 4"]))
    text = batched_gemm(data.draw(st.integers(1, 700)), *sizes, transposed, dtype, schedule=tunables)
    with contextlib.suppress(SpecError):  # more threads than a block may have
        prove(text)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "float64"])
def test_every_kernel_compiles_for_old_and_new_targets(compiled, dtype):
    compiled(batched_gemm(dtype=dtype, transposed="a"))
    compiled(batched_gemm(33, 20, 17, 5, dtype=dtype, transposed="b"))
