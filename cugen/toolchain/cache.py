"""Content-addressed cache of compiler output.

An entry is a folder named by the SHA-256 of its inputs. It is written under a private name and renamed atomically, so
that concurrent readers see a complete entry or none. Checksums in each entry detect damage.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

MAX_CACHE_BYTES = 2 << 30
_MIN_EVICTION_AGE_SECONDS = 3600.0  # younger entries may be in use by another process
_ABANDONED_SECONDS = 86400.0  # age of a folder whose build was killed
_CHECKSUMS = "checksums.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """A complete folder of the cache; `cached` says whether it was a hit, `seconds` is the duration of the call."""

    path: Path
    cached: bool
    seconds: float


def folder() -> Path:
    """Root of the cache: `CUGEN_CACHE_DIR`, else `cugen` under `XDG_CACHE_HOME`, else `~/.cache/cugen`."""
    if directory := os.environ.get("CUGEN_CACHE_DIR"):
        return Path(directory)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "cugen"


def key(*, kind: str, sources: Mapping[str, str], flags: Iterable[str], compiler: str, includes: Iterable[Path]) -> str:
    """SHA-256 of all inputs of a build, including every file in the include folders."""
    description = {
        "kind": kind,
        "sources": sorted(sources.items()),
        "flags": list(flags),
        "compiler": compiler,
        "includes": [_folder_hash(path) for path in includes],
    }
    return hashlib.sha256(json.dumps(description).encode()).hexdigest()


def get(key: str, build: Callable[[Path], None]) -> Entry:
    """The entry of `key`; if missing or damaged, `build` fills a new folder.

    Exceptions of `build` are propagated; no entry is left.
    """
    start = time.perf_counter()
    root = folder()
    final = root / key[:2] / key
    if _is_whole(final):
        os.utime(final)
        return Entry(final, True, time.perf_counter() - start)
    final.parent.mkdir(parents=True, exist_ok=True)
    private = Path(tempfile.mkdtemp(prefix="building-", dir=root))
    try:
        build(private)
        _write_checksums(private)
        _publish(private, final)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    evict(root)
    return Entry(final, False, time.perf_counter() - start)


def evict(root: Path, limit_bytes: int = MAX_CACHE_BYTES) -> None:
    """Removes folders of killed builds and least recently used entries, down to `limit_bytes`."""
    now = time.time()
    for path in (*root.glob("building-*"), *root.glob("damaged-*")):
        if now - _modified(path, now) > _ABANDONED_SECONDS:
            shutil.rmtree(path, ignore_errors=True)
    oldest_first = []
    for path in root.glob("??/*"):
        try:
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            oldest_first.append((path.stat().st_mtime, size, path))
        except FileNotFoundError:  # another process removed it
            continue
    excess = sum(size for _, size, _ in oldest_first) - limit_bytes
    for used, size, path in sorted(oldest_first):
        if excess <= 0 or now - used < _MIN_EVICTION_AGE_SECONDS:
            return
        shutil.rmtree(path, ignore_errors=True)
        excess -= size


def _publish(private: Path, final: Path) -> None:
    for _ in range(16):
        try:
            private.rename(final)
            return
        except OSError:
            if not final.exists():
                raise
        if _is_whole(final):  # another process stored the same content
            return
        damaged = Path(tempfile.mkdtemp(prefix="damaged-", dir=private.parent))
        try:
            final.rename(damaged / "entry")
        except FileNotFoundError:  # another process moved it
            pass
        finally:
            shutil.rmtree(damaged, ignore_errors=True)
    raise OSError(f"could not move a finished build to {final}")


def _is_whole(path: Path) -> bool:
    try:
        checksums = json.loads((path / _CHECKSUMS).read_bytes())
        return bool(checksums) and all(_file_hash(path / name) == value for name, value in checksums.items())
    except (OSError, ValueError, AttributeError):
        return False


def _write_checksums(path: Path) -> None:
    names = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    (path / _CHECKSUMS).write_text(json.dumps({name: _file_hash(path / name) for name in names}))


def _modified(path: Path, otherwise: float) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another process removed it
        return otherwise


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder_hash(path: Path) -> list[tuple[str, str]]:
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return [(file.relative_to(path).as_posix(), _file_hash(file)) for file in files]
