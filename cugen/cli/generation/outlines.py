"""Cached outlines of spec files: the names and hashes that decide whether generated files are current. An unchanged
file isn't parsed again.

The key of a record hashes everything that the result depends on: contents and names of the file and its lock file,
options of the call, and the code of the reader. Tables that the spec names are compared with their hashes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cugen
from cugen.cli.specs import settings_of
from cugen.emit.files import write_atomically
from cugen.toolchain.cache import discard, folder, warn_unwritable
from cugen.version import __version__

if TYPE_CHECKING:
    from cugen.spec.model import Spec
    from cugen.spec.siblings import Siblings

_FORMAT = 4
LOCK = "cugen.lock"
_DAY_SECONDS = 86400.0
_UNUSED_SECONDS = 30 * _DAY_SECONDS


@dataclass(frozen=True, slots=True)
class OutlinedTuning:
    """Lock-file entry of a kernel, as far as headers print it."""

    text: str


@dataclass(frozen=True, slots=True)
class Outline:
    """Properties of a kernel's spec that file names and hashes depend on."""

    kernel: str
    hash: str
    file: str
    dependencies: tuple[str, ...]
    tuned: OutlinedTuning | None


@dataclass(frozen=True, slots=True)
class OutlinedGroup:
    """Variants that share a header."""

    name: str
    specs: tuple[Outline, ...]


@dataclass(frozen=True, slots=True)
class OutlinedFile:
    """Outlines of all kernels of a spec file."""

    specs: tuple[Outline, ...]
    groups: tuple[OutlinedGroup, ...]


@dataclass(frozen=True, slots=True)
class RecordLocation:
    """Path of the record for the current content of a spec file. `lock`: the lock file that applies."""

    file: str
    record: Path
    lock: str


def record_location(file: str, args: argparse.Namespace) -> RecordLocation | None:
    """Location of the record; None for an unreadable file, which the parser reports."""
    lock = args.lock or str(Path(file).parent / LOCK)
    try:
        content = _digest(file)
        locked = _digest(lock) if Path(lock).is_file() else ""
    except (OSError, ValueError):
        return None
    settings = sorted(settings_of(args).items())
    parts = [_FORMAT, __version__, _reader(), file, content, settings, args.target, lock, locked, args.device_name]
    key = _sha256(json.dumps(parts).encode())
    return RecordLocation(file, folder() / "outlines" / key[:2] / f"{key[2:]}.json", lock)


def recall(record_location: RecordLocation | None) -> OutlinedFile | None:
    """Reads a record; None if there is none. A damaged one is removed."""
    if record_location is None:
        return None
    path = record_location.record
    try:
        digest, _, text = path.read_bytes().partition(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:  # unreadable, or no file
        digest, text = b"", b""
    if _sha256(text).encode() != digest:
        with suppress(OSError):  # `remember` says so
            discard(path)
        return None
    record = json.loads(text)
    try:
        if any(_digest(table) != sha256 for table, sha256 in record["tables"]):
            return None
    except OSError:
        return None
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > _DAY_SECONDS:
            os.utime(path)  # marks it as used
    return _outlined(record, record_location.file)


def remember(record_location: RecordLocation | None, specs: Sequence[Spec], groups: Sequence[Siblings]) -> None:
    """Writes a record of all `specs` of a file and their `groups`, if the cache can be written."""
    if record_location is None:
        return
    read = {path for spec in specs for path in spec.dependencies[1:]}
    if record_location.lock in read and any(spec.tuned is None for spec in specs):
        return  # a missing lock-file entry is reported on each call
    tables = {values.sha256 for spec in specs for array in spec.arrays if (values := array.values) and values.sha256}
    try:
        hashed = sorted((path, _digest(path)) for path in read - {record_location.lock})
    except OSError:
        return
    if {sha256 for _, sha256 in hashed} != tables:
        return  # changed since it was read
    text = json.dumps(_record(specs, groups, hashed)).encode()
    try:
        record_location.record.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(record_location.record, _sha256(text).encode() + b"\n" + text)
        _evict(record_location.record.parent)
    except OSError as error:
        warn_unwritable(error)


def _record(specs: Sequence[Spec], groups: Sequence[Siblings], tables: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {
        "tables": tables,
        "kernels": [
            [spec.kernel, spec.hash, spec.dependencies[1:], spec.tuned.text if spec.tuned else None] for spec in specs
        ],
        "groups": [[group.name, [spec.kernel for spec in group.specs]] for group in groups],
    }


def _outlined(record: Any, file: str) -> OutlinedFile:
    specs = {
        kernel: Outline(
            kernel,
            hash,
            Path(file).name,
            (file, *read),
            None if tuned is None else OutlinedTuning(tuned),
        )
        for kernel, hash, read, tuned in record["kernels"]
    }
    groups = (OutlinedGroup(name, tuple(specs[kernel] for kernel in kernels)) for name, kernels in record["groups"])
    return OutlinedFile(tuple(specs.values()), tuple(groups))


@cache
def _reader() -> str:
    """Hash of the code that reads specs, so that a modified checkout doesn't use records of other code."""
    package = Path(cugen.__file__).parent
    seen = []
    for name in ("spec", "plan", "schedule", "machine"):
        for path in (package / name).rglob("*.py"):
            stat = path.stat()
            seen.append((str(path.relative_to(package)), stat.st_size, stat.st_mtime_ns))
    return _sha256(repr(sorted(seen)).encode())


def _evict(shard: Path) -> None:
    """Removes records unused for 30 days from one shard; every write cleans its own shard."""
    oldest = time.time() - _UNUSED_SECONDS
    for path in shard.iterdir():
        with suppress(OSError):  # removed by another process
            if path.stat().st_mtime < oldest:
                path.unlink()


def _digest(path: str) -> str:
    """Hash of a file's content. Raises OSError for a missing file, and for anything but a regular file."""
    if not Path(path).is_file():
        raise FileNotFoundError(path)
    return _sha256(Path(path).read_bytes())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
