"""Compiled kernels as Python functions, as returned by `kernel.compile(device=…)`."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cugen.abi import wording
from cugen.abi.codes import DEVICE_FAULT, UNKNOWN_ARGUMENT, WRONG_DEVICE
from cugen.abi.errors import RunError
from cugen.abi.limits import Limits, check_launch, dynamic_limits
from cugen.abi.manifest import ArrayArgument, Manifest, ParamArgument, ScalarArgument, Workspace
from cugen.abi.tensor_maps import TensorMemory, tensor_memory
from cugen.abi.textures import TextureMemory, texture_memory
from cugen.reference.storage import numpy_dtype
from cugen.runtime.buffers import pack, view
from cugen.runtime.call.arguments import Call, check_call, merged, workspace_bytes
from cugen.runtime.call.views import CPU, ArrayView
from cugen.runtime.cuda import libcuda
from cugen.runtime.cuda.binding import Binding, KernelFunction, Stream
from cugen.runtime.cuda.choice import Current, context_of_call
from cugen.runtime.cuda.streams import PER_THREAD
from cugen.runtime.device import Device, Job
from cugen.runtime.gpu import target_for
from cugen.runtime.packing import pack_address, pack_number
from cugen.spec.types import DTYPES
from cugen.toolchain.cuda import Cubin, compile_cubin


@dataclass(frozen=True)
class _Loaded:
    """A module loaded in one context."""

    kernels: Mapping[str, KernelFunction]
    symbols: Mapping[str, int]
    limits: Limits
    cubin: Cubin


@dataclass(repr=False)
class GpuFunction:
    """A kernel for the GPU, called with arrays by name: `fn(A=a, B=b, C=c, stream=s)`. Those called as an option of the
    call are passed in a mapping: `fn({"stream": a}, C=c, stream=s)`.

    Arrays are anything with `__cuda_array_interface__` or DLPack, outputs included, and NumPy arrays in managed or
    mapped memory where the spec has those. Arguments are checked before the
    launch (RunError CG5002 to CG5010, CG5014). `stream` is a handle, or a stream of PyTorch, CuPy or PyCUDA; by default
    the default stream. Calls are asynchronous, and threads may call at once. They run in the current context of the
    thread, without one in the primary context of GPU 0; the first call in a context compiles for its GPU. Calls go
    through PyCUDA if PyCUDA or cugen made the context current, unless the stream is another library's; else through
    libcuda. The function caches one set of workspaces per stream for
    the lifetime of the process, and one module per stream if calls set constants of the kernel: their symbols belong to
    the module. Texture objects are made once for each address, and also kept for the lifetime of the process: graphs
    may have captured them. Tensor maps are kept as well, to be encoded once.
    """

    source: str
    manifest: Manifest
    _loaded: dict[tuple[Binding | int, ...], _Loaded] = field(default_factory=dict)
    _workspaces: dict[tuple[int, int, int, str], tuple[int, int]] = field(default_factory=dict)
    _textures: dict[tuple[int, int, TextureMemory], int] = field(default_factory=dict)
    _tensor_maps: dict[tuple[int, TensorMemory], bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __repr__(self) -> str:
        return f"<GpuFunction {self.manifest.signature}>"

    def __call__(self, values: Mapping[str, Any] | None = None, /, *, stream: Any = None, **arguments: Any) -> None:
        self.queue(merged(self.manifest, values, arguments), stream)

    def queue(
        self,
        arguments: Mapping[str, Any],
        stream: Any,
        allocate: Callable[[int], int] | None = None,
        on_gpu: int | None = None,
    ) -> None:
        """A call on this stream. `allocate` allocates workspaces that the caller owns. `on_gpu`: in the primary context
        of this GPU."""
        with context_of_call(stream, on_gpu) as current:
            call = check_call(self.manifest, arguments, device=current.ordinal)
            self._check_ordinals(call, current.ordinal)
            with self._lock:
                loaded = self._module(current)
                grids = self._grids(call, loaded)
                addresses = {name: array.address for name, array in call.arrays.items()}
                sizes = workspace_bytes(self.manifest, call.params)
                cleared: dict[str, int] = {}
                for space in self.manifest.workspace:
                    size = sizes[space.name]
                    if allocate is None:
                        addresses[space.name] = self._workspace(current, space, size)
                    else:
                        addresses[space.name] = allocate(size)
                    if space.zeroed and size and not (allocate is None and space.left_zero):
                        cleared[space.name] = size
                objects = {
                    name: self._texture(current.context, call.arrays[name].address, memory)
                    for name, memory in texture_memory(self.manifest, call.params)
                }
                maps = {
                    name: self._tensor_map(addresses[argument], memory)
                    for name, argument, memory in tensor_memory(self.manifest, call.params)
                }
                self._queue(current.cuda, call, loaded, grids, addresses | objects, maps, cleared, current.stream)

    def _check_ordinals(self, call: Call, ordinal: int) -> None:
        for name, array in call.arrays.items():
            if (
                array.device in (None, CPU)
                and array.bytes
                and (actual := libcuda.driver().ordinal_of(array.address)) != ordinal
            ):
                location = f"in the memory of GPU {actual}" if actual >= 0 else "not in GPU memory"
                raise RunError(WRONG_DEVICE, f"`{name}` is {location}; the kernel runs on GPU {ordinal}")

    def _module(self, current: Current) -> _Loaded:
        """The module of a binding and context; with uploads also of the stream."""
        key = (current.cuda, current.context, *(_stream_key(current.handle) if self.manifest.uploads else ()))
        if key not in self._loaded:
            self._loaded[key] = self._load(current)
        return self._loaded[key]

    def _load(self, current: Current) -> _Loaded:
        target = target_for(self.manifest, libcuda.driver().capability(current.ordinal))
        cubin = compile_cubin(self.source, self.manifest.kernel, target)
        module = current.cuda.load(cubin.image)
        kernels = {launch.kernel: module.kernel(launch.kernel) for launch in self.manifest.launches}
        symbols = {upload.symbol: module.symbol(upload.symbol) for upload in self.manifest.uploads}
        limits = libcuda.driver().limits(current.ordinal)
        for kernel, size in dynamic_limits(self.manifest).items():
            if size <= limits.shared_bytes:  # else check_launch refuses it
                kernels[kernel].allow_dynamic_shared(size)
        for launch in self.manifest.launches:
            kernels[launch.kernel].configure(launch)
        return _Loaded(kernels, symbols, limits, cubin)

    def _grids(self, call: Call, loaded: _Loaded) -> list[tuple[int, int, int]]:
        resources = loaded.cubin.kernels
        return [
            check_launch(launch, call.params, loaded.limits, resources[launch.kernel].registers)
            for launch in self.manifest.launches
        ]

    def _workspace(self, current: Current, space: Workspace, size: int) -> int:
        """Cached workspace of this stream; zeroed when allocated if launches leave it zero."""
        key = (current.context, *_stream_key(current.handle), space.name)
        address, capacity = self._workspaces.get(key, (0, 0))
        if capacity < size:
            if address:
                del self._workspaces[key]
                libcuda.driver().free(address, current.handle)
            address = libcuda.driver().allocate(size, current.handle)
            if space.left_zero:
                current.cuda.set_bytes(address, 0, size, current.stream)
            self._workspaces[key] = (address, size)
        return address

    def _texture(self, context: int, address: int, memory: TextureMemory) -> int:
        key = (context, address, memory)
        if key not in self._textures:
            self._textures[key] = libcuda.driver().create_texture(address, memory)
        return self._textures[key]

    def _tensor_map(self, address: int, memory: TensorMemory) -> bytes:
        key = (address, memory)
        if key not in self._tensor_maps:
            self._tensor_maps[key] = libcuda.driver().encode_tensor_map(address, memory)
        return self._tensor_maps[key]

    def _queue(
        self,
        cuda: Binding,
        call: Call,
        loaded: _Loaded,
        grids: list[tuple[int, int, int]],
        addresses: Mapping[str, int],
        maps: Mapping[str, bytes],
        cleared: Mapping[str, int],
        stream: Stream,
    ) -> None:
        """`addresses` has texture objects in place of their arrays, `maps` the tensor maps; `cleared` are the bytes of
        the workspaces to be zeroed first."""
        values = self._values(call, addresses)
        for upload in self.manifest.uploads:
            symbol = loaded.symbols[upload.symbol]
            if upload.argument in addresses:
                cuda.copy(symbol, addresses[upload.argument], upload.bytes, stream)
            else:
                cuda.store(symbol, values[upload.argument][: upload.bytes], stream)
        for name, size in cleared.items():
            cuda.set_bytes(addresses[name], 0, size, stream)
        for launch, grid in zip(self.manifest.launches, grids, strict=True):
            if 0 not in grid:
                loaded.kernels[launch.kernel].launch(
                    grid,
                    launch.block,
                    launch.dynamic_shared_bytes,
                    stream,
                    [*(maps[name] for name in launch.tensor_maps), *(values[name] for name in launch.arguments)],
                )

    def _values(self, call: Call, addresses: Mapping[str, int]) -> dict[str, bytes]:
        """The bytes of every argument and workspace pointer."""
        values = {name: pack_address(address) for name, address in addresses.items()}
        for argument in self.manifest.arguments:
            match argument:
                case ScalarArgument(name=name, dtype=dtype):
                    values[name] = pack_number(call.scalars[name], DTYPES[dtype])
                case ParamArgument(name=name, dtype=dtype):
                    values[name] = pack_number(call.params[name], DTYPES[dtype])
        return values


def _stream_key(stream: int) -> tuple[int, int]:
    """A stream of the process: each thread has its own PER_THREAD."""
    return stream, threading.get_ident() if stream == PER_THREAD else 0


@dataclass(frozen=True, repr=False)
class CpuFunction:
    """A kernel on the CPU device, called as a `GpuFunction` with arrays in host memory (NumPy, DLPack). Synchronous."""

    source: str
    manifest: Manifest
    device: Device

    def __repr__(self) -> str:
        return f"<CpuFunction {self.manifest.signature}>"

    def __call__(self, values: Mapping[str, Any] | None = None, /, *, stream: Any = None, **arguments: Any) -> None:
        if stream is not None:
            cure = f"leave `stream` out; {wording.IN_A_MAPPING.format(name='stream')}"
            raise RunError(UNKNOWN_ARGUMENT, "a kernel on the CPU has no stream", cure)
        call = check_call(self.manifest, merged(self.manifest, values, arguments), device=CPU)
        described = [a for a in self.manifest.arguments if isinstance(a, ArrayArgument)]
        arrays = {a.name: _array(call.arrays[a.name], numpy_dtype(DTYPES[a.dtype])) for a in described}
        buffers = {a.name: pack(None if a.role == "output" else arrays[a.name], a, call.params) for a in described}
        params = {a.name: call.params[a.name] for a in self.manifest.arguments if isinstance(a, ParamArgument)}
        outcome = self.device.run(Job(self.source, self.manifest, buffers, params, dict(call.scalars)))
        if outcome.faults:
            raise RunError(DEVICE_FAULT, "; ".join(f"{fault.kind}: {fault.message}" for fault in outcome.faults))
        for a in described:
            if a.role != "input":
                arrays[a.name][...] = view(outcome.buffers[a.name], a, call.params)


def _array(array: ArrayView, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A NumPy array on the memory of a view."""
    if 0 in array.shape:
        return np.empty(array.shape, dtype)
    memory = memoryview((ctypes.c_ubyte * array.bytes).from_address(array.address))
    # NumPy rejects strided views of user-defined types such as float8.
    raw = np.ndarray(array.shape, f"u{array.itemsize}", memory, strides=array.strides)
    return raw.view(dtype)


Compiled = GpuFunction | CpuFunction


def compiled(source: str, manifest: Manifest, device: Device | None = None) -> Compiled:
    """The kernel as a function: for the GPU, or for `device`, which runs on NumPy arrays."""
    return GpuFunction(source, manifest) if device is None else CpuFunction(source, manifest, device)
