"""Limits and memory rules of all supported compute capabilities.

Figures: CUDA programming guide (appendix F of release 4.2 for 1.x to 3.x, compute capabilities of the current one),
`cuda_occupancy.h`. Carve-outs of 3.7: Kepler tuning guide. First level of the constant cache: Wong et al.,
"Demystifying GPU Microarchitecture through Microbenchmarking" (2010) for 1.3; Jia et al., "Dissecting the NVIDIA Volta
GPU Architecture via Microbenchmarking" (2018) for 3.7 to 7.0; other targets are taken to have the same.
"""

from __future__ import annotations

import re
from typing import Any

from cugen.machine.target import Target


def _kb(*sizes: int) -> tuple[int, ...]:
    return tuple(size * 1024 for size in sizes)


class UnknownTarget(ValueError):
    """Target that is not in the table; the message lists the known ones."""


_TESLA = {
    "threads_per_block": 512,
    "blocks_per_sm": 8,
    "registers_per_thread": 124,
    "shared_per_sm": 16 * 1024,
    "shared_per_block": 16 * 1024,
    "grid_x": 65535,
    "grid_z": 1,
    "register_rule": "block",
    "sub_partitions": 1,
    "shared_unit": 512,
    "shared_reserved": 0,
    "request_lanes": 16,
    "banks": 16,
    "shared_rule": "half_warps",
}
_TESLA_OLD = _TESLA | {
    "threads_per_sm": 768,
    "registers_per_sm": 8 * 1024,
    "register_unit": 256,
    "global_rule": "in_order",
    "shared_kinds": ("load", "store"),
}
_TESLA_NEW = _TESLA | {
    "threads_per_sm": 1024,
    "registers_per_sm": 16 * 1024,
    "register_unit": 512,
    "global_rule": "segments",
    "shared_kinds": ("load", "store", "atomic"),
    "global_kinds": ("load", "store", "atomic"),
}
_FERMI = {
    "carveouts": _kb(16, 48),
    "l1_bytes": 64 * 1024,
    "threads_per_sm": 1536,
    "blocks_per_sm": 8,
    "registers_per_sm": 32 * 1024,
    "registers_per_thread": 63,
    "shared_per_sm": 48 * 1024,
    "grid_x": 65535,
    "sub_partitions": 2,
    "register_unit": 64,
    "register_doubled": (21, 22, 29, 30, 37, 38, 45, 46),
    "shared_unit": 128,
    "shared_reserved": 0,
    "shared_rule": "ways",
    "shared_kinds": ("load", "store", "atomic"),
    "global_rule": "lines",
    "global_split": True,
    "global_kinds": ("load", "store", "atomic"),
}
_KEPLER = {
    "carveouts": _kb(16, 32, 48),
    "l1_bytes": 64 * 1024,
    "blocks_per_sm": 16,
    "shared_per_sm": 48 * 1024,
    "shared_unit": 256,
    "shared_reserved": 0,
    "bank_modes": (4, 8),
    "shared_rule": "double_words",
    "shared_kinds": ("load", "store", "atomic"),
    "global_rule": "lines",
    "global_cache": "l2",
    "global_split": True,
    "global_kinds": ("load", "store", "atomic"),
    "texture_elements": 2**27,
    "texture_width": 65000,
    "texture_pitch": 1048544,
}
_MAXWELL = _KEPLER | {
    "carveouts": (),
    "l1_bytes": 0,
    "blocks_per_sm": 32,
    "shared_per_sm": 64 * 1024,
    "bank_modes": (4,),
    "shared_rule": "phases",
    "texture_width": 65536,
    "texture_height": 65536,
}
_PASCAL = _MAXWELL | {
    "global_rule": "sectors",
    "global_cache": "l1",
    "texture_width": 131072,
    "texture_height": 65000,
    "texture_pitch": 2097120,
}
_VOLTA = _PASCAL | {
    "carveouts": _kb(0, 8, 16, 32, 64, 96),
    "l1_bytes": 128 * 1024,
    "shared_per_sm": 96 * 1024,
    "shared_opt_in": 96 * 1024,
    "global_split": False,
}
_TURING = _VOLTA | {
    "carveouts": _kb(32, 64),
    "l1_bytes": 96 * 1024,
    "threads_per_sm": 1024,
    "blocks_per_sm": 16,
    "shared_per_sm": 64 * 1024,
    "shared_opt_in": 64 * 1024,
    "shared_kinds": ("load", "store", "matrix_load", "atomic"),
    "texture_elements": 2**28,
}
_AMPERE = {
    "carveouts": _kb(0, 8, 16, 32, 64, 100, 132, 164),
    "l1_bytes": 192 * 1024,
    "shared_per_sm": 164 * 1024,
    "shared_opt_in": 163 * 1024,
    "shared_kinds": ("load", "store", "async_copy", "matrix_load", "atomic"),
}
_AMPERE_SMALL = _AMPERE | {
    "carveouts": _kb(0, 8, 16, 32, 64, 100),
    "l1_bytes": 128 * 1024,
    "threads_per_sm": 1536,
    "blocks_per_sm": 16,
    "shared_per_sm": 100 * 1024,
    "shared_opt_in": 99 * 1024,
}
_ORIN = _AMPERE_SMALL | {
    "carveouts": _AMPERE["carveouts"],
    "l1_bytes": 192 * 1024,
    "shared_per_sm": 164 * 1024,
    "shared_opt_in": 163 * 1024,
}
_ADA = _AMPERE_SMALL | {"blocks_per_sm": 24}
_HOPPER = {
    "carveouts": _kb(0, 8, 16, 32, 64, 100, 132, 164, 196, 228),
    "l1_bytes": 256 * 1024,
    "shared_per_sm": 228 * 1024,
    "shared_opt_in": 227 * 1024,
}
_BLACKWELL_SMALL = {
    "carveouts": _kb(0, 8, 16, 32, 64, 100),
    "l1_bytes": 128 * 1024,
    "threads_per_sm": 1536,
    "blocks_per_sm": 24,
    "shared_per_sm": 100 * 1024,
    "shared_opt_in": 99 * 1024,
}
_HALF_REGISTERS = {"registers_per_block": 32 * 1024}

_ROWS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("sm_10", _TESLA_OLD | {"global_kinds": ("load", "store")}),
    ("sm_11", _TESLA_OLD | {"global_kinds": ("load", "store", "atomic")}),
    ("sm_12", _TESLA_NEW),
    ("sm_13", _TESLA_NEW),
    ("sm_20", _FERMI),
    ("sm_21", _FERMI),
    ("sm_30", _KEPLER | {"registers_per_thread": 63}),
    ("sm_35", _KEPLER),
    (
        "sm_37",
        _KEPLER
        | {
            "registers_per_sm": 128 * 1024,
            "registers_per_block": 64 * 1024,
            "shared_per_sm": 112 * 1024,
            "carveouts": _kb(80, 96, 112),
            "l1_bytes": 128 * 1024,
        },
    ),
    ("sm_50", _MAXWELL),
    ("sm_52", _MAXWELL | {"shared_per_sm": 96 * 1024}),
    ("sm_53", _MAXWELL | _HALF_REGISTERS),
    ("sm_60", _PASCAL | {"sub_partitions": 2, "constant_cache_bytes": 4 * 1024}),
    ("sm_61", _PASCAL | {"shared_per_sm": 96 * 1024}),
    ("sm_62", _PASCAL | _HALF_REGISTERS),
    ("sm_70", _VOLTA),
    ("sm_72", _VOLTA | {"assumed": True}),
    ("sm_75", _TURING),
    ("sm_80", _AMPERE),
    ("sm_86", _AMPERE_SMALL),
    ("sm_87", _ORIN),
    ("sm_88", _ORIN | {"assumed": True}),
    ("sm_89", _ADA),
    ("sm_90", _HOPPER | {"measured": True}),
    ("sm_90a", _HOPPER | {"measured": True}),
    ("sm_100", _HOPPER),
    ("sm_103", _HOPPER | {"assumed": True}),
    ("sm_110", _HOPPER | {"threads_per_sm": 1536, "blocks_per_sm": 24}),
    ("sm_120", _BLACKWELL_SMALL),
    ("sm_121", _BLACKWELL_SMALL | {"assumed": True}),
)
_BY_NAME = {name: Target(name, **row) for name, row in _ROWS}


def known_targets() -> tuple[str, ...]:
    """Names of all targets, oldest first."""
    return tuple(_BY_NAME)


def canonical_name(name: str) -> str:
    """`sm_90` for "sm_90" and "9.0", `sm_100` for "sm_100f"; `sm_90a`, which is in the table, and other text
    unchanged."""
    if match := re.fullmatch(r"(\d{1,2})\.(\d)", name):
        return f"sm_{match[1]}{match[2]}"
    return name if name in _BY_NAME else re.sub(r"^(sm_\d+)[af]$", r"\1", name)


def architecture_specific(name: str) -> str:
    """The target that has the instructions of one architecture alone: `sm_90a` for `sm_90`. Without one in the table,
    `name`."""
    return f"{name}a" if f"{name}a" in _BY_NAME else name


def is_known(name: str) -> bool:
    return canonical_name(name) in _BY_NAME


def target(name: str) -> Target:
    """Target by name; UnknownTarget for an unknown one."""
    row = _BY_NAME.get(canonical_name(name))
    if row is None:
        raise UnknownTarget(f"unknown target {name!r}; known are {', '.join(_BY_NAME)}")
    return row
