"""Compilation of a .cu to a cubin or PTX, by NVRTC or nvcc, with the resources of each kernel."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cugen.toolchain import cache, locations, messages, nvcc, nvrtc
from cugen.toolchain.binary import elf
from cugen.toolchain.binary.main_loops import spills_in_main_loop
from cugen.toolchain.codes import TARGET_UNKNOWN
from cugen.toolchain.errors import CompileError, ToolMissing

CompilerName = Literal["nvcc", "nvrtc"]

_COMMON = ("-std=c++17",)
_UNKNOWN_TARGET = re.compile(r"[Uu]nsupported gpu architecture|invalid value for --gpu-architecture")
_WGMMA = "wgmma.mma_async"
_CURE = "pip install 'cuda-toolkit[nvrtc,cudart,cccl,crt]==13.0.*', or install CUDA's toolkit"


@dataclass(frozen=True, slots=True)
class KernelResources:
    """Resources of one compiled kernel, in bytes; spills and stack are per thread.

    `shared_bytes` is static. `constant_bytes` are the `__constant__` variables of the whole module. Spills are from
    ptxas' report, since a cubin doesn't have them.
    """

    registers: int
    shared_bytes: int
    spill_stores: int
    spill_loads: int
    stack_bytes: int
    constant_bytes: int


@dataclass(frozen=True, slots=True)
class Cubin:
    """A module for one architecture. `compiler` is such as "nvrtc 13.0"; `seconds` is the duration of the call."""

    image: bytes = field(repr=False)
    log: str
    kernels: Mapping[str, KernelResources]
    seconds: float
    compiler: str
    cached: bool

    @property
    def warnings(self) -> tuple[messages.Message, ...]:
        return messages.warnings(self.log)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A CUDA compiler of this machine; `identity` identifies the build in cache keys."""

    name: CompilerName
    version: str
    identity: str


def compilers() -> tuple[Compiler, ...]:
    """The CUDA compilers of this machine, NVRTC first: it is faster and generates the same code."""
    available: list[Compiler] = []
    if library := nvrtc.find():
        available.append(Compiler("nvrtc", library.version, _file_identity(library.path)))
    if program := nvcc.find():
        available.append(Compiler("nvcc", program.version, f"{program.path} {program.build}"))
    return tuple(available)


def compile_cubin(
    source: str,
    name: str,
    target: str,
    *,
    prefer: CompilerName | None = None,
    flags: Sequence[str] = (),
    lines: bool = True,
) -> Cubin:
    """Compiles `source` for exactly `target` ("sm_90", "sm_90a").

    `name` is the kernel's stem or file name in messages and line tables. Without `lines` the cubin has no line table,
    which contains the folder of the compilation, and is reproducible. `flags` are passed to the compiler; both support
    `--maxrregcount=N` and `-D NAME=VALUE`. `prefer` requires one compiler.
    ToolMissing without a compiler; CompileError for the source (CG4001), also where ptxas serialises wgmmas or spills
    registers in their loop, or for the target (CG4003).
    """
    compiler = _chosen(prefer)
    options = [f"-arch={target}", *_COMMON, *_lines(lines), *_verbose(compiler), *flags]
    image, log, entry = _through_cache(compiler, source, _file_name(name), options, target, ptx=False)
    spilled = messages.spills(log)
    if _WGMMA in source and (reason := _wgmma_fault(source, image, log, spilled)):
        raise CompileError([f"{compiler.name}-{compiler.version}", *options], log, _file_name(name), reason=reason)
    no_spills = messages.Spills(0, 0)
    kernels = {
        kernel: KernelResources(
            registers=section.registers,
            shared_bytes=section.shared_bytes,
            spill_stores=spilled.get(kernel, no_spills).stores,
            spill_loads=spilled.get(kernel, no_spills).loads,
            stack_bytes=section.stack_bytes,
            constant_bytes=section.constant_bytes,
        )
        for kernel, section in elf.kernels(image).items()
    }
    return Cubin(image, log, kernels, entry.seconds, f"{compiler.name} {compiler.version}", entry.cached)


def compile_ptx(
    source: str,
    name: str,
    target: str,
    *,
    prefer: CompilerName | None = None,
    flags: Sequence[str] = (),
    lines: bool = True,
) -> str:
    """The PTX of `source` for the virtual architecture of `target`. Arguments and errors as for `compile_cubin`."""
    compiler = _chosen(prefer)
    options = [f"-arch={target.replace('sm_', 'compute_')}", *_COMMON, *_lines(lines), *flags]
    image, _, _ = _through_cache(compiler, source, _file_name(name), options, target, ptx=True)
    return image.decode()


def _wgmma_fault(source: str, image: bytes, log: str, spilled: Mapping[str, messages.Spills]) -> str:
    """Why a kernel with wgmmas is slow: ptxas serialises them, or spills registers in their loop (20 times slower,
    measured on an H200). Empty if it doesn't."""
    for kernel, why in messages.serialised_wgmmas(log).items():
        return f"ptxas serialises the wgmmas of {kernel} ({why})"
    for kernel, spills in spilled.items():
        if (spills.stores or spills.loads) and spills_in_main_loop(image, kernel):
            return f"{kernel} spills registers beside wgmma: {spills.stores} bytes stored, {spills.loads} loaded"
    return ""


def _chosen(prefer: CompilerName | None) -> Compiler:
    if prefer == "nvcc":
        nvcc.require()
    elif prefer == "nvrtc":
        nvrtc.require()
    for compiler in compilers():
        if prefer in (None, compiler.name):
            return compiler
    raise ToolMissing("a CUDA compiler (NVRTC or nvcc)", _CURE)


def _through_cache(
    compiler: Compiler, source: str, name: str, options: Sequence[str], target: str, *, ptx: bool
) -> tuple[bytes, str, cache.Entry]:
    includes = locations.include_folders(Path(nvrtc.require().path)) if compiler.name == "nvrtc" else ()
    if compiler.name == "nvrtc" and not includes and re.search(r"#\s*include\s*<", source):
        raise ToolMissing("CUDA's headers (cuda_fp16.h)", _CURE)
    paths = [f"--include-path={folder}" for folder in includes]
    key = cache.key(
        kind="ptx" if ptx else "cubin",
        sources={name: source},
        flags=[*options, *paths],
        compiler=f"{compiler.name} {compiler.version} {compiler.identity}",
        includes=(),  # the headers are identified by the compiler's build
    )

    def build(folder: Path) -> None:
        image, log = _run(compiler, folder)(source, name, [*options, *paths], ptx=ptx)
        (folder / "image").write_bytes(image)
        (folder / "log.json").write_text(json.dumps(log))

    try:
        entry = cache.get(key, build)
    except CompileError as error:
        if _UNKNOWN_TARGET.search(error.output):
            reason = f"{compiler.name} {compiler.version} can't compile for {target}{_known(compiler)}"
            raise CompileError(error.command, error.output, name, code=TARGET_UNKNOWN, reason=reason) from error
        raise
    return (entry.path / "image").read_bytes(), json.loads((entry.path / "log.json").read_text()), entry


def _run(compiler: Compiler, folder: Path) -> Callable[..., tuple[bytes, str]]:
    if compiler.name == "nvrtc":
        return nvrtc.compile
    return lambda source, name, options, ptx: nvcc.compile(source, name, options, folder, ptx=ptx)


def _lines(enabled: bool) -> tuple[str, ...]:
    return ("-lineinfo",) if enabled else ()


def _verbose(compiler: Compiler) -> tuple[str, ...]:
    return ("--ptxas-options=-v",) if compiler.name == "nvrtc" else ("-Xptxas", "-v")


def _known(compiler: Compiler) -> str:
    if compiler.name == "nvcc":
        return ""
    return ", only for " + ", ".join(f"sm_{number}" for number in nvrtc.require().targets)


def _file_name(name: str) -> str:
    return name if name.endswith(".cu") else f"{name}.cu"


def _file_identity(path: str) -> str:
    file = Path(path)
    if not file.is_file():  # a bare name, resolved by the system's linker
        return path
    state = file.stat()
    return f"{path} {state.st_size} {state.st_mtime_ns}"
