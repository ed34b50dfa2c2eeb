"""nvcc as a program: finding it, its version, and one compilation in a folder."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cugen.toolchain import locations, process
from cugen.toolchain.errors import ToolMissing

_CURE = (
    "pip install 'cuda-toolkit[nvcc,cudart,cccl,crt,nvvm]==13.0.*', or install CUDA's toolkit and put its bin folder "
    "on PATH"
)


@dataclass(frozen=True, slots=True)
class Nvcc:
    """`version` is the release, such as "13.0"; `build` tells two builds of one release apart."""

    path: Path
    version: str
    build: str


def find() -> Nvcc | None:
    """nvcc from a named toolkit, PATH, a wheel or /usr/local/cuda; None where there is none that starts."""
    path = locations.program("nvcc")
    return _identified(path, path.stat().st_mtime_ns) if path else None


def require() -> Nvcc:
    """nvcc, or ToolMissing."""
    found = find()
    if found is None:
        raise ToolMissing("nvcc", _CURE)
    return found


def compile(source: str, name: str, options: Sequence[str], folder: Path, *, ptx: bool) -> tuple[bytes, str]:
    """The cubin, or the PTX, of `source`, and what nvcc printed. Works in `folder`, which it leaves as it was."""
    written, made = folder / name, folder / "nvcc-output"
    written.write_text(source)
    try:
        command = [str(require().path), "-ptx" if ptx else "-cubin", *options, name, "-o", made.name]
        log = process.compile_with(command, name, folder)
        return made.read_bytes(), log
    finally:
        written.unlink()
        made.unlink(missing_ok=True)


@functools.lru_cache
def _identified(path: Path, _modified: int) -> Nvcc | None:
    try:
        output = process.run([str(path), "--version"], "--version").output
    except OSError:
        return None
    release = re.search(r"release (\d+\.\d+)", output)
    return Nvcc(path, release.group(1), output.strip().splitlines()[-1]) if release else None
