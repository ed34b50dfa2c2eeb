"""Buffer sets of one kernel: equal contents at different addresses, with canaries around every array."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cugen.abi.manifest import ArrayArgument, Manifest
from cugen.abi.sizes import evaluate, evaluate_all
from cugen.bench.session import Session
from cugen.reference.storage import numpy_dtype
from cugen.runtime.buffers import CANARY, CANARY_BYTES, poison
from cugen.spec.model import Spec
from cugen.spec.prove.drawn import ascending_axes, drawn_ranges
from cugen.spec.types import DTYPES, DType, Kind

CACHES = 3  # minimum ratio of the size of all sets to the L2 cache (heuristic)
MAX_SETS = 64  # buffer sets (heuristic)
_MAX_SHARE_OF_FREE_MEMORY = 0.4  # for all sets (heuristic: libraries need workspaces)
_INTEGER_SPAN = 100  # as in `cugen run`: -100 … 100, or 0 … 200 if unsigned


@dataclass(frozen=True)
class ArrayBuffer:
    """Layout of one array in every set. `offset`: bytes from the start of the set. `strides`: in elements."""

    argument: ArrayArgument
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    elements: int
    offset: int

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.bytes

    @property
    def logical_bytes(self) -> int:
        """Bytes without the padding of the pitch."""
        return math.prod(self.shape) * self.dtype.bytes

    @property
    def gaps(self) -> int:
        return self.elements - min(self.elements, math.prod(self.shape))


@dataclass(frozen=True)
class DeviceArray:
    """View of device memory with `__cuda_array_interface__`."""

    address: int
    array: ArrayBuffer
    stand_in: str = ""

    def seen_as(self, dtype: str) -> DeviceArray:
        """The same bytes with another NumPy type of equal width."""
        return replace(self, stand_in=dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        width = self.array.dtype.bytes
        return {
            "shape": self.array.shape,
            "strides": tuple(stride * width for stride in self.array.strides),
            "typestr": np.dtype(self.stand_in).str if self.stand_in else _typestr(self.array.dtype),
            "data": (self.address, False),
            "version": 3,
            "stream": None,
        }

    @property
    def dtype(self) -> str:
        return self.array.dtype.name


def _typestr(dtype: DType) -> str:
    """NumPy's type string; raw bytes for types that NumPy lacks."""
    if dtype.name in ("bfloat16", "float8_e4m3", "float8_e5m2"):
        return f"<V{dtype.bytes}"
    return np.dtype(numpy_dtype(dtype)).str


class Buffers:
    """`count` sets of a kernel's arrays, at least two. Inputs are random; outputs are filled with a poison pattern.
    Raises MemoryError if two sets exceed the GPU's memory."""

    def __init__(self, session: Session, spec: Spec, manifest: Manifest, params: Mapping[str, int], seed: int) -> None:
        self._session = session
        self.params = dict(params)
        self.layout, size = _layout(manifest, params)
        self.set_bytes = size
        self.moved_bytes = sum(p.logical_bytes * (2 if p.argument.role == "inout" else 1) for p in self.layout)
        self.written_bytes = sum(p.logical_bytes for p in self.layout if p.argument.role != "input")
        wanted = max(2, min(MAX_SETS, -(-CACHES * session.l2_bytes // max(self.held_bytes, 1))))
        self.count = min(wanted, int(_MAX_SHARE_OF_FREE_MEMORY * session.free_bytes()) // size)
        if self.count < 2:
            raise MemoryError(f"two sets of {spec.kernel}'s arrays, of {size:,} bytes each, beside a copy of them")
        self._ranges = drawn_ranges(spec, params)
        self._ascending = ascending_axes(spec)
        self._start = session.allocate(size * self.count)
        self._draw(seed)

    @property
    def held_bytes(self) -> int:
        return sum(array.bytes for array in self.layout)

    @property
    def exceeds_the_cache(self) -> bool:
        """Whether cycling through all sets evicts the first one from L2."""
        return self.held_bytes * self.count >= CACHES * self._session.l2_bytes

    def release(self) -> None:
        self._session.release(self._start)

    def renew(self) -> None:
        """Resets every set to its initial contents."""
        self._draw(self._seed)

    def start(self, number: int) -> int:
        """Address of a set."""
        return self._start + number * self.set_bytes

    def address(self, name: str, number: int = 0) -> int:
        return self.start(number) + self.array_buffer(name).offset

    def array_buffer(self, name: str) -> ArrayBuffer:
        return next(p for p in self.layout if p.argument.name == name)

    def arrays(self, number: int) -> dict[str, DeviceArray]:
        """Array arguments of a call, for one set."""
        return {p.argument.name: DeviceArray(self.start(number) + p.offset, p) for p in self.layout}

    def _draw(self, seed: int) -> None:
        self._seed = seed
        self._session.set_bytes(self._start, CANARY, self.set_bytes)
        for array in self.layout:
            if array.argument.role == "output":
                pattern = poison(array.dtype, 1).view(np.uint8)
                self._repeat(self.start(0) + array.offset, pattern, array.elements)
            else:
                self._fill(array, 0)
                if (axis := self._ascending.get(array.argument.name)) is not None:
                    self._sort(array, 0, axis)
        for number in range(1, self.count):
            self._session.copy(self.start(number), self._start, self.set_bytes)
        self._session.synchronize()

    def _fill(self, array: ArrayBuffer, number: int) -> None:
        name, dtype = array.argument.name, array.dtype
        whole = not dtype.is_float
        span = (-1, 1) if dtype.is_float else (-_INTEGER_SPAN, _INTEGER_SPAN)
        if dtype.kind is Kind.UINT:
            span = (0, 2 * _INTEGER_SPAN)
        if dtype.is_integer and name in self._ranges:
            low, high = (min(max(end, dtype.lowest), dtype.highest) for end in self._ranges[name])
            span = (int(low), int(max(low, high)))
        elif dtype.is_float and name in self._ranges:  # they become subscripts, and their type may round them up
            low, high = self._ranges[name]
            span = (math.ceil(low), max(math.ceil(low), math.floor(high - (high - low) / 8)))
        seed = self._seed * 2**32 + zlib.crc32(name.encode())
        self._session.fill(self.start(number) + array.offset, dtype.name, array.elements, seed, span, whole=whole)

    def _sort(self, array: ArrayBuffer, number: int, axis: int) -> None:
        address, dtype = self.start(number) + array.offset, numpy_dtype(array.dtype)
        flat = self._session.fetch(address, array.elements, dtype)
        steps = tuple(stride * dtype.itemsize for stride in array.strides)
        np.lib.stride_tricks.as_strided(flat, array.shape, steps).sort(axis)
        self._session.upload(address, flat)

    def _repeat(self, address: int, pattern: Any, count: int) -> None:
        """Fills `count` elements with a pattern, by copies of doubling size."""
        if not count:
            return
        self._session.upload(address, pattern)
        done, size = pattern.nbytes, count * pattern.nbytes
        while done < size:
            step = min(done, size - done)
            self._session.copy(address + done, address, step)
            done += step


def _layout(manifest: Manifest, params: Mapping[str, int]) -> tuple[tuple[ArrayBuffer, ...], int]:
    """Array layouts of a set and its size in bytes, with CANARY_BYTES before, between and after the arrays."""
    arrays, end = [], CANARY_BYTES
    for argument in manifest.arguments:
        if isinstance(argument, ArrayArgument):
            shape, strides = evaluate_all(argument.shape, params), evaluate_all(argument.strides, params)
            dtype, elements = DTYPES[argument.dtype], evaluate(argument.elements, params)
            array = ArrayBuffer(argument, dtype, shape, strides, elements, end)
            arrays.append(array)
            end += -(-array.bytes // CANARY_BYTES) * CANARY_BYTES + CANARY_BYTES
    return tuple(arrays), end
