"""The GPU device: loads the cubin and runs the manifest's launch list, through PyCUDA or libcuda."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cugen.abi.codes import NO_GPU, OTHER_ARCHITECTURE, OVER_A_LIMIT
from cugen.abi.errors import RunError
from cugen.abi.limits import check_launch, dynamic_limits
from cugen.abi.manifest import ArrayArgument, LaunchEntry, Manifest, ParamArgument, ScalarArgument
from cugen.abi.sizes import evaluate
from cugen.abi.tensor_maps import tensor_memory
from cugen.abi.textures import texture_memory
from cugen.machine import Target
from cugen.runtime.buffers import CANARY, CANARY_BYTES, poison
from cugen.runtime.cuda import libcuda
from cugen.runtime.cuda.binding import Binding
from cugen.runtime.cuda.choice import binding
from cugen.runtime.device import Buffer, Fault, Job, Outcome
from cugen.runtime.packing import pack_address, pack_number
from cugen.spec.types import DTYPES
from cugen.toolchain.cuda import Cubin, compile_cubin


def available() -> str:
    """Why no GPU can be used, as one line; empty where one can."""
    try:
        count = libcuda.driver().count()
    except RunError as error:
        return error.message
    return "" if count else "the CUDA driver sees no GPU"


class GpuDevice:
    """`ordinal` counts the GPUs visible under CUDA_VISIBLE_DEVICES."""

    name = "gpu"

    def __init__(self, ordinal: int = 0) -> None:
        if reason := available():
            raise RunError(NO_GPU, reason, "cugen doctor says what is missing; cugen run --device cpu needs no GPU")
        if ordinal >= (count := libcuda.driver().count()):
            raise RunError(NO_GPU, f"there is no GPU {ordinal}: {count} are visible")
        self.ordinal = ordinal

    @property
    def capability(self) -> str:
        """Compute capability, such as `sm_90`."""
        return libcuda.driver().capability(self.ordinal)

    def run(self, job: Job) -> Outcome:
        """Runs the launch list once for the results and `repeat` times for timing.

        `buffers` are all array arguments after the first run. Times are between CUDA events around one run, uploads
        included. Errors of the driver during a run are faults. RunError where a launch exceeds the device's limits
        (CG5010), or the kernel is for another architecture (CG5017); CompileError and ToolMissing from the toolchain.
        """
        cubin = compile_cubin(job.source, job.manifest.kernel, target_for(job.manifest, self.capability))
        params = {**job.manifest.params, **job.params}
        limits = libcuda.driver().limits(self.ordinal)
        for launch in job.manifest.launches:
            check_launch(launch, params, limits, _registers(cubin, launch))
        cuda = binding()
        with cuda.current(self.ordinal):
            try:
                result = _Run(cuda, job, params, cubin).outcome()
            finally:
                cuda.release()
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


@dataclass(frozen=True)
class _CanaryBuffer:
    """Device memory between canaries; `address` is that of the content."""

    name: str
    address: int
    bytes: int


class _Run:
    """One job on the current context."""

    def __init__(self, cuda: Binding, job: Job, params: Mapping[str, int], cubin: Cubin) -> None:
        self._cuda = cuda
        self._job = job
        self._params = params
        self._manifest = job.manifest
        self._module = cuda.load(cubin.image)
        for kernel, size in dynamic_limits(job.manifest).items():
            self._module.kernel(kernel).allow_dynamic_shared(size)
        for launch in job.manifest.launches:
            self._module.kernel(launch.kernel).configure(launch)
        self._memory: dict[str, _CanaryBuffer] = {}
        self._textures: dict[str, int] = {}
        self._tensor_maps: dict[str, bytes] = {}

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
            self._cuda.synchronize()
            buffers = {name: self._fetch(name) for name in self._job.buffers}
            faults = [fault for memory in self._memory.values() for fault in self._canary_faults(memory)]
            times = tuple(self._timed() for _ in range(self._job.repeat))
            for texture in filter(None, self._textures.values()):
                libcuda.driver().destroy_texture(texture)
        except RunError as error:
            # After a sticky error the context is unusable: buffers can't be read back.
            fault = Fault("driver", f"the CUDA driver reported: {error.message}")
            return Outcome(dict(self._job.buffers), faults=(fault,))
        return Outcome(buffers, times, faults=tuple(faults))

    def _allocate(self, name: str, content: Buffer, kind: str) -> _CanaryBuffer:
        size = content.nbytes
        base = self._cuda.allocate(size + 2 * CANARY_BYTES, kind)
        self._cuda.set_bytes(base, CANARY, CANARY_BYTES)
        self._cuda.set_bytes(base + CANARY_BYTES + size, CANARY, CANARY_BYTES)
        memory = _CanaryBuffer(name, base + CANARY_BYTES, size)
        self._fill(memory, content)
        return memory

    def _fill(self, memory: _CanaryBuffer, content: Buffer) -> None:
        if memory.bytes:
            self._cuda.upload(memory.address, np.ascontiguousarray(content).view(np.uint8))

    def _fetch(self, name: str) -> Buffer:
        content = np.empty_like(self._job.buffers[name])
        if content.nbytes:
            raw = content.view(np.uint8)
            self._cuda.fetch(raw, self._memory[name].address)
        return content

    def _canary_faults(self, memory: _CanaryBuffer) -> Iterator[Fault]:
        for side, start in (("before", memory.address - CANARY_BYTES), ("after", memory.address + memory.bytes)):
            raw = np.empty(CANARY_BYTES, np.uint8)
            self._cuda.fetch(raw, start)
            damaged = np.flatnonzero(raw != CANARY)
            if damaged.size:
                nearest = CANARY_BYTES - int(damaged[-1]) if side == "before" else int(damaged[0]) + 1
                yield Fault(
                    "out of bounds",
                    f"`{memory.name}`: {damaged.size} bytes {side} it were written, the nearest {nearest} bytes away",
                )

    def _launch_all(self) -> None:
        for upload in self._manifest.uploads:
            symbol = self._module.symbol(upload.symbol)
            if upload.argument in self._memory:
                self._cuda.copy(symbol, self._memory[upload.argument].address, upload.bytes)
            else:
                self._cuda.store(symbol, self._argument(upload.argument)[: upload.bytes])
        for space in self._manifest.workspace:
            if space.zeroed and self._memory[space.name].bytes:
                self._cuda.set_bytes(self._memory[space.name].address, 0, self._memory[space.name].bytes)
        for launch in self._manifest.launches:
            x, y, z = (evaluate(extent, self._params) for extent in launch.grid)
            if 0 not in (x, y, z):
                maps = [self._tensor_maps[name] for name in launch.tensor_maps]
                arguments = [*maps, *(self._argument(name) for name in launch.arguments)]
                kernel = self._module.kernel(launch.kernel)
                kernel.launch((x, y, z), launch.block, launch.dynamic_shared_bytes, None, arguments)

    def _argument(self, name: str) -> bytes:
        if name in self._textures:
            return pack_address(self._textures[name])
        if name in self._memory:
            return pack_address(self._memory[name].address)
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
        timer = self._cuda.timer()
        timer.start(None)
        self._launch_all()
        timer.stop(None)
        return timer.milliseconds()


def _registers(cubin: Cubin, launch: LaunchEntry) -> int:
    kernel = cubin.kernels.get(launch.kernel)
    return kernel.registers if kernel else 0
