"""The folder of a job: input and output files of the child process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cugen.abi.limits import Limits, check_launch
from cugen.abi.manifest import ArrayArgument, Manifest, ParamArgument
from cugen.abi.sizes import evaluate
from cugen.abi.tensor_maps import tensor_memory
from cugen.abi.textures import ADDRESS_MODES, texture_memory
from cugen.machine.table import target
from cugen.runtime.cpu.symbols import SharedArray
from cugen.runtime.device import Buffer, Job
from cugen.runtime.packing import pack_number
from cugen.spec.types import DTYPES, Kind

_WORKSPACE_ALIGNMENT = 256  # of cudaMalloc
_CHANNELS = {Kind.INT: 0, Kind.UINT: 1, Kind.FLOAT: 2}  # values of cudaChannelFormatKind


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of a run."""

    workers: int
    is_serial: bool  # one worker, and shared memory is static, not thread-local
    shuffle: int | None
    trace: bool
    uninitialised: bool = False  # whether reads of shared memory without a value are faults


def write_job(folder: Path, job: Job, settings: Settings, shared: Iterable[SharedArray]) -> None:
    """Writes job.txt and the files of buffers. RunError (CG5010) where a launch exceeds the target's limits."""
    text = "".join(f"{line}\n" for line in _lines(job, settings, shared))
    for argument in job.manifest.arguments:
        if isinstance(argument, ArrayArgument):
            np.ascontiguousarray(job.buffers[argument.name]).view(np.uint8).tofile(folder / f"{argument.name}.in")
    (folder / "job.txt").write_text(text)


def read_outputs(folder: Path, job: Job) -> dict[str, Buffer]:
    """Buffers after the first run; unchanged ones where the child wrote no file."""
    result = dict(job.buffers)
    for name, buffer in job.buffers.items():
        path = folder / f"{name}.out"
        if path.exists():
            result[name] = np.fromfile(path, np.uint8).view(buffer.dtype).reshape(buffer.shape)
    return result


def _lines(job: Job, settings: Settings, shared: Iterable[SharedArray]) -> Iterable[str]:
    manifest = job.manifest
    params = {**manifest.params, **job.params}
    yield f"repeat {job.repeat}"
    yield f"workers {settings.workers}"
    if settings.shuffle is not None:
        yield f"shuffle {settings.shuffle}"
    if settings.trace:
        yield "trace"
    if settings.uninitialised:
        yield "uninitialised"
    for argument in manifest.arguments:
        if isinstance(argument, ArrayArgument):
            size = job.buffers[argument.name].nbytes
            yield f"buffer {argument.name} {argument.role} {size} {argument.alignment}"
        else:
            value = params[argument.name] if isinstance(argument, ParamArgument) else job.scalars[argument.name]
            yield f"value {argument.name} {pack_number(value, DTYPES[argument.dtype]).hex()}"
    for space in manifest.workspace:
        size = evaluate(space.elements, params) * DTYPES[space.dtype].bytes
        yield f"buffer {space.name} {'zeroed' if space.zeroed else 'workspace'} {size} {_WORKSPACE_ALIGNMENT}"
    for upload in manifest.uploads:
        yield f"upload {upload.symbol} {upload.argument} {upload.bytes}"
    for name, memory in texture_memory(manifest, params):
        dtype = DTYPES[memory.dtype]
        item = f"{name} {_CHANNELS[dtype.kind]} {dtype.bits} {memory.elements}"
        if memory.is_2d:
            mode = ADDRESS_MODES.index(memory.address_mode)
            item += f" {memory.width} {memory.height} {memory.pitch}"
            item += f" {mode} {int(memory.is_normalized)} {int(memory.is_linear)}"
        yield f"texture {item}"
    for name, source, tensor in tensor_memory(manifest, params):
        head = (name, source, DTYPES[tensor.dtype].bytes, tensor.swizzle, int(tensor.tf32), len(tensor.sizes))
        pixels = (int(bool(tensor.steps)), *tensor.lower, *tensor.upper, *tensor.steps)
        yield " ".join(map(str, ("tensor_map", *head, *tensor.sizes, *tensor.strides, *tensor.box, *pixels)))
    storage = "shared" if settings.is_serial else "thread_local"
    for array in shared:
        yield f"{storage} {array.name} {array.address} {array.bytes}"
    yield from _launches(manifest, params)


def _launches(manifest: Manifest, params: Mapping[str, int]) -> Iterable[str]:
    limits = target_limits(manifest.target)
    for launch in manifest.launches:
        numbers = (*check_launch(launch, params, limits), *launch.block, launch.dynamic_shared_bytes)
        yield " ".join(("launch", launch.kernel, *map(str, numbers), *launch.tensor_maps, *launch.arguments))


def target_limits(name: str) -> Limits:
    """Launch limits of the target `name`."""
    known = target(name)
    return Limits(
        device=known.name,
        threads=known.threads_per_block,
        block=(1024, 1024, 64),
        grid=known.grid,
        shared_bytes=max(known.shared_opt_in, known.shared_per_block),
        registers=known.registers_per_block,
    )
