"""`[tool.cugen]` of pyproject.toml: the specs of a project, and the locations of the outputs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_KEYS = ("specs", "output", "target", "set", "library")
_LIBRARY_KEYS = ("path", "sources")


class ConfigError(ValueError):
    """`[tool.cugen]` is invalid; the message names the key."""


@dataclass(frozen=True, slots=True)
class Library:
    """Shared library with all launchers and the project's `sources`. `path`: without `.so`."""

    path: Path
    sources: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Project:
    """Settings of `[tool.cugen]`; all paths are absolute."""

    folder: Path
    specs: tuple[Path, ...]
    output: Path
    options: tuple[str, ...]  # of `cugen generate`: target and values
    library: Library | None


def read(folder: Path) -> Project | None:
    """Reads the configuration of the project in `folder`; None without `[tool.cugen]`. Raises ConfigError."""
    path = folder / "pyproject.toml"
    if not path.is_file():
        return None
    table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("cugen")
    if table is None:
        return None
    _known(table, "tool.cugen", _KEYS)
    options = [word for name, value in _values(table) for word in ("--set", f"{name}={value}")]
    if "target" in table:
        options += ["--target", _text(table, "tool.cugen", "target")]
    return Project(
        folder,
        _files(folder, _texts(table, "tool.cugen", "specs"), "tool.cugen.specs"),
        folder / _text(table, "tool.cugen", "output"),
        tuple(options),
        _library(folder, table),
    )


def _library(folder: Path, table: Mapping[str, Any]) -> Library | None:
    if "library" not in table:
        return None
    library = table["library"]
    _known(library, "tool.cugen.library", _LIBRARY_KEYS)
    sources = _texts(library, "tool.cugen.library", "sources") if "sources" in library else ()
    return Library(
        folder / _text(library, "tool.cugen.library", "path"),
        _files(folder, sources, "tool.cugen.library.sources"),
    )


def _values(table: Mapping[str, Any]) -> list[tuple[str, str]]:
    values = table.get("set", {})
    if not isinstance(values, dict) or not all(isinstance(value, (int, float)) for value in values.values()):
        raise ConfigError("tool.cugen.set: expected numbers by the names of params, such as {M = 64}")
    return [(name, str(value).lower()) for name, value in values.items()]


def _known(table: Any, name: str, keys: Sequence[str]) -> None:
    if not isinstance(table, dict):
        raise ConfigError(f"{name}: expected a table")
    for key in table:
        if key not in keys:
            raise ConfigError(f"{name}.{key}: unknown key; valid keys: {', '.join(keys)}")


def _text(table: Mapping[str, Any], name: str, key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name}.{key}: expected a string")
    return value


def _texts(table: Mapping[str, Any], name: str, key: str) -> tuple[str, ...]:
    value = table.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{name}.{key}: expected a list of files")
    return tuple(value)


def _files(folder: Path, patterns: Sequence[str], name: str) -> tuple[Path, ...]:
    """Files that match the patterns, in a deterministic order."""
    files: dict[Path, None] = {}
    for pattern in patterns:
        matches = sorted(path for path in folder.glob(pattern) if path.is_file())
        if not matches:
            raise ConfigError(f"{name}: no file matches `{pattern}`")
        files.update(dict.fromkeys(matches))
    return tuple(files)
