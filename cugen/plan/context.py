"""The context shared by all kernels of a spec: C names of params, scalars and arrays, and the arrays' memory spaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import sympy

from cugen.plan.kernel import Texture, Upload
from cugen.plan.memory import Array, row_major
from cugen.plan.names import Names
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer, Maximum, Range, bounds, integer, symbol
from cugen.plan.textures.addressing import Texture2D, pitched_texture
from cugen.spec import model
from cugen.spec.expressions import Index
from cugen.spec.floats.rounding import rounded
from cugen.spec.model import Spec


@dataclass(frozen=True, eq=False, repr=False)
class Context:
    """`spec` holds the statements as launched, after rewrites; `original` as the user wrote them.

    `symbols` and `ranges` cover the params; `arrays` holds each array's form in global memory as the launches see it,
    `declared` as the caller does: one may be another view of the same elements."""

    spec: Spec
    original: Spec
    names: Names
    symbols: Mapping[str, Integer]
    ranges: Mapping[sympy.Symbol, Range]
    arrays: Mapping[str, Array]
    declared: Mapping[str, Array]
    scalar_symbols: Mapping[str, str]
    constants: tuple[Array, ...]
    uploads: tuple[Upload, ...]
    textures: tuple[Texture, ...] = ()

    def __repr__(self) -> str:
        return f"<Context of {self.spec.kernel}>"

    def elements(self, array: model.Array) -> Integer:
        """Elements that the buffer spans, including the padding of a pitch."""
        return self.elements_of(self.arrays[array.name])

    def elements_of(self, array: Array) -> Integer:
        """As `elements`, of any array whose shape is over the params."""
        count = _span(array)
        return count if bounds(count, dict(self.ranges))[0] >= 0 else Maximum(count, integer(0))

    def texture_sizes(self, texture: Texture) -> tuple[Integer, ...]:
        """The elements of linear memory; of a 2-D texture the width and height in elements, and the pitch in bytes."""
        array = self.arrays[texture.argument]
        if array.texture_2d is None:
            return (self.elements_of(array),)
        x, y = array.texture_2d.dimensions
        return array.shape[x], array.shape[y], array.strides[y] * array.dtype.bytes

    def extent(self, index: Index) -> Integer:
        return to_integer(index.extent, self.symbols)

    def max_extent(self, index: Index) -> int:
        """The largest extent that the params allow."""
        return bounds(self.extent(index), self.ranges)[1]

    def min_extent(self, index: Index) -> int:
        """The smallest extent that the params allow."""
        return bounds(self.extent(index), self.ranges)[0]

    def typical_extent(self, index: Index) -> int | None:
        """The extent at the values and defaults of the params; None where one that it depends on has neither."""
        low, high = bounds(self.extent(index), self._typical_ranges)
        return low if low == high else None

    def planned_extent(self, index: Index) -> int:
        """The extent that work is distributed for: the typical one, else the largest at the values and defaults of the
        params that have one. At launch there may be more."""
        return self.planned(self.extent(index))

    def planned(self, expr: Integer) -> int:
        """As `planned_extent`, of an expression over params."""
        return bounds(expr, self._typical_ranges)[1]

    @cached_property
    def _typical_ranges(self) -> dict[sympy.Symbol, Range]:
        defaults = {self.symbols[p.name]: p.default for p in self.spec.params if p.is_dynamic and p.default is not None}
        typical = {name: (max(default, 1),) * 2 for name, default in defaults.items()}  # nothing is planned for a 0
        return {name: typical.get(name, known) for name, known in self.ranges.items()}

    def static_extent(self, index: Index) -> int | None:
        """The extent, if it is fixed."""
        return self.static(self.extent(index))

    def static(self, expr: Integer) -> int | None:
        """The value of an expression over params, if all of them are fixed."""
        low, high = bounds(expr, dict(self.ranges))
        return low if low == high else None


def make_context(spec: Spec, original: Spec | None = None) -> Context:
    """Allocates all names once, in the order of the spec, so that equal specs give equal names."""
    names = _launcher_names(spec)
    symbols: dict[str, Integer] = {}
    ranges: dict[sympy.Symbol, Range] = {}
    for param in spec.params:
        name = symbol(names.allocate(param.name))
        symbols[param.name] = name
        ranges[name] = (param.minimum, param.maximum) if param.value is None else (param.value, param.value)
    scalar_symbols = {scalar.name: names.allocate(scalar.name) for scalar in spec.scalars}
    uploads = [
        Upload(scalar_symbols[scalar.name], scalar.name, scalar.dtype.bytes, names.allocate(f"{scalar.name}_value"))
        for scalar in spec.scalars
        if scalar.constant and scalar.value is None
    ]
    arrays: dict[str, Array] = {}
    constants: list[Array] = []
    textures: list[Texture] = []
    for declared in spec.arrays:
        array = _array(declared, names.allocate(declared.name), symbols)
        if array.space == "constant" or (declared.values is not None and declared.memory.space != "register"):
            if declared.values is None:
                parameter = array.symbol
                array = replace(array, symbol=names.allocate(f"{declared.name}_constant"))
                count = bounds(_span(array), ranges)[1]
                uploads.append(Upload(array.symbol, declared.name, count * declared.dtype.bytes, parameter))
            constants.append(array)
        if array.space == "texture":
            parameter = array.symbol
            array = replace(array, symbol=names.allocate(f"{declared.name}_texture"))
            textures.append(Texture(array.symbol, declared.name, parameter))
        arrays[declared.name] = array
    written = {array.name: array for array in (original or spec).arrays}
    declared_arrays = {
        name: _array(written[name], array.symbol, symbols) if name in written else array
        for name, array in arrays.items()
    }
    return Context(
        spec=spec,
        original=original or spec,
        names=names,
        symbols=symbols,
        ranges=ranges,
        arrays=arrays,
        declared=declared_arrays,
        scalar_symbols=scalar_symbols,
        constants=tuple(constants),
        uploads=tuple(uploads),
        textures=tuple(textures),
    )


def _launcher_names(spec: Spec) -> Names:
    """Names of the file, of which the functions of the launcher have theirs first."""
    names = Names()
    suffixes = ["launch", "load", "blocks_per_sm", "workspace_bytes", "tensor_map", "im2col_map"]
    if any(array.memory.space == "texture" for array in spec.arrays):
        suffixes = ["texture", "texture_2d", *suffixes]
    if _has_uploads(spec):  # calls are serialised
        suffixes += ["mutex", "wait"]
    for name in (spec.kernel, *(f"{spec.kernel}_{suffix}" for suffix in suffixes)):
        names.allocate(name)
    return names


def _has_uploads(spec: Spec) -> bool:
    scalars = any(scalar.constant and scalar.value is None for scalar in spec.scalars)
    return scalars or any(array.memory.space == "constant" and array.values is None for array in spec.arrays)


def _span(array: Array) -> Integer:
    """Elements from the first to the last; may be negative if a dimension is 0."""
    spans = [(extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True)]
    return sympy.Add(1, *spans).expand()


def _array(declared: model.Array, name: str, symbols: Mapping[str, Integer]) -> Array:
    shape = tuple(to_integer(extent, symbols) for extent in declared.shape)
    strides = tuple(to_integer(stride, symbols) for stride in declared.strides)
    space = declared.memory.space or "global"
    readonly_table = declared.values is not None and space == "readonly"
    if declared.values is not None and space in ("global", "readonly", "shared"):
        space = "table"
    if space in ("shared", "scratch", "register"):
        space = "global"
    at_file_scope = space in ("constant", "table")
    is_dense = all(a == b or (a - b).expand() == 0 for a, b in zip(strides, row_major(shape), strict=True))
    # A table of narrow floats is stored in its compute type: the narrow types have no constant initialisers.
    baked = declared.values is not None
    return Array(
        declared.name,
        name,
        declared.dtype.compute if baked else declared.dtype,
        shape,
        strides,
        space,
        flat=not (at_file_scope and is_dense),
        values=None if declared.values is None else tuple(rounded(v, declared.dtype) for v in declared.values.data),
        writable=declared.role in ("output", "inout", "temporary"),
        readonly_table=readonly_table,
        texture_2d=_texture_2d(declared, strides) if space == "texture" else None,
        load_operator=declared.memory.load,
        store_operator=declared.memory.store,
    )


def _texture_2d(declared: model.Array, strides: tuple[Integer, ...]) -> Texture2D | None:
    boundary = None if declared.boundary is None else declared.boundary.mode
    if declared.memory.dims != 2:
        return None
    return pitched_texture(strides, boundary, is_linear=declared.is_filtered)
