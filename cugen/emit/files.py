"""`<stem>.cu`, `.h`, `.hpp` and `.json` on disk: staleness, differences and atomic writes.

Each file is replaced atomically by a rename. The manifest is written last; its hashes identify incomplete and edited
sets. Headers of several kernels have no manifest: their last line has the hashes.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import os
import re
import secrets
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cugen import temporary
from cugen.abi.manifest import is_untouched

SUFFIXES = (".cu", ".h", ".json", ".hpp")  # in the order of `--list`, by which build files index the first three
PROGRAMS = {"main": "_main.cpp", "main-overlap": "_main_overlap.cpp"}  # kinds of host programs, with ends of names
LAUNCH_HEADER = "cugen_launch.hpp"  # shared by the .hpp files of a folder
_TEMPORARY = re.compile(r"\..+\.[0-9a-f-]+\.cugen\.tmp")
_STAMP = re.compile(r"\n// Input ([0-9a-f]{16}), text ([0-9a-f]{16})\.\n\Z")


@dataclass(frozen=True, slots=True)
class Texts:
    """Contents of one kernel's files, in the order of SUFFIXES."""

    stem: str
    source: str
    header: str
    manifest: str
    typed_header: str

    @property
    def contents(self) -> tuple[str, str, str, str]:
        return self.source, self.header, self.manifest, self.typed_header


@dataclass(frozen=True, slots=True)
class Difference:
    """A file on disk that differs from the generated one; `state` is missing, stale, edited by hand, or a reason."""

    path: Path
    state: str
    diff: str  # unified, from the file on disk to the generated one


@dataclass(frozen=True, slots=True)
class File:
    """A file without a manifest: a stamped text, or output of `compiler`. `reserve` says what couldn't be compared."""

    path: Path
    content: bytes
    compiler: str = ""
    reserve: str = ""


def paths(folder: Path, stem: str) -> tuple[Path, Path, Path, Path]:
    """Paths of the four files. ValueError for a stem with a folder."""
    if Path(stem).name != stem:
        raise ValueError(f"not the stem of a file: {stem!r}")
    source, header, manifest, typed_header = (folder / f"{stem}{suffix}" for suffix in SUFFIXES)
    return source, header, manifest, typed_header


def is_current_manifest(folder: Path, stem: str, input_hash: str) -> bool:
    """Whether the manifest on disk has this input hash and is unmodified."""
    text = _decoded(_content(paths(folder, stem)[2]) or b"")
    return is_untouched(text) and json.loads(text).get("input_hash") == input_hash


def is_current(folder: Path, stem: str, input_hash: str) -> bool:
    """Whether the files on disk have this input hash and are unmodified."""
    source, header, manifest, typed_header = paths(folder, stem)
    try:
        text = _decoded(manifest.read_bytes())
        if not is_untouched(text):
            return False
        content = json.loads(text)
        expected = [content[key] for key in ("input_hash", "source_hash", "header_hash", "typed_header_hash")]
        return [input_hash, *(_sha256(path.read_bytes()) for path in (source, header, typed_header))] == expected
    except (OSError, KeyError):
        return False


def header_paths(folder: Path, stem: str) -> tuple[Path, Path]:
    """Paths of the .h and the .hpp. ValueError for a stem with a folder."""
    _, header, _, typed_header = paths(folder, stem)
    return header, typed_header


def stamped(text: str, input_hash: str) -> str:
    """`text` with a last line of the input's hash and its own."""
    start = input_hash[:16]
    return f"{text}\n// Input {start}, text {_digest(text, start)}.\n"


def is_current_text(path: Path, input_hash: str) -> bool:
    """Whether the stamped text on disk has this input hash and is unmodified."""
    content = _content(path)
    return content is not None and _input_of(_decoded(content)) == input_hash[:16]


def is_stamped(text: str) -> bool:
    """Whether the text has a valid stamp."""
    return bool(_input_of(text))


def write_file(file: File, *, always: bool = False) -> tuple[Path, ...]:
    """As `write`, for one file."""
    file.path.parent.mkdir(parents=True, exist_ok=True)
    if not always and _content(file.path) == file.content:
        return ()
    write_atomically(file.path, file.content)
    return (file.path,)


def write_shared(file: File, *, always: bool = False) -> tuple[Path, ...]:
    """As `write_file`, for a file that concurrent processes write with the same content: only the first one does."""
    file.path.parent.mkdir(parents=True, exist_ok=True)
    with locked(file.path.parent):
        return write_file(file, always=always)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Excludes other processes that lock the folder; no effect on file systems without locks."""
    import fcntl  # Unix only

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write(
    folder: Path, texts: Texts, *, always: bool = False, suffixes: Collection[str] = SUFFIXES
) -> tuple[Path, ...]:
    """Writes the files whose bytes differ, or all of them with `always`; returns the files written.

    OSError where the folder can't be created or written to."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    files = zip(paths(folder, texts.stem), texts.contents, strict=True)
    for path, text in sorted(files, key=lambda file: file[0].suffix == ".json"):
        if path.suffix in suffixes and (always or _content(path) != text.encode()):
            write_atomically(path, text.encode())
            written.append(path)
    return tuple(written)


def write_atomically(path: Path, content: bytes) -> None:
    """Replaces `path` by one rename, so that it has the old or the new bytes at any time. A link is replaced, not
    followed.

    No fsync: after a power failure a file may be empty, which the hashes detect.
    """
    with replacement(path) as private:
        descriptor = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)


@contextmanager
def replacement(path: Path) -> Iterator[Path]:
    """A private path in the same folder. The file there replaces `path` in the end, unless there is an exception."""
    _clean_once(path.parent)
    private = path.with_name(f".{path.name}.{temporary.owner()}{secrets.token_hex(8)}.cugen.tmp")
    try:
        yield private
        os.replace(private, path)
    except OSError as error:
        if error.filename == str(private):
            error.filename = str(path)
        raise
    finally:
        private.unlink(missing_ok=True)


def remove_abandoned(folder: Path) -> None:
    """Removes temporary files of killed processes from the folder."""
    temporary.remove_abandoned(folder, _TEMPORARY)


@functools.cache
def _clean_once(folder: Path) -> None:
    remove_abandoned(folder)


def differences(folder: Path, texts: Texts, suffixes: Collection[str] = SUFFIXES) -> Iterator[Difference]:
    """Files that differ from those `write` would write."""
    recorded = _recorded_hashes(folder, texts.stem)
    for path, text, recorded_hash in zip(paths(folder, texts.stem), texts.contents, recorded, strict=True):
        actual = _content(path)
        if path.suffix not in suffixes:
            continue
        if actual is None:
            yield Difference(path, "missing", _diff("/dev/null", str(path), "", text))
        elif actual != text.encode():
            state = "stale" if _sha256(actual) == recorded_hash else "edited by hand"
            yield Difference(path, state, _diff(str(path), str(path), _decoded(actual), text))


def file_differences(file: File) -> Iterator[Difference]:
    """As `differences`, for one file."""
    path, actual = file.path, _content(file.path)
    if actual is None:
        yield Difference(path, "missing", _comparison("/dev/null", str(path), b"", file.content))
    elif actual != file.content:
        stale = "stale" if _input_of(_decoded(actual)) else "edited by hand"
        state = f"not what {file.compiler} makes here" if file.compiler else stale
        yield Difference(path, state, _comparison(str(path), str(path), actual, file.content))


def removal(path: Path, why: str) -> Difference:
    """The difference of a file that should not exist."""
    return Difference(path, why, _diff(str(path), "/dev/null", _decoded(path.read_bytes()), ""))


def make_rule(targets: Iterable[Path], dependencies: Iterable[str]) -> str:
    """A depfile: one Make rule, which Ninja reads too. ValueError for a path that can't be escaped: one with a line
    break, or with a space or a backslash at its end."""
    left = " ".join(_escaped(str(path)) for path in targets)
    right = [_escaped(path) for path in dict.fromkeys(dependencies)]
    return left + ":" + "".join(f" \\\n  {path}" for path in right) + "\n"


def _escaped(path: str) -> str:
    """Make escapes: backslashes are special only before a space, `#` or `:`, where they are doubled."""
    if re.search(r"[\n\r\0]|[ \t\\]$", path):
        raise ValueError(f"a depfile can't hold the path {path!r}")
    return re.sub(r"(\\*)([ \t#:])", r"\1\1\\\2", path).replace("$", "$$")


def _input_of(text: str) -> str:
    """Start of the input hash of a stamped text; empty where the stamp is missing or invalid."""
    stamp = _STAMP.search(text)
    if stamp is None or _digest(text[: stamp.start()], stamp[1]) != stamp[2]:
        return ""
    return stamp[1]


def _digest(text: str, input_start: str) -> str:
    return _sha256(f"{input_start}\0{text}".encode())[:16]


def _recorded_hashes(folder: Path, stem: str) -> tuple[str, str, str, str]:
    """Hashes of the files in the manifest on disk; empty strings without an unmodified manifest."""
    manifest = _content(paths(folder, stem)[2])
    text = "" if manifest is None else _decoded(manifest)
    if manifest is None or not is_untouched(text):
        return "", "", "", ""
    content = json.loads(text)
    source, header, typed_header = (content.get(key, "") for key in ("source_hash", "header_hash", "typed_header_hash"))
    return source, header, _sha256(manifest), typed_header


def _diff(before_name: str, after_name: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), before_name, after_name
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _comparison(before_name: str, after_name: str, before: bytes, after: bytes) -> str:
    if b"\0" in before + after:
        return f"Binary files {before_name} and {after_name} differ\n"
    return _diff(before_name, after_name, _decoded(before), _decoded(after))


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _decoded(content: bytes) -> str:
    return content.decode(errors="replace")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
