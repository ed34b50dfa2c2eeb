"""`values`: the contents of a baked array, from literals or a .npy file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from itertools import islice
from math import prod
from pathlib import Path, PurePosixPath

from cugen.spec.model import Values
from cugen.spec.parse.keys import MAX_DIMENSIONS, MAX_TABLE_BYTES
from cugen.spec.parse.nodes import YamlMapping, YamlNode, YamlScalar, YamlSequence
from cugen.spec.parse.npy import NotReadable, read_npy
from cugen.spec.parse.reading import first_line, shorten, wrong_type
from cugen.spec.resolve.keys.fitting import Number, convert, literal, misfit
from cugen.spec.resolve.keys.scope import Scope
from cugen.spec.types import DType

_EXPECTED = "a list of numbers, or the name of a .npy file"


def read_values(
    node: YamlNode, shape: Sequence[int | None], dtype: DType, scope: Scope, folder: Path | None, *, key: str
) -> Values | None:
    """The contents of an array of the given extents (None for a dynamic one); None after reporting an error."""
    report = scope.report
    extents = [extent for extent in shape if extent is not None]
    if len(extents) < len(shape):
        report.error(
            "CG1033",
            "an array with `values` is baked in, so its shape must be known when the code is generated",
            first_line(node),
            key=key,
            label="the shape uses a dynamic param",
            help="give the param a value, or pass the array at run time",
        )
        return None
    if prod(extents) * dtype.bytes > MAX_TABLE_BYTES:
        report.error(
            "CG1036",
            f"a baked array has at most {MAX_TABLE_BYTES} bytes; this shape makes {prod(extents) * dtype.bytes}",
            first_line(node),
            key=key,
            label="too large",
            help="pass the array at run time",
        )
        return None
    if isinstance(node, YamlMapping) or (isinstance(node, YamlScalar) and node.value is None):
        wrong_type(node, _EXPECTED, report, key=key)
        return None
    if isinstance(node, YamlScalar) and literal(node) is None:
        return _from_file(node, extents, dtype, scope, folder, key=key)
    return _from_literals(node, extents, dtype, scope, key=key)


def _from_literals(node: YamlNode, extents: list[int], dtype: DType, scope: Scope, *, key: str) -> Values | None:
    leaves: list[YamlNode] = []
    written = _shape_of(node, leaves, scope, key)
    if written is None:
        return None
    if written not in (tuple(extents), (prod(extents),)):
        _wrong_shape(node, written, extents, scope, key)
        return None
    data: list[Number] = []
    valid = True
    for leaf in leaves:
        value = literal(leaf)
        if value is None:
            wrong_type(leaf, "a number", scope.report, key=key)
            valid = False
            continue
        problem = misfit(value, dtype)
        if problem is not None:
            report_misfit(leaf, dtype, problem, scope, key=key)
            valid = False
        else:
            data.append(convert(value, dtype))
    return Values(tuple(data)) if valid else None


def report_misfit(node: YamlNode, dtype: DType, problem: str, scope: Scope, *, key: str) -> None:
    """Reports a literal that is out of the range of its element type."""
    text = shorten(node.string) if isinstance(node, YamlScalar) else "it"
    scope.report.error(
        "CG1031",
        f"`{text}` can't be a value of type {dtype}: {problem}",
        first_line(node),
        key=key,
        label=f"doesn't fit {dtype}",
        help="write a value that fits, or choose another dtype",
    )


def _shape_of(node: YamlNode, leaves: list[YamlNode], scope: Scope, key: str) -> tuple[int, ...] | None:
    """The shape of nested lists; appends the leaves in row-major order. None after reporting ragged lists."""
    if not isinstance(node, YamlSequence):
        leaves.append(node)
        return ()
    shapes: list[tuple[int, ...]] = []
    for item in node.items:
        shape = _shape_of(item, leaves, scope, key)
        if shape is None:
            return None
        if shapes and shape != shapes[0]:
            scope.report.error(
                "CG1032",
                f"this list has the shape {list(shape)}, the previous ones {list(shapes[0])}",
                first_line(item),
                key=key,
                label="different shape",
                help="give every row the same length",
            )
            return None
        shapes.append(shape)
    return (len(shapes), *(shapes[0] if shapes else ()))


def _wrong_shape(node: YamlNode, written: Sequence[int], extents: list[int], scope: Scope, key: str) -> None:
    scope.report.error(
        "CG1032",
        f"the values have the shape {list(written)[:MAX_DIMENSIONS]}, the array has {extents}",
        first_line(node),
        key=key,
        label=f"expected {prod(extents)} values",
        help=f"write nested lists of that shape, or one list of {prod(extents)} values",
    )


def _from_file(
    node: YamlScalar, extents: list[int], dtype: DType, scope: Scope, folder: Path | None, *, key: str
) -> Values | None:
    path = _allowed_path(node, scope, folder, key)
    if path is None:
        return None
    try:
        if path.stat().st_size > MAX_TABLE_BYTES:
            scope.report.error(
                "CG1036",
                f"`{shorten(node.string)}` is larger than the {MAX_TABLE_BYTES} bytes of a baked array",
                node.span,
                key=key,
                label="too large",
                help="pass the array at run time",
            )
            return None
        content = path.read_bytes()
        file = read_npy(content)
    except (OSError, NotReadable) as error:
        reason = (error.strerror or "it can't be read") if isinstance(error, OSError) else str(error)
        _unreadable(node, reason, scope, key)
        return None
    if file.shape != tuple(extents):
        _wrong_shape(node, file.shape, extents, scope, key)
        return None
    misfits = ((value, misfit(value, dtype)) for value in file.data)
    for value, problem in islice(((v, p) for v, p in misfits if p is not None), 1):
        scope.report.error(
            "CG1031",
            f"`{shorten(node.string)}` holds {value}, which can't be a value of type {dtype}: {problem}",
            node.span,
            key=key,
            label=f"doesn't fit {dtype}",
            help="save the file with another dtype, or choose another one for the array",
        )
        return None
    data = tuple(convert(value, dtype) for value in file.data)
    return Values(data, node.string, hashlib.sha256(content).hexdigest())


def _unreadable(node: YamlScalar, reason: str, scope: Scope, key: str) -> None:
    scope.report.error(
        "CG1035",
        f"`{shorten(node.string)}` can't be used: {reason}",
        node.span,
        key=key,
        label="this file",
        help="save it with numpy.save from an array of plain numbers, beside the spec",
    )


def _allowed_path(node: YamlScalar, scope: Scope, folder: Path | None, key: str) -> Path | None:
    """The resolved path inside the spec's folder; None after reporting one that is missing or outside."""
    name = PurePosixPath(node.string)
    problem = None
    if not node.string.endswith(".npy"):
        problem = "only .npy files can be named here"
    elif name.is_absolute() or ".." in name.parts or "\\" in node.string or ":" in node.string:
        problem = "the path must be inside the spec's folder, without `..`"
    elif folder is None:
        problem = "this spec has no folder to look in"
    else:
        path = Path(os.path.realpath(folder / name))
        if not path.is_relative_to(os.path.realpath(folder)):
            problem = "a link leads out of the spec's folder"
        elif not os.path.isfile(path):
            _unreadable(node, "there is no such file", scope, key)
            return None
        else:
            return path
    scope.report.error(
        "CG1034",
        f"`{shorten(node.string)}` can't be read: {problem}",
        node.span,
        key=key,
        label="not allowed",
        help="put the .npy file beside the spec and write its name alone",
    )
    return None
