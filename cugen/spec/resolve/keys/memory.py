"""`memory`: the memory space and tile options of an array, and target-independent checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Expr
from cugen.spec.model import Array, Memory, Scalar
from cugen.spec.parse.keys import (
    ALLOCATIONS,
    FILTERS,
    LOAD_OPERATORS,
    MAX_CONSTANT_BYTES,
    MAX_PAD,
    MAX_STAGES,
    MEMORY_KEYS,
    SPACES,
    STORE_OPERATORS,
    SWIZZLES,
    TEXTURE_DIMS,
)
from cugen.spec.parse.nodes import Entry, YamlMapping, YamlNode
from cugen.spec.parse.reading import read_bool, read_choice, read_integer, read_keys
from cugen.spec.resolve.keys.scope import Scope

# Words of CUDA that are no placements, and what takes their place.
_INSTEAD = {
    "device": "a `__device__` variable that kernels write would be shared by calls that run beside each other: what a "
    "later launch reads is in `scratch` memory, of which each call has its own",
    "local": "local memory is where a compiler keeps what registers don't hold: `register` is for small arrays with "
    "fixed subscripts",
    "surface": "a surface writes a CUDA array, whose layout isn't published: write `global` memory, which a later "
    "launch may read as a `texture` with `dims: 2`",
}
UNCACHED_SPACES = ("constant", "readonly", "texture")  # without cache operators


def read_memory(node: YamlNode, report: Reporter, *, key: str) -> Memory:
    """A memory space by name, or a mapping with `space` and tile options; invalid options keep their defaults."""
    if not isinstance(node, YamlMapping):
        return _placed(_read_space(node, report, key), node)
    options = read_keys(node, MEMORY_KEYS, report, key=key, required=("space",)) or {}
    space = None
    if "space" in options:
        entry = options["space"]
        space = _read_space(entry.value, report, f"{key}.space")
        if space is not None:
            _reject_misplaced(options, space, report, key)
    pad, stages, swizzle, dynamic, dims, filter = 0, 1, False, False, 1, "point"
    if "pad" in options:
        pad = read_integer(options["pad"].value, report, key=f"{key}.pad", low=0, high=MAX_PAD) or 0
    if "stages" in options:
        stages = read_integer(options["stages"].value, report, key=f"{key}.stages", low=1, high=MAX_STAGES) or 1
    if "swizzle" in options:
        swizzle = read_choice(options["swizzle"].value, SWIZZLES, report, key=f"{key}.swizzle", what="swizzle") == "xor"
    if "dynamic" in options:
        dynamic = read_bool(options["dynamic"].value, report, key=f"{key}.dynamic") or False
    if "dims" in options:
        low, high = min(TEXTURE_DIMS), max(TEXTURE_DIMS)
        dims = read_integer(options["dims"].value, report, key=f"{key}.dims", low=low, high=high) or low
    if "filter" in options:
        filter = read_choice(options["filter"].value, FILTERS, report, key=f"{key}.filter", what="filter") or "point"
    load, store = (
        (read_choice(options[name].value, operators, report, key=f"{key}.{name}", what="cache operator") or "")
        if name in options
        else ""
        for name, operators in (("load", LOAD_OPERATORS), ("store", STORE_OPERATORS))
    )
    if pad and swizzle:
        report.error(
            "CG2003",
            "a tile can't be both padded and swizzled",
            options["swizzle"].key.span,
            key=f"{key}.swizzle",
            label=f"conflicts with `pad: {pad}`",
            help="remove `pad` or `swizzle`; `cugen fix` finds the smallest one without bank conflicts",
        )
    if space in ALLOCATIONS:
        return Memory(load=load, store=store, allocation=space, span=node.span)
    is_single_stage = "stages" in options and stages == 1
    return Memory(space, pad, swizzle, dynamic, stages, is_single_stage, dims, filter, load, store, span=node.span)


def _read_space(node: YamlNode, report: Reporter, key: str) -> str | None:
    return read_choice(node, SPACES, report, key=key, what="memory space", code="CG2001", instead=_INSTEAD)


def _placed(space: str | None, node: YamlNode) -> Memory:
    """Memory of this name without options. How kernels read an array doesn't depend on its allocation."""
    if space in ALLOCATIONS:
        return Memory(allocation=space, span=node.span)
    return Memory(space, span=node.span)


def _reject_misplaced(options: dict[str, Entry], space: str, report: Reporter, key: str) -> None:
    """Reports the options that an array in this memory space can't have."""

    def reject(names: Sequence[str], code: str, what: str, label: str, instead: str) -> None:
        for name in names:
            if name in options:
                report.error(
                    code,
                    f"`{name}` {what}, and this array is in {space} memory",
                    options[name].key.span,
                    key=f"{key}.{name}",
                    label=label,
                    help=f"write `space: {instead}`, or remove `{name}`",
                )

    if space != "shared":
        tile_options = ("pad", "swizzle", "dynamic", "stages")
        reject(tile_options, "CG2002", "applies to shared memory", "needs `space: shared`", "shared")
    if space != "texture":
        reject(("dims", "filter"), "CG2011", "applies to textures", "needs `space: texture`", "texture")
    if space in UNCACHED_SPACES:
        what, label = "is a cache operator of device memory", f"{space} memory has a cache of its own"
        reject(("load", "store"), "CG2014", what, label, "global")


def check_constant_memory(arrays: Sequence[Array], scalars: Iterable[Scalar], scope: Scope) -> None:
    """Reports constant arrays and scalars that together exceed constant memory (64 KiB)."""
    total = sum(scalar.dtype.bytes for scalar in scalars if scalar.constant)
    for array in arrays:
        if array.memory.space != "constant":
            continue
        elements = storage_elements(array.shape, array.strides, scope)
        key = f"arrays.{array.name}.memory"
        if elements is None:
            scope.report.error(
                "CG2005",
                f"`{array.name}` is in constant memory, so its size must be known when the code is generated",
                array.memory.span,
                key=key,
                label="the shape uses a dynamic param",
                help="give the param a value, or use `memory: readonly`",
            )
            continue
        before, total = total, total + elements * _stored_bytes(array)
        if total > MAX_CONSTANT_BYTES:
            used = f" ({before} bytes are in use)" if before else ""
            scope.report.error(
                "CG2004",
                f"constant memory holds {MAX_CONSTANT_BYTES} bytes; with `{array.name}` it would be {total}{used}",
                array.memory.span,
                key=key,
                label=f"{elements * _stored_bytes(array)} bytes",
                help="use `memory: readonly`, or shared memory for data that every block reads",
            )
            total = before


def _stored_bytes(array: Array) -> int:
    """Bytes per element; baked arrays are stored in their compute type."""
    return array.dtype.bytes if array.values is None else array.dtype.compute.bytes


def storage_elements(shape: Sequence[Expr], strides: Sequence[Expr], scope: Scope) -> int | None:
    """Elements from the first to the last offset, gaps included; None if it depends on a dynamic param."""
    last = 0
    for extent, stride in zip(shape, strides, strict=True):
        n, step = scope.static(extent), scope.static(stride)
        if n is None or step is None:
            return None
        last += (n - 1) * step
    return last + 1
