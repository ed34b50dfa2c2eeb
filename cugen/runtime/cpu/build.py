"""Build of the child process: the runtime once per kind of build, a harness per .cu."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from cugen.abi.manifest import Manifest
from cugen.runtime.cpu.harness import HARNESS_NAME, harness
from cugen.runtime.cpu.source import Declarations
from cugen.toolchain import host

_HERE = Path(__file__).parent
_INCLUDES = (_HERE / "include",)
_RUNTIME = _HERE / "runtime"

# Semantics of specs: integers wrap, pointers may alias, no FMA contraction.
_COMMON = (
    "-std=c++17",
    "-w",
    "-g1",
    "-gdwarf-4",  # with version 5 addr2line of binutils 2.40 names the harness in place of the .cu
    "-pthread",
    "-fwrapv",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-math-errno",
)


class Kind(Enum):
    """Kinds of builds."""

    FAST = "fast"
    SANITIZED = "sanitized"
    TRACED = "traced"


# AddressSanitizer names the arrays, which object-size doesn't.
_SANITIZERS = (
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize=object-size",
    "-fno-sanitize-recover=all",
)
_FLAGS = {
    Kind.FAST: ("-O2",),
    Kind.SANITIZED: ("-O1", "-fno-omit-frame-pointer", *_SANITIZERS),
    # With -O1 g++ removes accesses and splits vectors before instrumentation. Thread-safe statics would guard arrays of
    # __half by an undefined atomic.
    Kind.TRACED: ("-O0", "-fno-threadsafe-statics"),
}
_RUNTIME_FLAGS = {
    Kind.FAST: (),
    Kind.SANITIZED: ("-DCUGEN_ADDRESS_SANITIZER",),
    Kind.TRACED: ("-DCUGEN_TRACE",),
}


@dataclass(frozen=True, slots=True)
class Program:
    """An executable that runs jobs, and the duration of its build."""

    path: Path
    seconds: float


def build(source: str, manifest: Manifest, declarations: Declarations, kind: Kind) -> Program:
    """The program for `source`. CompileError and ToolMissing from the toolchain."""
    runtime = _runtime(kind)
    sources = {
        HARNESS_NAME: harness(manifest, declarations, one_worker=has_one_worker(manifest, kind)),
        f"{manifest.kernel}.cu": source,
    }
    flags = (*_COMMON, *_FLAGS[kind])
    if kind is not Kind.TRACED:
        built = host.build(sources, HARNESS_NAME, (*flags, str(runtime.path)), _INCLUDES)
        return Program(built.path, runtime.seconds + built.seconds)
    # Linked without -fsanitize=thread, which would add ThreadSanitizer's runtime.
    kernels = host.build(sources, HARNESS_NAME, (*flags, "-fsanitize=thread", "-c"), _INCLUDES)
    objects = (str(kernels.path), str(runtime.path))
    linked = host.build({"program.cpp": ""}, "program.cpp", (*flags, *objects))
    return Program(linked.path, runtime.seconds + kernels.seconds + linked.seconds)


def has_one_worker(manifest: Manifest, kind: Kind) -> bool:
    """Whether a single worker runs all blocks: for sanitizers, traces and clusters, which need static shared memory."""
    return kind is not Kind.FAST or any(launch.cluster > 1 for launch in manifest.launches)


def _runtime(kind: Kind) -> host.Built:
    flags = (*_COMMON, "-O2", *_RUNTIME_FLAGS[kind], "-include", "cugen_cpu.h", "-c")
    return host.build(_runtime_sources(), "main.cpp", flags, _INCLUDES)


@functools.cache
def _runtime_sources() -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(_RUNTIME.iterdir()) if path.suffix in (".h", ".cpp")}
