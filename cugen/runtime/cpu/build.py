"""Build of the child process: the runtime once per kind of build, a harness per .cu."""

from __future__ import annotations

import functools
import re
import shutil
import sys
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
    "-pthread",
    "-fwrapv",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-math-errno",
)

# Of kernels: faults are shown with their lines. With version 5 addr2line of binutils 2.40 names the harness. Where
# variables are is tracked for debuggers alone, in a third of the time of a sanitized build.
_LINES = ("-g1", "-gdwarf-4", "-fno-var-tracking")


class Kind(Enum):
    """Kinds of builds."""

    FAST = "fast"
    SANITIZED = "sanitized"
    TRACED = "traced"


# Each access is checked, by the runtime's own handler.
_ALIGNMENT = ("-fsanitize=alignment", "-fno-sanitize-recover=alignment")
# AddressSanitizer names the arrays, which object-size doesn't.
_SANITIZERS = (
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize=object-size",
    "-fno-sanitize-recover=all",
)
_FLAGS = {
    # The SLP vectorizer of GCC 12 drops the rounding of two adjacent (double)(float)x.
    Kind.FAST: ("-O2", "-fno-tree-slp-vectorize"),
    Kind.SANITIZED: ("-O1", "-fno-omit-frame-pointer", *_SANITIZERS),
    # With -O1 g++ removes accesses and splits vectors before instrumentation. Thread-safe statics would guard arrays of
    # __half by an undefined atomic.
    Kind.TRACED: ("-O0", "-fno-threadsafe-statics"),
}
# Of the kernels alone: linked with them, the programs would need the sanitizers' own runtimes.
_HOOKS = {
    Kind.FAST: _ALIGNMENT,
    Kind.SANITIZED: (),
    Kind.TRACED: (*_ALIGNMENT, "-fsanitize=thread"),
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
    # Unoptimised, each declaration would take time.
    flags = (*_COMMON, *_LINES, *_FLAGS[kind], *(_poisoned_locals() if kind is not Kind.TRACED else ()))
    if not _HOOKS[kind]:
        words = (*flags, *_linker(), str(runtime.path))
        built = host.build(sources, HARNESS_NAME, words, _INCLUDES, _header(flags))
        return Program(built.path, runtime.seconds + built.seconds)
    hooked = (*flags, *_HOOKS[kind], *(_volatile_hooks() if kind is Kind.TRACED else ()))
    kernels = host.build(sources, HARNESS_NAME, (*hooked, "-c"), _INCLUDES, _header(hooked))
    linked = host.link((kernels.path, runtime.path), (*flags, *_linker()))
    return Program(linked.path, runtime.seconds + kernels.seconds + linked.seconds)


def has_one_worker(manifest: Manifest, kind: Kind) -> bool:
    """Whether a single worker runs all blocks: for sanitizers, traces and clusters, which need static shared memory."""
    return kind is not Kind.FAST or any(launch.cluster > 1 for launch in manifest.launches)


def _volatile_hooks() -> tuple[str, ...]:
    """Options by which -fsanitize=thread tells volatile accesses from others; () where the compiler can't."""
    if "clang" in host.compiler().version:
        return ("-mllvm", "-tsan-distinguish-volatile=1")
    return ("--param=tsan-distinguish-volatile=1",) if _gcc_version() >= 11 else ()


def _poisoned_locals() -> tuple[str, ...]:
    """Options that give local variables without a value a large or no number; () where the compiler can't."""
    if "clang" in host.compiler().version or _gcc_version() >= 12:
        return ("-ftrivial-auto-var-init=pattern",)
    return ()


def _linker() -> tuple[str, ...]:
    """Options for a linker that takes half the time of the usual one, where there is one."""
    return ("-fuse-ld=gold",) if sys.platform == "linux" and shutil.which("ld.gold") else ()


def _gcc_version() -> int:
    version = re.search(r"(\d+)\.\d+\.\d+", host.compiler().version)
    return int(version[1]) if version else 0


def _header(flags: tuple[str, ...]) -> host.PrefixHeader:
    """What each harness includes first; reading it takes longer than compiling a small kernel."""
    return host.PrefixHeader("cugen_cpu.h", _INCLUDES[0], flags)


def _runtime(kind: Kind) -> host.Built:
    optimized = "-O2" if kind is Kind.FAST else "-O1"  # in two thirds of the time; their kernels take most of a run
    flags = (*_COMMON, optimized, *_RUNTIME_FLAGS[kind], "-include", "cugen_cpu.h", "-c")
    return host.build(_runtime_sources(), "main.cpp", flags, _INCLUDES)


@functools.cache
def _runtime_sources() -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(_RUNTIME.iterdir()) if path.suffix in (".h", ".cpp")}
