"""The memory of tensor maps at given params."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cugen.abi.manifest import Manifest
from cugen.abi.sizes import evaluate_all


@dataclass(frozen=True, slots=True)
class TensorMemory:
    """What a tensor map encodes, but for the address: as a `TensorMapEntry`, its sizes numbers."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    tf32: bool = False
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


def tensor_memory(manifest: Manifest, params: Mapping[str, int]) -> Iterator[tuple[str, str, TensorMemory]]:
    """The tensor maps of the launches: each with its name, the argument or workspace, and the memory; `params` has all
    of the kernel."""
    for entry in manifest.tensor_maps:
        sizes, strides = evaluate_all(entry.sizes, params), evaluate_all(entry.strides, params)
        pixels = (entry.lower, entry.upper, entry.steps)
        memory = TensorMemory(entry.dtype, sizes, strides, entry.box, entry.swizzle, entry.tf32, *pixels)
        yield entry.name, entry.argument, memory
