"""Array arguments in the templates of host programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from cugen.abi.manifest import ArrayArgument
from cugen.abi.sizes import evaluate, evaluate_all
from cugen.emit.host.program.expressions import atom, size_printer
from cugen.emit.host.program.names import HostNames
from cugen.emit.printer.ctypes import c_name
from cugen.plan.symbols import Range
from cugen.spec.model import Spec
from cugen.spec.prove.drawn import ascending_axes, drawn_ranges
from cugen.spec.types import DTYPES

_MAGNITUDE = 100  # of random integers


@dataclass(frozen=True, slots=True)
class ArrayText:
    """An array of the program.

    `span` is an argument of the launcher, `part_span` that for some rows; `first` and `part_elements` are the first
    element of these rows and the number of their elements. `draw` fills the array with numbers from `low` to `high`,
    which are sorted then if it `is_ascending`."""

    name: str
    type: str
    elements_name: str
    elements: str
    role: str
    allocation: str
    span: str
    part_span: str
    first: str
    part_elements: str
    is_split: bool
    draw: str
    low: str
    high: str
    is_ascending: bool

    @property
    def is_input(self) -> bool:
        return self.role != "output"

    @property
    def is_output(self) -> bool:
        return self.role != "input"

    @property
    def is_managed(self) -> bool:
        return self.allocation == "managed"

    @property
    def is_mapped(self) -> bool:
        return self.allocation == "mapped"

    @property
    def is_copied(self) -> bool:
        """Whether the device has a copy of its own."""
        return self.allocation == "device"

    @property
    def bytes(self) -> str:
        return f"{self.elements_name} * sizeof({self.type})"


def drawn_integers(spec: Spec, params: Mapping[str, int]) -> dict[str, Range]:
    """Ranges of the random integers of inputs."""
    known = drawn_ranges(spec, params)
    ranges = {}
    for array in spec.arrays:
        if array.role in ("input", "inout") and not array.dtype.is_float:
            ends = known.get(array.name, (-_MAGNITUDE, _MAGNITUDE))
            low, high = (int(min(max(end, array.dtype.lowest), array.dtype.highest)) for end in ends)
            ranges[array.name] = (low, max(low, high))
    return ranges


def array_text(
    spec: Spec,
    argument: ArrayArgument,
    host: HostNames,
    params: Mapping[str, int],
    drawn: Mapping[str, Range],
    *,
    is_split: bool,
) -> ArrayText:
    """`params` are the values of all params, `drawn` the ranges of random integers."""
    array, dtype, name = spec.array(argument.name), DTYPES[argument.dtype], host.arrays[argument.name]
    printer = size_printer(host.params, params)
    extents = [printer.print(extent) for extent in array.shape]
    strides = [printer.print(stride) for stride in array.strides]
    row = strides[0] if is_split else "1"
    if is_dense := evaluate_all(argument.strides, params) == _dense(evaluate_all(argument.shape, params)):
        strides = []
    low, high = map(str, drawn.get(argument.name, (-1, 1)))
    first = _product("part.first", row)
    part_pointer = f"device.{name} + {first}" if is_split else f"device.{name}"
    return ArrayText(
        name,
        c_name(dtype),
        host.elements[argument.name],
        " * ".join(map(atom, extents)) if is_dense and extents else str(evaluate(argument.elements, params)),
        argument.role,
        array.memory.allocation,
        _span(argument, f"device.{name}", extents, strides),
        _span(argument, part_pointer, ["part.rows", *extents[1:]] if is_split else extents, strides),
        first,
        _product("part.rows", row),
        is_split,
        "draw_reals" if dtype.is_float else "draw_integers",
        low,
        high,
        argument.name in ascending_axes(spec),
    )


def _dense(extents: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(extents[dimension + 1 :]) for dimension in range(len(extents)))


def _span(argument: ArrayArgument, pointer: str, extents: list[str], strides: list[str]) -> str:
    inside = ", ".join([pointer, *extents])
    if not strides:
        return f"{{{inside}}}"
    element = f"{'const ' if argument.role == 'input' else ''}{c_name(DTYPES[argument.dtype])}"
    return f"cugen::Span<{element}, {len(extents)}>({inside}).with_strides({', '.join(strides)})"


def _product(count: str, size: str) -> str:
    return count if size == "1" else f"{count} * {atom(size)}"
