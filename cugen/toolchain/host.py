"""The host C++ compiler: location, and cached builds of executables."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cugen.toolchain import cache, process
from cugen.toolchain.errors import CompileError, ToolMissing

_CANDIDATES = ("g++", "clang++", "c++")
_CURE = "install a C++17 compiler (`apt install g++`, `dnf install gcc-c++`), or name one in the variable CXX"


@dataclass(frozen=True, slots=True)
class HostCompiler:
    """`command` is the program with the options in CXX (`ccache g++`, `g++ -m64`)."""

    command: tuple[str, ...]
    version: str

    @property
    def path(self) -> str:
        return self.command[0]

    @property
    def identity(self) -> str:
        """What tells it from other compilers in keys of the cache."""
        return f"{' '.join(self.command)}\n{self.version}"


@dataclass(frozen=True, slots=True)
class Built:
    """An executable. `seconds` is the duration of the call, `cached` whether it was a cache hit."""

    path: Path
    seconds: float
    cached: bool
    log: str = ""


@dataclass(frozen=True, slots=True)
class PrefixHeader:
    """A header that many sources include first. `flags` are those of their builds, without what is only linked."""

    name: str
    folder: Path
    flags: tuple[str, ...]


def compiler() -> HostCompiler:
    """CXX where it is set, else g++, clang++ or c++ on PATH. ToolMissing where there is none."""
    if command := _split(os.environ.get("CXX", "")):
        path = shutil.which(command[0])
        if path is None:
            raise ToolMissing(f"the C++ compiler `{command[0]}` of CXX", _CURE)
        return _identified((path, *command[1:]), Path(path).stat().st_mtime_ns)
    for name in _CANDIDATES:
        if path := shutil.which(name):
            return _identified((path,), Path(path).stat().st_mtime_ns)
    raise ToolMissing("a C++ compiler (g++, clang++ or c++)", _CURE)


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise ToolMissing(f"the C++ compiler `{command}` of CXX", _CURE, f"is no command: {error}") from error


def build(
    sources: Mapping[str, str],
    main: str,
    flags: Sequence[str],
    includes: Sequence[Path] = (),
    prefix: PrefixHeader | None = None,
) -> Built:
    """Compiles and links `main`, one of `sources`, into an executable. CompileError where that fails.

    `sources` maps file names to texts, which are written to the compiler's working folder. `includes` are include
    folders, whose contents are part of the cache key. Flags that begin with `-l` follow the source. `prefix`, a header
    of `includes`, saves time where `main` includes it first, and changes nothing else.
    """
    used = compiler()
    libraries = [flag for flag in flags if flag.startswith("-l")]
    before = [flag for flag in flags if not flag.startswith("-l")]
    folders = [argument for folder in includes for argument in ("-I", str(folder.resolve()))]
    arguments = [*before, "-I", ".", *folders, main, *libraries, "-o", "program"]

    def compile_in(folder: Path) -> None:
        for name, text in sources.items():
            (folder / name).write_text(text)
        compiled = _precompiled(prefix, used, cache.folder()) if prefix else None
        command = [*used.command, "-I", str(compiled), *arguments] if compiled else [*used.command, *arguments]
        log = process.compile_with(command, main, folder, "program")
        (folder / "log.txt").write_text(log)

    entry = cache.get(
        cache.key(
            kind=f"executable of {main}",
            sources=sources,
            flags=flags,
            compiler=used.identity,
            includes=includes,
        ),
        compile_in,
    )
    log = (entry.path / "log.txt").read_text()
    return Built(entry.path / "program", entry.seconds, entry.cached, log)


def link(objects: Sequence[Path], flags: Sequence[str]) -> Built:
    """Links objects that `build` compiled with `-c` into an executable. CompileError where that fails."""
    used = compiler()
    command = [*used.command, *flags, *map(str, objects), "-o", "program"]

    def link_in(folder: Path) -> None:
        (folder / "log.txt").write_text(process.compile_with(command, "program", folder, "program"))

    # The paths of the objects are those of their contents in the cache.
    key = cache.key(kind="linked objects", sources={}, flags=command, compiler=used.identity, includes=())
    entry = cache.get(key, link_in)
    return Built(entry.path / "program", entry.seconds, entry.cached, (entry.path / "log.txt").read_text())


@functools.lru_cache
def _precompiled(prefix: PrefixHeader, used: HostCompiler, _root: Path) -> Path | None:
    """Folder of the cache with the precompiled header, for GCC, which reads the header itself where the folder is gone.

    Other compilers want it named by an option. None for these, and where the header doesn't compile, which the build
    itself then says of its source."""
    if "clang" in used.version:
        return None
    output, source = f"{prefix.name}.gch", prefix.folder.resolve()
    arguments = [*prefix.flags, "-I", str(source), "-x", "c++-header", str(source / prefix.name)]

    def compile_in(folder: Path) -> None:
        process.compile_with([*used.command, *arguments, "-o", output], prefix.name, folder, output)

    key = cache.key(
        kind=f"precompiled {prefix.name}",
        sources={},
        flags=arguments,  # with the folder's path, which the precompiled header repeats
        compiler=used.identity,
        includes=(prefix.folder,),
    )
    try:
        return cache.get(key, compile_in).path
    except (CompileError, ToolMissing):
        return None


@functools.lru_cache
def _identified(command: tuple[str, ...], _modified: int) -> HostCompiler:
    version = process.run([*command, "--version"], "--version").output
    machine = process.run([*command, "-dumpmachine"], "-dumpmachine").output
    return HostCompiler(command, f"{version.splitlines()[0] if version else 'unknown'} ({machine.strip()})")
