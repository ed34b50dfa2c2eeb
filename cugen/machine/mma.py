"""Tensor-core instructions `mma.sync.m16n8k…` by the types of their operands.

A fragment is made of registers: of 32-bit words, which hold consecutive elements along K, or of single float64
elements. Lane 4 * g + t holds of A rows g and g + 8, of B column g, each in words t and t + 4 along K (PTX ISA,
warp-level matrix instructions; float64 has more of them for a larger K).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cugen.machine.features import BFLOAT16_MMA, FLOAT8_MMA, FLOAT16_MMA, FLOAT64_MMA, INT8_MMA, TF32_MMA, Feature

WORD_BYTES = 4
TRANSPOSED_BYTES = 2  # of an element that ldmatrix transposes (PTX ISA)


@dataclass(frozen=True, slots=True)
class MmaInstruction:
    """An instruction of K `k` on operands of `element_bytes`; `types` are those of A and B in PTX, once if they are the
    same, and empty for float64. `peak` is the key of its rate in `Device.peaks`. Operands that aren't of these types
    are rounded to them in registers (`is_rounded`)."""

    k: int
    types: str
    element_bytes: int
    feature: Feature
    peak: str
    is_rounded: bool = False

    @property
    def name(self) -> str:
        """The function's name in C."""
        return f"mma_m16n8k{self.k}" + (f"_{self.types}" if self.types else "")

    @property
    def is_integer(self) -> bool:
        return self.feature == INT8_MMA

    @property
    def has_words(self) -> bool:
        """Whether its fragments are made of words, which `ldmatrix` loads from K-major tiles."""
        return self.element_bytes <= WORD_BYTES

    def loads_matrices(self, *, is_k_major: bool) -> bool:
        """Whether `ldmatrix` loads its fragments from a tile of this layout: it transposes 16-bit elements only."""
        return self.has_words and (is_k_major or self.element_bytes == TRANSPOSED_BYTES)

    @property
    def register_elements(self) -> int:
        """Elements along K that a register of a fragment holds."""
        return max(WORD_BYTES // self.element_bytes, 1)

    @property
    def a_registers(self) -> int:
        """Registers of a lane's fragment of A, 16 x `k` elements."""
        return 16 * self.k // 32 // self.register_elements

    @property
    def b_registers(self) -> int:
        return 8 * self.k // 32 // self.register_elements


def _instructions() -> Mapping[tuple[str, str], MmaInstruction]:
    words = {"int8": "s8", "uint8": "u8", "float8_e4m3": "e4m3", "float8_e5m2": "e5m2"}
    table = {
        ("float16", "float16"): MmaInstruction(16, "f16", 2, FLOAT16_MMA, "tensor_float16"),
        ("bfloat16", "bfloat16"): MmaInstruction(16, "bf16", 2, BFLOAT16_MMA, "tensor_bfloat16"),
    }
    for a, b in ((a, b) for a in words for b in words if a.startswith("float") == b.startswith("float")):
        types = words[a] if a == b else f"{words[a]}_{words[b]}"
        feature, peak = (FLOAT8_MMA, "tensor_float8") if a.startswith("float") else (INT8_MMA, "tensor_int8")
        table[a, b] = MmaInstruction(32, types, 1, feature, peak)
    return table


INSTRUCTIONS = _instructions()  # by the types of A and B; that of float64 has a K to choose

TF32 = MmaInstruction(8, "tf32", 4, TF32_MMA, "tensor_tf32", is_rounded=True)  # of float32 operands


def float64_instruction(k: int) -> MmaInstruction:
    """m16n8k4, k8 or k16 of float64."""
    return MmaInstruction(k, "", 8, FLOAT64_MMA, "tensor_float64")


def instruction_for(a: str, b: str, accumulated: str, *, tf32: bool, mma_k: int = 4) -> MmaInstruction | None:
    """The instruction for operands and sums of these types; of float64 that with K `mma_k`. `tf32`: float32 operands
    may be rounded to it. None if there is none."""
    if a == b == accumulated == "float64":
        return float64_instruction(mma_k)
    if a == b == accumulated == "float32":
        return TF32 if tf32 else None
    if accumulated != ("int32" if "int" in a else "float32"):
        return None
    return INSTRUCTIONS.get((a, b))
