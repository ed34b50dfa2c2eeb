"""Whether a kernel's loops around wgmma access local memory, from its machine code for sm_90a.

An instruction has 16 bytes: its lowest 12 bits are the operation, and a branch has the distance from its end in bits 16
to 23, in units of 4 bytes, and from bit 34 on, in units of 1024. NVIDIA doesn't document it: the tests compare what is
read here with what nvdisasm prints.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from cugen.toolchain.binary import elf

_BYTES = 16  # of an instruction
_WGMMA = frozenset({0x9F0, 0x9F1, 0x9F3})  # HGMMA, IGMMA, QGMMA
_LOCAL = frozenset({0x983, 0x387})  # LDL, STL
_BRANCH = 0x947  # BRA


def spills_in_main_loop(image: bytes, kernel: str) -> bool:
    """Whether the innermost loop around a wgmma of the kernel loads from local memory or stores to it. What is spilled
    outside, as between the main loop and the epilogue, costs some accesses for a whole tile."""
    words = instructions(image, kernel)
    operations = [_operation(word) for word in words]
    loops = loops_of(words)
    for i, operation in enumerate(operations):
        around = [loop for loop in loops if loop[0] <= i <= loop[1]]
        if operation in _WGMMA and around:
            first, last = min(around, key=lambda loop: loop[1] - loop[0])
            if not _LOCAL.isdisjoint(operations[first : last + 1]):
                return True
    return False


def loops_of(words: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The numbers of the first and the last instruction of each loop: a branch goes back from this to that."""
    branches = [(_target(i, word), i) for i, word in enumerate(words) if _operation(word) == _BRANCH]
    return tuple((target, i) for target, i in branches if 0 <= target < i)


def instructions(image: bytes, kernel: str) -> tuple[int, ...]:
    """The lower 8 bytes of each instruction of a kernel."""
    code = elf.section(image, f".text.{kernel}")
    return tuple(word for (word, _) in struct.iter_unpack("<QQ", code))


def _operation(word: int) -> int:
    return word & 0xFFF


def _target(i: int, word: int) -> int:
    """The instruction to which a branch, the one of number `i`, goes."""
    high = (word >> 34) - (word >> 63 << 30)
    distance = 1024 * high + 4 * (word >> 16 & 0xFF)
    return i + 1 + distance // _BYTES
