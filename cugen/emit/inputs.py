"""Hash of all inputs of generation, computed without importing the generator."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import cugen.version
from cugen.emit.overrides import Templates
from cugen.emit.resources import data_folder


class Tuning(Protocol):
    """The entry of a spec in a lock file."""

    @property
    def text(self) -> str: ...


class Read(Protocol):
    """A spec, or a cached summary of one."""

    @property
    def hash(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def dependencies(self) -> tuple[str, ...]: ...
    @property
    def tuned(self) -> Tuning | None: ...


def input_hash(spec: Read, *, analysis: bool = True, templates: Templates = ()) -> str:
    """SHA-256 of all inputs: the spec and its file name, the templates, cugen's version, whether accesses are annotated
    with their costs, and the spec's entry in the lock file."""
    parts = [spec.hash, spec.file, _templates_hash(), cugen.version.__version__, "" if analysis else "no analysis"]
    if spec.tuned is not None:
        parts.append(spec.tuned.text)
    parts += [part for template in templates for part in template]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def shared_input_hash(specs: Sequence[Read], *, analysis: bool = True, templates: Templates = ()) -> str:
    """Input hash of a file that depends on several specs."""
    hashes = [input_hash(spec, analysis=analysis, templates=templates) for spec in specs]
    return hashlib.sha256("\0".join(hashes).encode()).hexdigest()


def input_files(spec: Read) -> tuple[str, ...]:
    """Files that `input_hash` depends on: those of the spec, the templates, and that of the version."""
    version = Path(cugen.version.__file__)
    return (*spec.dependencies, *map(str, (*_templates(), version)))


@cache
def _templates() -> tuple[Path, ...]:
    return tuple(sorted(data_folder("templates").rglob("*.j2")))


@cache
def _templates_hash() -> str:
    folder = data_folder("templates")
    digest = hashlib.sha256()
    for path in _templates():
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
