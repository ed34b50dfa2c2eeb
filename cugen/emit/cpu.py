"""`<stem>_cpu.cpp`: a generated .cu and its launcher for a C++ compiler, where a project is built without CUDA.

The .cu is included as it is; only its launcher, which stands behind `__CUDACC__`, is repeated with `<<<…>>>` as a call.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from cugen.version import __version__

_DEVICE = Path(__file__).resolve().parent.parent / "run" / "cpu"
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
_INCLUDE = re.compile(r"^#include <.*>$", re.MULTILINE)
_LAUNCH = re.compile(r"\b(\w+)<<<(.+)>>>\((.*)\);$", re.MULTILINE)


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
    dynamic = _dynamic_bytes(source)
    first = before.count("\n") + 2
    launcher = launcher.rstrip().removesuffix("#endif").rstrip()
    parts = [
        f"// {source.name} for a C++ compiler. Made by cugen {__version__}; edit the spec, not this file.",
        "#include <cugen_launch.h>",
        *_INCLUDE.findall(before),
        *_shared_macros(before),
        "",
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
        *([f"alignas(1024) thread_local unsigned char shared_memory[{dynamic}];"] if dynamic else []),
        "}  // namespace",
        "",
        f'#line {first} "{source.name}"',
    ]
    return "\n".join(parts) + "\n" + _LAUNCH.sub(_call, launcher) + "\n"


def _call(launch: re.Match[str]) -> str:
    kernel, configuration, arguments = launch.groups()
    return f"cugen::launch<{kernel}>({', '.join(filter(None, (f'{{{configuration}}}', arguments)))});"


def _shared_macros(text: str) -> list[str]:
    """What `__shared__` means depends on its line: an array of the block, or a declaration of the dynamic one."""
    lines = text.split("\n")
    return [
        f"#define cugen_shared_{number} {'' if 'extern' in line else 'static '}thread_local"
        for number, line in enumerate(lines, 1)
        if "__shared__" in line.partition("//")[0]
    ]


def _dynamic_bytes(source: Path) -> int:
    """The most shared memory that a launch asks for beyond what the kernels declare."""
    manifest = source.with_suffix(".json")
    try:
        launches = json.loads(manifest.read_text(encoding="utf-8"))["launches"]
        return max((int(launch["dynamic_shared_bytes"]) for launch in launches), default=0)
    except (ValueError, KeyError, TypeError):
        raise NotGenerated(f"{manifest} isn't the manifest that cugen wrote for {source.name}") from None
