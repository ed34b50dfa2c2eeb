"""`<stem>.hpp`: the C++ launcher that takes spans and checks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from cugen.abi import wording
from cugen.abi.manifest import ArrayArgument, Manifest, ParamArgument, ScalarArgument
from cugen.emit.describe import origin
from cugen.emit.files import LAUNCH_HEADER
from cugen.emit.host.apis import Api
from cugen.emit.host.c_sizes import Name, SizePrinter
from cugen.emit.host.sentences import quoted
from cugen.emit.printer.ctypes import c_name
from cugen.plan.context import Context
from cugen.plan.names import Names
from cugen.spec.types import DTYPES


@dataclass(frozen=True, slots=True)
class Typed:
    """`sizes` are the params deduced from extents of spans, each with the extent; `checks` are calls on an object named
    `check`; `arguments` are those of the C launcher without workspace and stream."""

    parameters: tuple[str, ...]
    sizes: tuple[tuple[str, str], ...]
    check: str
    checks: tuple[str, ...]
    arguments: tuple[str, ...]

    def variables(self, context: Context, api: Api, *, workspace: bool) -> dict[str, Any]:
        """Variables of templates/kernel.hpp.j2."""
        return {
            "api": api,
            "name": context.spec.kernel,
            "origin": origin(context),
            "launch_header": LAUNCH_HEADER,
            "typed": self,
            "all_parameters": ", ".join(
                [*self.parameters, *(["void* workspace"] if workspace else []), f"{api.stream_type} stream"]
            ),
            "arguments": ", ".join([*self.arguments, *(["workspace"] if workspace else []), "stream"]),
        }


def make_typed(manifest: Manifest, c_names: Mapping[str, str]) -> Typed:
    """`c_names` maps arguments to their C names."""
    names = Names()
    for text in (*c_names.values(), "stream", "workspace"):
        names.allocate(text)
    check = names.allocate("check")
    arrays = [a for a in manifest.arguments if isinstance(a, ArrayArgument)]
    params = [a for a in manifest.arguments if isinstance(a, ParamArgument)]
    extents = {param.name: _extents(param.name, arrays, c_names) for param in params}
    printer = SizePrinter(size_names(manifest, c_names), wide=True)
    checks = [line for param in params for line in _param_checks(param, c_names[param.name], extents[param.name])]
    checks += [
        _requirement(condition, manifest, printer) for condition in manifest.require if _is_open(condition, params)
    ]
    checks += [_array_check(array, c_names[array.name], printer) for array in arrays]
    checks += _disjoint(arrays, c_names)
    return Typed(
        tuple(_parameter(a, c_names[a.name]) for a in manifest.arguments if not extents.get(a.name)),
        tuple((c_names[param.name], extents[param.name][0][0]) for param in params if extents[param.name]),
        check,
        tuple(f"{check}.{line}" for line in checks),
        tuple(_argument(a, c_names[a.name]) for a in manifest.arguments),
    )


def size_names(manifest: Manifest, c_names: Mapping[str, str]) -> dict[str, Name]:
    """C text and range of each param in the sizes of a manifest."""
    names = {name: Name(str(value), value, value) for name, value in manifest.params.items()}
    for argument in manifest.arguments:
        if isinstance(argument, ParamArgument):
            names[argument.name] = Name(c_names[argument.name], argument.minimum, argument.maximum)
    return names


def _extents(param: str, arrays: list[ArrayArgument], c_names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Extents of spans that equal the param, each with its description."""
    return [
        (f"{c_names[array.name]}.extents[{dimension}]", wording.DIMENSION.format(dimension=dimension, name=array.name))
        for array in arrays
        for dimension, size in enumerate(array.shape)
        if size == param
    ]


def _param_checks(param: ParamArgument, text: str, extents: list[tuple[str, str]]) -> list[str]:
    lines = []
    for extent, source in extents[1:]:
        lines.append(f"equal({quoted(param.name)}, {text}, {quoted(extents[0][1])}, {extent}, {quoted(source)})")
    limits = f"{param.minimum}, {param.maximum}, {param.multiple_of}"
    return [*lines, f"param({quoted(param.name)}, {text}, {limits})"]


def _is_open(condition: str, params: list[ParamArgument]) -> bool:
    return bool(wording.mentioned(condition, {param.name: None for param in params}))


def _requirement(condition: str, manifest: Manifest, printer: SizePrinter) -> str:
    named = wording.mentioned(condition, printer.names)
    values = ", ".join(f"{{{quoted(name)}, {printer.names[name].text}}}" for name in named)
    return f"requirement({printer.condition(condition)}, {quoted(condition)}, {{{values}}})"


def _array_check(array: ArrayArgument, text: str, printer: SizePrinter) -> str:
    shape, strides = (", ".join(map(printer.print, sizes)) for sizes in (array.shape, array.strides))
    line = f"array({quoted(array.name)}, {text}, {{{shape}}}, {{{strides}}}, {array.alignment}"
    if any(isinstance(size, str) for size in array.shape):
        line += f", {quoted('[' + ', '.join(map(str, array.shape)) + ']')}"
    return f"{line})"


def _disjoint(arrays: list[ArrayArgument], c_names: Mapping[str, str]) -> list[str]:
    return [
        f"disjoint({quoted(a.name)}, {c_names[a.name]}, {quoted(b.name)}, {c_names[b.name]})"
        for a, b in combinations(arrays, 2)
        if (a.role, b.role) != ("input", "input")
    ]


def _parameter(argument: ArrayArgument | ScalarArgument | ParamArgument, text: str) -> str:
    match argument:
        case ArrayArgument(role=role, dtype=dtype, shape=shape):
            constant = "const " if role == "input" else ""
            return f"cugen::Span<{constant}{c_name(DTYPES[dtype])}, {len(shape)}> {text}"
        case ScalarArgument(dtype=dtype):
            return f"{c_name(DTYPES[dtype])} {text}"
    return f"long long {text}"


def _argument(argument: ArrayArgument | ScalarArgument | ParamArgument, text: str) -> str:
    match argument:
        case ArrayArgument():
            return f"{text}.data"
        case ParamArgument():
            return f"static_cast<int>({text})"
    return text
