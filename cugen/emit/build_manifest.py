"""The manifest of a build: the files of all kernels of one call, with the hash of each, and of what it was made of.

Machine code doesn't say of which input it was made. The manifest does, so that the next call makes only what has
changed, or isn't there any more.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Built:
    """A kernel of a build: its spec file, the hash of its inputs, and the SHA-256 of each file. Paths are relative to
    the manifest's folder."""

    spec: str
    inputs: str
    files: Mapping[str, str]

    def is_of(self, inputs: str, paths: Iterable[Path], folder: Path) -> bool:
        """Whether it was made of these inputs, and has these files, unmodified."""
        return inputs == self.inputs and self.files == _hashes(paths, folder)


def built(spec: str, inputs: str, paths: Iterable[Path], folder: Path) -> Built:
    """A kernel whose files have been written."""
    return Built(_relative(Path(spec), folder), inputs, _hashes(paths, folder))


def inputs_of(input_hash: str, *others: str) -> str:
    """The hash of a kernel's inputs: those of its sources, and those of the compiler."""
    return hashlib.sha256("\0".join((input_hash, *others)).encode()).hexdigest()


def text(kernels: Mapping[str, Built]) -> str:
    """Text of a manifest: equal kernels give equal bytes."""
    content = {"cugen_build": _VERSION, "kernels": {name: asdict(kernels[name]) for name in sorted(kernels)}}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read(path: Path) -> dict[str, Built]:
    """The kernels of a manifest by name; none if there is no manifest, or one that is damaged."""
    try:
        content = json.loads(path.read_text())
        if content["cugen_build"] != _VERSION:
            return {}
        return {name: Built(**kernel) for name, kernel in content["kernels"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _hashes(paths: Iterable[Path], folder: Path) -> dict[str, str]:
    """The hashes of the files that exist."""
    return {
        _relative(path, folder): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(paths)
        if path.is_file()
    }


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
