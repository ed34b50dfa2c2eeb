"""Tensor-core instructions `mma.sync.m16n8k…` by the types of their operands.

A fragment is made of registers: of 32-bit words, which hold consecutive elements along K, or of single float64
elements. Lane 4 * g + t holds of A rows g and g + 8, of B column g, each in words t and t + 4 along K (PTX ISA,
warp-level matrix instructions; float64 has more of them for a larger K).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cugen.machine.features import BFLOAT16_MMA, FLOAT8_MMA, FLOAT16_MMA, FLOAT64_MMA, INT8_MMA, TF32_MMA, Feature
from cugen.machine.target import Target

WORD_BYTES = 4
TRANSPOSED_BYTES = 2  # of an element that ldmatrix transposes (PTX ISA)


@dataclass(frozen=True, slots=True)
class MmaInstruction:
    """An instruction of K `k` on elements of `element_bytes`; `types` are those of A and B in PTX, once if they are the
    same, and empty for float64. `peak` is the key of its rate in `Device.peaks`. Operands that aren't of these types
    are rounded to them in registers (`is_rounded`), or multiplied as the `wider` type. An operand of float32 beside a
    16-bit one, "a" or "b", is `split` into three parts of bfloat16 in registers, and one of float16 into two: the
    instruction is `issued` for all pairs of parts. `conversions` are the machine instructions for one register of a
    fragment of A and of B, which the compiler converts once (SASS of ptxas 13.0). `sum_bits` are those of the largest
    addend that sums keep, if fewer than float32 has."""

    k: int
    types: str
    element_bytes: int
    feature: Feature
    peak: str
    is_rounded: bool = False
    wider: str = ""
    split: str = ""
    issued: int = 1
    conversions: tuple[int, int] = (0, 0)
    sum_bits: int = 0

    @property
    def name(self) -> str:
        """The function's name in C."""
        types = f"_{self.types}" if self.types else ""
        return f"mma_m16n8k{self.k}{types}" + (f"_as_{self.wider}" if self.wider else "")

    @property
    def is_integer(self) -> bool:
        return self.feature == INT8_MMA

    @property
    def has_words(self) -> bool:
        """Whether its fragments are made of words, which `ldmatrix` loads from K-major tiles."""
        return self.element_bytes <= WORD_BYTES

    def splits(self, *, is_a: bool) -> bool:
        """Whether it splits elements of A, or of B."""
        return self.split == ("a" if is_a else "b")

    def loads_matrices(self, *, is_a: bool, is_k_major: bool) -> bool:
        """Whether `ldmatrix` loads the fragments of A, or of B, from a tile of this layout: it transposes 16-bit
        elements only, and gives a lane single ones of 32 bits, where pairs are split."""
        is_loaded = self.has_words and (is_k_major or self.element_bytes == TRANSPOSED_BYTES)
        return is_loaded and not self.splits(is_a=is_a)

    @property
    def a_registers(self) -> int:
        """Registers of a lane's fragment of A, 16 x `k` elements."""
        return 16 * self.k // 32 // self._register_elements(is_a=True)

    @property
    def b_registers(self) -> int:
        return 8 * self.k // 32 // self._register_elements(is_a=False)

    def _register_elements(self, *, is_a: bool) -> int:
        """Elements along K that a register of a fragment holds."""
        return 1 if self.splits(is_a=is_a) else max(WORD_BYTES // self.element_bytes, 1)


# Machine instructions that split a float32 (7.5 on average), that make a word of two bfloat16 finite, and that split a
# word of two float16 (SASS of ptxas 13.0).
_SPLIT_CONVERSIONS, _FINITE_CONVERSIONS, _HALF_CONVERSIONS = 8, 6, 18

_WORDS = {"int8": "s8", "uint8": "u8", "float8_e4m3": "e4m3", "float8_e5m2": "e5m2"}


def _instructions() -> Mapping[tuple[str, str], MmaInstruction]:
    table = {
        ("float16", "float16"): MmaInstruction(16, "f16", 2, FLOAT16_MMA, "tensor_float16"),
        ("bfloat16", "bfloat16"): MmaInstruction(16, "bf16", 2, BFLOAT16_MMA, "tensor_bfloat16"),
    }
    for a, b, types in _pairs("float8"):
        table[a, b] = MmaInstruction(32, types, 1, FLOAT8_MMA, "tensor_float16", wider="f16", conversions=(2, 2))
    for a, b, types in _pairs("int", "uint"):
        table[a, b] = MmaInstruction(32, types, 1, INT8_MMA, "tensor_int8")
    for narrow, parts in (("bfloat16", 1), ("float16", 2)):
        of_narrow = _FINITE_CONVERSIONS if parts == 1 else _HALF_CONVERSIONS
        of_parts = replace(table["bfloat16", "bfloat16"], issued=3 * parts)
        table["float32", narrow] = replace(of_parts, split="a", conversions=(_SPLIT_CONVERSIONS, of_narrow))
        table[narrow, "float32"] = replace(of_parts, split="b", conversions=(of_narrow, _SPLIT_CONVERSIONS))
    return table


def _pairs(*kinds: str) -> Iterator[tuple[str, str, str]]:
    """Types of A and B and those of the PTX ISA."""
    names = [name for name in _WORDS if name.startswith(kinds)]
    for a, b in ((a, b) for a in names for b in names):
        yield a, b, _WORDS[a] if a == b else f"{_WORDS[a]}_{_WORDS[b]}"


# By the types of A and B; that of float64 has a K to choose. float16 holds every number of both float8 types.
INSTRUCTIONS = _instructions()
TF32 = MmaInstruction(8, "tf32", 4, TF32_MMA, "tensor_tf32", is_rounded=True, conversions=(2, 2))  # of float32 operands
# The instructions on float8 itself. Their accumulators keep 13 bits below the leading one on sm_89 (Zhang et al.,
# SageAttention2, arXiv 2411.10958), as those of wgmma do (measured on an H200).
FAST_FLOAT8 = {
    (a, b): MmaInstruction(32, types, 1, FLOAT8_MMA, "tensor_float8", sum_bits=14)
    for a, b, types in _pairs("float8")
}  # fmt: skip

# Issue rate of mma.sync as a fraction of the published peak, by the first compute capability of the architecture.
_ISSUE_RATE = {(9, 0): 0.62}  # of words, measured on an H200; wgmma has the rest


def issue_rate(instruction: MmaInstruction, target: Target) -> float:
    """The part of the published peak of its unit that an instruction reaches by its issue rate."""
    return _ISSUE_RATE.get(target.capability, 1.0) if instruction.has_words else 1.0


def multiplies_float8(target: Target) -> bool:
    """Whether tensor cores have `mma.sync` on float8. On other targets, sm_90 and sm_100 among them, ptxas makes two
    instructions on float16 of one, and four additions of their sums (SASS of ptxas 13.0: QMMA, or HMMA and FADD)."""
    return target.capability == (8, 9) or target.capability >= (12, 0)


def float64_instruction(k: int) -> MmaInstruction:
    """m16n8k4, k8 or k16 of float64."""
    return MmaInstruction(k, "", 8, FLOAT64_MMA, "tensor_float64")


def instruction_for(
    a: str, b: str, accumulated: str, target: Target, *, tf32: bool, fast_fp8: bool, mma_k: int = 4
) -> MmaInstruction | None:
    """The instruction for operands and sums of these types; of float64 that with K `mma_k`. `tf32`: float32 operands
    may be rounded to it; `fast_fp8`: sums of float8 may keep fewer bits. None if there is none."""
    if a == b == accumulated == "float64":
        return float64_instruction(mma_k)
    if a == b == accumulated == "float32":
        return TF32 if tf32 else None
    if accumulated != ("int32" if "int" in a else "float32"):
        return None
    fast = FAST_FLOAT8.get((a, b)) if fast_fp8 and multiplies_float8(target) else None
    return fast or INSTRUCTIONS.get((a, b))
