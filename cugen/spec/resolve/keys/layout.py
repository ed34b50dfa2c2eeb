"""`layout` and `pitch`: the strides of an array."""

from __future__ import annotations

from collections.abc import Sequence

from cugen.spec.expressions import Const, Expr, Op
from cugen.spec.model import Requirement
from cugen.spec.parse.keys import LAYOUTS, MAX_ELEMENTS
from cugen.spec.parse.nodes import Entry, YamlMapping, YamlNode, YamlScalar, YamlSequence
from cugen.spec.parse.reading import first_line, read_choice, read_integer, read_keys, wrong_type
from cugen.spec.prove.affine import text_of
from cugen.spec.resolve.keys.scope import Scope
from cugen.spec.types import BOOL, INT64, DType


def product(a: Expr, b: Expr) -> Expr:
    """The tree a * b, with literals folded."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(int(a.value) * int(b.value), INT64)
    if isinstance(a, Const) and a.value == 1:
        return b
    if isinstance(b, Const) and b.value == 1:
        return a
    return Op("mul", (a, b), INT64)


def dense_strides(shape: Sequence[Expr], *, column: bool = False, pitch: Expr | None = None) -> tuple[Expr, ...]:
    """Strides in elements; `pitch` replaces the length of the contiguous dimension (the last, or the first one)."""
    order = list(shape) if column else list(shape)[::-1]
    strides: list[Expr] = []
    stride: Expr = Const(1, INT64)
    for position, extent in enumerate(order):
        strides.append(stride)
        stride = product(pitch if pitch is not None and position == 0 else extent, stride)
    return tuple(strides if column else strides[::-1])


def read_strides(
    shape: tuple[Expr, ...], dtype: DType, layout: Entry | None, pitch: Entry | None, scope: Scope, *, key: str
) -> tuple[Expr, ...] | None:
    """The strides given by `layout` and `pitch`; None after reporting an error."""
    report = scope.report
    column = False
    if layout is not None:
        if isinstance(layout.value, YamlMapping):
            if pitch is not None:
                report.error(
                    "CG1039",
                    "`layout` gives explicit strides, so `pitch` isn't allowed",
                    pitch.key.span,
                    key=f"{key}.pitch",
                    label="conflicts with `layout`",
                    help="remove `pitch`",
                )
                return None
            return _explicit(shape, layout.value, scope, key=f"{key}.layout")
        order_name = read_choice(layout.value, LAYOUTS, report, key=f"{key}.layout", what="layout", code="CG1037")
        if order_name is None:
            return None
        column = order_name == "column"
    if pitch is None:
        return dense_strides(shape, column=column)
    if len(shape) < 2:
        report.error(
            "CG1039",
            f"an array of {len(shape)} dimension{'s' if len(shape) != 1 else ''} has no row pitch",
            pitch.key.span,
            key=f"{key}.pitch",
            label="needs two dimensions",
            help="remove `pitch`",
        )
        return None
    row = _read_pitch(shape[0] if column else shape[-1], dtype, pitch.value, scope, key=f"{key}.pitch")
    return None if row is None else dense_strides(shape, column=column, pitch=row)


def _explicit(shape: tuple[Expr, ...], node: YamlMapping, scope: Scope, *, key: str) -> tuple[Expr, ...] | None:
    options = read_keys(node, ("strides",), scope.report, key=key, required=("strides",))
    if not options or "strides" not in options:
        return None
    value = options["strides"].value
    key = f"{key}.strides"
    if not isinstance(value, YamlSequence):
        wrong_type(value, "a list with one stride per dimension", scope.report, key=key)
        return None
    if len(value.items) != len(shape):
        scope.report.error(
            "CG1037",
            f"{len(value.items)} strides for {len(shape)} dimensions",
            first_line(value),
            key=key,
            label=f"expected {len(shape)}",
            help="give one stride for each entry of `shape`",
        )
        return None
    strides: list[Expr] = []
    for position, item in enumerate(value.items):
        stride = scope.integer(item, key=f"{key}[{position}]")
        if stride is None:
            return None
        number = scope.static(stride)
        if number is not None and not 1 <= number <= MAX_ELEMENTS:
            scope.report.error(
                "CG1037",
                f"the stride is {number}; strides are positive and at most 2**48",
                item.span,
                key=f"{key}[{position}]",
                label="out of range",
                help="give the number of elements between consecutive index values",
            )
            return None
        strides.append(stride)
    return tuple(strides) if _are_disjoint(shape, strides, value, scope, key) else None


def _are_disjoint(shape: Sequence[Expr], strides: Sequence[Expr], node: YamlNode, scope: Scope, key: str) -> bool:
    """Whether elements have distinct offsets: each stride is at least the span of the smaller ones; else reports it."""
    pairs = [(scope.static(stride), scope.static(extent)) for stride, extent in zip(strides, shape, strict=True)]
    known = sorted((stride, extent) for stride, extent in pairs if stride is not None and extent is not None)
    span = 1
    for stride, extent in known:
        if extent > 1 and stride < span:
            scope.report.error(
                "CG1038",
                f"elements overlap: the stride {stride} is less than {span}, the span of the smaller strides",
                first_line(node),
                key=key,
                label="overlapping",
                help=f"make that stride at least {span}",
            )
            return False
        span += (extent - 1) * stride
    return True


def _read_pitch(row: Expr, dtype: DType, node: YamlNode, scope: Scope, *, key: str) -> Expr | None:
    """The row pitch in elements: explicit, or from the alignment of rows in bytes. Launches whose rows are longer are
    refused."""
    if isinstance(node, YamlMapping):
        return _aligned(row, dtype, node, scope, key=key)
    pitch = scope.integer(node, key=key)
    if pitch is None:
        return None
    elements, length = scope.static(pitch), scope.static(row)
    if elements is not None and (elements < 1 or elements > MAX_ELEMENTS or (length is not None and elements < length)):
        scope.report.error(
            "CG1039",
            f"a pitch of {elements} elements can't hold a row of {length if length is not None else 'the shape'}",
            node.span,
            key=key,
            label="too short" if elements <= MAX_ELEMENTS else "too long",
            help=f"make it {length if length is not None else 'the row length'} or more, or write `{{align: 128}}`",
        )
        return None
    if elements is None or length is None:
        condition = Op("ge", (pitch, row), BOOL)
        scope.implied.append(Requirement(condition, f"{text_of(pitch)} >= {text_of(row)}", node.span))
    return pitch


def _aligned(row: Expr, dtype: DType, node: YamlMapping, scope: Scope, *, key: str) -> Expr | None:
    options = read_keys(node, ("align",), scope.report, key=key, required=("align",))
    if not options or "align" not in options:
        return None
    value = options["align"].value
    align = read_integer(value, scope.report, key=f"{key}.align", low=1, high=4096)
    if align is None:
        return None
    if align & (align - 1) or align % dtype.bytes:
        scope.report.error(
            "CG1040",
            f"rows of {dtype} can't be aligned to {align} bytes",
            value.span if isinstance(value, YamlScalar) else first_line(value),
            key=f"{key}.align",
            label=f"must be a power of two and a multiple of {dtype.bytes}",
            help="128 is the size of a cache line, 256 the alignment of cudaMallocPitch",
        )
        return None
    unit = Const(align // dtype.bytes, INT64)
    length = scope.static(row)
    if unit.value == 1:
        return row
    if length is not None:
        return Const(-(-length // int(unit.value)) * int(unit.value), INT64)
    padded = Op("add", (row, Const(int(unit.value) - 1, INT64)), INT64)
    return Op("mul", (Op("floordiv", (padded, unit), INT64), unit), INT64)
