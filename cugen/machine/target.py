"""Compute capability: the limits and memory rules that the generator and the analysis use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

SharedRule = Literal["half_warps", "ways", "double_words", "phases"]
GlobalRule = Literal["in_order", "segments", "lines", "sectors"]
RegisterRule = Literal["block", "warp"]
Cache = Literal["l1", "l2"]

# Of a block's `__shared__` arrays; more only by cudaFuncSetAttribute (CUDA programming guide).
STATIC_SHARED_BYTES = 48 * 1024
# Of the address of a texture object of linear memory (cudaDeviceProp::textureAlignment).
TEXTURE_ALIGNMENT = 512
# Of the pitch of a texture object of pitched memory (cudaDeviceProp::texturePitchAlignment).
TEXTURE_PITCH_ALIGNMENT = 32
# Of the address and the pitches of a tensor map (CUDA driver API).
TENSOR_ALIGNMENT = 16
MAX_TENSOR_DIMENSIONS = 5
# Of a grid along x from 3.0 on.
MAX_BLOCKS = 2**31 - 1

ALL_SHARED_KINDS = ("load", "store", "async_copy", "matrix_load", "matrix_store", "atomic")
ALL_GLOBAL_KINDS = ("load", "store", "async_copy", "atomic")


@dataclass(frozen=True, slots=True)
class Target:
    """One compute capability. Public: a made-up one can be analysed as well as a real one.

    Defaults are those of the newest hardware. A limit of 0 is derived from the others (warps from threads, registers
    per block from registers per SM, opt-in shared memory from the static limit, blocks along z from those along y).
    Sizes are bytes unless the name says otherwise. `assumed` marks figures of a similar target, where no document
    gives them.

    `shared_per_block` limits static shared memory, `shared_opt_in` dynamic shared memory after
    cudaFuncAttributeMaxDynamicSharedMemorySize is raised.

    `carveouts` divide the `l1_bytes` of an SM between shared memory and L1; the last one is `shared_per_sm`.

    `constant_cache_bytes` is the working set of constants that an SM caches, `constant_first_level_bytes` the part of
    it closest to the cores.

    Shared requests (`shared_rule`):
      half_warps    1.x: per half-warp, in 32-bit parts, with one broadcast word per pass
      ways          2.x: any number of words multicast; 8 bytes by half-warps, 16 bytes one way more
      double_words  3.x: banks deliver 64 bits, with 4- or 8-byte banks (`bank_modes`)
      phases        5.0 on: 8 bytes by half-warps, 16 bytes by quarter-warps; some loads merge two phases
    Global requests (`global_rule`):
      in_order      1.0, 1.1: lane k accesses word k of an aligned segment, else one transaction per lane
      segments      1.2, 1.3: segments of 32 to 128 bytes, halved while one half is unused
      lines         2.x to 5.x: 128-byte lines through L1, 32-byte segments through L2; `global_cache` is the default
      sectors       6.0 on: 32-byte sectors
    Registers (`register_rule`): allocated per block (1.x) or per warp, in units of `register_unit`; the unit is doubled
    for the register counts in `register_doubled`.
    """

    name: str
    threads_per_block: int = 1024
    threads_per_sm: int = 2048
    warps_per_sm: int = 0
    blocks_per_sm: int = 32
    registers_per_sm: int = 64 * 1024
    registers_per_block: int = 0
    registers_per_thread: int = 255
    shared_per_sm: int = 228 * 1024
    shared_per_block: int = STATIC_SHARED_BYTES
    shared_opt_in: int = 0
    carveouts: tuple[int, ...] = ()  # sizes of shared memory that an SM may have; none where it isn't part of L1
    l1_bytes: int = 0  # of L1 and shared memory together; 0 where they aren't one memory
    constant_bytes: int = 64 * 1024
    constant_cache_bytes: int = 8 * 1024
    constant_first_level_bytes: int = 2 * 1024
    texture_elements: int = 2**28  # of a texture object of linear memory
    # Of a texture object of pitched memory (cudaDeviceProp::maxTexture2DLinear); the pitch is in bytes.
    texture_width: int = 131072
    texture_height: int = 65000
    texture_pitch: int = 2097120
    grid_x: int = MAX_BLOCKS
    grid_yz: int = 65535
    grid_z: int = 0
    assumed: bool = False

    sub_partitions: int = 4
    register_rule: RegisterRule = "warp"
    register_unit: int = 256
    register_doubled: tuple[int, ...] = ()
    shared_unit: int = 128
    shared_reserved: int = 1024  # per block, by the driver

    request_lanes: int = 32  # 16 where half-warps are separate requests
    banks: int = 32
    bank_modes: tuple[int, ...] = (4,)  # bank widths in bytes; the first is the default
    shared_rule: SharedRule = "phases"
    shared_kinds: tuple[str, ...] = ALL_SHARED_KINDS
    global_rule: GlobalRule = "sectors"
    global_cache: Cache = "l1"
    global_split: bool = False  # whether 8 (16) bytes per lane make 2 (4) requests
    global_kinds: tuple[str, ...] = ALL_GLOBAL_KINDS
    measured: bool = False  # whether hardware counters confirm the undocumented rules

    def __hash__(self) -> int:
        return hash(self.name)

    def __post_init__(self) -> None:
        derived = {
            "warps_per_sm": self.threads_per_sm // 32,
            "registers_per_block": self.registers_per_sm,
            "shared_opt_in": self.shared_per_block,
            "grid_z": self.grid_yz,
        }
        for field, value in derived.items():
            if getattr(self, field) == 0:
                object.__setattr__(self, field, value)
        for field, known in (
            ("shared_rule", get_args(SharedRule)),
            ("global_rule", get_args(GlobalRule)),
            ("register_rule", get_args(RegisterRule)),
            ("global_cache", get_args(Cache)),
        ):
            if getattr(self, field) not in known:
                raise ValueError(f"unknown {field} {getattr(self, field)!r}; known are {', '.join(known)}")

    def with_carveout(self, percent: int | None, shared_bytes: int) -> Target:
        """The target with the shared memory of an SM of which so many percent are preferred: the next of the
        `carveouts` that also holds the shared bytes of a block. None prefers nothing."""
        if percent is None:
            return self
        wanted = max(-(-self.shared_per_sm * percent // 100), shared_bytes + self.shared_reserved)
        size = next((size for size in self.carveouts if size >= wanted), self.shared_per_sm)
        return replace(self, shared_per_sm=size)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Maximum blocks along x, y and z."""
        return self.grid_x, self.grid_yz, self.grid_z

    @property
    def loads_lines(self) -> bool:
        """Whether global loads move whole lines through L1 by default."""
        return self.global_rule == "lines" and self.global_cache == "l1"

    @property
    def has_unified_cache(self) -> bool:
        """Whether texture fetches and global loads go through one cache (compute capability 5.0 on)."""
        return self.capability >= (5, 0)

    @property
    def has_clusters(self) -> bool:
        """Whether thread block clusters and distributed shared memory exist (compute capability 9.0 on)."""
        return self.capability >= (9, 0)

    @property
    def has_wgmma(self) -> bool:
        """Whether the architecture-specific instructions of 9.0 may be used: `wgmma`, which reads both operands from
        shared memory (PTX ISA: for sm_90a)."""
        return self.name == "sm_90a"

    @property
    def is_architecture_specific(self) -> bool:
        """Whether code for it runs on devices of its compute capability alone, as that of `sm_90a` does."""
        return not self.name[-1].isdecimal()

    @property
    def capability(self) -> tuple[int, int]:
        """(major, minor), from a name like `sm_90` or `sm_90a`."""
        digits = self.name.removeprefix("sm_").rstrip("af")
        return int(digits[:-1]), int(digits[-1])
