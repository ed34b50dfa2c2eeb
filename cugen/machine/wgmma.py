"""Instructions `wgmma.mma_async.m64nNkK` of a warpgroup by the types of their operands (PTX ISA, asynchronous
warpgroup-level matrix instructions).

Four warps add a 64 x K matrix A times a K x N matrix B to 64 x N accumulators in their registers, both operands in
shared memory. K is 32 bytes for every type. Lane 4 * g + t of warp w holds rows 16 * w + g and 16 * w + g + 8, of each
8 columns the pair 2 * t and 2 * t + 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

WARPS_OF_WARPGROUP = 4
WARPGROUP = 32 * WARPS_OF_WARPGROUP  # threads
WGMMA_M = 64
K_BYTES = 32
MAX_WGMMA_N = 256  # a multiple of 8; of 16 for 8-bit integers beyond 32
REGISTER_COUNTS = range(24, 257, 8)  # that setmaxnreg sets
SWIZZLED_ROW_BYTES = 128  # of a tile's row
SWIZZLE_PERIOD_ROWS = 8
SWIZZLE_PERIOD_BYTES = SWIZZLE_PERIOD_ROWS * SWIZZLED_ROW_BYTES  # the swizzle is one of address bits, 4 to 6 by 7 to 9


@dataclass(frozen=True, slots=True)
class WgmmaInstruction:
    """The instruction for operands of PTX `types`: those of A and B, once if they are the same. `peak` is the key of
    its rate in `Device.peaks`. Operands of 16 bits may be MN-major (`may_be_mn_major`). float32 operands `rounds` to
    tf32 when they are copied; `sum_bits` are those of the largest addend that sums keep, if fewer than float32 has
    (measured on an H200)."""

    types: str
    element_bytes: int
    peak: str
    is_integer: bool = False
    rounds: bool = False
    sum_bits: int = 0

    @property
    def k(self) -> int:
        return K_BYTES // self.element_bytes

    @property
    def may_be_mn_major(self) -> bool:
        return self.element_bytes == 2

    @property
    def swapped(self) -> WgmmaInstruction:
        """That of B's type times A's."""
        a, _, b = self.types.partition("_")
        return replace(self, types=f"{b}_{a}") if b else self

    def has_columns(self, n: int) -> bool:
        """Whether it multiplies so many columns of B."""
        return n in range(8, MAX_WGMMA_N + 1, 8) and (not self.is_integer or n in (8, 24) or n % 16 == 0)

    def name(self, n: int) -> str:
        """The function's name in C."""
        return f"wgmma_m64n{n}k{self.k}_{self.types}"


_NAMES = {"float8_e4m3": "e4m3", "float8_e5m2": "e5m2", "int8": "s8", "uint8": "u8"}


def _instructions() -> Mapping[tuple[str, str], WgmmaInstruction]:
    table = {
        ("float16", "float16"): WgmmaInstruction("f16", 2, "tensor_float16"),
        ("bfloat16", "bfloat16"): WgmmaInstruction("bf16", 2, "tensor_bfloat16"),
    }
    for is_integer, kinds in ((False, ("float8_e4m3", "float8_e5m2")), (True, ("int8", "uint8"))):
        for a, b in ((a, b) for a in kinds for b in kinds):
            types = _NAMES[a] if a == b else f"{_NAMES[a]}_{_NAMES[b]}"
            peak, bits = ("tensor_int8", 0) if is_integer else ("tensor_float8", 14)
            table[a, b] = WgmmaInstruction(types, 1, peak, is_integer=is_integer, sum_bits=bits)
    return table


INSTRUCTIONS = _instructions()
TF32 = WgmmaInstruction("tf32", 4, "tensor_tf32", rounds=True)


def instruction_for(a: str, b: str, accumulated: str, *, tf32: bool) -> WgmmaInstruction | None:
    """The instruction for operands and sums of these types; `tf32`: float32 operands may be rounded to it."""
    if a == b == accumulated == "float32":
        return TF32 if tf32 else None
    if accumulated != ("int32" if "int" in a else "float32"):
        return None
    return INSTRUCTIONS.get((a, b))


def instruction_of_name(name: str) -> tuple[WgmmaInstruction, int] | None:
    """The instruction with its N of a function's name; None if it isn't one's."""
    found = re.fullmatch(r"wgmma_m64n(\d+)k\d+_(\w+)", name)
    if found is None:
        return None
    types = {instruction.types: instruction for instruction in (*INSTRUCTIONS.values(), TF32)}
    return types[found[2]], int(found[1])


def operand_wavefronts(rows: int) -> int:
    """Wavefronts of shared memory in which a warpgroup's instruction reads an operand of so many rows of A, or columns
    of B: all banks at once (measured on an H200, for K-major and MN-major operands in swizzled rows of 128 bytes)."""
    return rows * K_BYTES // SWIZZLED_ROW_BYTES
