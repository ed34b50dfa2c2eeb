"""`<stem>_cpu.cpp`: a generated .cu and its launcher for a C++ compiler, for builds without CUDA.

The .cu is included unchanged. Its launcher, which is conditional on `__CUDACC__`, is repeated with function calls in
place of `<<<…>>>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cugen.version import __version__

_DEVICE = Path(__file__).resolve().parents[2] / "runtime" / "cpu"
INCLUDES = _DEVICE / "include"
RUNTIME = _DEVICE / "runtime" / "launch.cpp"
# Semantics of specs: integers wrap, no FMA contraction, pointers may alias.
COMPILER_FLAGS = (
    "-std=c++17",
    "-pthread",
    "-fwrapv",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-Wno-unknown-pragmas",
)

SUFFIX = "_cpu.cpp"
_GUARD = "#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)\n"
# Shared variables of clustered kernels are in one section, which the work-group scheduler saves and restores per block.
_IN_SECTION = "CUGEN_IN_SECTION"
_INCLUDE = re.compile(r"^#include <.*>$", re.MULTILINE)
# May be broken into lines.
_LAUNCH = re.compile(r"\b(\w+)<<<(.+?)>>>\((.*?)\);$", re.MULTILINE | re.DOTALL)


class _Launch(NamedTuple):
    kernel: str
    dynamic_bytes: int
    cluster: int


class NotGenerated(ValueError):
    """The file is no generated .cu, or has no manifest in its folder."""


def cpu_path(source: Path, folder: Path | None = None) -> Path:
    """Path of the file for a .cu: in `folder`, by default that of the .cu."""
    return (folder or source.parent) / f"{source.stem}{SUFFIX}"


def cpu_text(source: Path) -> str:
    """C++ text for a generated .cu. NotGenerated for another file, OSError where it can't be read."""
    text = source.read_bytes().decode(errors="replace")  # another file may have any bytes: it is told to be one
    before, guard, launcher = text.partition(_GUARD)
    if not guard:
        raise NotGenerated(f"{source} has no launcher: it isn't a .cu that cugen wrote")
    launches = _launches(source)
    dynamic = max((launch.dynamic_bytes for launch in launches), default=0)
    clusters = {launch.kernel: launch.cluster for launch in launches}
    if all(cluster == 1 for cluster in clusters.values()):
        clusters = {}
    storage = _IN_SECTION if clusters else "thread_local"
    first = before.count("\n") + 2
    launcher = launcher.rstrip().removesuffix("#endif").rstrip()
    parts = [
        f"// {source.name} for a C++ compiler. Made by cugen {__version__}; edit the spec, not this file.",
        "#include <cugen_launch.h>",
        *_INCLUDE.findall(before),
        *_shared_macros(before, storage),
        "",
        '#pragma GCC diagnostic ignored "-Wsign-compare"',
        '#pragma GCC diagnostic ignored "-Wunused-function"',
        '#pragma GCC diagnostic ignored "-Wunused-variable"',
        "",
        "#pragma GCC visibility push(default)",
        f'#include "{source.stem}.h"',
        "#pragma GCC visibility pop",
        "",
        "// Internal linkage, as the variables and helpers of a .cu have under nvcc.",
        "namespace {",
        f'#include "{source.name}"',
        *([f"alignas(1024) {storage} unsigned char shared_memory[{dynamic}];"] if dynamic else []),
        "}  // namespace",
        "",
        f'#line {first} "{source.name}"',
    ]
    calls = _LAUNCH.sub(lambda launch: _call(launch, clusters), launcher)
    return "\n".join(parts) + "\n" + calls + "\n"


def _call(launch: re.Match[str], clusters: Mapping[str, int]) -> str:
    """The launch as a call. `clusters` maps kernels to cluster sizes; empty for a file without clusters."""
    kernel, configuration, arguments = launch.groups()
    call = [f"{{{configuration}}}", *filter(None, (arguments,))]
    if clusters:
        return f"cugen::launch_clusters<{kernel}>({', '.join((f'{clusters[kernel]}, CUGEN_SHARED_MEMORY', *call))});"
    return f"cugen::launch<{kernel}>({', '.join(call)});"


def _shared_macros(text: str, storage: str) -> list[str]:
    """Definition of `__shared__` for each line: a static array of the block, or the declaration of the dynamic one."""
    lines = text.split("\n")
    dynamic = "" if storage == _IN_SECTION else storage  # its definition names the section
    return [
        f"#define cugen_shared_{number} {dynamic if 'extern' in line else f'static {storage}'}".rstrip()
        for number, line in enumerate(lines, 1)
        if "__shared__" in line.partition("//")[0]
    ]


def _launches(source: Path) -> list[_Launch]:
    """Launches of the manifest in the folder of the .cu."""
    manifest = source.with_suffix(".json")
    try:
        launches = json.loads(manifest.read_text(encoding="utf-8"))["launches"]
        return [
            _Launch(str(launch["kernel"]), int(launch["dynamic_shared_bytes"]), int(launch.get("cluster", 1)))
            for launch in launches
        ]
    except (ValueError, KeyError, TypeError):
        raise NotGenerated(f"{manifest} isn't the manifest that cugen wrote for {source.name}") from None
