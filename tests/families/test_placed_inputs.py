"""Placements of inputs whose elements a thread, or a block, reads once: honoured as requested, right, and described."""

from __future__ import annotations

import re

import pytest

from cugen.runtime.honesty import check_honesty

SHARED = "shared"
PADDED = "{space: shared, pad: 1}"
SWIZZLED = "{space: shared, swizzle: xor}"
REGISTER = "register"


def double(n: int | str, memory: str) -> str:
    arrays = f"{{x: {{shape: [N], dtype: float32, memory: {memory}}}, y: {{shape: [N], dtype: float32}}}}"
    return f"params: {{N: {n}}}\narrays: {arrays}\ncompute: y[i] = 2 * x[i]\n"


def scaled_rows(m: int, n: int, memory: str) -> str:
    x = f"x: {{shape: [M, N], dtype: float32, memory: {memory}}}"
    arrays = f"{{{x}, s: {{shape: [M], dtype: float32}}, y: {{shape: [M, N], dtype: float32}}}}"
    return f"params: {{M: {m}, N: {n}}}\narrays: {arrays}\ncompute: y[i, j] = s[i] * x[i, j]\n"


def row_sums(m: int, n: int, memory: str) -> str:
    arrays = f"{{x: {{shape: [M, N], dtype: float32, memory: {memory}}}, y: {{shape: [M], dtype: float32}}}}"
    return f"params: {{M: {m}, N: {n}}}\narrays: {arrays}\ncompute: y[i] = sum(x[i, j], j)\n"


def softmax(m: int, n: int | str, memory: str) -> str:
    arrays = f"{{x: {{shape: [M, N], dtype: float32, memory: {memory}}}, y: {{shape: [M, N], dtype: float32}}}}"
    compute = "y[i, j] = exp(x[i, j] - max(x[i, k], k)) / sum(exp(x[i, k] - max(x[i, q], q)), k)"
    return f"params: {{M: {m}, N: {n}}}\narrays: {arrays}\ncompute: {compute}\n"


def product(m: int, n: int, k: int, memory: str, schedule: str, dtype: str = "float32") -> str:
    a, b = (f"{name}: {{shape: {shape}, dtype: {dtype}, memory: {memory}}}" for name, shape in OPERANDS)
    arrays = f"{{{a}, {b}, C: {{shape: [M, N], dtype: float32}}}}"
    compute = "C[m, n] = sum(A[m, k] * B[k, n], k)"
    return f"params: {{M: {m}, N: {n}, K: {k}}}\narrays: {arrays}\ncompute: {compute}\nschedule: {{{schedule}}}\n"


OPERANDS = (("A", "[M, K]"), ("B", "[K, N]"))
SIZES = (1, 31, 257)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("memory", [SHARED, PADDED])
@pytest.mark.parametrize("n", SIZES)
def test_an_input_that_is_read_once_is_staged_if_the_spec_says_so(prove, made, planned, n, memory):
    text = double(n, memory)
    assert planned(text).family == "staged"
    assert "x_tile[threadIdx.x]" in made(text).source
    prove(text, sanitize=True, races=False)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [SHARED, PADDED, SWIZZLED])
@pytest.mark.parametrize("n", [31, 257])
def test_rows_that_are_read_once_are_staged_with_their_layout(prove, planned, n, memory):
    text = scaled_rows(33, n, memory)
    assert planned(text).family == "staged"
    prove(text, sanitize=True)
    prove(text, races=True)


def test_nothing_that_is_read_once_is_staged_unasked(planned):
    assert planned(double(257, "global")).family == "map"


@pytest.mark.sampled(10)
@pytest.mark.parametrize("memory", [SHARED, PADDED, SWIZZLED])
@pytest.mark.parametrize(("m", "n"), [(9, 67), (33, 129), (257, 31)])
def test_a_reduction_of_elements_of_one_result_walks_over_tiles_of_them(prove, planned, m, n, memory):
    text = row_sums(m, n, memory)
    assert planned(text).family == "staged"
    prove(text, sanitize=True)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("memory", [SHARED, PADDED, SWIZZLED])
@pytest.mark.parametrize("n", [1, 67, 2049])
def test_rows_in_shared_memory_are_cached_there(prove, made, planned, n, memory):
    text = softmax(5, n, memory)
    kernel = planned(text)
    assert kernel.family == "rowwise"
    assert "cached in shared memory" in " ".join(kernel.reasons)
    assert "x_shared" in made(text).source
    elements = planned(softmax(5, n, SHARED)).dynamic_shared_bytes // 4
    assert kernel.dynamic_shared_bytes // 4 == elements + (memory == PADDED)
    prove(text, sanitize=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("m", "n"), [(9, 67), (33, 8), (1, 31)])
def test_an_array_that_is_staged_whole_is_swizzled(prove, made, m, n):
    arrays = f"x: {{shape: [M, N], dtype: float32, memory: {SWIZZLED}}}, y: {{shape: [N, M], dtype: float32}}"
    text = f"params: {{M: {m}, N: {n}}}\narrays: {{{arrays}}}\ncompute: y[j, i] = x[i, j]\n"
    text += "schedule: {family: direct}\n"
    source = made(text).source
    assert ("^" in source.partition("__global__")[2]) == (m > 1)
    prove(text, sanitize=True)


def test_rows_longer_than_shared_memory_are_refused_with_what_it_holds(reasons):
    refusals = [refusal.reason for refusal in reasons("rowwise", softmax(2000, 1_000_001, SHARED))]
    assert any("shared memory hold at most" in reason and "up to 1000001" in reason for reason in refusals), refusals


def test_rows_longer_than_registers_are_refused_with_what_they_hold(reasons):
    refusals = [refusal.reason for refusal in reasons("rowwise", softmax(2000, 1_000_001, REGISTER))]
    assert any("registers hold at most" in reason for reason in refusals), refusals


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", SIZES)
def test_elements_that_a_thread_reads_once_are_loaded_into_registers(prove, made, planned, n):
    text = double(n, REGISTER)
    kernel = planned(text)
    assert kernel.family == "map"
    assert "a thread loads each element of x that it reads into a register, where it uses it" in kernel.reasons
    prove(text, sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (17, 67, 31), (65, 63, 66)])
def test_an_operand_in_global_memory_has_no_tile(prove, made, planned, m, n, k):
    text = product(m, n, k, SHARED, "block: {m: 16, n: 16}, step: {k: 16}").replace(SHARED, "global", 1)
    assert planned(text).family == "tiled"
    assert "As[" not in made(text).source
    prove(text, sanitize=True)


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("schedule", "fragment"),
    [
        ("block: {m: 16, n: 16}, step: {k: 16}", r"const float a = As\[ty\]\[\w+\];"),
        ("block: {m: 32, n: 16}, thread: {m: 2, n: 1}, step: {k: 16}", r"float a_frag\[TM\];"),
        ("family: gemm, block: {m: 64, n: 64}, thread: {m: 8, n: 4}, step: {k: 8}", "Vector<float, 4> a_frag"),
    ],
)
@pytest.mark.parametrize(("m", "n", "k"), [(3, 5, 7), (17, 67, 31), (65, 63, 66)])
def test_threads_multiply_registers_of_an_operand_that_is_placed_there(prove, made, m, n, k, schedule, fragment):
    text = product(m, n, k, REGISTER, schedule)
    assert re.search(fragment, made(text).source)
    prove(text, sanitize=True)


GEMM_SCHEDULES = (
    "family: gemm, stages: 1, block: {m: 64, n: 64}, thread: {m: 8, n: 4}, step: {k: 8}",
    "family: gemm, stages: 3, block: {m: 64, n: 64}, thread: {m: 8, n: 4}, step: {k: 8}",
    "family: gemm, stages: 2, split_k: 2, block: {m: 64, n: 64}, thread: {m: 8, n: 4}, step: {k: 8}",
)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", GEMM_SCHEDULES)
@pytest.mark.parametrize(("m", "n", "k"), [(17, 67, 32), (64, 60, 65)])
def test_operands_in_constant_memory_are_copied_from_there_to_tiles(prove, made, m, n, k, schedule):
    text = product(m, n, k, "constant", schedule)
    source = made(text).source
    assert "__constant__ float" in source
    assert "As[" in source
    prove(text, sanitize=True)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("memory", ["register", "global"])
@pytest.mark.parametrize(("m", "n"), [(31, 33), (65, 129)])
def test_a_transposed_input_in_registers_is_there_where_it_is_used(prove, made, m, n, memory):
    arrays = f"{{A: {{shape: [M, N], dtype: float32, memory: {memory}}}, B: {{shape: [N, M], dtype: float32}}}}"
    schedule = "block: {m: 32, n: 32}, thread: {n: 4}, family: transpose" if memory == REGISTER else ""
    text = f"params: {{M: {m}, N: {n}}}\narrays: {arrays}\ncompute: B[n, m] = A[m, n]\nschedule: {{{schedule}}}\n"
    source = made(text).source
    assert ("const float a = tile" in source) == (memory == REGISTER)
    prove(text, sanitize=True)


GEMM = "family: gemm, block: {m: 64, n: 64}, thread: {m: 8, n: 4}, step: {k: 8}"


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [GEMM, f"{GEMM}, sliced_k: 2, stages: 2"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("pad", "width"), [(1, 1), (2, 2), (4, 4), (6, 2)])
def test_a_pad_leaves_the_vectors_that_it_aligns(prove, made, dtype, pad, width, schedule):
    text = product(65, 68, 36, f"{{space: shared, stages: 2, pad: {pad}}}", schedule.replace(", stages: 2", ""), dtype)
    source = made(text).source
    (fragment,) = re.findall(r"Vector<\w+, (\d+)> a_frag", source)
    assert int(fragment) == width
    prove(text, sanitize=True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(double(67, SHARED), id="map"),
        pytest.param(scaled_rows(9, 35, SWIZZLED), id="swizzled"),
        pytest.param(softmax(3, 67, SHARED), id="rowwise"),
        pytest.param(product(17, 20, 9, "{space: shared, stages: 2, pad: 1}", GEMM), id="gemm"),
    ],
)
def test_the_analysis_counts_what_runs(made, text):
    kernel = made(text)
    check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
