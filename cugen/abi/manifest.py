"""`<stem>.json`: everything that a program needs to call a generated kernel, and nothing that only cugen knows.

The launch list is played as it stands by PyCUDA, by the CPU device and by whoever reads the file. Sizes are integers,
or, where they depend on a dynamic param, text in the language of shapes (`"(M + 15) // 16"`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

Size = int | str


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """A device pointer. `elements` is the span of the buffer, gaps of a pitch included; `alignment` is in bytes."""

    name: str
    role: str  # input, output, inout
    dtype: str
    shape: tuple[Size, ...]
    strides: tuple[Size, ...]  # in elements
    elements: Size
    alignment: int
    boundary: str = ""  # what a read outside yields, for the reader


@dataclass(frozen=True, slots=True)
class ScalarArgument:
    """A number passed by value, in its own element type."""

    name: str
    dtype: str


@dataclass(frozen=True, slots=True)
class ParamArgument:
    """A dynamic param, passed by value as `dtype` (int32 or int64)."""

    name: str
    dtype: str
    minimum: int
    maximum: int
    multiple_of: int


@dataclass(frozen=True, slots=True)
class Workspace:
    """A buffer that the caller or the launcher owns between the launches of one call. A `zeroed` one is set to zeros
    before the launches, in the order of their stream. The launches leave one that is also `left_zero` as zeros: before
    the next ones it need not be set again."""

    name: str
    dtype: str
    elements: Size
    shape: tuple[Size, ...] = ()
    zeroed: bool = False
    left_zero: bool = False  # left out of the file where it isn't so


@dataclass(frozen=True, slots=True)
class Upload:
    """Before the launches, `bytes` bytes of the argument go to the `__constant__` symbol (arrays: device to device)."""

    symbol: str
    argument: str
    bytes: int


@dataclass(frozen=True, slots=True)
class LaunchEntry:
    """One kernel launch; `arguments` name entries of `arguments` and `workspace`, in the order of the C parameters.
    A grid with a zero launches nothing."""

    kernel: str
    grid: tuple[Size, Size, Size]
    block: tuple[int, int, int]
    shared_bytes: int  # static
    dynamic_shared_bytes: int
    arguments: tuple[str, ...]
    computes: str  # the statements, as the user wrote them
    cluster: int = 1  # blocks along x that run at once, as the kernel itself says; left out of the file where it is 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """The whole file. `params` holds the values that were baked in."""

    kernel: str
    version: str  # of cugen
    spec_file: str
    spec_hash: str
    target: str
    params: Mapping[str, int]
    arguments: tuple[ArrayArgument | ScalarArgument | ParamArgument, ...]
    workspace: tuple[Workspace, ...]
    uploads: tuple[Upload, ...]
    launches: tuple[LaunchEntry, ...]
    require: tuple[str, ...] = ()
    source_hash: str = ""  # SHA-256 of <stem>.cu
    header_hash: str = ""  # SHA-256 of <stem>.h
    input_hash: str = ""  # of all that went in: spec, templates, version, target

    def to_json(self) -> str:
        """The file's text; the same manifest gives the same bytes. Its last key is the hash of all before it."""
        kinds = {ArrayArgument: "array", ScalarArgument: "scalar", ParamArgument: "param"}
        content: dict[str, Any] = {"cugen": 1} | asdict(self)
        content["arguments"] = [{"kind": kinds[type(a)]} | asdict(a) for a in self.arguments]
        content["workspace"] = [_without(space, left_zero=False) for space in self.workspace]
        content["launches"] = [_without(launch, cluster=1) for launch in self.launches]
        return _stamped(content)

    @staticmethod
    def from_json(text: str) -> Manifest:
        """The manifest that `to_json` wrote. ValueError or KeyError for anything else."""
        content = json.loads(text)
        content.pop("manifest_hash", None)
        if content.pop("cugen") != 1:
            raise ValueError("not a cugen manifest of format 1")
        kinds = {"array": ArrayArgument, "scalar": ScalarArgument, "param": ParamArgument}
        content["arguments"] = tuple(_frozen(kinds[a.pop("kind")], a) for a in content["arguments"])
        for key, cls in (("workspace", Workspace), ("uploads", Upload), ("launches", LaunchEntry)):
            content[key] = tuple(_frozen(cls, item) for item in content[key])
        content["require"] = tuple(content["require"])
        return Manifest(**content)


def is_untouched(text: str) -> bool:
    """Whether `text` is what `to_json` wrote, to the byte: nobody edited it."""
    try:
        content = json.loads(text)
        del content["manifest_hash"]
        return _stamped(content) == text
    except (ValueError, KeyError, TypeError):
        return False


def _without(entry: Workspace | LaunchEntry, **defaults: int) -> dict[str, Any]:
    """What the file says of an entry, with no word of these fields where they have these values."""
    return {key: value for key, value in asdict(entry).items() if key not in defaults or value != defaults[key]}


def _stamped(content: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return json.dumps({**content, "manifest_hash": digest}, indent=2) + "\n"


def _frozen(cls: Any, content: Mapping[str, Any]) -> Any:
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in content.items()})
