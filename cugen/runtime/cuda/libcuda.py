"""ctypes bindings of the CUDA driver's functions."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cugen.abi.codes import DEVICE_FAULT, NO_GPU
from cugen.abi.errors import RunError
from cugen.abi.limits import Limits
from cugen.abi.manifest import LaunchEntry
from cugen.abi.tensor_maps import TensorMemory
from cugen.abi.textures import ADDRESS_MODES, TextureMemory

_NAMES = ("libcuda.so.1", "libcuda.so", "nvcuda.dll")
_POINTER_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_CAPTURE_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_CARVEOUT = 9  # CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
_CACHE_CONFIGS = {"prefer_shared": 1, "prefer_l1": 2, "prefer_equal": 3}  # CU_FUNC_CACHE_*
_BANK_CONFIGS = {4: 1, 8: 2}  # CU_SHARED_MEM_CONFIG_*_BYTE_BANK_SIZE
# CU_DEVICE_ATTRIBUTE_*
_THREADS, _BLOCK, _GRID = 1, (2, 3, 4), (5, 6, 7)
_REGISTERS, _SHARED_OPT_IN, _MAJOR, _MINOR = 12, 97, 75, 76
_LINEAR, _PITCH_2D = 2, 3  # CU_RESOURCE_TYPE_*
_READ_AS_INTEGER, _NORMALIZED = 1, 2  # CU_TRSF_READ_AS_INTEGER, CU_TRSF_NORMALIZED_COORDINATES
_FILTER_POINT, _FILTER_LINEAR = 0, 1  # CU_TR_FILTER_MODE_*
# CU_AD_FORMAT_*
_FORMATS = {
    "uint8": 0x01,
    "uint16": 0x02,
    "uint32": 0x03,
    "int8": 0x08,
    "int16": 0x09,
    "int32": 0x0A,
    "float16": 0x10,
    "float32": 0x20,
}
_TENSOR_MAP_BYTES, _TENSOR_MAP_ALIGNMENT = 128, 64  # of CUtensorMap
# CU_TENSOR_MAP_DATA_TYPE_*
_TENSOR_TYPES = {
    "int8": 0,
    "uint8": 0,
    "float8_e4m3": 0,
    "float8_e5m2": 0,
    "uint32": 2,
    "int32": 3,
    "float16": 6,
    "float32": 7,
    "bfloat16": 9,
}
_TENSOR_TFLOAT32 = 11
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # CU_TENSOR_MAP_SWIZZLE_*, by bytes of a row
_PROMOTION_128 = 2  # CU_TENSOR_MAP_L2_PROMOTION_L2_128B: more takes longer for rows that aren't aligned to lines
_FILLS = {
    1: ("cuMemsetD8Async", ctypes.c_ubyte),
    2: ("cuMemsetD16Async", ctypes.c_ushort),
    4: ("cuMemsetD32Async", ctypes.c_uint),
}


class _LinearResource(ctypes.Structure):
    """CUDA_RESOURCE_DESC of linear memory; `reserved` fills the union."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("address", ctypes.c_uint64),
        ("format", ctypes.c_int),
        ("channels", ctypes.c_uint),
        ("bytes", ctypes.c_size_t),
        ("reserved", ctypes.c_int * 26),
        ("flags", ctypes.c_uint),
    )


class _PitchedResource(ctypes.Structure):
    """CUDA_RESOURCE_DESC of pitched memory; `reserved` fills the union."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("address", ctypes.c_uint64),
        ("format", ctypes.c_int),
        ("channels", ctypes.c_uint),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("pitch", ctypes.c_size_t),
        ("reserved", ctypes.c_int * 22),
        ("flags", ctypes.c_uint),
    )


class _TextureReading(ctypes.Structure):
    """CUDA_TEXTURE_DESC; of linear memory only `flags` counts."""

    _fields_ = (
        ("address_modes", ctypes.c_int * 3),
        ("filter", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("remaining", ctypes.c_int * 21),
    )


def _described(address: int, memory: TextureMemory) -> tuple[_LinearResource | _PitchedResource, _TextureReading]:
    """The memory of a texture object, and how it is read."""
    element = (address, _FORMATS[memory.dtype], 1)
    if not memory.is_2d:
        return _LinearResource(_LINEAR, *element, memory.bytes), _TextureReading(flags=_READ_AS_INTEGER)
    mode = ADDRESS_MODES.index(memory.address_mode)
    flags = _READ_AS_INTEGER | (_NORMALIZED if memory.is_normalized else 0)
    return (
        _PitchedResource(_PITCH_2D, *element, memory.width, memory.height, memory.pitch),
        _TextureReading((mode, mode, mode), _FILTER_LINEAR if memory.is_linear else _FILTER_POINT, flags),
    )


def _element_strides(memory: TensorMemory) -> tuple[int, ...]:
    """The steps along each dimension, the contiguous one first."""
    return (1, *memory.steps, 1) if memory.steps else (1,) * len(memory.sizes)


@functools.cache
def driver() -> Driver:
    """The driver, initialised. RunError (CG5011) where there is none."""
    for name in _NAMES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        return Driver(library)
    raise RunError(NO_GPU, "the CUDA driver (libcuda.so.1) is not installed", "cugen doctor says what is missing")


class Driver:
    """Methods raise RunError (CG5013) with the driver's message where a call fails."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._retained: dict[int, ctypes.c_void_p] = {}
        status = library.cuInit(0)
        if status:
            raise RunError(NO_GPU, f"the CUDA driver can't be used: {self._message(status)}")

    def context(self) -> int:
        """Handle of the current context, 0 without one."""
        handle = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(handle))
        return handle.value or 0

    def set_context(self, handle: int) -> None:
        """Replaces the current context."""
        self.call("cuCtxSetCurrent", ctypes.c_void_p(handle))

    def ordinal(self) -> int:
        """The GPU of the current context."""
        ordinal = ctypes.c_int()
        self.call("cuCtxGetDevice", ctypes.byref(ordinal))
        return ordinal.value

    @contextmanager
    def primary(self, ordinal: int) -> Iterator[int]:
        """Handle of a GPU's primary context, which is current until exit."""
        handle = self._primary(ordinal)
        self.call("cuCtxPushCurrent_v2", handle)
        try:
            yield int(handle.value or 0)
        finally:
            self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def count(self) -> int:
        """The number of GPUs that CUDA_VISIBLE_DEVICES allows."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def capability(self, ordinal: int) -> str:
        """Such as "sm_90"."""
        return f"sm_{self.figure(_MAJOR, ordinal)}{self.figure(_MINOR, ordinal)}"

    def limits(self, ordinal: int) -> Limits:
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, 256, ordinal)
        block = [self.figure(attribute, ordinal) for attribute in _BLOCK]
        grid = [self.figure(attribute, ordinal) for attribute in _GRID]
        return Limits(
            device=name.value.decode(errors="replace"),
            threads=self.figure(_THREADS, ordinal),
            block=(block[0], block[1], block[2]),
            grid=(grid[0], grid[1], grid[2]),
            shared_bytes=self.figure(_SHARED_OPT_IN, ordinal),
            registers=self.figure(_REGISTERS, ordinal),
        )

    def ordinal_of(self, address: int) -> int:
        """The GPU of a device pointer, -1 for other pointers."""
        ordinal = ctypes.c_int(-1)
        status = self._library.cuPointerGetAttribute(ctypes.byref(ordinal), _POINTER_ORDINAL, ctypes.c_uint64(address))
        return -1 if status else ordinal.value

    def load(self, image: bytes) -> int:
        """A module; also while a stream of this thread captures a CUDA graph, which doesn't record the load."""
        module = ctypes.c_void_p()
        with self.relaxed_capture():
            self.call("cuModuleLoadData", ctypes.byref(module), image)
        return int(module.value or 0)

    def function(self, module: int, name: str) -> int:
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), ctypes.c_void_p(module), name.encode())
        return int(function.value or 0)

    def symbol(self, module: int, name: str) -> int:
        """The address of a `__constant__` variable."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        self.call(
            "cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), ctypes.c_void_p(module), name.encode()
        )
        return int(address.value)

    def allow_dynamic_shared(self, function: int, size: int) -> None:
        self.call("cuFuncSetAttribute", ctypes.c_void_p(function), _DYNAMIC_SHARED, ctypes.c_int(size))

    def configure(self, function: int, launch: LaunchEntry) -> None:
        """Sets what a launch asks of the device."""
        handle = ctypes.c_void_p(function)
        if launch.carveout is not None:
            self.call("cuFuncSetAttribute", handle, _CARVEOUT, ctypes.c_int(launch.carveout))
        if launch.cache_config:
            self.call("cuFuncSetCacheConfig", handle, ctypes.c_int(_CACHE_CONFIGS[launch.cache_config]))
        if launch.bank_bytes and hasattr(self._library, "cuFuncSetSharedMemConfig"):  # without it no GPU of 3.x
            self.call("cuFuncSetSharedMemConfig", handle, ctypes.c_int(_BANK_CONFIGS[launch.bank_bytes]))

    def allocate(self, size: int, stream: int) -> int:
        """Stream-ordered allocation."""
        address = ctypes.c_uint64()
        self.call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_void_p(stream))
        return int(address.value)

    def free(self, address: int, stream: int) -> None:
        self.call("cuMemFreeAsync", ctypes.c_uint64(address), ctypes.c_void_p(stream))

    def copy(self, target: int, source: int, size: int, stream: int | None) -> None:
        """From device to device."""
        self.call(
            "cuMemcpyDtoDAsync_v2",
            ctypes.c_uint64(target),
            ctypes.c_uint64(source),
            ctypes.c_size_t(size),
            ctypes.c_void_p(stream),
        )

    def store(self, address: int, number: bytes, stream: int | None) -> None:
        """Stores the bytes of a number by memsets of 1, 2 or 4 bytes.

        A captured CUDA graph keeps the values of memsets, but only the host address of a copy."""
        width = min(len(number), 4)
        name, kind = _FILLS[width]
        for start in range(0, len(number), width):
            value = kind(int.from_bytes(number[start : start + width], "little"))
            self.call(name, ctypes.c_uint64(address + start), value, ctypes.c_size_t(1), ctypes.c_void_p(stream))

    def set_bytes(self, address: int, value: int, size: int, stream: int | None) -> None:
        self.call(
            "cuMemsetD8Async",
            ctypes.c_uint64(address),
            ctypes.c_ubyte(value),
            ctypes.c_size_t(size),
            ctypes.c_void_p(stream),
        )

    def create_texture(self, address: int, memory: TextureMemory) -> int:
        """A texture object, 0 for no memory; captures allow it, as `load`."""
        texture = ctypes.c_uint64()
        if memory.bytes:
            resource, reading = _described(address, memory)
            with self.relaxed_capture():
                self.call(
                    "cuTexObjectCreate", ctypes.byref(texture), ctypes.byref(resource), ctypes.byref(reading), None
                )
        return int(texture.value)

    def destroy_texture(self, texture: int) -> None:
        self.call("cuTexObjectDestroy", ctypes.c_uint64(texture))

    def encode_tensor_map(self, address: int, memory: TensorMemory) -> bytes:
        """A tensor map (CUtensorMap), zeros for no memory. The driver doesn't keep it."""
        rank = len(memory.sizes)
        allocation = (ctypes.c_ubyte * (_TENSOR_MAP_BYTES + _TENSOR_MAP_ALIGNMENT))()
        start = -ctypes.addressof(allocation) % _TENSOR_MAP_ALIGNMENT
        encoded = (ctypes.c_ubyte * _TENSOR_MAP_BYTES).from_buffer(allocation, start)
        if 0 not in memory.sizes:
            boxes: tuple[Any, ...] = ((ctypes.c_uint32 * rank)(*memory.box),)
            if memory.steps:
                corners = [(ctypes.c_int * (rank - 2))(*corner) for corner in (memory.lower, memory.upper)]
                boxes = (*corners, *map(ctypes.c_uint32, memory.box[:2]))
            self.call(
                "cuTensorMapEncodeIm2col" if memory.steps else "cuTensorMapEncodeTiled",
                encoded,
                _TENSOR_TFLOAT32 if memory.tf32 else _TENSOR_TYPES[memory.dtype],
                ctypes.c_uint32(rank),
                ctypes.c_uint64(address),
                (ctypes.c_uint64 * rank)(*memory.sizes),
                (ctypes.c_uint64 * (rank - 1))(*memory.strides),
                *boxes,
                (ctypes.c_uint32 * rank)(*_element_strides(memory)),
                0,  # CU_TENSOR_MAP_INTERLEAVE_NONE
                _SWIZZLES[memory.swizzle],
                _PROMOTION_128,
                0,  # CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
            )
        return bytes(encoded)

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int | None,
        arguments: Sequence[bytes],
    ) -> None:
        """`arguments` are the bytes of each parameter."""
        values = [ctypes.create_string_buffer(content, len(content)) for content in arguments]
        pointers = (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, values))
        self.call(
            "cuLaunchKernel",
            ctypes.c_void_p(function),
            *map(ctypes.c_uint, (*grid, *block, shared_bytes)),
            ctypes.c_void_p(stream),
            pointers,
            None,
        )

    @contextmanager
    def relaxed_capture(self) -> Iterator[None]:
        """Allows calls that a capture on a stream of this thread doesn't record."""
        mode = ctypes.c_int(_CAPTURE_RELAXED)
        self.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            yield
        finally:
            self.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))

    def _primary(self, ordinal: int) -> ctypes.c_void_p:
        if ordinal not in self._retained:
            handle = ctypes.c_void_p()
            status = self._library.cuDevicePrimaryCtxRetain(ctypes.byref(handle), ctypes.c_int(ordinal))
            if status:
                raise RunError(NO_GPU, f"GPU {ordinal} can't be used: {self._message(status)}")
            self._retained[ordinal] = handle
        return self._retained[ordinal]

    def figure(self, attribute: int, ordinal: int) -> int:
        """One of CU_DEVICE_ATTRIBUTE_*."""
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, ordinal)
        return value.value

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a function of libcuda by name."""
        status = getattr(self._library, function)(*arguments)
        if status:
            raise RunError(DEVICE_FAULT, f"{function} failed: {self._message(status)}")

    def _message(self, status: int) -> str:
        name, text = ctypes.c_char_p(), ctypes.c_char_p()
        self._library.cuGetErrorName(status, ctypes.byref(name))
        self._library.cuGetErrorString(status, ctypes.byref(text))
        return f"{(name.value or b'unknown').decode()} ({status}), {(text.value or b'no description').decode()}"
