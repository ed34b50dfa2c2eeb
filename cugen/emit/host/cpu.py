"""`<stem>_cpu.cpp`: a generated .cu and its launcher for a C++ compiler, where a project is built without CUDA.

The .cu is included as it is; only its launcher, which stands behind `__CUDACC__`, is repeated with `<<<…>>>` as a call.
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
# Integers wrap, nothing is contracted, and pointers alias, as the language of specs says.
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
# Blocks of a cluster take turns with their variables, which lie together for that.
_IN_SECTION = "CUGEN_IN_SECTION"
_INCLUDE = re.compile(r"^#include <.*>$", re.MULTILINE)
_LAUNCH = re.compile(r"\b(\w+)<<<(.+)>>>\((.*)\);$", re.MULTILINE)


class _Launch(NamedTuple):
    kernel: str
    dynamic_bytes: int
    cluster: int


class NotGenerated(ValueError):
    """The file isn't a .cu of cugen's with its manifest beside it."""


def cpu_path(source: Path, folder: Path | None = None) -> Path:
    """Where the file for a .cu goes; beside it unless a folder is given."""
    return (folder or source.parent) / f"{source.stem}{SUFFIX}"


def cpu_text(source: Path) -> str:
    """The C++ for a generated .cu. NotGenerated where it is none, OSError where it can't be read."""
    text = source.read_text(encoding="utf-8")
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
        "// As for CUDA, variables and helpers of one .cu are none of another's.",
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
    """The launch as a call. `clusters` has the blocks of each kernel's clusters, where the file has any."""
    kernel, configuration, arguments = launch.groups()
    call = [f"{{{configuration}}}", *filter(None, (arguments,))]
    if clusters:
        return f"cugen::launch_clusters<{kernel}>({', '.join((f'{clusters[kernel]}, CUGEN_SHARED_MEMORY', *call))});"
    return f"cugen::launch<{kernel}>({', '.join(call)});"


def _shared_macros(text: str, storage: str) -> list[str]:
    """What `__shared__` means depends on its line: an array of the block, or a declaration of the dynamic one."""
    lines = text.split("\n")
    dynamic = "" if storage == _IN_SECTION else storage  # of which the section is that of its definition
    return [
        f"#define cugen_shared_{number} {dynamic if 'extern' in line else f'static {storage}'}".rstrip()
        for number, line in enumerate(lines, 1)
        if "__shared__" in line.partition("//")[0]
    ]


def _launches(source: Path) -> list[_Launch]:
    """The launches that the manifest beside the .cu lists."""
    manifest = source.with_suffix(".json")
    try:
        launches = json.loads(manifest.read_text(encoding="utf-8"))["launches"]
        return [
            _Launch(str(launch["kernel"]), int(launch["dynamic_shared_bytes"]), int(launch.get("cluster", 1)))
            for launch in launches
        ]
    except (ValueError, KeyError, TypeError):
        raise NotGenerated(f"{manifest} isn't the manifest that cugen wrote for {source.name}") from None
