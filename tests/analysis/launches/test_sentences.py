"""Facts of a launch as sentences."""

from __future__ import annotations

import cugen
from cugen.spec.load import load_text

PRODUCT = """
cugen: 1
kernel: product
params: {N: 100}
arrays:
  A: {shape: [N, N], dtype: float32, memory: shared}
  B: {shape: [N, N], dtype: float32, memory: shared}
  C: {shape: [N, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: 16, n: 16}, step: {k: 16}}
"""


class Compiled:
    registers, spill_stores, spill_loads, stack_bytes = 48, 8, 12, 16


def words(text: str, **options) -> dict[str, list[str]]:
    (spec,) = load_text(text)
    (launch,) = cugen.analyze(spec, **options).kernels
    actual: dict[str, list[str]] = {}
    for topic, sentence in launch.sentences:
        actual.setdefault(topic, []).append(sentence)
    return actual


def elementwise(compute: str, arrays: str = "", n: str = "1000") -> str:
    return f"""
cugen: 1
kernel: k
params: {{N: {n}}}
arrays:
  A: {{shape: [N], dtype: float32}}
{arrays}  C: {{shape: [N], dtype: float32}}
compute: "C[i] = {compute}"
schedule: {{family: direct}}
"""


def test_each_guard_is_quoted_from_the_source():
    assert words(PRODUCT)["divergence"] == [
        "A if (m < N && k0 + tx < N): 350 of 2,744 warps diverge, 2 paths; 79.7% of the lanes continue",
        "B if (k0 + ty < N && n < N): 350 of 2,744 warps diverge, 2 paths; 79.7% of the lanes continue",
        "return if (m >= N || n >= N): 50 of 392 warps diverge, 2 paths; 79.7% of the lanes continue",
    ]


def test_bytes_of_mapped_and_managed_arrays_come_over_the_link_to_the_host():
    text = elementwise("A[i] + B[i]", "  B: {shape: [N], dtype: float32, memory: managed}\n", n="1000000")
    assert "host link" not in words(text.replace(", memory: managed", ""))
    assert words(text)["host link"] == [
        "B is in managed memory: 4,000,000 bytes are read over PCIe 5.0 x16, the link of H200 to its host: 63.5 µs at "
        "63.0 GB/s, once, if its pages are on the host"
    ]
    text = text.replace("C: {shape: [N], dtype: float32", "C: {shape: [N], dtype: float32, memory: mapped")
    assert words(text, target="sm_80")["host link"][1] == (
        "C is in mapped memory of the host, not of the device: at least 4,000,000 bytes are written over PCIe 4.0 x16, "
        "the link of A100 to its host: 127 µs at 31.5 GB/s"
    )
    assert words(text, target="sm_87")["host link"][1].endswith("bytes are written over the link to the host")


def test_a_default_device_is_named_as_such_and_a_requested_one_is_not():
    assert "on H200 (default device of sm_90) of " in words(PRODUCT)["waves"][0]
    assert "on H100 of " in words(PRODUCT, device="H100")["waves"][0]
    assert words(PRODUCT, target="sm_52")["waves"] == ["unknown: the table has no device of sm_52; name one"]


def test_unknown_registers_are_reported_and_known_ones_have_their_spills():
    assert any("registers are unknown" in sentence for sentence in words(PRODUCT)["occupancy"])
    sentences = words(PRODUCT, resources={"product": Compiled()})
    assert sentences["registers"] == [
        "48 per thread, spills of 8 bytes stored and 12 loaded per thread, 16 bytes of stack, as compiled"
    ]
    assert sentences["occupancy"][1] == "75.0% takes at most 40 registers per thread instead of 48"


def test_a_block_that_cannot_be_launched_has_no_next_step():
    (sentence,) = words(PRODUCT.replace("16", "32"), target="sm_13")["occupancy"]
    assert sentence.startswith("0 blocks: sm_13 can't launch this, limited by warps")


def test_reads_of_constants_are_uniform_or_serialised():
    taps = "  t: {shape: [32], dtype: float32, memory: constant}\n"
    assert "every read is uniform" in words(elementwise("A[i] * t[3]", taps))["constants"][0]
    assert (
        "serialised: 1,000 requests for 32 warp loads" in words(elementwise("A[i] * t[i % 32]", taps))["constants"][0]
    )
    assert "constants" not in words(elementwise("A[i]"))


def test_constants_that_exceed_a_level_of_the_cache_are_named():
    (_, beyond) = words(elementwise("A[i] * sum(t[k], k)", "  t: {shape: [3000], dtype: float32, memory: constant}\n"))[
        "constants"
    ]
    assert beyond == "the kernel reads up to 12,000 bytes of constants, and an SM caches 8,192"
    text = elementwise("A[i] * sum(t[k], k)", "  t: {shape: [600], dtype: float32, memory: constant}\n")
    sentences = words(text)
    assert "2,400 bytes of constants, more than the 2,048 of the cache's first level" in sentences["constants"][1]
    assert "each array once, 2,400 of them constants" in sentences["traffic"][2]
    assert sentences["roofline"][-1].endswith("FLOP per requested read byte, constants once")


def test_a_gather_says_that_its_sectors_depend_on_data():
    sentences = words(elementwise("A[ids[i]]", "  ids: {shape: [N], dtype: int32}\n"))
    assert "the sectors moved are unknown: an address depends on data" in sentences["traffic"]


def test_a_kernel_without_branches_says_so_and_choices_in_expressions_are_no_branches():
    assert words(elementwise("A[i]", n="1024"))["divergence"][0].startswith("none: no guard")
    chosen = elementwise("maximum(A[i], 0) if A[i] < 5 else 5", n="1024").replace("direct", "map")
    assert "1 choice inside expressions, compiled to selects without branches" in words(chosen)["divergence"]


def test_a_param_without_a_value_is_named():
    sentences = words(elementwise("A[i]", n="dynamic"))
    assert sentences["unknown"] == ["work, traffic and roofline can't be counted: N has no value"]
    assert sentences["launch"][1] == "the number of blocks depends on params without a value"


def test_a_copy_has_a_minimum_time_instead_of_a_roofline():
    (sentence,) = words(elementwise("A[i]", n="1000000"))["roofline"]
    assert sentence == "no floating-point work: H200 needs 1.67 µs for the compulsory bytes alone"


def test_the_reuse_by_tiles_is_not_claimed_where_matrix_loads_read_them():
    assert "reuse each byte 20.07 times" in words(PRODUCT)["traffic"][-1]
    by_tensor_cores = PRODUCT.replace("float32", "float16").replace("100", "128")
    unscheduled = by_tensor_cores.replace(
        "schedule: {block: {m: 16, n: 16}, step: {k: 16}}", "schedule: {family: gemm}"
    )
    assert words(unscheduled)["traffic"][-1].endswith("are compulsory: each array once")
