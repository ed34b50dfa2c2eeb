"""The facts in words: numbers in front, and no claim that the numbers don't make."""

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
    found: dict[str, list[str]] = {}
    for topic, sentence in launch.sentences:
        found.setdefault(topic, []).append(sentence)
    return found


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


def test_each_guard_is_told_as_the_source_has_it():
    assert words(PRODUCT)["divergence"] == [
        "A if (m < N && k0 + tx < N): 350 of 2,744 warps mixed, 2 paths there; 79.7% of the lanes go on",
        "B if (k0 + ty < N && n < N): 350 of 2,744 warps mixed, 2 paths there; 79.7% of the lanes go on",
        "return if (m >= N || n >= N): 50 of 392 warps mixed, 2 paths there; 79.7% of the lanes go on",
    ]


def test_the_device_taken_for_a_target_is_named_as_that_and_one_that_was_asked_for_is_not():
    assert "on H200 (the device taken for sm_90), which" in words(PRODUCT)["waves"][0]
    assert "on H100, which" in words(PRODUCT, device="H100")["waves"][0]
    assert words(PRODUCT, target="sm_52")["waves"] == ["unknown: the table has no device of sm_52; name one"]


def test_unknown_registers_are_said_to_be_and_known_ones_come_with_their_spills():
    assert any("registers aren't known" in sentence for sentence in words(PRODUCT)["occupancy"])
    found = words(PRODUCT, resources={"product": Compiled()})
    assert found["registers"] == [
        "48 a thread, spills of 8 bytes stored and 12 loaded a thread, 16 bytes of stack, as compiled"
    ]
    assert found["occupancy"][1] == "75.0% would take at most 40 registers a thread instead of 48"


def test_a_block_that_cannot_be_launched_has_no_next_step():
    (sentence,) = words(PRODUCT.replace("16", "32"), target="sm_13")["occupancy"]
    assert sentence.startswith("0 blocks: sm_13 can't launch this, by warps")


def test_reads_of_constants_are_uniform_or_serialised():
    taps = "  t: {shape: [32], dtype: float32, memory: constant}\n"
    assert "every read is uniform" in words(elementwise("A[i] * t[3]", taps))["constants"][0]
    assert (
        "serialised: 1,000 requests for 32 warp loads" in words(elementwise("A[i] * t[i % 32]", taps))["constants"][0]
    )
    assert "constants" not in words(elementwise("A[i]"))


def test_a_gather_says_that_its_sectors_depend_on_data():
    found = words(elementwise("A[ids[i]]", "  ids: {shape: [N], dtype: int32}\n"))
    assert "the sectors moved are unknown: an address depends on data" in found["traffic"]


def test_a_kernel_without_branches_says_so_and_choices_in_expressions_are_no_branches():
    assert words(elementwise("A[i]", n="1024"))["divergence"][0].startswith("none: no guard")
    chosen = elementwise("maximum(A[i], 0) if A[i] < 5 else 5", n="1024").replace("direct", "map")
    assert "1 choice inside expressions, where compilers select and don't branch" in words(chosen)["divergence"]


def test_a_param_without_a_value_is_named():
    found = words(elementwise("A[i]", n="dynamic"))
    assert found["unknown"] == ["work, traffic and what follows from them can't be counted: N has no value"]
    assert found["launch"][1] == "the number of blocks depends on params without a value"


def test_a_copy_has_a_least_time_instead_of_a_roof():
    (sentence,) = words(elementwise("A[i]", n="1000000"))["roofline"]
    assert sentence == "no floating-point work: H200 needs 1.67 µs for the compulsory bytes alone"
