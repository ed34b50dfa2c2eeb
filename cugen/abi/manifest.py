"""`<stem>.json`: the manifest, everything that a program needs to launch a generated kernel.

Sizes are integers or, where they depend on a dynamic param, expressions over params (`"(M + 15) // 16"`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

Size = int | str
_SHOWN_ARGUMENTS = 8
FEATURES = (
    "texture",
    "texture_2d",
    "texture_linear",
    "texture_bfloat16",
    "tensor_maps",
    "tensor_maps_im2col",
    "launch_options",
)  # of manifests, since version 1 of the format


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """A device pointer. `elements` is the extent of the buffer, pitch padding included; `alignment` is in bytes."""

    name: str
    role: str  # input, output, inout
    dtype: str
    shape: tuple[Size, ...]
    strides: tuple[Size, ...]  # in elements
    elements: Size
    alignment: int
    boundary: str = ""  # value of a read outside the array; informative
    allocation: str = "device"  # or managed, mapped: where the spec has the buffer; omitted from the file where device


@dataclass(frozen=True, slots=True)
class ScalarArgument:
    """A number passed by value."""

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
    """A temporary buffer of one call.

    A `zeroed` one must be zero before the launches, in stream order. The launches reset a `left_zero` one to zeros, so
    that it need not be cleared before the next call."""

    name: str
    dtype: str
    elements: Size
    shape: tuple[Size, ...] = ()
    zeroed: bool = False
    left_zero: bool = False  # omitted from the file where false


@dataclass(frozen=True, slots=True)
class Upload:
    """A copy of `bytes` bytes of an argument to a `__constant__` symbol, before the launches."""

    symbol: str
    argument: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Texture:
    """An array argument that launches take as a texture object in place of its pointer: of linear memory, point
    sampled, without conversion to normalised floats. An array without elements has object 0.

    With an `address_mode` (clamp, border, wrap, mirror) it is an object of pitched memory of `width` by `height`
    elements, `pitch` in bytes. Coordinates are normalized with wrap and mirror. With the `filter` linear, fetches
    interpolate between elements."""

    argument: str
    width: Size = 0  # this and the following are omitted from the file where they have these values
    height: Size = 0
    pitch: Size = 0
    address_mode: str = ""
    filter: str = "point"


@dataclass(frozen=True, slots=True)
class TensorMapEntry:
    """A tensor map (CUtensorMap) of an argument or a workspace, which launches take by value.

    Dimensions are in the order of the driver's `cuTensorMapEncodeTiled`, the contiguous one first: `sizes` and `box`
    are in elements, `strides` in bytes and without that of the first dimension. Boxes in shared memory have rows of
    `swizzle` bytes, swizzled; 0 for boxes that aren't. With `tf32` loads round float32. The array's address must be a
    multiple of 16 bytes. An array without elements has a map of zeros.

    With `lower`, `upper` and `steps` it is one of `cuTensorMapEncodeIm2col`: of the pixels in a box with these corners,
    each so many-th; the first numbers of `box` are the channels and the pixels that a copy moves."""

    name: str
    argument: str
    dtype: str
    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]
    box: tuple[int, ...]
    swizzle: int
    tf32: bool = False  # omitted from the file where false
    lower: tuple[int, ...] = ()  # this and the following are omitted from the file where empty
    upper: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchEntry:
    """One kernel launch; `arguments` are names of arguments and workspaces, in the order of the C parameters.
    The tensor maps are parameters before these. An empty grid is skipped."""

    kernel: str
    grid: tuple[Size, Size, Size]
    block: tuple[int, int, int]
    shared_bytes: int  # static
    dynamic_shared_bytes: int
    arguments: tuple[str, ...]
    computes: str  # the statements, as the user wrote them
    cluster: int = 1  # cluster size along x, as in `__cluster_dims__`; omitted from the file where 1
    tensor_maps: tuple[str, ...] = ()  # names; omitted from the file where empty
    # What the launch asks of the device, omitted from the file where unset.
    carveout: int | None = None  # percent of an SM's shared memory that is preferred over L1, from 7.0 on
    cache_config: str = ""  # the same before 7.0: prefer_l1, prefer_equal, prefer_shared
    bank_bytes: int = 0  # 3.x: the width of the banks of shared memory


_UNSET: dict[str, int | str | tuple[()] | None] = {
    "cluster": 1,
    "tensor_maps": (),
    "carveout": None,
    "cache_config": "",
    "bank_bytes": 0,
}


@dataclass(frozen=True, slots=True, repr=False)
class Manifest:
    """The whole file. `params` holds the values compiled into the kernel."""

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
    typed_header_hash: str = ""  # SHA-256 of <stem>.hpp, which needs cugen_launch.hpp; empty before there was one
    input_hash: str = ""  # of all inputs: spec, templates, version, target
    requires: tuple[str, ...] = ()  # of FEATURES, what a player must know; omitted from the file where empty
    textures: tuple[Texture, ...] = ()  # omitted from the file where empty
    tensor_maps: tuple[TensorMapEntry, ...] = ()  # omitted from the file where empty

    def __repr__(self) -> str:
        return f"<Manifest of {self.signature} for {self.target}>"

    def texture_arguments(self) -> tuple[ArrayArgument, ...]:
        """The arrays that launches take as texture objects."""
        names = [texture.argument for texture in self.textures]
        return tuple(a for a in self.arguments if isinstance(a, ArrayArgument) and a.name in names)

    @property
    def signature(self) -> str:
        """The kernel with the names of its arguments; of many, the first ones."""
        names = [argument.name for argument in self.arguments]
        shown = [*names[:_SHOWN_ARGUMENTS], *(["…"] if len(names) > _SHOWN_ARGUMENTS else [])]
        return f"{self.kernel}({', '.join(shown)})"

    def to_json(self) -> str:
        """Deterministic text of the file. Its last key is the hash of all others."""
        kinds = {ArrayArgument: "array", ScalarArgument: "scalar", ParamArgument: "param"}
        content: dict[str, Any] = {"cugen": 1} | asdict(self)
        content["arguments"] = [{"kind": kinds[type(a)]} | _without(a, allocation="device") for a in self.arguments]
        content["workspace"] = [_without(space, left_zero=False) for space in self.workspace]
        content["launches"] = [_without(launch, **_UNSET) for launch in self.launches]
        unset: dict[str, int | str] = {"width": 0, "height": 0, "pitch": 0, "address_mode": "", "filter": "point"}
        content["textures"] = [_without(texture, **unset) for texture in self.textures]
        content["tensor_maps"] = [
            _without(entry, tf32=False, lower=(), upper=(), steps=()) for entry in self.tensor_maps
        ]
        for key in ("requires", "textures", "tensor_maps"):
            if not content[key]:
                del content[key]
        return _stamped(content)

    @staticmethod
    def from_json(text: str) -> Manifest:
        """The manifest that `to_json` wrote. ValueError or KeyError for anything else, and for one that requires a
        feature of a later version."""
        content = json.loads(text)
        content.pop("manifest_hash", None)
        if content.pop("cugen") != 1:
            raise ValueError("not a cugen manifest of format 1")
        content["requires"] = tuple(content.get("requires", ()))
        if unknown := [name for name in content["requires"] if name not in FEATURES]:
            raise ValueError(f"the manifest requires {', '.join(unknown)}: a later version of cugen made it")
        for key in ("textures", "tensor_maps"):
            content.setdefault(key, [])
        kinds = {"array": ArrayArgument, "scalar": ScalarArgument, "param": ParamArgument}
        content["arguments"] = tuple(_frozen(kinds[a.pop("kind")], a) for a in content["arguments"])
        for key, cls in (
            ("workspace", Workspace),
            ("uploads", Upload),
            ("launches", LaunchEntry),
            ("textures", Texture),
            ("tensor_maps", TensorMapEntry),
        ):
            content[key] = tuple(_frozen(cls, item) for item in content[key])
        content["require"] = tuple(content["require"])
        return Manifest(**content)


def has_launch_options(launch: LaunchEntry) -> bool:
    """Whether a launch asks something of the device."""
    return launch.carveout is not None or bool(launch.cache_config or launch.bank_bytes)


def is_untouched(text: str) -> bool:
    """Whether `text` is unmodified output of `to_json`."""
    try:
        content = json.loads(text)
        del content["manifest_hash"]
        return _stamped(content) == text
    except (ValueError, KeyError, TypeError):
        return False


def _without(
    entry: ArrayArgument | ScalarArgument | ParamArgument | Workspace | LaunchEntry | Texture | TensorMapEntry,
    **defaults: int | str | tuple[()] | None,
) -> dict[str, Any]:
    """Fields of an entry; those of `defaults` are omitted where they have the default value."""
    return {key: value for key, value in asdict(entry).items() if key not in defaults or value != defaults[key]}


def _stamped(content: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return json.dumps({**content, "manifest_hash": digest}, indent=2) + "\n"


def _frozen(cls: Any, content: Mapping[str, Any]) -> Any:
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in content.items()})
