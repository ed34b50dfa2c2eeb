"""nvcc: location, version, and compilation."""

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
    """`version` is the release, such as "13.0"; `build` identifies the build of the release."""

    path: Path
    version: str
    build: str


def find() -> Nvcc | None:
    """nvcc from CUDA_HOME, PATH, a wheel or /usr/local/cuda; None without a working one."""
    path = locations.program("nvcc")
    return _identified(path, path.stat().st_mtime_ns) if path else None


def require() -> Nvcc:
    """nvcc, or ToolMissing."""
    nvcc = find()
    if nvcc is None:
        raise ToolMissing("nvcc", _CURE)
    return nvcc


def toolkit(nvcc: Nvcc) -> Path | None:
    """The toolkit's folder as nvcc itself names it: links and scripts named nvcc may be far from it."""
    output = process.run([str(nvcc.path.resolve()), "--dryrun", "none.cu"], "--dryrun").output
    top = re.search(r"^#\$ TOP=(.+)$", output, re.MULTILINE)
    return Path(top.group(1)).resolve() if top else None


def compile(source: str, name: str, options: Sequence[str], folder: Path, *, ptx: bool) -> tuple[bytes, str]:
    """The cubin, or the PTX, of `source`, and nvcc's output. Temporary files in `folder` are removed."""
    written, output = folder / name, folder / "nvcc-output"
    written.write_text(source)
    try:
        command = [str(require().path), "-ptx" if ptx else "-cubin", *options, name, "-o", output.name]
        log = process.compile_with(command, name, folder)
        return output.read_bytes(), log
    finally:
        written.unlink()
        output.unlink(missing_ok=True)


@functools.lru_cache
def _identified(path: Path, _modified: int) -> Nvcc | None:
    try:
        output = process.run([str(path), "--version"], "--version").output
    except OSError:
        return None
    release = re.search(r"release (\d+\.\d+)", output)
    return Nvcc(path, release.group(1), output.strip().splitlines()[-1]) if release else None
