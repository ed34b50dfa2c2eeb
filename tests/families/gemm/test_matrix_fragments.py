"""GEMM of 16- and 8-bit types and tf32 on tensor cores: when they are used, fragments, analysis and results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.families.gemm.selection.candidate_tiles import tile_configs
from cugen.kernel_report import analyze
from cugen.machine import target as machine_target
from cugen.machine.mma import INSTRUCTIONS, TF32, MmaInstruction
from cugen.plan.nodes import LoadMatrix, Mma
from cugen.plan.traversal.walking import walk_nodes
from cugen.reference.storage import numpy_dtype
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty import check_honesty
from cugen.runtime.inputs import Inputs
from cugen.runtime.verify import verify
from cugen.spec.types import DTYPES
from cugen.toolchain.cuda import compile_cubin, compilers

# Types of A, B and C.
TYPES = (
    ("float16", "float16", "float16"),
    ("bfloat16", "bfloat16", "float32"),
    ("int8", "int8", "int32"),
    ("uint8", "int8", "int32"),
    ("float8_e4m3", "float8_e4m3", "float32"),
    ("float8_e5m2", "float8_e4m3", "bfloat16"),
    ("float32", "float32", "float32"),  # in tf32
    ("float32", "bfloat16", "float32"),
    ("bfloat16", "float32", "bfloat16"),
    ("float32", "float16", "float32"),
    ("float16", "float32", "float16"),
)
SPLIT = TYPES[7:]  # in parts
SMALL = "family: gemm, cores: tensor, block: {m: 32, n: 64}, thread: {m: 4, n: 4}, step: {k: 64}, stages: 3"


def product_of(types, m=40, n=72, k=80, *, k_major=(True, False), schedule=SMALL, target="sm_90", becomes="=") -> str:
    a, b, c = types
    a_major, b_major = k_major
    return f"""
target: {target}
params: {{M: {m}, N: {n}, K: {k}}}
arrays:
  A: {{shape: [{"M, K" if a_major else "K, M"}], dtype: {a}}}
  B: {{shape: [{"N, K" if b_major else "K, N"}], dtype: {b}}}
  C: {{shape: [M, N], dtype: {c}}}
compute: C[m, n] {becomes} sum(A[{"m, k" if a_major else "k, m"}] * B[{"n, k" if b_major else "k, n"}], k)
schedule: {{{schedule}}}
accumulate: {{tf32: true}}
"""


def instruction_for(types) -> MmaInstruction:
    return TF32 if types[:2] == ("float32", "float32") else INSTRUCTIONS[types[0], types[1]]


def instructions_of(kernel) -> set[str]:
    return {node.instruction.name for node in walk_nodes(kernel.body) if isinstance(node, Mma)}


# When tensor cores are used


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    ("types", "target", "expected"),
    [
        (TYPES[0], "sm_70", set()),
        (TYPES[0], "sm_75", {"mma_m16n8k16_f16"}),
        (TYPES[1], "sm_75", set()),
        (TYPES[1], "sm_80", {"mma_m16n8k16_bf16"}),
        (TYPES[2], "sm_75", set()),
        (TYPES[2], "sm_86", {"mma_m16n8k32_s8"}),
        (TYPES[3], "sm_90", {"mma_m16n8k32_u8_s8"}),
        (TYPES[4], "sm_86", {"mma_m16n8k16_f16"}),
        (TYPES[4], "sm_89", {"mma_m16n8k32_e4m3_as_f16"}),
        (TYPES[5], "sm_120", {"mma_m16n8k32_e5m2_e4m3_as_f16"}),
        (TYPES[6], "sm_75", set()),
        (TYPES[6], "sm_80", {"mma_m16n8k8_tf32"}),
        (TYPES[6], "sm_86", set()),  # as fast on the CUDA cores of an RTX 3090
        (TYPES[6], "sm_90", {"mma_m16n8k8_tf32"}),
        (TYPES[7], "sm_75", set()),
        (TYPES[7], "sm_80", {"mma_m16n8k16_bf16"}),
        (TYPES[8], "sm_86", set()),  # faster on the CUDA cores of an RTX 3090
        (TYPES[8], "sm_90a", {"mma_m16n8k16_bf16"}),
        (TYPES[9], "sm_90a", {"mma_m16n8k16_bf16"}),
        (TYPES[10], "sm_80", {"mma_m16n8k16_bf16"}),
    ],
)
def test_small_types_multiply_on_tensor_cores_unasked_from_the_first_target_that_can(made, types, target, expected):
    text = product_of(types, 1024, 1024, 1024, schedule="", target=target)
    kernels = made(text.replace("{tf32: true}", "float32") if types in SPLIT else text).plan.kernels
    assert instructions_of(kernels[-1]) == expected


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("target", "instruction"),
    [
        ("sm_89", "mma_m16n8k32_e4m3"),
        ("sm_90", "mma_m16n8k32_e4m3_as_f16"),
        ("sm_100", "mma_m16n8k32_e4m3_as_f16"),
        ("sm_120", "mma_m16n8k32_e4m3"),
    ],
)
def test_float8_is_multiplied_by_its_own_instruction_where_there_is_one_and_fewer_bits_are_allowed(
    made, target, instruction
):
    text = product_of(TYPES[4], 1024, 1024, 1024, schedule="", target=target)
    kernels = made(text.replace("{tf32: true}", "{fp8: fast}")).plan.kernels
    assert instructions_of(kernels[-1]) == {instruction}


@pytest.mark.slow
def test_fast_sums_of_float8_are_within_their_wider_bounds(prove):
    prove(product_of(TYPES[4], 33, 67, 200, target="sm_89").replace("{tf32: true}", "{fp8: fast}"))


@pytest.mark.sampled(7)
@pytest.mark.parametrize("types", TYPES)
def test_cuda_cores_multiply_where_they_are_requested(planned, types):
    kernel = planned(product_of(types, 256, 256, 256, schedule="family: gemm, cores: cuda"))
    assert not instructions_of(kernel)


def test_sums_of_float16_in_float64_are_on_cuda_cores_where_they_are_multiplied_as_they_are(planned):
    text = product_of(TYPES[0], 1024, 1024, 1024, schedule="family: gemm").replace("{tf32: true}", "float64")
    kernel = planned(text.replace("dtype: float16}\ncompute", "dtype: float64}\ncompute"))
    assert not instructions_of(kernel)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (product_of(TYPES[1], target="sm_75"), "sm_75 has no tensor cores of bfloat16; sm_80 and newer have"),
        (product_of(TYPES[4], target="sm_86"), "sm_86 has no tensor cores of float8; sm_89 and newer have"),
        (product_of(TYPES[0], schedule=SMALL.replace("k: 64", "k: 16")), "a multiple of 2 x 16"),
        (product_of(("float16", "bfloat16", "float32")), "no instruction for float16 x bfloat16"),
        (product_of(TYPES[6], target="sm_75"), "sm_75 has no tensor cores of tf32; sm_80 and newer have"),
        (product_of(TYPES[6]).replace("tf32: true", "tf32: false"), "which the spec doesn't allow"),
        (
            product_of(TYPES[6], k_major=(True, True), schedule=SMALL.replace("n: 4", "n: 2")),
            "ldmatrix loads the fragments of B of two instructions",
        ),
    ],
)
def test_what_tensor_cores_do_not_take_is_refused_with_a_reason(reasons, text, why):
    assert any(why in refusal.reason for refusal in reasons("gemm", text))


# Tiles


@pytest.mark.sampled(56)
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("step", [64, 128])
@pytest.mark.parametrize("k_major", [(True, True), (True, False), (False, True), (False, False)])
def test_fragment_loads_are_free_of_bank_conflicts(made, types, step, k_major):
    text = product_of(types, 256, 256, 512, k_major=k_major, schedule=SMALL.replace("k: 64", f"k: {step}"))
    (launch,) = analyze(made(text)).kernels
    in_shared = [report for report in launch.accesses if report.access.array.space == "shared"]
    loads = [report for report in in_shared if report.access.kind in ("matrix_load", "load")]
    assert loads
    assert all(report.cost == report.ideal for report in loads)


def test_matrices_of_16_bit_elements_are_transposed_and_those_of_8_bit_ones_copied_to_k_major_tiles(planned):
    def transposed(types):
        kernel = planned(product_of(types, k_major=(False, False)))
        return {node.transposed for node in walk_nodes(kernel.body) if isinstance(node, LoadMatrix)}

    assert transposed(TYPES[0]) == {True}
    assert transposed(TYPES[2]) == {False}


# Results


@pytest.mark.sampled(30)
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("k_major", [(True, True), (True, False), (False, True), (False, False)])
def test_results_are_right_at_odd_sizes(prove, types, k_major):
    prove(product_of(types, 33, 67, 71, k_major=k_major))


@pytest.mark.slow
@pytest.mark.parametrize("types", TYPES[::2])
def test_no_thread_races_with_another(prove, types):
    prove(product_of(types, 65, 65, 130), races=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "schedule",
    [
        SMALL.replace("stages: 3", "stages: 1"),
        SMALL.replace("stages: 3", "stages: 5"),
        SMALL + ", split_k: 2, reduction: workspace",
        SMALL + ", split_k: 2, reduction: cluster",
        SMALL.replace("k: 64", "k: 128") + ", sliced_k: 2",
        SMALL + ", raster: 2",
    ],
    ids=["one stage", "five stages", "split-K", "cluster", "sliced-K", "raster"],
)
def test_results_are_right_with_every_piece(prove, schedule):
    prove(product_of(TYPES[0], 128, 128, 512, schedule=schedule), races=True)
    prove(product_of(TYPES[2], 128, 128, 512, schedule=schedule))


@pytest.mark.slow
@pytest.mark.parametrize("types", TYPES)
def test_results_are_right_with_every_epilogue(prove, types):
    prove(f"""
params: {{Z: 2, M: 33, K: 40, N: 70}}
scalars: {{alpha: {{dtype: float32}}}}
arrays:
  A: {{shape: [Z, M, K], dtype: {types[0]}}}
  B: {{shape: [Z, K, N], dtype: {types[1]}}}
  bias: {{shape: [N], dtype: float32}}
  R: {{shape: [Z, M, N], dtype: float16}}
  C: {{shape: [Z, M, N], dtype: float32}}
compute: C[z, m, n] = relu(alpha * sum(A[z, m, k] * B[z, k, n], k) + bias[n]) + R[z, m, n]
schedule: {{{SMALL}}}
accumulate: {{tf32: true}}
""")


def test_tf32_is_rounded_in_registers_and_where_it_is_allowed_only(planned, made):
    tf32 = product_of(TYPES[6], 256, 256, 256)
    assert "cvt.rna.tf32" in made(tf32).source
    for text in (tf32.replace("cores: tensor", "cores: cuda"), product_of(TYPES[6], schedule="family: direct")):
        assert not instructions_of(planned(text))
        assert "to_tf32" not in made(text).source


@pytest.mark.slow
def test_results_are_right_with_stream_k(prove):
    prove(product_of(TYPES[1], 129, 640, 256, schedule=SMALL + ", stream_k: 1"))


@pytest.mark.slow
@settings(max_examples=12)
@given(data=st.data())
def test_results_are_right_at_any_size_and_layout(prove, data):
    sizes = [data.draw(st.integers(1, 150)) for _ in range(3)]
    types, k_major = data.draw(st.sampled_from(TYPES)), data.draw(st.tuples(st.booleans(), st.booleans()))
    prove(product_of(types, *sizes, k_major=k_major, schedule="family: gemm, cores: tensor"))


@pytest.mark.slow
@pytest.mark.parametrize("types", [*TYPES[:3], *TYPES[6:]])
def test_traced_accesses_match_the_plan(made, types):
    kernel = made(product_of(types, 40, 72, 130))
    trace = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, kernel.access_lines(), {})
    assert trace.compared > 0
    assert not trace.mismatches


@pytest.mark.slow
@pytest.mark.parametrize("types", [*TYPES[:3], *TYPES[6:9]])
def test_every_candidate_tile_is_right(prove, types):
    instruction = instruction_for(types)
    for config in tile_configs(instruction):
        if instruction.split and config.thread_m * config.thread_n >= 128:  # exceeds the registers of a thread
            continue
        schedule = (
            f"family: gemm, cores: tensor, block: {{m: {config.block_m}, n: {config.block_n}}}, "
            f"step: {{k: {config.block_k}}}, thread: {{m: {config.thread_m}, n: {config.thread_n}}}"
        )
        prove(product_of(types, 130, 70, 134, schedule=schedule))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("types", TYPES)
def test_a_real_compiler_takes_every_instruction(made, types, target):
    if not compilers():
        pytest.skip("no CUDA compiler on this machine")
    if instruction_for(types).feature.is_on(machine_target(target)):
        precision = "{fp8: fast}" if types[0].startswith("float8") and target in ("sm_89", "sm_120") else "{tf32: true}"
        text = product_of(types, target=target).replace("{tf32: true}", precision)
        cubin = compile_cubin(made(text).source, "k", target)
        assert cubin.warnings == ()
        assert cubin.kernels["k"].spill_stores == 0


def identity_product(k_major: tuple[bool, bool]) -> tuple[str, Inputs]:
    """C = A · I in tf32, with ties and numbers of all magnitudes in A: C is A, rounded."""
    random = np.random.default_rng(5)
    words = random.integers(0, 1 << 32, (72, 72), dtype=np.uint32)
    words[::3] = words[::3] & np.uint32(0xFFFFE000) | np.uint32(0x1000)  # ties
    exponents = words >> np.uint32(23) & np.uint32(0xFF)
    words = np.where(
        (exponents < 100) | (exponents > 150), words & np.uint32(0x807FFFFF) | np.uint32(0x3F800000), words
    )
    a, b = words.view(np.float32), np.eye(72, dtype=np.float32)
    text = product_of(TYPES[6], 72, 72, 72, k_major=k_major, schedule=SMALL.replace("k: 64", "k: 16"))
    arrays = {"A": np.ascontiguousarray(a if k_major[0] else a.T), "B": b}
    return text, Inputs(arrays, {})


def rounded(a: np.ndarray) -> np.ndarray:
    return ((a.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("k_major", [(True, True), (True, False), (False, True), (False, False)])
def test_each_element_is_rounded_to_nearest_with_ties_away_from_zero(made, k_major):
    text, inputs = identity_product(k_major)
    kernel = made(text)
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(workers=1, shuffle=3), inputs=inputs)
    a = inputs.arrays["A"] if k_major[0] else inputs.arrays["A"].T
    assert (run.outputs["C"] == rounded(np.ascontiguousarray(a))).all()


# float32 beside 16 bits, in parts


def outputs_of(kernel, arrays: dict[str, np.ndarray]) -> np.ndarray:
    run = verify(
        kernel.spec, kernel.source, kernel.manifest, CpuDevice(workers=1, shuffle=3), inputs=Inputs(arrays, {})
    )
    return run.outputs["C"].astype(np.float64)


@pytest.mark.slow
@pytest.mark.parametrize("types", SPLIT)
def test_a_product_of_an_identity_is_the_other_operand(made, types):
    words = np.random.default_rng(6).integers(0, 1 << 32, (72, 72), dtype=np.uint32)
    exponents = words >> np.uint32(23) & np.uint32(0xFF)
    words = np.where((exponents < 30) | (exponents > 250), words & np.uint32(0x807FFFFF) | np.uint32(0x3F800000), words)
    half = np.random.default_rng(7).standard_normal((72, 72)).astype(np.float16)
    drawn = {"float32": words.view(np.float32), "float16": half, "bfloat16": half.astype(np.float32)}
    kernel = made(product_of((*types[:2], "float32"), 72, 72, 72))
    identity = np.eye(72).astype(numpy_dtype(DTYPES[types[1]]))
    a = drawn[types[0]].astype(numpy_dtype(DTYPES[types[0]]))
    assert (outputs_of(kernel, {"A": a, "B": identity}) == a.astype(np.float64)).all()
    identity = np.eye(72).astype(numpy_dtype(DTYPES[types[0]]))
    b = drawn[types[1]].astype(numpy_dtype(DTYPES[types[1]]))
    assert (outputs_of(kernel, {"A": identity, "B": b}) == b.astype(np.float64)).all()


@pytest.mark.slow
@pytest.mark.parametrize("types", SPLIT)
def test_infinities_and_nan_are_those_of_the_products(made, types):
    random, special = np.random.default_rng(8), [np.inf, -np.inf, np.nan, 0.0, 1.0, -2.0]
    a, b = (random.choice([0.5, 1.0, -3.0, 0.0, 1.25], (40, 40)) for _ in range(2))
    for position in range(40):
        a[position, random.integers(40)] = random.choice(special)
        b[random.integers(40), position] = random.choice(special)
    with np.errstate(invalid="ignore"):
        expected = (a[:, :, None] * b[None]).sum(axis=1)
    arrays = {
        name: values.astype(numpy_dtype(DTYPES[dtype]))
        for name, values, dtype in zip("AB", (a, b), types[:2], strict=True)
    }
    results = outputs_of(made(product_of((*types[:2], "float32"), 40, 40, 40)), arrays)
    np.testing.assert_array_equal(results, expected)
