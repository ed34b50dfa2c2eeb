"""Content-addressed cache of compiler output.

An entry is a folder named by the SHA-256 of its inputs. It is written under a private name and renamed atomically, so
that concurrent readers see a complete entry or none. Checksums in each entry detect damage.

No state of the cache is an error: what can't be read is removed and built again, and what can't be written is built in
a folder of the process. Either gives one CacheWarning.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cugen import temporary
from cugen.toolchain.errors import CacheWarning

MAX_CACHE_BYTES = 2 << 30
_MAX_WAIT_SECONDS = 60.0  # for another process's build: it may be suspended
_POLL_SECONDS = 0.02
_MIN_EVICTION_AGE_SECONDS = 3600.0  # younger entries may be in use by another process
_EVICTING_KEY = "00"  # after one build in 256, by the end of its key: eviction reads the size of every entry
_UNFINISHED = re.compile(r"(building|damaged)-.+")
_CHECKSUMS = "checksums.json"
_FULL = (errno.ENOSPC, errno.EDQUOT)


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
    try:
        path, cached = _get(folder(), key, build)
    except _Unwritable as error:
        warn_unwritable(error.reason)
        path, cached = _get(temporary.folder_of_process(), key, build)
    return Entry(path, cached, time.perf_counter() - start)


def discard(path: Path) -> None:
    """Removes a damaged entry of the cache, whatever it is: a file, a folder, unreadable. OSError where it can't be."""
    warn_damaged()
    if not path.is_symlink():
        with suppress(OSError):  # a folder is renamed only by who may write to it
            path.chmod(0o700)
    aside = Path(tempfile.mkdtemp(prefix=f"damaged-{temporary.owner()}", dir=folder()))
    try:
        path.rename(aside / "entry")
    except FileNotFoundError:  # another process moved it
        pass
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def warn_damaged() -> None:
    """Warns that something in the cache is made again."""
    warnings.warn(f"damaged files in the cache {folder()} are made again", CacheWarning, stacklevel=1)


def warn_unwritable(error: OSError) -> None:
    """Warns that results aren't cached."""
    text = f"the cache {folder()} can't be written ({error.strerror or error}): nothing is cached"
    warnings.warn(text, CacheWarning, stacklevel=1)


class _Unwritable(Exception):
    """The cache, not the build, failed."""

    def __init__(self, reason: OSError) -> None:
        self.reason = reason
        super().__init__(str(reason))


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _Unwritable(error) from error


def _get(root: Path, key: str, build: Callable[[Path], None]) -> tuple[Path, bool]:
    """The entry, and whether it was there. _Unwritable for errors of the cache itself."""
    shard = root / key[:2]
    final = shard / key
    if _is_whole(final):
        with suppress(OSError):  # of another user, or on a read-only file system
            os.utime(final)
        return final, True
    with _writing():
        root.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(shard) and not (shard.is_dir() and shard.stat().st_mode & 0o700 == 0o700):
            discard(shard)
        shard.mkdir(exist_ok=True)
        _await_others(root, key)
        if _is_whole(final):  # again: another process may have stored it
            return final, True
        if os.path.lexists(final):
            discard(final)
        private = Path(tempfile.mkdtemp(prefix=f"building-{temporary.owner()}{key}-", dir=root))
    try:
        try:
            build(private)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise _Unwritable(error) from error
        with _writing():
            _write_checksums(private)
            _publish(private, final)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    temporary.remove_abandoned(root, _UNFINISHED)
    if key.endswith(_EVICTING_KEY):
        evict(root)
    return final, False


def _await_others(root: Path, key: str) -> None:
    """Waits while a living process builds the entry: two compilers at once would take longer."""
    last = time.monotonic() + _MAX_WAIT_SECONDS
    while time.monotonic() < last and any(
        key in name and temporary.is_living(name) for name in os.listdir(root) if name.startswith("building-")
    ):
        time.sleep(_POLL_SECONDS)


def evict(root: Path, limit_bytes: int = MAX_CACHE_BYTES) -> None:
    """Removes least recently used entries, down to `limit_bytes`."""
    now = time.time()
    oldest_first = []
    for path in root.glob("??/*"):
        try:
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            oldest_first.append((path.stat().st_mtime, size, path))
        except OSError:  # another process removed it, or it is another user's
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
        discard(final)
    raise OSError(f"could not move a finished build to {final}")


def _is_whole(path: Path) -> bool:
    try:
        checksums = json.loads((path / _CHECKSUMS).read_bytes())
        return bool(checksums) and all(_file_hash(path / name) == value for name, value in checksums.items())
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def _write_checksums(path: Path) -> None:
    names = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    (path / _CHECKSUMS).write_text(json.dumps({name: _file_hash(path / name) for name in names}))


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder_hash(path: Path) -> list[tuple[str, str]]:
    paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    files = filter(os.path.isfile, paths)
    return [(os.path.relpath(file, path).replace(os.sep, "/"), _known_hash(file, _state(file))) for file in files]


def _state(file: str) -> tuple[int, ...]:
    """What changes with a file's content."""
    status = os.stat(file)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@lru_cache(maxsize=1024)
def _known_hash(file: str, _state: tuple[int, ...]) -> str:
    """The hash of a file that many builds include."""
    return _file_hash(Path(file))
