"""Hash of all inputs of generation, computed without importing the generator."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, Protocol, get_args

import cugen.version
from cugen.emit.overrides import Templates
from cugen.emit.resources import data_folder

RemarksMode = Literal["worst", "all", "none"]
REMARKS_MODES: tuple[RemarksMode, ...] = get_args(RemarksMode)
_PROGRAMS = "program"  # folder of the templates of host programs
_LAUNCH_TEMPLATES = ("cugen_launch.hpp.j2", "sizes.h.j2")


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


def input_hash(spec: Read, *, remarks: RemarksMode = "worst", templates: Templates = ()) -> str:
    """SHA-256 of all inputs: the spec and its file name, the templates, cugen's version, which accesses have their cost
    beside them, and the spec's entry in the lock file."""
    parts = [spec.hash, spec.file, _templates_hash(), cugen.version.__version__, f"remarks {remarks}"]
    if spec.tuned is not None:
        parts.append(spec.tuned.text)
    parts += [part for template in templates for part in template]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def shared_input_hash(specs: Sequence[Read], *, remarks: RemarksMode = "worst", templates: Templates = ()) -> str:
    """Input hash of a file that depends on several specs."""
    hashes = [input_hash(spec, remarks=remarks, templates=templates) for spec in specs]
    return hashlib.sha256("\0".join(hashes).encode()).hexdigest()


def program_input_hash(spec: Read, *, remarks: RemarksMode = "worst", templates: Templates = ()) -> str:
    """SHA-256 of the inputs of host programs: those of the kernel, and the programs' templates."""
    digest = hashlib.sha256(input_hash(spec, remarks=remarks, templates=templates).encode())
    for path in sorted((data_folder("templates") / _PROGRAMS).iterdir()):
        digest.update(b"\0" + path.read_bytes())
    return digest.hexdigest()


def launch_input_hash() -> str:
    """SHA-256 of the inputs of cugen_launch.hpp: its templates and cugen's version."""
    texts = [(data_folder("templates") / name).read_text(encoding="utf-8") for name in _LAUNCH_TEMPLATES]
    return hashlib.sha256("\0".join((cugen.version.__version__, *texts)).encode()).hexdigest()


def input_files(specs: Iterable[Read]) -> tuple[str, ...]:
    """Files that the hashes depend on: those of the specs, the templates, and that of the version. Without specs, those
    of `launch_input_hash`."""
    read = [file for spec in specs for file in spec.dependencies]
    templates = _templates() if read else [data_folder("templates") / name for name in _LAUNCH_TEMPLATES]
    return (*read, *map(str, (*templates, Path(cugen.version.__file__))))


@cache
def _templates() -> tuple[Path, ...]:
    return tuple(sorted(data_folder("templates").rglob("*.j2")))


@cache
def _templates_hash() -> str:
    """Hash of the templates of kernels and launchers."""
    folder = data_folder("templates")
    digest = hashlib.sha256()
    for path in _templates():
        if path.parent.name == _PROGRAMS:
            continue
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
