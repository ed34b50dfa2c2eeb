"""`arrays`: shapes, element types, memory spaces and boundaries."""

from __future__ import annotations

from math import copysign, prod
from pathlib import Path

from cugen.spec.expressions import Boundary, Expr
from cugen.spec.model import Array, Memory
from cugen.spec.parse.keys import (
    ARRAY_KEYS,
    BOUNDARIES,
    FILTERED_BOUNDARIES,
    FILTERED_TYPE,
    MAX_DIMENSIONS,
    MAX_ELEMENTS,
    TEXTURE_TYPES,
)
from cugen.spec.parse.nodes import Entry, YamlMapping, YamlNode, YamlScalar, YamlSequence
from cugen.spec.parse.reading import (
    PARENTHESES,
    first_line,
    join,
    read_choice,
    read_keys,
    read_mapping,
    read_type,
    shorten,
    wrong_type,
)
from cugen.spec.prove.integers import is_too_large
from cugen.spec.resolve.keys.fitting import convert, literal, misfit
from cugen.spec.resolve.keys.layout import dense_strides, product, read_strides
from cugen.spec.resolve.keys.memory import read_memory, storage_elements
from cugen.spec.resolve.keys.scope import Scope
from cugen.spec.resolve.keys.values import read_values, report_misfit
from cugen.spec.resolve.param_expressions import report_terms
from cugen.spec.types import DType

_ARRAY_HELP = "write `{shape: [M, N], dtype: float32}`"


def read_arrays(node: YamlNode, scope: Scope, folder: Path | None) -> list[Array]:
    """The declared arrays in the order of the file; names of invalid ones are marked broken."""
    entries = read_mapping(node, scope.report, key="arrays")
    arrays: list[Array] = []
    if entries == () and node.size == 1:
        wrong_type(node, "a mapping with at least one array", scope.report, key="arrays")
    for entry in entries or ():
        key = join("arrays", entry.name)
        if not scope.declare(entry.key, "an array", key=key):
            continue
        array = _read_array(entry, scope, folder, key)
        if array is None:
            scope.mark_broken((entry.name,))
        else:
            arrays.append(array)
    return arrays


def _read_array(entry: Entry, scope: Scope, folder: Path | None, key: str) -> Array | None:
    report = scope.report
    options = read_keys(entry.value, ARRAY_KEYS, report, key=key, required=("shape", "dtype"), help=_ARRAY_HELP)
    if options is None:
        return None
    shape = _read_shape(options["shape"].value, scope, key=f"{key}.shape") if "shape" in options else None
    dtype = read_type(options["dtype"].value, report, key=f"{key}.dtype") if "dtype" in options else None
    memory = read_memory(options["memory"].value, report, key=f"{key}.memory") if "memory" in options else Memory()
    boundary = None
    if "boundary" in options:
        boundary = read_boundary(options["boundary"].value, dtype, scope, key=f"{key}.boundary")
    if shape is None or dtype is None:
        return None
    strides = read_strides(shape, dtype, options.get("layout"), options.get("pitch"), scope, key=key)
    if strides is None:
        strides = dense_strides(shape)
    else:
        _check_size(entry, shape, strides, scope, key)
        _check_terms(entry, shape, strides, scope, key)
    if "pitch" in options and memory.space in ("constant", "register"):
        report.error(
            "CG2006",
            f"`pitch` applies to global memory, and this array is in {memory.space} memory",
            options["pitch"].key.span,
            key=f"{key}.pitch",
            label="not in global memory",
            help="remove `pitch`",
        )
    if memory.space == "texture" and dtype.name not in TEXTURE_TYPES:
        report.error(
            "CG2008",
            f"textures have no elements of type {dtype.name}",
            memory.span,
            key=f"{key}.memory",
            label=f"an array of {dtype.name}",
            help=f"use `memory: readonly`, or one of {', '.join(TEXTURE_TYPES)}",
        )
    if memory.space == "texture" and memory.dims == 2:
        _check_texture_2d(shape, strides, memory, scope, key)
    if memory.space == "texture" and memory.filter == "linear":
        _check_filter(dtype, memory, boundary, scope, key)
    values = None
    if "values" in options:
        if memory.space in ("scratch", "texture") or memory.allocation != "device" or "pitch" in options:
            conflicting = "pitch" if "pitch" in options else "memory"
            report.error(
                "CG2007",
                "an array with `values` is baked in: it can't be in scratch, managed or mapped memory, be a texture "
                "or have a pitch",
                options[conflicting].key.span,
                key=f"{key}.{conflicting}",
                label="incompatible with `values`",
                help=f"remove `{conflicting}`",
            )
        extents = [scope.static(extent) for extent in shape]
        values = read_values(options["values"].value, extents, dtype, scope, folder, key=f"{key}.values")
        if values is None:
            return None
    return Array(entry.name, shape, dtype, "", strides, memory, boundary, values, span=entry.key.span)


def _shape_help(node: YamlNode) -> str:
    if not isinstance(node, YamlScalar) or not node.string:
        return "write `[M, N]`, or `[]` for one element"
    return PARENTHESES if node.string.startswith("(") else f"write `[{shorten(node.string)}]`"


def _read_shape(node: YamlNode, scope: Scope, *, key: str) -> tuple[Expr, ...] | None:
    if not isinstance(node, YamlSequence):
        wrong_type(node, "a list of extents", scope.report, key=key, help=_shape_help(node))
        return None
    if len(node.items) > MAX_DIMENSIONS:
        scope.report.error(
            "CG1025",
            f"{len(node.items)} dimensions; an array has at most {MAX_DIMENSIONS}",
            first_line(node),
            key=key,
            label="too many",
            help="fuse dimensions",
        )
        return None
    extents = [_read_extent(item, scope, f"{key}[{position}]") for position, item in enumerate(node.items)]
    shape = tuple(extent for extent in extents if extent is not None)
    if len(shape) < len(extents):
        return None
    sizes = [scope.static(extent) for extent in shape]
    elements = prod(size for size in sizes if size is not None)
    if elements > MAX_ELEMENTS:
        _too_large(node, elements, scope, key)
        return None
    return shape


def _read_extent(node: YamlNode, scope: Scope, key: str) -> Expr | None:
    extent = scope.integer(node, key=key)
    size = None if extent is None else scope.static(extent)
    if size is not None and size < 1:
        scope.report.error(
            "CG1026",
            f"the extent is {size}; an array has at least one element along each dimension",
            first_line(node),
            key=key,
            label=f"this is {size}",
            help="make it positive; an empty array needs no kernel",
        )
        return None
    return extent


def _check_size(entry: Entry, shape: tuple[Expr, ...], strides: tuple[Expr, ...], scope: Scope, key: str) -> None:
    elements = storage_elements(shape, strides, scope)
    if elements is not None and elements > MAX_ELEMENTS:
        _too_large(entry.key, elements, scope, key)


def _check_terms(entry: Entry, shape: tuple[Expr, ...], strides: tuple[Expr, ...], scope: Scope, key: str) -> None:
    """Reports extents whose product, a stride, has too many terms when it is multiplied out."""
    if any(is_too_large(product(extent, stride)) for extent, stride in zip(shape, strides, strict=True)):
        report_terms(entry.key.span, scope.report, key=key)


def _check_texture_2d(
    shape: tuple[Expr, ...], strides: tuple[Expr, ...], memory: Memory, scope: Scope, key: str
) -> None:
    """Reports a 2-D texture of an array without two dimensions, one of them contiguous."""
    if len(shape) != 2:
        count = "1 dimension" if len(shape) == 1 else f"{len(shape)} dimensions"
        problem, cure = f"this array has {count}", "remove `dims`: a texture of linear memory has any shape"
    elif not any(scope.static(stride) == 1 for stride in strides):
        problem = "no dimension of this array is contiguous"
        cure = "leave `layout` out, or remove `dims`: a texture of linear memory has any strides"
    else:
        return
    scope.report.error(
        "CG2012",
        f"a 2-D texture reads two-dimensional pitched memory, and {problem}",
        memory.span,
        key=f"{key}.memory",
        label="`dims: 2`",
        help=cure,
    )


def _check_filter(dtype: DType, memory: Memory, boundary: Boundary | None, scope: Scope, key: str) -> None:
    """Reports linear filtering that the hardware doesn't have."""
    if memory.dims != 2:
        problem, cure = "this one has one dimension", "write `dims: 2`, or remove `filter`"
    elif dtype.name != FILTERED_TYPE:
        problem, cure = f"these are of type {dtype.name}", f"use {FILTERED_TYPE}, or remove `filter`"
    elif boundary is not None and boundary.mode not in FILTERED_BOUNDARIES:
        written = "{value: ...}" if boundary.mode == "value" else boundary.mode
        problem = f"no address mode is `boundary: {written}`"
        cure = f"use {', '.join(FILTERED_BOUNDARIES)}, or remove `filter` and interpolate in the statement"
    else:
        return
    scope.report.error(
        "CG2013",
        f"linear filtering is of 2-D textures, of {FILTERED_TYPE} elements and by address modes, and {problem}",
        memory.span,
        key=f"{key}.memory",
        label="`filter: linear`",
        help=cure,
    )


def _too_large(node: YamlNode, elements: int, scope: Scope, key: str) -> None:
    scope.report.error(
        "CG1027",
        f"the array spans {elements} elements; at most 2**48 are allowed",
        first_line(node),
        key=key,
        label="too large",
        help="make the extents smaller; no device has that much memory",
    )


def read_boundary(node: YamlNode, dtype: DType | None, scope: Scope, *, key: str) -> Boundary | None:
    """The boundary of an array. An invalid one becomes zero, so that out-of-bounds reads aren't reported as well."""
    report = scope.report
    if not isinstance(node, YamlMapping):
        mode = read_choice(node, BOUNDARIES, report, key=key, what="boundary", code="CG1030")
        return Boundary(mode or "zero")
    options = read_keys(node, ("value",), report, key=key, required=("value",))
    if not options or "value" not in options:
        return Boundary("zero")
    value = literal(options["value"].value)
    if value is None:
        wrong_type(options["value"].value, "a number", report, key=f"{key}.value")
        return Boundary("zero")
    if dtype is None:
        return Boundary("zero")
    problem = misfit(value, dtype)
    if problem is not None:
        report_misfit(options["value"].value, dtype, problem, scope, key=f"{key}.value")
        return Boundary("zero")
    element = convert(value, dtype)
    is_zero = element == 0 and copysign(1, element) > 0  # -0.0 isn't what `zero` reads
    return Boundary("zero") if is_zero else Boundary("value", element)
