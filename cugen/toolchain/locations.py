"""Where CUDA's parts may lie: a toolkit that is named or installed, and wheels, which spread it over folders."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path


def roots() -> Iterator[Path]:
    """Folders that may hold `bin`, `include` and `lib`: CUDA_HOME, CUDA_PATH, wheels, that of nvcc, /usr/local/cuda.

    A named toolkit comes first because it was asked for; wheels come next because an environment's own versions match
    each other.
    """
    seen: list[Path] = []
    for path in _candidates():
        if path.is_dir() and path not in seen:
            seen.append(path)
            yield path


def program(name: str) -> Path | None:
    """The program `name`: in a named toolkit, on PATH, in a wheel, or in /usr/local/cuda."""
    folders = [str(root / "bin") for root in _named()]
    folders += os.environ.get("PATH", "").split(os.pathsep)
    folders += [str(root / "bin") for root in roots()]
    found = shutil.which(name, path=os.pathsep.join(folder for folder in folders if folder))
    return Path(found) if found else None


def library(pattern: str) -> Path | None:
    """The shared library that matches `pattern` (`libnvrtc.so*`); the highest version in the best folder."""
    for root in roots():
        for folder in ("lib", "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
            found = sorted(path for path in (root / folder).glob(pattern) if ".alt." not in path.name)
            if found:
                return found[-1]
    return None


def include_folders(library: Path | None = None) -> tuple[Path, ...]:
    """The folders of CUDA's own headers (`cuda_fp16.h`) and, beside them, of libcu++; empty where there are none.

    Those of the toolkit that `library` belongs to come first: headers and compiler should be of one version."""
    own = [parent for parent in library.parents[1:4] if parent != Path("/usr")] if library else []
    for root in (*own, *roots()):
        for folder in ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include"):
            if (root / folder / "cuda_fp16.h").is_file():
                nested = root / folder / "cccl"
                return (root / folder, nested) if nested.is_dir() else (root / folder,)
    return ()


def _named() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if value := os.environ.get(variable):
            yield Path(value)


def _candidates() -> Iterator[Path]:
    yield from _named()
    for entry in sys.path:
        nvidia = Path(entry or ".") / "nvidia"
        if nvidia.is_dir():  # cu13 holds all parts; until CUDA 12 each part has a folder of its own
            yield from sorted(nvidia.glob("cu[0-9]*"), reverse=True)
            yield from sorted(nvidia.glob("cuda_*"))
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parent.parent
    yield Path("/usr/local/cuda")
