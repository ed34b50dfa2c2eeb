"""`mma.sync` of every type on the CPU device: its fragments element by element, and how its sums round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from cugen.runtime.cpu import CpuDevice
from cugen.runtime.device import Job

MakeJob = Callable[..., Job]
Array = NDArray[Any]
Coordinates = tuple[int, int]

# One instruction per block, on registers as they are in memory.
SOURCE = r"""
extern "C" __global__ void k(const unsigned* A, const unsigned* B, const SUM* C, SUM* out) {
  const int thread = blockIdx.x * 32 + threadIdx.x;
  unsigned a[4], b[2];
  SUM sums[4];
  for (int i = 0; i < 4; ++i) a[i] = A[thread * 4 + i];
  for (int i = 0; i < 2; ++i) b[i] = B[thread * 2 + i];
  for (int i = 0; i < 4; ++i) sums[i] = C[thread * 4 + i];
  if (WHO) NAME(sums, sums + 2, a, b);
  for (int i = 0; i < 4; ++i) out[thread * 4 + i] = sums[i];
}
"""


@dataclass(frozen=True)
class Instruction:
    """Types of A and B as NumPy knows them; `a_index(g, t, i, e)` is the row and column in A of element e of register i
    of lane 4 * g + t, `b_index` the same for B (PTX ISA, matrix fragments for mma)."""

    a_type: Any
    b_type: Any
    depth: int
    a_index: Callable[[int, int, int, int], Coordinates]
    b_index: Callable[[int, int, int, int], Coordinates]

    @property
    def sum_type(self) -> Any:
        return np.int32 if np.dtype(self.a_type).kind in "iu" else np.float32

    @property
    def packed(self) -> int:
        return 4 // np.dtype(self.a_type).itemsize


def of_halves(kind: Any) -> Instruction:
    rows = lambda g, t, i, e: (g + (8 if i in (1, 3) else 0), 2 * t + e + (8 if i >= 2 else 0))  # noqa: E731
    return Instruction(kind, kind, 16, rows, lambda g, t, i, e: (2 * t + e + 8 * i, g))


def of_bytes(a: Any, b: Any) -> Instruction:
    rows = lambda g, t, i, e: (g + (8 if i in (1, 3) else 0), 4 * t + e + (16 if i >= 2 else 0))  # noqa: E731
    return Instruction(a, b, 32, rows, lambda g, t, i, e: (4 * t + e + 16 * i, g))


def of_words() -> Instruction:
    """tf32: a float32 whose low 13 bits are not read."""
    rows = lambda g, t, i, e: (g + (8 if i in (1, 3) else 0), t + (4 if i >= 2 else 0))  # noqa: E731
    return Instruction(np.float32, np.float32, 8, rows, lambda g, t, i, e: (t + 4 * i, g))


E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
INSTRUCTIONS = {
    "mma_m16n8k8_tf32": of_words(),
    "mma_m16n8k16_f16": of_halves(np.float16),
    "mma_m16n8k16_bf16": of_halves(ml_dtypes.bfloat16),
    "mma_m16n8k32_s8": of_bytes(np.int8, np.int8),
    "mma_m16n8k32_u8": of_bytes(np.uint8, np.uint8),
    "mma_m16n8k32_s8_u8": of_bytes(np.int8, np.uint8),
    "mma_m16n8k32_u8_s8": of_bytes(np.uint8, np.int8),
    "mma_m16n8k32_e4m3": of_bytes(E4M3, E4M3),
    "mma_m16n8k32_e5m2": of_bytes(E5M2, E5M2),
    "mma_m16n8k32_e4m3_e5m2": of_bytes(E4M3, E5M2),
    "mma_m16n8k32_e5m2_e4m3": of_bytes(E5M2, E4M3),
    "mma_m16n8k32_e4m3_as_f16": of_bytes(E4M3, E4M3),
    "mma_m16n8k32_e5m2_as_f16": of_bytes(E5M2, E5M2),
    "mma_m16n8k32_e4m3_e5m2_as_f16": of_bytes(E4M3, E5M2),
    "mma_m16n8k32_e5m2_e4m3_as_f16": of_bytes(E5M2, E4M3),
}
OF_FLOATS = [name for name, it in INSTRUCTIONS.items() if it.sum_type is np.float32]
# The instructions on float8 itself keep fewer bits.
FAST = [name for name in OF_FLOATS if name.startswith("mma_m16n8k32") and not name.endswith("as_f16")]
PRECISE = [name for name in OF_FLOATS if name not in FAST]
OF_INTEGERS = [name for name in INSTRUCTIONS if name not in OF_FLOATS]
D_ROWS = np.array([[lane // 4, lane // 4, lane // 4 + 8, lane // 4 + 8] for lane in range(32)])
D_COLUMNS = np.array([[lane % 4 * 2, lane % 4 * 2 + 1] * 2 for lane in range(32)])


def indices_of(instruction: Instruction, of_a: bool) -> Array:
    """Row and column of each element of the lanes' registers, in their order."""
    index_of, registers = (instruction.a_index, 4) if of_a else (instruction.b_index, 2)
    elements = product(range(8), range(4), range(registers), range(instruction.packed))
    return np.array([index_of(*element) for element in elements])


def job_of(make_job: MakeJob, name: str, a: Array, b: Array, c: Array, who: str = "true") -> Job:
    """`a`, `b` and `c` have a row per instruction: the elements of all registers in the order of lanes."""
    kind = INSTRUCTIONS[name]
    text = SOURCE.replace("NAME", name).replace("SUM", np.dtype(kind.sum_type).name.replace("32", ""))
    arrays = {
        "A": np.ascontiguousarray(a.astype(kind.a_type)).view(np.uint32),
        "B": np.ascontiguousarray(b.astype(kind.b_type)).view(np.uint32),
        "C": c.astype(kind.sum_type),
        "out": np.zeros(c.shape, kind.sum_type),
    }
    return make_job(text.replace("WHO", who), arrays, grid=(len(a), 1, 1))


def sums_of(make_job: MakeJob, name: str, a: Array, b: Array, c: Array) -> Array:
    """D of each instruction, 16 x 8 elements, of A, B and C in rows and columns."""
    kind, count = INSTRUCTIONS[name], len(a)
    in_a, in_b = indices_of(kind, True), indices_of(kind, False)
    registers = (
        a[:, in_a[:, 0], in_a[:, 1]],
        b[:, in_b[:, 0], in_b[:, 1]],
        c[:, D_ROWS, D_COLUMNS].reshape(count, 128),
    )
    outcome = CpuDevice(shuffle=3).run(job_of(make_job, name, *registers))
    assert outcome.faults == ()
    d = np.zeros((count, 16, 8), kind.sum_type)
    d[:, D_ROWS, D_COLUMNS] = outcome.buffers["out"].reshape(count, 32, 4)
    return d


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_every_element_of_every_register_is_where_the_manual_says(make_job: MakeJob, name: str) -> None:
    """A is a single one; B has bit j of the numbers of its elements, or ones: D names the elements that A meets."""
    kind = INSTRUCTIONS[name]
    in_a, in_b = indices_of(kind, True), indices_of(kind, False)
    assert len({tuple(index) for index in in_a}) == 16 * kind.depth
    assert len({tuple(index) for index in in_b}) == 8 * kind.depth
    numbers = np.arange(len(in_b))
    digits = [numbers >> j & 1 for j in range(len(in_b).bit_length() - 1)] + [np.ones_like(numbers)]
    a = np.repeat(np.eye(len(in_a)), len(digits), axis=0)
    b = np.tile(np.array(digits), (len(in_a), 1))
    job = job_of(make_job, name, a, b, np.zeros((len(a), 128)))
    outcome = CpuDevice().run(job)
    assert outcome.faults == ()
    by_index = np.zeros((len(digits), kind.depth, 8))
    by_index[:, in_b[:, 0], in_b[:, 1]] = digits
    expected = np.zeros((len(in_a), len(digits), 16, 8))
    for element, (row, k) in enumerate(in_a):
        expected[element, :, row] = by_index[:, k]
    in_lanes = expected[:, :, D_ROWS, D_COLUMNS].reshape(len(a), 128)
    assert (outcome.buffers["out"].reshape(len(a), 128) == in_lanes).all()


def random_floats(kind: Any, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Of many magnitudes, as `kind` has them; some are subnormal and some are zero."""
    if np.dtype(kind).itemsize == 1:
        codes = random.integers(0, 256, shape).astype(np.uint8).view(kind)
        values = np.where(np.isfinite(codes.astype(np.float32)), codes.astype(np.float32), np.float32(0.5))
        return values.astype(np.float64)
    lowest, highest = (-24, 12) if kind is np.float16 else (-40, 40)
    values = random.standard_normal(shape) * 2.0 ** random.integers(lowest, highest, shape)
    return values.astype(kind).astype(np.float64)


def of_tf32(values: Array) -> Array:
    """The values without the bits that tf32 lacks."""
    return (values.astype(np.float32).view(np.uint32) & 0xFFFFE000).view(np.float32).astype(np.float64)


def leading(x: Fraction) -> Fraction:
    """The power of two at or below |x|."""
    size = abs(x)
    power = Fraction(2) ** (size.numerator.bit_length() - size.denominator.bit_length())
    return power if power <= size else power / 2


def cut(x: Fraction, last: Fraction) -> Fraction:
    return last * (abs(x) / last).__floor__() * (1 if x > 0 else -1)


def truncated(addends: Sequence[float], bits: int) -> float:
    """Addends and their sum cut toward zero: the rule, in exact numbers."""
    exact = [Fraction(x) for x in addends if x]
    if not exact:
        return 0.0
    unit = max(leading(x) for x in exact) / 2**bits
    total = sum(cut(x, unit) for x in exact)
    return float(cut(total, max(leading(total) / 2 ** min(bits, 23), Fraction(1, 2**149)))) if total else 0.0


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", OF_FLOATS)
def test_sums_of_random_floats_are_cut_as_the_rule_says_and_near_the_exact_ones(make_job: MakeJob, name: str) -> None:
    kind, random, count = INSTRUCTIONS[name], np.random.default_rng(7), 6
    a = random_floats(kind.a_type, (count, 16, kind.depth), random)
    b = random_floats(kind.b_type, (count, kind.depth, 8), random)
    c = random_floats(np.float32, (count, 16, 8), random)
    d = sums_of(make_job, name, a, b, c)
    if name == "mma_m16n8k8_tf32":  # the instruction cuts the others
        a, b = of_tf32(a), of_tf32(b)
    products = a[:, :, :, None] * b[:, None, :, :]
    addends = np.concatenate([c[:, :, None, :], products], axis=2)
    bits, k = 13 if name in FAST else 24, 16 if name.endswith("as_f16") else kind.depth
    for i, m, n in product(range(count), range(16), range(8)):
        total = float(c[i, m, n])
        for first in range(0, kind.depth, k):
            total = truncated([total, *products[i, m, first : first + k, n]], bits)
        assert d[i, m, n] == total, (i, m, n)
    # Each addend loses less than 2^-bits of the largest, the sum less than 2^-23 of itself, or 2^-13, or half of the
    # smallest float.
    largest, exact = np.abs(addends).max(axis=2) * kind.depth / k, addends.sum(axis=2)
    error = 2 * (kind.depth + 1) * 2.0**-bits * largest
    assert (np.abs(d - exact) <= error + 2.0 ** (1 - bits) * (np.abs(exact) + error) + 2.0**-149).all()


def row_of(make_job: MakeJob, name: str, c: float, products: Sequence[tuple[float, float]]) -> float:
    """The sum of `c` and of products, in row 3 and column 5."""
    kind = INSTRUCTIONS[name]
    a, b, sums = np.zeros((1, 16, kind.depth)), np.zeros((1, kind.depth, 8)), np.zeros((1, 16, 8))
    for k, (left, right) in enumerate(products):
        a[0, 3, k], b[0, k, 5] = left, right
    sums[0, 3, 5] = c
    with np.errstate(all="ignore"):
        return float(sums_of(make_job, name, a, b, sums)[0, 3, 5])


# Exponents and counts of the products that are added to 1, and what is left of them.
TRUNCATIONS = [
    pytest.param(1, [(-23, 1)], 2.0**-23, id="the last bit survives"),
    pytest.param(1, [(-24, 1)], 0.0, id="half of it is lost"),
    pytest.param(1, [(-24, 2)], 2.0**-23, id="two halves are added before the cut"),
    pytest.param(1, [(-25, 3)], 0.0, id="three quarters are lost together"),
    pytest.param(1, [(-26, 7)], 0.0, id="smaller ones are lost together"),
    pytest.param(-1, [(-25, 3)], 0.0, id="also below -1"),
    pytest.param(1, [(-23, 1), (-24, 1)], 2.0**-23, id="the sum is not rounded up"),
]


@pytest.mark.sampled(25)
@pytest.mark.parametrize("name", PRECISE)
@pytest.mark.parametrize(("sign", "small", "kept"), TRUNCATIONS)
def test_addends_far_below_the_largest_are_cut(
    make_job: MakeJob, name: str, sign: int, small: list[tuple[int, int]], kept: float
) -> None:
    # In units of 2^10, so that the factors are numbers of float8 too.
    products = [(sign * 2.0 ** (-(-(e + 10) // 2)), 2.0 ** ((e + 10) // 2)) for e, count in small for _ in range(count)]
    assert [left * right for left, right in products] == [sign * 2.0 ** (e + 10) for e, n in small for _ in range(n)]
    assert row_of(make_job, name, sign * 2.0**10, products) == sign * 2.0**10 * (1 + kept)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FAST)
def test_instructions_on_float8_keep_13_bits_below_the_largest_addend(make_job: MakeJob, name: str) -> None:
    assert row_of(make_job, name, 0.0, [(32.0, 32.0), (0.5, 0.25)]) == 1024.125
    assert row_of(make_job, name, 0.0, [(32.0, 32.0)] + [(0.25, 0.25)] * 31) == 1024.0
    assert row_of(make_job, name, 1024.0625, []) == 1024.0  # the accumulator is cut too


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [name for name in PRECISE if INSTRUCTIONS[name].depth >= 16])
def test_fifteen_small_addends_are_lost_together(make_job: MakeJob, name: str) -> None:
    assert row_of(make_job, name, 1024.0, [(2.0**-8, 2.0**-8)] * 15) == 1024.0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["mma_m16n8k16_f16", "mma_m16n8k16_bf16", "mma_m16n8k32_e5m2"])
def test_infinity_and_nan_reach_the_sum(make_job: MakeJob, name: str) -> None:
    infinity = float("inf")
    assert row_of(make_job, name, 1.0, [(infinity, 2.0)]) == infinity
    assert row_of(make_job, name, 1.0, [(infinity, -2.0), (1.0, 1.0)]) == -infinity
    assert np.isnan(row_of(make_job, name, 1.0, [(infinity, 0.0)]))
    assert np.isnan(row_of(make_job, name, -infinity, [(infinity, 1.0)]))
    assert np.isnan(row_of(make_job, name, 1.0, [(float("nan"), 1.0)]))


def test_nan_of_e4m3_reaches_the_sum_and_448_is_a_number(make_job: MakeJob) -> None:
    assert np.isnan(row_of(make_job, "mma_m16n8k32_e4m3", 1.0, [(float("nan"), 1.0)]))
    assert row_of(make_job, "mma_m16n8k32_e4m3", 0.0, [(448.0, -448.0)]) == -448.0 * 448.0


ROUND = r"""
extern "C" __global__ void k(const float* x, unsigned* out) {
  out[threadIdx.x] = to_tf32(x[threadIdx.x]);
  out[threadIdx.x + blockDim.x] = to_tf32(out[threadIdx.x]);
}
"""


def test_tf32_is_rounded_to_nearest_with_ties_away_from_zero(make_job: MakeJob) -> None:
    unity, last, half = 0x3F800000, 0x2000, 0x1000
    cases = {
        unity: unity,
        unity + half - 1: unity,
        unity + half: unity + last,
        unity + last + half: unity + 2 * last,
        unity - 1: unity,
        0x80000000 + unity + half: 0x80000000 + unity + last,
        0x7F7FFFFF: 0x7F800000,  # beyond the greatest
        0x7F800000: 0x7F800000,
        0xFF800000: 0xFF800000,
        half: last,  # subnormal
        half - 1: 0,
        0x80000000: 0x80000000,
    }
    x = np.array([*cases, 0x7FFFFFFF, 0x7F800001], np.uint32)
    arrays = {"x": x.view(np.float32), "out": np.zeros(2 * len(x), np.uint32)}
    outcome = CpuDevice().run(make_job(ROUND, arrays, block=(len(x), 1, 1)))
    assert outcome.faults == ()
    words, again = outcome.buffers["out"].reshape(2, -1)
    assert [hex(word) for word in words[: len(cases)]] == [hex(word) for word in cases.values()]
    assert np.isnan(words[len(cases) :].view(np.float32)).all()
    assert (again == words).all()


def test_sums_beyond_float32_are_infinite_and_subnormal_ones_are_kept(make_job: MakeJob) -> None:
    bf16 = "mma_m16n8k16_bf16"
    assert row_of(make_job, bf16, 0.0, [(2.0**127, 2.0)]) == float("inf")
    assert row_of(make_job, bf16, 0.0, [(2.0**-70, 3 * 2.0**-78)]) == 2.0**-147 + 2.0**-148
    assert row_of(make_job, bf16, 0.0, [(2.0**-75, -3 * 2.0**-75)]) == -(2.0**-149)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", OF_INTEGERS)
def test_sums_of_integers_are_exact_and_wrap(make_job: MakeJob, name: str) -> None:
    kind, random = INSTRUCTIONS[name], np.random.default_rng(11)
    ranges = [np.iinfo(kind.a_type), np.iinfo(kind.b_type)]
    a = random.integers(ranges[0].min, ranges[0].max + 1, (8, 16, 32))
    b = random.integers(ranges[1].min, ranges[1].max + 1, (8, 32, 8))
    a[0], b[0] = ranges[0].max, ranges[1].max
    c = random.integers(-(2**31), 2**31, (8, 16, 8))
    c[0], c[1, :, 0], c[1, :, 1] = 2**31 - 1, 2**31 - 1, -(2**31)
    expected = (c + a @ b).astype(np.int32)  # the low 32 bits
    assert (c[0] + (a @ b)[0] != expected[0]).all()
    assert (sums_of(make_job, name, a, b, c) == expected).all()


@pytest.mark.parametrize("name", ["mma_m16n8k16_f16", "mma_m16n8k32_s8"])
def test_a_lane_that_stays_away_from_a_product_is_a_fault(make_job: MakeJob, name: str) -> None:
    kind = INSTRUCTIONS[name]
    zeros = [np.zeros((1, count)) for count in (16 * kind.depth, 8 * kind.depth, 128)]
    (fault,) = CpuDevice().run(job_of(make_job, name, *zeros, who="threadIdx.x != 7")).faults
    assert fault.kind == "divergence"
