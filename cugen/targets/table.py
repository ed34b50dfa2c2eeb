"""The limits of every compute capability that the generator aims at.

Figures: CUDA programming guide (compute capabilities), `cuda_occupancy.h`. Sizes are bytes unless the name says
otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One compute capability. Public: a made-up one can be analysed as well as a real one.

    `shared_per_block` is what a kernel may declare statically; `shared_opt_in` is what it may ask for at launch after
    raising the function's limit. `assumed` marks figures taken from a neighbour because no document gives them.
    """

    name: str
    threads_per_block: int
    threads_per_sm: int
    warps_per_sm: int
    blocks_per_sm: int
    registers_per_sm: int
    registers_per_block: int
    registers_per_thread: int
    shared_per_sm: int
    shared_per_block: int
    shared_opt_in: int
    constant_bytes: int = 64 * 1024
    grid_x: int = 2**31 - 1
    grid_yz: int = 65535
    assumed: bool = False

    @property
    def capability(self) -> tuple[int, int]:
        """Major and minor number."""
        digits = self.name.removeprefix("sm_")
        return int(digits[:-1]), int(digits[-1])


class UnknownTarget(ValueError):
    """A target that isn't in the table; the message lists the known ones."""


def _row(
    name: str,
    threads_per_sm: int,
    blocks_per_sm: int,
    shared_per_sm_kib: int,
    shared_opt_in_kib: int = 48,
    *,
    registers_kib: int = 64,
    registers_per_block_kib: int = 0,
    registers_per_thread: int = 255,
    shared_per_block_kib: int = 48,
    threads_per_block: int = 1024,
    grid_x: int = 2**31 - 1,
    assumed: bool = False,
) -> Target:
    return Target(
        name,
        threads_per_block,
        threads_per_sm,
        threads_per_sm // 32,
        blocks_per_sm,
        registers_kib * 1024,
        (registers_per_block_kib or registers_kib) * 1024,
        registers_per_thread,
        shared_per_sm_kib * 1024,
        shared_per_block_kib * 1024,
        shared_opt_in_kib * 1024,
        grid_x=grid_x,
        assumed=assumed,
    )


def _tesla(name: str, threads_per_sm: int, registers_kib: int) -> Target:
    return _row(
        name,
        threads_per_sm,
        8,
        16,
        16,
        registers_kib=registers_kib,
        registers_per_thread=124,
        shared_per_block_kib=16,
        threads_per_block=512,
        grid_x=65535,
    )


_TARGETS = (
    _tesla("sm_10", 768, 8),
    _tesla("sm_11", 768, 8),
    _tesla("sm_12", 1024, 16),
    _tesla("sm_13", 1024, 16),
    _row("sm_20", 1536, 8, 48, registers_kib=32, registers_per_thread=63, grid_x=65535),
    _row("sm_21", 1536, 8, 48, registers_kib=32, registers_per_thread=63, grid_x=65535),
    _row("sm_30", 2048, 16, 48, registers_per_thread=63),
    _row("sm_35", 2048, 16, 48),
    _row("sm_37", 2048, 16, 112, registers_kib=128, registers_per_block_kib=64),
    _row("sm_50", 2048, 32, 64),
    _row("sm_52", 2048, 32, 96),
    _row("sm_53", 2048, 32, 64, registers_per_block_kib=32),
    _row("sm_60", 2048, 32, 64),
    _row("sm_61", 2048, 32, 96),
    _row("sm_62", 2048, 32, 64, registers_per_block_kib=32),
    _row("sm_70", 2048, 32, 96, 96),
    _row("sm_72", 2048, 32, 96, 96, assumed=True),
    _row("sm_75", 1024, 16, 64, 64),
    _row("sm_80", 2048, 32, 164, 163),
    _row("sm_86", 1536, 16, 100, 99),
    _row("sm_87", 1536, 16, 164, 163),
    _row("sm_88", 1536, 16, 164, 163, assumed=True),
    _row("sm_89", 1536, 24, 100, 99),
    _row("sm_90", 2048, 32, 228, 227),
    _row("sm_100", 2048, 32, 228, 227),
    _row("sm_103", 2048, 32, 228, 227, assumed=True),
    _row("sm_110", 1536, 24, 228, 227),
    _row("sm_120", 1536, 24, 100, 99),
    _row("sm_121", 1536, 24, 100, 99, assumed=True),
)
_BY_NAME = {target.name: target for target in _TARGETS}


def known_targets() -> tuple[str, ...]:
    """The names of all targets, oldest first."""
    return tuple(_BY_NAME)


def canonical_name(name: str) -> str:
    """`sm_90` for "sm_90", "sm_90a" and "9.0"; other text comes back as it is."""
    if match := re.fullmatch(r"(\d{1,2})\.(\d)", name):
        return f"sm_{match[1]}{match[2]}"
    return re.sub(r"^(sm_\d+)[af]$", r"\1", name)


def is_known(name: str) -> bool:
    return canonical_name(name) in _BY_NAME


def target(name: str) -> Target:
    """The row of a target; UnknownTarget, listing the known ones, for any other name."""
    found = _BY_NAME.get(canonical_name(name))
    if found is None:
        raise UnknownTarget(f"unknown target {name!r}; known are {', '.join(_BY_NAME)}")
    return found
