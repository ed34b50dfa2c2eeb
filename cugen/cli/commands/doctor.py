"""Show what this machine supports, and how to install what is missing."""

from __future__ import annotations

import argparse
import importlib.util
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cugen.cli.failures import CANNOT_HERE, DONE, PACKAGES
from cugen.cli.text.layout import fit
from cugen.cli.text.terminal import paint, show
from cugen.version import __version__

_PROBE = "#include <thread>\n#include <vector>\nint main() { return std::vector<int>(1).at(0); }\n"
_INDENT = 24  # characters before the version, lack and cure of a requirement
_PLATFORMS = (("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "x86_64"), ("Darwin", "arm64"))


@dataclass(frozen=True, slots=True)
class Finding:
    """Status of a requirement: its `version`, or, if empty, what is missing (`lack`) and how to install it (`cure`)."""

    name: str
    purpose: str
    version: str = ""
    lack: str = ""
    cure: str = ""
    needed: bool = False  # by `run --device cpu`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Exit status: 0 if `cugen run --device cpu` works, else 3."


def execute(args: argparse.Namespace) -> int:
    findings = []
    show(f"cugen {__version__}, Python {platform.python_version()} at {sys.executable}")
    for check in _CHECKS:
        finding = check()
        findings.append(finding)
        if not args.quiet or not finding.version:
            print(fit("\n".join(_lines(finding)), sys.stdout, indent=_INDENT), flush=True)
    works = all(finding.version for finding in findings if finding.needed)
    verdict = "works" if works else "doesn't work"
    show(f"\n`cugen run --device cpu` {paint(verdict, 'green' if works else 'red', sys.stdout)} on this machine")
    return DONE if works else CANNOT_HERE


def _lines(finding: Finding) -> Iterator[str]:
    state, style = ("ok", "green") if finding.version else ("missing", "red" if finding.needed else "yellow")
    yield f"{paint(f'{state:<8}', style, sys.stdout)} {finding.name:<14} {finding.version or finding.lack}"
    if not finding.version:
        yield f"{'':<8} {'':<14} for: {finding.purpose}"
        yield f"{'':<8} {'':<14} fix: {finding.cure}"


def _platform() -> Finding:
    system, machine = platform.system(), platform.machine()
    name = f"{system} {machine}"
    if (system, machine) in _PLATFORMS:
        return Finding("platform", "", version=name, needed=True)
    cure = "use Linux on x86-64 or AArch64; generating works everywhere"
    return Finding("platform", "running kernels", lack=f"{name} is not supported", cure=cure, needed=True)


def _packages() -> Finding:
    missing = [package for module, package in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if not missing:
        return Finding("packages", "", version=", ".join(PACKAGES.values()), needed=True)
    lack, cure = f"{', '.join(missing)} of Python", f"{sys.executable} -m pip install {' '.join(missing)}"
    return Finding("packages", "all commands", lack=lack, cure=cure, needed=True)


def _cache() -> Finding:
    from cugen.toolchain.cache import folder

    cache_folder = folder()
    try:
        cache_folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cache_folder):
            pass
    except OSError as error:
        lack = f"{cache_folder} can't be written to: {error.strerror}"
        cure = "set the environment variable CUGEN_CACHE_DIR to another folder"
        return Finding("cache", "compiling the same only once", lack=lack, cure=cure)
    return Finding("cache", "", version=str(cache_folder))


def _host_compiler() -> Finding:
    from cugen.toolchain import host
    from cugen.toolchain.errors import CompileError, ToolMissing

    purpose = "cugen run --device cpu"
    try:
        used = host.compiler()
        host.build({"probe.cpp": _PROBE}, "probe.cpp", ("-std=c++17", "-pthread"))
    except ToolMissing as error:
        return Finding("C++ compiler", purpose, lack=f"{error.tool} {error.problem}", cure=error.cure, needed=True)
    except CompileError as error:
        lack = f"it can't build a small program: {_first_line(error.output)}"
        cure = "install its standard library (`apt install g++`, `dnf install gcc-c++`), or set CXX to another compiler"
        return Finding("C++ compiler", purpose, lack=lack, cure=cure, needed=True)
    except OSError as error:
        return Finding("C++ compiler", purpose, lack=str(error), cure="fix the cache first", needed=True)
    return Finding("C++ compiler", purpose, version=f"{used.version} at {used.path}", needed=True)


def _sanitizers() -> Finding:
    from cugen.toolchain import host
    from cugen.toolchain.errors import CompileError, ToolMissing

    purpose = "cugen run --device cpu --sanitize"
    cure = "install the compiler's sanitizers (`apt install libasan8 libubsan1`, `dnf install libasan libubsan`)"
    try:
        host.build({"probe.cpp": _PROBE}, "probe.cpp", ("-std=c++17", "-fsanitize=address,undefined"))
    except ToolMissing as error:
        return Finding("sanitizers", purpose, lack="there is no C++ compiler that works", cure=error.cure)
    except CompileError as error:
        return Finding("sanitizers", purpose, lack=_first_line(error.output), cure=cure)
    except OSError as error:
        return Finding("sanitizers", purpose, lack=str(error), cure="fix the cache first")
    return Finding("sanitizers", purpose, version="AddressSanitizer, UndefinedBehaviorSanitizer")


def _nvrtc() -> Finding:
    from cugen.toolchain import nvrtc
    from cugen.toolchain.errors import ToolMissing

    try:
        version = nvrtc.require()
    except ToolMissing as error:
        return Finding("NVRTC", "the GPU, and figures of registers", lack="it was not found", cure=error.cure)
    targets = f"sm_{version.targets[0]} to sm_{version.targets[-1]}" if version.targets else "no target"
    return Finding("NVRTC", "", version=f"{version.version} at {version.path}, for {targets}")


def _nvcc() -> Finding:
    from cugen.toolchain import nvcc
    from cugen.toolchain.errors import ToolMissing

    try:
        version = nvcc.require()
    except ToolMissing as error:
        return Finding("nvcc", "building generated files into programs", lack="it was not found", cure=error.cure)
    return Finding("nvcc", "", version=f"{version.version} at {version.path}")


def _headers() -> Finding:
    from cugen.toolchain.locations import include_folders

    if folders := include_folders():
        return Finding("CUDA headers", "", version=str(folders[0]))
    cure = "pip install 'cuda-toolkit[nvrtc,cudart,cccl,crt]==13.0.*', or set CUDA_HOME to a CUDA toolkit"
    return Finding("CUDA headers", "kernels with 16- and 8-bit floats", lack="cuda_fp16.h was not found", cure=cure)


def _disassembler() -> Finding:
    from cugen.toolchain.locations import program

    if version := program("nvdisasm"):
        return Finding("nvdisasm", "", version=str(version))
    cure = "pip install nvidia-cuda-nvdisasm, or install the CUDA toolkit and add its bin folder to PATH"
    return Finding("nvdisasm", "cugen inspect --what sass", lack="it was not found", cure=cure)


def _gpu() -> Finding:
    from cugen.abi.errors import RunError
    from cugen.machine import architecture_specific
    from cugen.runtime.cuda.libcuda import driver
    from cugen.toolchain import pycuda

    purpose = "cugen run --device gpu, and calling compiled kernels"
    try:
        version = driver()
        capability = version.capability(0)
        specific = architecture_specific(capability)
        also = f"; target {specific} has its own instructions" if specific != capability else ""
        return Finding("GPU", purpose, version=f"{version.limits(0).device} ({capability}{also})")
    except RunError as error:
        return Finding("GPU", purpose, lack=error.message, cure=pycuda.INSTALL_DRIVER)


def _pycuda() -> Finding:
    from cugen.toolchain import pycuda

    purpose = "cugen run, bench and tune on a GPU; without it, kernels run through the driver alone"
    state = pycuda.state()
    if state.version and not state.error:
        return Finding("PyCUDA", purpose, version=state.version)
    lack = f"{state.version} can't be imported: {state.error}" if state.version else "it is not installed"
    cure = pycuda.INSTALL_DRIVER if state.needs_driver else "cugen setup gpu"
    return Finding("PyCUDA", purpose, lack=lack, cure=cure)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no output")


_CHECKS: tuple[Callable[[], Finding], ...] = (
    _platform,
    _packages,
    _cache,
    _host_compiler,
    _sanitizers,
    _nvrtc,
    _nvcc,
    _headers,
    _disassembler,
    _gpu,
    _pycuda,
)
