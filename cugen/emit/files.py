"""`<stem>.cu`, `<stem>.h` and `<stem>.json` on disk: staleness, differences and atomic writes.

Each file is replaced atomically by a rename. The manifest is written last; its hashes identify incomplete and edited
sets. The common header of variants has no manifest: its last line has the hashes.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cugen.abi.manifest import is_untouched

SUFFIXES = (".cu", ".h", ".json")
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.cugen\.tmp")
_ABANDONED_SECONDS = 600.0  # age of a temporary file whose writer was killed; a write takes milliseconds
_STAMP = re.compile(r"\n// Input ([0-9a-f]{16}), text ([0-9a-f]{16})\.\n\Z")


@dataclass(frozen=True, slots=True)
class Texts:
    """Contents of one kernel's files, in the order of SUFFIXES."""

    stem: str
    source: str
    header: str
    manifest: str

    @property
    def contents(self) -> tuple[str, str, str]:
        return self.source, self.header, self.manifest


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


@dataclass(frozen=True, slots=True)
class Header:
    """The common header of variants; `text` is stamped."""

    stem: str
    text: str


def paths(folder: Path, stem: str) -> tuple[Path, Path, Path]:
    """Paths of the three files. ValueError for a stem with a folder."""
    if Path(stem).name != stem:
        raise ValueError(f"not the stem of a file: {stem!r}")
    source, header, manifest = (folder / f"{stem}{suffix}" for suffix in SUFFIXES)
    return source, header, manifest


def is_current_manifest(folder: Path, stem: str, input_hash: str) -> bool:
    """Whether the manifest on disk has this input hash and is unmodified."""
    text = _decoded(_content(paths(folder, stem)[2]) or b"")
    return is_untouched(text) and json.loads(text).get("input_hash") == input_hash


def is_current(folder: Path, stem: str, input_hash: str) -> bool:
    """Whether the files on disk have this input hash and are unmodified."""
    source, header, manifest = paths(folder, stem)
    try:
        text = _decoded(manifest.read_bytes())
        if not is_untouched(text):
            return False
        content = json.loads(text)
        expected = [content["input_hash"], content["source_hash"], content["header_hash"]]
        return [input_hash, _sha256(source.read_bytes()), _sha256(header.read_bytes())] == expected
    except (OSError, KeyError):
        return False


def header_path(folder: Path, stem: str) -> Path:
    """Path of a common header. ValueError for a stem with a folder."""
    return paths(folder, stem)[1]


def stamped(text: str, input_hash: str) -> str:
    """`text` with a last line of the input's hash and its own."""
    start = input_hash[:16]
    return f"{text}\n// Input {start}, text {_digest(text, start)}.\n"


def is_current_header(folder: Path, stem: str, input_hash: str) -> bool:
    """Whether the header on disk has this input hash and is unmodified."""
    return is_current_text(header_path(folder, stem), input_hash)


def is_current_text(path: Path, input_hash: str) -> bool:
    """Whether the stamped text on disk has this input hash and is unmodified."""
    content = _content(path)
    return content is not None and _input_of(_decoded(content)) == input_hash[:16]


def is_stamped(text: str) -> bool:
    """Whether the text has a valid stamp."""
    return bool(_input_of(text))


def write_header(folder: Path, header: Header, *, always: bool = False) -> tuple[Path, ...]:
    """As `write`, for a common header."""
    return write_file(File(header_path(folder, header.stem), header.text.encode()), always=always)


def write_file(file: File, *, always: bool = False) -> tuple[Path, ...]:
    """As `write`, for one file."""
    file.path.parent.mkdir(parents=True, exist_ok=True)
    if not always and _content(file.path) == file.content:
        return ()
    write_atomically(file.path, file.content)
    return (file.path,)


def write(
    folder: Path, texts: Texts, *, always: bool = False, suffixes: Collection[str] = SUFFIXES
) -> tuple[Path, ...]:
    """Writes the files whose bytes differ, or all of them with `always`; returns the files written.

    OSError where the folder can't be created or written to."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for path, text in zip(paths(folder, texts.stem), texts.contents, strict=True):
        if path.suffix in suffixes and (always or _content(path) != text.encode()):
            write_atomically(path, text.encode())
            written.append(path)
    return tuple(written)


def write_atomically(path: Path, content: bytes) -> None:
    """Replaces `path` by one rename, so that it has the old or the new bytes at any time. A link is replaced, not
    followed.

    No fsync: after a power failure a file may be empty, which the hashes detect.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.cugen.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_abandoned(folder: Path) -> None:
    """Removes temporary files of killed processes from the folder."""
    if not folder.is_dir():
        return
    latest = time.time() - _ABANDONED_SECONDS
    with os.scandir(folder) as entries:
        abandoned = [entry for entry in entries if _TEMPORARY.fullmatch(entry.name)]
    for entry in abandoned:
        with suppress(OSError):  # removed by another process
            if entry.stat(follow_symlinks=False).st_mtime < latest:
                os.unlink(entry)


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


def header_differences(folder: Path, header: Header) -> Iterator[Difference]:
    """As `differences`, for a common header."""
    return file_differences(File(header_path(folder, header.stem), header.text.encode()))


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


def _recorded_hashes(folder: Path, stem: str) -> tuple[str, str, str]:
    """Hashes of the three files in the manifest on disk; empty strings without an unmodified manifest."""
    manifest = _content(paths(folder, stem)[2])
    text = "" if manifest is None else _decoded(manifest)
    if manifest is None or not is_untouched(text):
        return "", "", ""
    content = json.loads(text)
    return content.get("source_hash", ""), content.get("header_hash", ""), _sha256(manifest)


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
