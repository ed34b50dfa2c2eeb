"""PyCUDA, which has no wheels: building it from source against the CUDA headers of this machine.

Without help, PyCUDA's build looks beside the nvcc of PATH, which may be a link or a script, or not be there, and ends
in pages of C++ errors.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cugen import temporary
from cugen.toolchain import host, locations, nvcc, process
from cugen.toolchain.errors import BuildError, CompileError, ToolMissing

REQUIREMENT = "pycuda>=2025.1"
INSTALL_DRIVER = "install NVIDIA's driver (https://www.nvidia.com/drivers); in a container, pass --gpus all"

# The headers that PyCUDA includes, and what brings them.
_HEADERS = {
    "cuda.h": "pip install 'cugen[cuda]', or set CUDA_HOME to a CUDA toolkit",
    "cudaProfiler.h": "pip install nvidia-cuda-profiler-api, or install the toolkit's package cuda-profiler-api",
}
_DRIVER = "libcuda.so.1"
# What the log of a failed build says, why it failed, and the cure.
_FAILURES = (
    (
        r"externally-managed-environment",
        "pip may not install into this Python, which belongs to the system",
        "python3 -m venv .venv && . .venv/bin/activate, then install cugen there",
    ),
    (
        r"No matching distribution found for (\S+)",
        "pip found no `{}` to download",
        "`pip config list` shows the package index that pip asks; `pip download {}` must work",
    ),
    (
        r"Permission denied: '([^']+)'",
        "pip may not write to {}",
        "python3 -m venv .venv && . .venv/bin/activate, then install cugen there",
    ),
    (r"([^\s:]+:\d+:\d+: (?:fatal )?error: .+)", "the C++ compiler says: {}", "set CUDA_HOME to another CUDA toolkit"),
    (r"(?m)^\s*(?:ERROR|error): (.+)$", "pip says: {}", "the log has the whole output"),
)


@dataclass(frozen=True, slots=True)
class State:
    """PyCUDA of this environment: its `version`, empty if it is not installed, and the `error` of its import."""

    version: str = ""
    error: str = ""

    @property
    def needs_driver(self) -> bool:
        """Whether it is built, and NVIDIA's driver is all that is missing."""
        return _DRIVER in self.error


def state() -> State:
    """Imports PyCUDA in another process."""
    importlib.invalidate_caches()
    try:
        version = importlib.metadata.version("pycuda")
    except importlib.metadata.PackageNotFoundError:
        return State()
    done = process.run([sys.executable, "-c", "import pycuda.driver"], "pycuda")
    if not done.status:
        return State(version)
    lines = done.output.strip().splitlines()
    return State(version, lines[-1] if lines else f"its import ends Python with status {done.status}")


def header_folders() -> tuple[Path, ...]:
    """Folders of the CUDA headers that PyCUDA includes, of the first toolkit that has them; ToolMissing."""
    folders: list[Path] = []
    for header, cure in _HEADERS.items():
        folder = next((folder for folder in _include_folders() if (folder / header).is_file()), None)
        if folder is None:
            raise ToolMissing(f"CUDA's header {header}", cure)
        folders.append(folder)
    return tuple(dict.fromkeys(folders))


def build(headers: tuple[Path, ...], log: Path, progress: Callable[[float], None]) -> None:
    """Installs PyCUDA into this environment, also in place of one that can't be imported.

    `progress` is called once a second with the seconds since the start. ToolMissing for what is known to be missing;
    BuildError (CG4005) names the log.
    """
    compiler = host.compiler()
    if importlib.util.find_spec("pip") is None:
        raise ToolMissing("pip", "python -m ensurepip, or uv pip install pip")
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        raise ToolMissing("Python.h", "apt install python3-dev, dnf install python3-devel, or another Python")
    log.parent.mkdir(parents=True, exist_ok=True)
    with temporary.working_folder() as folder:
        _check_headers(headers, compiler, folder, log)
        # PyCUDA is linked with this empty library, since only the driver has the real one.
        stub = [*compiler.command, "-shared", "-x", "c++", os.devnull, f"-Wl,-soname,{_DRIVER}", "-o", "libcuda.so"]
        process.compile_with(stub, "libcuda.so", folder)
        command = _pip_command(headers, folder, is_installed=bool(state().version))
        # Without the flag, a linker that drops unused libraries would drop the empty one.
        flags = f"{os.environ.get('LDFLAGS', '')} -Wl,--no-as-needed"
        compilers = dict.fromkeys(("CC", "CXX"), shlex.join(compiler.command))
        status = _run(command, {**compilers, **os.environ, "LDFLAGS": flags, "LC_ALL": "C"}, log, progress)
    if status:
        reason, cure = _failure(log.read_text(errors="replace"))
        raise BuildError("PyCUDA", reason, cure, log)


def _check_headers(headers: tuple[Path, ...], compiler: host.HostCompiler, folder: Path, log: Path) -> None:
    """Compiles them alone, which takes a second; PyCUDA's build takes minutes to come to them. BuildError."""
    (folder / "probe.cpp").write_text("".join(f"#include <{header}>\n" for header in _HEADERS))
    includes = [f"-I{header}" for header in headers]
    command = [*compiler.command, *includes, "-c", "probe.cpp", "-o", "probe.o"]
    try:
        process.compile_with(command, "probe.cpp", folder)
    except CompileError as error:
        log.write_text(error.output)
        raise BuildError("PyCUDA", *_failure(error.output), log) from error


def _pip_command(headers: tuple[Path, ...], library: Path, *, is_installed: bool) -> list[str]:
    options = [
        "--conf:CUDA_ENABLE_CURAND=False",  # its library would have to be found at every import
        f"--conf:CUDA_INC_DIR={list(map(str, headers))!r}",
        f"--conf:CUDADRV_LIB_DIR={[str(library)]!r}",
    ]
    return [
        *(sys.executable, "-m", "pip", "install", "--verbose", "--no-input", "--disable-pip-version-check"),
        *("--no-binary", "pycuda", "--no-cache-dir"),  # the cache may have a wheel built against another toolkit
        *(("--force-reinstall", "--no-deps") if is_installed else ()),
        f"--config-settings=--global-option={shlex.join(options)}",
        REQUIREMENT,
    ]


def _run(command: list[str], environment: Mapping[str, str], log: Path, progress: Callable[[float], None]) -> int:
    started = time.monotonic()
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        ) as child,
    ):
        while True:
            progress(time.monotonic() - started)
            try:
                return child.wait(timeout=1)
            except subprocess.TimeoutExpired:
                continue


def _failure(log: str) -> tuple[str, str]:
    for pattern, reason, cure in _FAILURES:
        if match := re.search(pattern, log):
            return reason.format(*match.groups()), cure.format(*match.groups())
    return "pip failed", "the log has its output"


def _include_folders() -> Iterator[Path]:
    for root in _roots():
        yield from (root / folder for folder in locations.INCLUDES)


def _roots() -> Iterator[Path]:
    yield from locations.roots()
    if (compiler := nvcc.find()) and (root := nvcc.toolkit(compiler)):
        yield root
