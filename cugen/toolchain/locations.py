"""Locations of CUDA: CUDA_HOME, installed toolkits, and wheels, which use a folder per component."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

INCLUDES = ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")  # of a toolkit


def roots() -> Iterator[Path]:
    """Folders that may hold `bin`, `include` and `lib`: CUDA_HOME, CUDA_PATH, wheels, nvcc's toolkit, /usr/local/cuda.

    An explicit toolkit precedes the wheels of the environment, whose versions match each other.
    """
    seen: list[Path] = []
    for path in _candidates():
        if path.is_dir() and path not in seen:
            seen.append(path)
            yield path


def program(name: str) -> Path | None:
    """The program `name`, from CUDA_HOME, PATH, a wheel or /usr/local/cuda."""
    folders = [str(root / "bin") for root in _named()]
    folders += os.environ.get("PATH", "").split(os.pathsep)
    folders += [str(root / "bin") for root in roots()]
    path = shutil.which(name, path=os.pathsep.join(folder for folder in folders if folder))
    return Path(path) if path else None


def library(pattern: str) -> Path | None:
    """The shared library that matches `pattern` (`libnvrtc.so*`): the highest version in the first folder with one."""
    for root in roots():
        for folder in ("lib", "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
            matches = sorted(path for path in (root / folder).glob(pattern) if ".alt." not in path.name)
            if matches:
                return matches[-1]
    return None


def include_folders(library: Path | None = None) -> tuple[Path, ...]:
    """Folders of the CUDA headers (`cuda_fp16.h`) and of libcu++; empty if not installed.

    Those of the toolkit of `library` are preferred, since headers and compiler should be of one version."""
    preferred = [parent for parent in library.parents[1:4] if parent != Path("/usr")] if library else []
    for root in (*preferred, *roots()):
        for folder in INCLUDES:
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
        if nvidia.is_dir():  # cu13 has all components; before CUDA 13 each has a folder
            yield from sorted(nvidia.glob("cu[0-9]*"), reverse=True)
            yield from sorted(nvidia.glob("cuda_*"))
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parent.parent
    yield Path("/usr/local/cuda")
