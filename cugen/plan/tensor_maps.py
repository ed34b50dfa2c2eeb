"""Tensor maps: boxes of an argument that TMA copies (CUDA driver API, tensor map object management)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorMap:
    """How a tensor map divides an array into boxes of so many elements, one number per dimension as in its shape. In
    shared memory the innermost dimension of a box is a row of `swizzle_bytes`, whose 16-byte chunks are swizzled; 0 for
    boxes that aren't. `rounds_to_tf32`: loads round float32 to tf32, to nearest (measured on an H200)."""

    box: tuple[int, ...]
    swizzle_bytes: int
    rounds_to_tf32: bool = False
