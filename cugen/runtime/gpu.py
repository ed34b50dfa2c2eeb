"""The GPU device: PyCUDA loads the cubin and runs the manifest's launch list.

PyCUDA is imported on first use. Runs use the primary context, which PyTorch and CuPy share; it is retained for the
process and current only during a run.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from cugen.abi.codes import NO_GPU, OTHER_ARCHITECTURE, OVER_A_LIMIT
from cugen.abi.errors import RunError
from cugen.abi.limits import Limits, check_launch, dynamic_limits
from cugen.abi.manifest import ArrayArgument, LaunchEntry, Manifest, ParamArgument, ScalarArgument, Upload
from cugen.abi.sizes import evaluate
from cugen.abi.tensor_maps import tensor_memory
from cugen.abi.textures import texture_memory
from cugen.machine import Target
from cugen.runtime import libcuda
from cugen.runtime.buffers import CANARY, CANARY_BYTES, poison
from cugen.runtime.device import Buffer, Fault, Job, Outcome
from cugen.runtime.packing import pack_number
from cugen.spec.types import DTYPES
from cugen.toolchain.cuda import Cubin, compile_cubin


def available() -> str:
    """Why no GPU can be used, as one line; empty where one can."""
    try:
        driver = _driver()
    except ImportError as error:
        return f"PyCUDA can't be imported ({error}): pip install 'cugen[gpu]'"
    try:
        driver.init()
        count = driver.Device.count()
    except driver.Error as error:
        return f"the CUDA driver can't be used: {error}"
    return "" if count else "the CUDA driver sees no GPU"


class GpuDevice:
    """`ordinal` counts the GPUs visible under CUDA_VISIBLE_DEVICES."""

    name = "gpu"

    def __init__(self, ordinal: int = 0) -> None:
        if reason := available():
            raise RunError(NO_GPU, reason, "cugen doctor says what is missing; cugen run --device cpu needs no GPU")
        self.ordinal = ordinal

    @property
    def capability(self) -> str:
        """Compute capability, such as `sm_90`."""
        with _current(self.ordinal) as (_, device):
            return _capability(device)

    def run(self, job: Job) -> Outcome:
        """Runs the launch list once for the results and `repeat` times for timing.

        `buffers` are all array arguments after the first run. Times are between CUDA events around one run, uploads
        included. Errors of the driver during a run are faults. RunError where a launch exceeds the device's limits
        (CG5010), or the kernel is for another architecture (CG5017); CompileError and ToolMissing from the toolchain.
        """
        with _current(self.ordinal) as (driver, device):
            cubin = compile_cubin(job.source, job.manifest.kernel, target_for(job.manifest, _capability(device)))
            params = {**job.manifest.params, **job.params}
            limits = device_limits(driver, device)
            for launch in job.manifest.launches:
                check_launch(launch, params, limits, _registers(cubin, launch))
            result = _Run(driver, job, params, cubin).outcome()
        return replace(
            result,
            compile_ms=cubin.seconds * 1e3,
            registers={name: kernel.registers for name, kernel in cubin.kernels.items()},
            spill_bytes={name: kernel.spill_stores + kernel.spill_loads for name, kernel in cubin.kernels.items()},
        )


def target_for(manifest: Manifest, capability: str) -> str:
    """Compilation target on a GPU of `capability`, architecture-specific (`sm_90a`) if the manifest's target is.

    RunError for architecture-specific kernels on a GPU of another capability (CG5017), and for kernels with clusters on
    a GPU without (CG5010)."""
    made_for = Target(manifest.target)
    if made_for.is_architecture_specific and made_for.capability != Target(capability).capability:
        raise RunError(
            OTHER_ARCHITECTURE,
            f"`{manifest.kernel}` is generated for {manifest.target}, whose code doesn't run on {capability}",
            f"generate it for {capability}: `--target {capability}`, or `target: {capability}` in the spec",
        )
    if any(launch.cluster > 1 for launch in manifest.launches) and not Target(capability).has_clusters:
        raise RunError(
            OVER_A_LIMIT,
            f"`{manifest.kernel}` uses thread block clusters of {manifest.target}, which {capability} doesn't have",
            f"set `target: {capability}` in the spec",
        )
    return manifest.target if made_for.is_architecture_specific else capability


def _capability(device: Any) -> str:
    return "sm_{}{}".format(*device.compute_capability())


def device_limits(driver: Any, device: Any) -> Limits:
    """The limits of a PyCUDA device."""
    of = driver.device_attribute

    def figure(name: str) -> int:
        return int(device.get_attribute(getattr(of, name)))

    def axes(name: str) -> tuple[int, int, int]:
        return figure(f"{name}_X"), figure(f"{name}_Y"), figure(f"{name}_Z")

    return Limits(
        device=device.name(),
        threads=figure("MAX_THREADS_PER_BLOCK"),
        block=axes("MAX_BLOCK_DIM"),
        grid=axes("MAX_GRID_DIM"),
        shared_bytes=figure("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        registers=figure("MAX_REGISTERS_PER_BLOCK"),
    )


@dataclass(frozen=True)
class _CanaryBuffer:
    """Device memory between canaries; `address` is that of the content."""

    name: str
    allocation: Any
    address: int
    bytes: int


class _Run:
    """One job on the current context."""

    def __init__(self, driver: Any, job: Job, params: Mapping[str, int], cubin: Cubin) -> None:
        self._driver = driver
        self._job = job
        self._params = params
        self._manifest = job.manifest
        self._module = driver.module_from_buffer(cubin.image)
        self._functions = {launch.kernel: self._module.get_function(launch.kernel) for launch in job.manifest.launches}
        for kernel, size in dynamic_limits(job.manifest).items():
            attribute = driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._functions[kernel].set_attribute(attribute, size)
        for launch in job.manifest.launches:
            self._configure(launch)
        self._memory: dict[str, _CanaryBuffer] = {}
        self._textures: dict[str, int] = {}
        self._tensor_maps: dict[str, bytes] = {}
        # PyCUDA packs parameters from offset 0 on, and the first of these kernels is at one that the cubin alone has.
        self._own_module = libcuda.driver().load(cubin.image) if job.manifest.tensor_maps else 0

    def _configure(self, launch: LaunchEntry) -> None:
        """Sets what a launch asks of the device."""
        driver, function = self._driver, self._functions[launch.kernel]
        if launch.carveout is not None:
            function.set_attribute(driver.function_attribute.PREFERRED_SHARED_MEMORY_CARVEOUT, launch.carveout)
        if launch.cache_config:
            function.set_cache_config(getattr(driver.func_cache, launch.cache_config.upper()))
        if launch.bank_bytes and hasattr(function, "set_shared_config"):  # not by CUDA 13, which has no GPU of 3.x
            widths = {4: "FOUR_BYTE_BANK_SIZE", 8: "EIGHT_BYTE_BANK_SIZE"}
            function.set_shared_config(getattr(driver.shared_config, widths[launch.bank_bytes]))

    def outcome(self) -> Outcome:
        poisoned = {
            space.name: poison(DTYPES[space.dtype], evaluate(space.elements, self._params))
            for space in self._manifest.workspace
        }
        try:
            kinds = {a.name: a.allocation for a in self._manifest.arguments if isinstance(a, ArrayArgument)}
            for name, content in (*self._job.buffers.items(), *poisoned.items()):
                self._memory[name] = self._allocate(name, content, kinds.get(name, "device"))
            for name, memory in texture_memory(self._manifest, self._params):
                self._textures[name] = libcuda.driver().create_texture(self._memory[name].address, memory)
            for name, argument, tensor in tensor_memory(self._manifest, self._params):
                self._tensor_maps[name] = libcuda.driver().encode_tensor_map(self._memory[argument].address, tensor)
            self._launch_all()
            self._driver.Context.synchronize()
            buffers = {name: self._fetch(name) for name in self._job.buffers}
            faults = [fault for memory in self._memory.values() for fault in self._canary_faults(memory)]
            times = tuple(self._timed() for _ in range(self._job.repeat))
            for texture in filter(None, self._textures.values()):
                libcuda.driver().destroy_texture(texture)
        except self._driver.Error as error:
            # After a sticky error the context is unusable: buffers can't be read back.
            return Outcome(dict(self._job.buffers), faults=(Fault("driver", f"the CUDA driver reported: {error}"),))
        return Outcome(buffers, times, faults=tuple(faults))

    def _allocate(self, name: str, content: Buffer, kind: str) -> _CanaryBuffer:
        size = content.nbytes
        allocation, base = self._allocated(size + 2 * CANARY_BYTES, kind)
        self._driver.memset_d8(base, CANARY, CANARY_BYTES)
        self._driver.memset_d8(base + CANARY_BYTES + size, CANARY, CANARY_BYTES)
        memory = _CanaryBuffer(name, allocation, base + CANARY_BYTES, size)
        self._fill(memory, content)
        return memory

    def _allocated(self, size: int, kind: str) -> tuple[Any, int]:
        """Memory of the device, managed, or mapped memory of the host: what keeps it, and its address on the device."""
        driver = self._driver
        if kind == "managed":
            array = driver.managed_empty(size, np.uint8, mem_flags=driver.mem_attach_flags.GLOBAL)
        elif kind == "mapped":
            array = driver.pagelocked_empty(size, np.uint8, mem_flags=driver.host_alloc_flags.DEVICEMAP)
        else:
            allocation = driver.mem_alloc(size)
            return allocation, int(allocation)
        return array, int(array.base.get_device_pointer())

    def _fill(self, memory: _CanaryBuffer, content: Buffer) -> None:
        if memory.bytes:
            self._driver.memcpy_htod(memory.address, np.ascontiguousarray(content).view(np.uint8))

    def _fetch(self, name: str) -> Buffer:
        content = np.empty_like(self._job.buffers[name])
        if content.nbytes:
            raw = content.view(np.uint8)
            self._driver.memcpy_dtoh(raw, self._memory[name].address)
        return content

    def _canary_faults(self, memory: _CanaryBuffer) -> Iterator[Fault]:
        for side, start in (("before", memory.address - CANARY_BYTES), ("after", memory.address + memory.bytes)):
            raw = np.empty(CANARY_BYTES, np.uint8)
            self._driver.memcpy_dtoh(raw, start)
            damaged = np.flatnonzero(raw != CANARY)
            if damaged.size:
                nearest = CANARY_BYTES - int(damaged[-1]) if side == "before" else int(damaged[0]) + 1
                yield Fault(
                    "out of bounds",
                    f"`{memory.name}`: {damaged.size} bytes {side} it were written, the nearest {nearest} bytes away",
                )

    def _launch_all(self) -> None:
        for upload in self._manifest.uploads:
            symbol, size = self._symbol(upload)
            if upload.bytes > size:
                raise ValueError(f"{upload.bytes} bytes of {upload.argument} for {upload.symbol}, which has {size}")
            if upload.argument in self._memory:
                self._driver.memcpy_dtod(symbol, self._memory[upload.argument].address, upload.bytes)
            else:
                raw = np.asarray(self._argument(upload.argument)).reshape(1).view(np.uint8)
                self._driver.memcpy_htod(symbol, raw[: upload.bytes])
        for space in self._manifest.workspace:
            if space.zeroed and self._memory[space.name].bytes:
                self._driver.memset_d8(self._memory[space.name].address, 0, self._memory[space.name].bytes)
        for launch in self._manifest.launches:
            grid = tuple(evaluate(extent, self._params) for extent in launch.grid)
            if 0 not in grid:
                self._launch(launch, grid)

    def _symbol(self, upload: Upload) -> tuple[int, int]:
        """The address and size of a `__constant__` symbol."""
        if self._own_module:
            return libcuda.driver().symbol(self._own_module, upload.symbol), upload.bytes
        address, size = self._module.get_global(upload.symbol)
        return int(address), int(size)

    def _launch(self, launch: LaunchEntry, grid: tuple[int, ...]) -> None:
        arguments = [self._argument(name) for name in launch.arguments]
        if not self._own_module:
            self._functions[launch.kernel](
                *arguments, grid=grid, block=launch.block, shared=launch.dynamic_shared_bytes
            )
            return
        driver = libcuda.driver()
        function = driver.function(self._own_module, launch.kernel)
        if size := dynamic_limits(self._manifest).get(launch.kernel):
            driver.allow_dynamic_shared(function, size)
        driver.configure(function, launch)
        x, y, z = grid
        maps = [self._tensor_maps[name] for name in launch.tensor_maps]
        values = [*maps, *(argument.tobytes() for argument in arguments)]
        driver.launch(function, (x, y, z), launch.block, launch.dynamic_shared_bytes, 0, values)

    def _argument(self, name: str) -> np.generic:
        if name in self._textures:
            return np.uint64(self._textures[name])
        if name in self._memory:
            return np.uint64(self._memory[name].address)
        for argument in self._manifest.arguments:
            if argument.name == name:
                match argument:
                    case ScalarArgument(dtype=dtype):
                        return pack_number(self._job.scalars[name], DTYPES[dtype])
                    case ParamArgument(dtype=dtype):
                        return pack_number(self._params[name], DTYPES[dtype])
        raise KeyError(name)

    def _timed(self) -> float:
        """Milliseconds of one run; in-out arrays are reset first."""
        for argument in self._manifest.arguments:
            if isinstance(argument, ArrayArgument) and argument.role == "inout":
                self._fill(self._memory[argument.name], self._job.buffers[argument.name])
        start, end = self._driver.Event(), self._driver.Event()
        start.record()
        self._launch_all()
        end.record()
        end.synchronize()
        return float(end.time_since(start))


def _registers(cubin: Cubin, launch: LaunchEntry) -> int:
    kernel = cubin.kernels.get(launch.kernel)
    return kernel.registers if kernel else 0


def _driver() -> ModuleType:
    import pycuda.driver

    driver: ModuleType = pycuda.driver
    return driver


@functools.cache
def _retained(ordinal: int) -> tuple[Any, Any]:
    driver = _driver()
    driver.init()
    if ordinal >= driver.Device.count():
        raise RunError(NO_GPU, f"there is no GPU {ordinal}: {driver.Device.count()} are visible")
    device = driver.Device(ordinal)
    return device, device.retain_primary_context()


@contextmanager
def _current(ordinal: int) -> Iterator[tuple[Any, Any]]:
    driver = _driver()
    device, context = _retained(ordinal)
    context.push()
    try:
        yield driver, device
    finally:
        driver.Context.pop()
