"""Building the child: the runtime once for each kind of build, a small harness for each .cu."""

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

# Signed integers wrap, pointers alias and nothing is contracted, as the language of specs says and nvcc does.
_COMMON = (
    "-std=c++17",
    "-w",
    "-g1",
    "-gdwarf-4",  # in version 5 addr2line of binutils 2.40 takes the harness for the .cu
    "-pthread",
    "-fwrapv",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-math-errno",
)


class Kind(Enum):
    """What a build is for; the values name it in file names."""

    FAST = "fast"
    SANITIZED = "sanitized"
    TRACED = "traced"


# AddressSanitizer knows the arrays that object-size would report without their names.
_SANITIZERS = (
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize=object-size",
    "-fno-sanitize-recover=all",
)
_FLAGS = {
    Kind.FAST: ("-O2",),
    Kind.SANITIZED: ("-O1", "-fno-omit-frame-pointer", *_SANITIZERS),
    # From -O1 on g++ drops accesses and splits vectors before it instruments what is left.
    # g++ guards even static arrays of __half, whose constructor does nothing, by an atomic that nobody here defines.
    Kind.TRACED: ("-O0", "-fno-threadsafe-statics"),
}
_RUNTIME_FLAGS = {
    Kind.FAST: (),
    Kind.SANITIZED: ("-DCUGEN_ADDRESS_SANITIZER",),
    Kind.TRACED: ("-DCUGEN_TRACE",),
}


@dataclass(frozen=True, slots=True)
class Program:
    """An executable that plays jobs, and how long this call took to make it."""

    path: Path
    seconds: float


def build(source: str, manifest: Manifest, found: Declarations, kind: Kind) -> Program:
    """The child for `source`. CompileError and ToolMissing come from the toolchain."""
    runtime = _runtime(kind)
    sources = {
        HARNESS_NAME: harness(manifest, found, one_worker=has_one_worker(manifest, kind)),
        f"{manifest.kernel}.cu": source,
    }
    flags = (*_COMMON, *_FLAGS[kind])
    if kind is not Kind.TRACED:
        built = host.build(sources, HARNESS_NAME, (*flags, str(runtime.path)), _INCLUDES)
        return Program(built.path, runtime.seconds + built.seconds)
    # Linked apart and without -fsanitize=thread, which would bring that sanitizer's own runtime.
    kernels = host.build(sources, HARNESS_NAME, (*flags, "-fsanitize=thread", "-c"), _INCLUDES)
    objects = (str(kernels.path), str(runtime.path))
    linked = host.build({"program.cpp": ""}, "program.cpp", (*flags, *objects))
    return Program(linked.path, runtime.seconds + kernels.seconds + linked.seconds)


def has_one_worker(manifest: Manifest, kind: Kind) -> bool:
    """Whether shared memory is one for all blocks: so that it can be watched, or the blocks of a cluster take turns."""
    return kind is not Kind.FAST or any(launch.cluster > 1 for launch in manifest.launches)


def _runtime(kind: Kind) -> host.Built:
    flags = (*_COMMON, "-O2", *_RUNTIME_FLAGS[kind], "-include", "cugen_cpu.h", "-c")
    return host.build(_runtime_sources(), "main.cpp", flags, _INCLUDES)


@functools.cache
def _runtime_sources() -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(_RUNTIME.iterdir()) if path.suffix in (".h", ".cpp")}
