"""GEMM on tensor cores: which GEMMs and tiles the instructions `mma.sync.m16n8k…` take, and their fragments.

A warp's instruction adds a 16 x k fragment of A times a k x 8 fragment of B to 16 x 8 accumulators. Lane 4 * g + t
holds the accumulators of rows g and g + 8, columns 2 * t and 2 * t + 1: lanes are 8 x 4, each with single rows and
pairs of columns.

Fragments of 32-bit words are loaded by `ldmatrix`, eight rows of 16 bytes at a time: from K-major tiles, and transposed
from the others, where elements have 16 bits; 8-bit ones are copied to K-major tiles. Those of float64, and of float32
from tiles that aren't K-major, are loaded element by element. float32 is rounded to tf32 in the fragments, or, beside a
16-bit operand, split into three parts of bfloat16, whose pairs along K are loaded together.
"""

from __future__ import annotations

from dataclasses import replace

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.config import WARP, Cores, TileConfig, with_lane_layout
from cugen.machine import Device, target
from cugen.machine.mma import WORD_BYTES, MmaInstruction, instruction_for, issue_rate
from cugen.machine.requests.banks import WAVEFRONT_BYTES
from cugen.spec.expressions import factors_of_product

LANES_M = 8  # lanes of a warp along M (PTX ISA: layout of the accumulator fragment)
FRAGMENT_WIDTHS = (1, 2)  # consecutive elements of a lane along M and N
MMA_M, MMA_N = 16, 8  # accumulators of one instruction
MATRIX_ROWS, MATRIX_ROW_BYTES = 8, 16  # of a matrix that ldmatrix loads (PTX ISA)
FIXED_TUNABLES = ("lanes", "order", "addressing", "prefetch")  # by the instruction

# Lanes load single elements: 32 consecutive bytes of 4 rows in one request. The rows are in different banks if they
# begin 32 bytes apart (mod 128), as padded ones do whose tiles are multiples of 64 bytes wide.
_ROW_DISTANCE_BYTES = 32
# Rows along K of 4 sectors, or a multiple, need no pad: the sectors of a row are swizzled.
_SWIZZLED_SECTORS = 4
_MMA_COST_UNKNOWN = 32.0  # float32 FMAs per multiply-add, of a device without a published rate (heuristic)


def instruction_of(contraction: Contraction, mma_k: int = 4) -> MmaInstruction | None:
    """The instruction for the types of a GEMM; of float64 that with K `mma_k`. None if there is none."""
    if _why_other_form(contraction):
        return None
    a, b = (operand.array.dtype for operand in contraction.operands)
    accumulated = contraction.reductions[0].dtype
    precision, target = contraction.context.spec.precision, contraction.request.target
    return instruction_for(
        a.name, b.name, accumulated.name, target, tf32=precision.tf32, fast_fp8=precision.is_fp8_fast, mma_k=mma_k
    )


def why_unsupported(contraction: Contraction) -> str:
    """Why tensor cores can't compute a GEMM; empty if they can."""
    if reason := _why_other_form(contraction):
        return reason
    (reduction,) = contraction.reductions
    instruction = instruction_of(contraction)
    if instruction is None:
        a, b = (operand.array.dtype.name for operand in contraction.operands)
        if a == b == reduction.dtype.name == "float32":
            return "tensor cores round float32 to tf32, which the spec doesn't allow (`accumulate: {tf32: true}` would)"
        return f"tensor cores have no instruction for {a} x {b} with sums in {reduction.dtype.name}"
    if not factors_of_product(reduction.body, reduction.dtype):
        return "tensor cores take sums of A[m, k] * B[k, n]"
    return instruction.feature.why_not(contraction.request.target)


def _why_other_form(contraction: Contraction) -> str:
    """Why a contraction isn't one sum over two operands; empty if it is."""
    is_sum = [reduction.kind for reduction in contraction.reductions] == ["sum"]
    return "" if is_sum and len(contraction.operands) == 2 else "tensor cores take one sum over two operands"


def are_faster(device: Device, instruction: MmaInstruction) -> bool:
    """Whether a device multiplies faster on tensor cores than on CUDA cores; without a published rate, whether elements
    are smaller than accumulators."""
    rates = dict(device.peaks)
    on_cuda_cores = rates.get("float32" if instruction.has_words else "float64", 0.0)
    unknown = 2 * on_cuda_cores if instruction.element_bytes < WORD_BYTES else 0.0
    return rates.get(instruction.peak, unknown) / instruction.issued > on_cuda_cores


def describe(instruction: MmaInstruction, device: Device) -> str:
    """The unit that multiplies, its peak and how it rounds, for reports."""
    text = unit_and_peak(instruction.name, instruction.peak, device)
    if instruction.is_rounded:
        text += "; operands are rounded to tf32, to nearest with ties away from zero"
    if instruction.split:
        text += "; float32 operands are split into three of bfloat16, exactly, in the fragments"
    if instruction.wider:
        text += "; operands become float16, exactly, in the fragments"
    if instruction.sum_bits:
        return f"{text}; sums keep {instruction.sum_bits} bits of the largest addend"
    return text if instruction.is_integer or not instruction.has_words else f"{text}; additions truncate to float32"


def unit_and_peak(instruction_name: str, peak: str, device: Device) -> str:
    """`tensor cores by mma_m16n8k16_f16, 989.4 TFLOP/s at most on H200`; `peak` is a key of `Device.peaks`."""
    rate = dict(device.peaks).get(peak)
    at_most = f", {rate / 1e12:,.1f} TFLOP/s at most on {device.name}" if rate and device.name else ""
    return f"tensor cores by {instruction_name}{at_most}"


def mma_cost(device: Device, instruction: MmaInstruction | None) -> float:
    """Issue slots of a multiply-add on tensor cores, relative to float32 on CUDA cores."""
    rates = dict(device.peaks)
    if instruction is None:
        return _MMA_COST_UNKNOWN
    if not instruction.has_words:
        rate = rates.get(instruction.peak, rates.get("float64"))
        return rates["float32"] / rate if rate else _MMA_COST_UNKNOWN
    fraction = issue_rate(instruction, target(device.target))
    return instruction.issued * rates["float32"] / (rates.get(instruction.peak, 2 * rates["float32"]) * fraction)


def why_invalid_tile(config: TileConfig) -> str:
    """Why the warp tiles of a config aren't made of tensor-core instructions; empty if they are."""
    if config.thread_m * LANES_M % MMA_M or config.thread_n * (WARP // LANES_M) % MMA_N:
        return f"tensor cores compute {MMA_M} x {MMA_N} accumulators: both sides of a thread tile must be even"
    if config.warp_k % (config.fragment_buffers * config.fragment_k):
        k = config.fragment_k
        size = f"2 x {k}: fragments of mma_k, twice" if config.is_multistage else k
        return f"a k-tile slice of {config.warp_k} must be a multiple of {size}"
    return ""


def with_mma_layout(config: TileConfig, instruction: MmaInstruction) -> TileConfig | None:
    """The config with the lane layout of tensor-core instructions; None if that doesn't fill warps."""
    return with_lane_layout(replace(config, cores=Cores.TENSOR, mma=instruction), LANES_M)


def why_invalid_operand(config: TileConfig, pad: int, *, is_along_m: bool, is_k_major: bool) -> str:
    """Why `ldmatrix` can't load an operand's fragments from a tile with that pad; empty if it can, or isn't used."""
    if config.mma is None or not config.mma.loads_matrices(is_a=is_along_m, is_k_major=is_k_major):
        return ""
    row = MATRIX_ROW_BYTES // config.mma.element_bytes
    if pad % row:
        return f"a pad of {pad} breaks the alignment of matrix loads of {row} elements"
    if not is_along_m and config.thread_n % 4:
        return "ldmatrix loads the fragments of B of two instructions: a thread tile has a multiple of 4 columns"
    return ""


def shift_unit(instruction: MmaInstruction, *, is_a: bool, is_k_major: bool) -> int:
    """Elements by which the rows of a tile are shifted against each other, by a pad or a swizzle: a row of a matrix,
    or as many as one request loads from a row. One that splits elements loads pairs from rows along K; from rows along
    M or N single ones, of every other row."""
    if instruction.splits(is_a=is_a):
        return (_ROW_DISTANCE_BYTES if is_k_major else MATRIX_ROW_BYTES) // WORD_BYTES
    loads_matrices = instruction.loads_matrices(is_a=is_a, is_k_major=is_k_major)
    return (MATRIX_ROW_BYTES if loads_matrices else _ROW_DISTANCE_BYTES) // instruction.element_bytes


def swizzle_of(config: TileConfig, *, is_a: bool) -> tuple[int, int]:
    """(units of a row that are swizzled, rows with the same permutation) of a K-major tile: rows that one request
    accesses are in different banks. (0, 1) where rows are padded instead."""
    assert config.mma is not None
    units, remainder = divmod(int(config.block_k), shift_unit(config.mma, is_a=is_a, is_k_major=True))
    if not config.mma.loads_matrices(is_a=is_a, is_k_major=True):
        return (0, 1) if remainder or units % _SWIZZLED_SECTORS else (_SWIZZLED_SECTORS, 1)
    units_of_banks = WAVEFRONT_BYTES // MATRIX_ROW_BYTES
    if remainder or units < 2 or (units & (units - 1) and units % units_of_banks):
        return 0, 1
    return min(units, units_of_banks), max(units_of_banks // units, 1)


def pad_of(config: TileConfig, *, is_a: bool, is_k_major: bool) -> int:
    """Padding of a tile's rows, in elements."""
    assert config.mma is not None
    if is_k_major and swizzle_of(config, is_a=is_a)[0]:
        return 0
    return shift_unit(config.mma, is_a=is_a, is_k_major=is_k_major)


def matrix_loads(config: TileConfig) -> float:
    """Fragment loads of a warp for one k-tile, in vectors of 16 bytes per lane."""
    assert config.mma is not None
    if not config.mma.has_words:
        return (config.warp_m + config.warp_n) / WARP * config.warp_k
    of_words = config.thread_m / 2 * config.mma.a_registers + config.thread_n / 2 * config.mma.b_registers
    return of_words / WORD_BYTES * config.warp_k / config.mma.k


def conversions(config: TileConfig) -> float:
    """Instructions of a warp that convert fragments of one k-tile; none on CUDA cores."""
    if config.mma is None:
        return 0.0
    of_a, of_b = config.mma.conversions
    of_a *= config.thread_m // 2 * config.mma.a_registers
    of_b *= config.thread_n // 2 * config.mma.b_registers
    return (of_a + of_b) * config.warp_k / config.mma.k


def fragment_registers(config: TileConfig) -> int:
    """32-bit registers of a lane's fragments, double-buffered, and of the parts of one that is split."""
    assert config.mma is not None
    size = max(config.mma.element_bytes // 4, 1)
    of_a, of_b = config.thread_m // 2 * config.mma.a_registers, config.thread_n // 2 * config.mma.b_registers
    return (of_a + of_b) * size * 2 + _part_registers(config, config.mma)


def _part_registers(config: TileConfig, instruction: MmaInstruction) -> int:
    """Registers of the parts of one fragment that is split, and of what all fragments of the other operand are
    multiplied with: their finite elements, and those of float16 parts."""
    if not instruction.split:
        return 0
    a_words, b_words = 4, 2 * config.thread_n // 2
    if instruction.split == "b":
        a_words, b_words = 4 * config.thread_m // 2, 2
    split, others = (a_words, b_words) if instruction.split == "a" else (b_words, a_words)
    return 3 * split + others if instruction.issued == 3 else 4 * split + 3 * others
