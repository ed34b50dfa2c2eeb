"""Argument checks of one call against the manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from cugen.abi import wording
from cugen.abi.codes import (
    MISALIGNED,
    MISSING_ARGUMENT,
    OVERLAP,
    PARAM_REFUSED,
    UNKNOWN_ARGUMENT,
    WRONG_DEVICE,
    WRONG_DTYPE,
    WRONG_SHAPE,
    WRONG_STRIDES,
)
from cugen.abi.errors import RunError
from cugen.abi.manifest import ArrayArgument, Manifest, ParamArgument, ScalarArgument
from cugen.abi.sizes import evaluate, evaluate_all, holds
from cugen.runtime.call.views import CPU, ArrayView, view_of
from cugen.spec.nearest import did_you_mean
from cugen.spec.types import DTYPES

Number = int | float | bool
_MAX_TEXT = 60  # characters of a value in a message


@dataclass(frozen=True)
class Call:
    """Checked arguments. `params` holds all params, dynamic ones given or deduced from shapes."""

    arrays: Mapping[str, ArrayView]
    scalars: Mapping[str, Number]
    params: Mapping[str, int]


def check_call(manifest: Manifest, given: Mapping[str, Any], *, device: int) -> Call:
    """Checks the arguments `given`, arrays and numbers by name; `device` is the ordinal of the GPU, or CPU.

    Dynamic params that are extents of arrays are deduced. RunError CG5002 to CG5009 and CG5014.
    """
    _check_names(manifest, given)
    arrays = {a.name: view_of(a.name, given[a.name]) for a in manifest.arguments if isinstance(a, ArrayArgument)}
    params = {**manifest.params, **_dynamic(manifest, given, arrays)}
    for requirement in manifest.require:
        if not holds(requirement, params):
            values = ", ".join(f"{name} = {params[name]}" for name in wording.mentioned(requirement, params))
            raise RunError(PARAM_REFUSED, wording.REQUIREMENT.format(condition=requirement, values=values))
    for argument in manifest.arguments:
        if isinstance(argument, ArrayArgument):
            _check_array(_required_of(argument, manifest, device), arrays[argument.name], params, device)
    _check_overlap(manifest, arrays)
    scalars = {a.name: _number(a, given[a.name]) for a in manifest.arguments if isinstance(a, ScalarArgument)}
    return Call(arrays, scalars, params)


def merged(manifest: Manifest, values: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of a call: those in its mapping and those by name. RunError CG5004 for one given twice."""
    for name in values or {}:
        if name in named:
            raise RunError(UNKNOWN_ARGUMENT, f"`{name}` of {manifest.kernel} is given twice", "leave one out")
    return {**(values or {}), **named}


def shortened(value: object) -> str:
    """A short text of a value, on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"


def _check_names(manifest: Manifest, given: Mapping[str, Any]) -> None:
    known = [argument.name for argument in manifest.arguments]
    for name in given:
        if name not in known:
            help = did_you_mean(name, known, what="arguments")
            raise RunError(UNKNOWN_ARGUMENT, f"`{name}` is no argument of {manifest.kernel}", help)
    for argument in manifest.arguments:
        if argument.name not in given and not isinstance(argument, ParamArgument):
            kind = "array" if isinstance(argument, ArrayArgument) else "number"
            raise RunError(
                MISSING_ARGUMENT,
                f"{manifest.kernel} needs the {kind} `{argument.name}` ({argument.dtype})",
                wording.pass_by_name(argument.name),
            )


def _dynamic(manifest: Manifest, given: Mapping[str, Any], arrays: Mapping[str, ArrayView]) -> dict[str, int]:
    deduced = _deduced(manifest, arrays)
    values: dict[str, int] = {}
    for param in manifest.arguments:
        if not isinstance(param, ParamArgument):
            continue
        sources = deduced.get(param.name, [])
        if param.name in given:
            sources = [("the call", int(given[param.name])), *sources]
        if not sources:
            raise RunError(
                MISSING_ARGUMENT,
                f"{manifest.kernel} needs the param `{param.name}`, which can't be deduced from a shape",
                wording.pass_by_name(param.name),
            )
        source, value = sources[0]
        for other_source, other_value in sources[1:]:
            if other_value != value:
                raise RunError(
                    PARAM_REFUSED,
                    wording.TWO_VALUES.format(
                        name=param.name,
                        value=value,
                        source=source,
                        other_value=other_value,
                        other_source=other_source,
                    ),
                )
        _check_param(param, value)
        values[param.name] = value
    return values


def _deduced(manifest: Manifest, arrays: Mapping[str, ArrayView]) -> dict[str, list[tuple[str, int]]]:
    """Values of params that are extents of arrays, each with the dimension's description."""
    values: dict[str, list[tuple[str, int]]] = {}
    for argument in manifest.arguments:
        if not isinstance(argument, ArrayArgument) or len(argument.shape) != len(arrays[argument.name].shape):
            continue
        extents = zip(argument.shape, arrays[argument.name].shape, strict=True)
        for position, (size, extent) in enumerate(extents):
            if isinstance(size, str):
                source = wording.DIMENSION.format(dimension=position, name=argument.name)
                values.setdefault(size, []).append((source, extent))
    return values


def _check_param(param: ParamArgument, value: int) -> None:
    if not param.minimum <= value <= param.maximum:
        text = wording.OUT_OF_RANGE.format(name=param.name, value=value, low=param.minimum, high=param.maximum)
        raise RunError(PARAM_REFUSED, text)
    if value % param.multiple_of:
        text = wording.NO_MULTIPLE.format(name=param.name, value=value, multiple=param.multiple_of)
        raise RunError(PARAM_REFUSED, text)


def _required_of(argument: ArrayArgument, manifest: Manifest, device: int) -> ArrayArgument:
    """The argument as a device requires it: the CPU copies arrays, and its texture objects have no alignment."""
    if device != CPU or argument not in manifest.texture_arguments():
        return argument
    return replace(argument, alignment=DTYPES[argument.dtype].bytes)


def _check_array(argument: ArrayArgument, view: ArrayView, params: Mapping[str, int], device: int) -> None:
    name = argument.name
    _check_device(argument, view, device)
    dtype = DTYPES[argument.dtype]
    raw = view.dtype == f"V{dtype.bytes}" and dtype.name in ("bfloat16", "float8_e4m3", "float8_e5m2")
    if view.dtype != argument.dtype and not raw:
        raise RunError(WRONG_DTYPE, f"`{name}` holds {view.dtype}; the kernel was made for {argument.dtype}")
    shape = evaluate_all(argument.shape, params)
    if view.shape != shape:
        symbols, numbers = _list(argument.shape), _list(shape)
        expected = numbers if symbols == numbers else wording.EQUATION.format(symbols=symbols, expected=numbers)
        raise RunError(WRONG_SHAPE, wording.SHAPE.format(name=name, actual=_list(view.shape), expected=expected))
    if 0 in shape:
        return
    strides = tuple(stride * dtype.bytes for stride in evaluate_all(argument.strides, params))
    if any(n > 1 and a != b for n, a, b in zip(shape, view.strides, strides, strict=True)):
        raise RunError(
            WRONG_STRIDES,
            wording.STRIDES.format(name=name, actual=_list(view.strides), expected=_list(strides)),
            "pass a contiguous copy, or set the array's layout in the spec",
        )
    if view.address == 0:
        raise RunError(WRONG_DEVICE, wording.NULL.format(name=name))
    if view.address % argument.alignment:
        raise RunError(
            MISALIGNED,
            wording.ALIGNMENT.format(name=name, address=hex(view.address), alignment=argument.alignment),
            "pass an array at the start of its allocation, or a copy",
        )


def _check_device(argument: ArrayArgument, view: ArrayView, device: int) -> None:
    name = argument.name
    if device == CPU and view.device != CPU:
        raise RunError(WRONG_DEVICE, f"`{name}` is in GPU memory; this kernel runs on the CPU", "pass a NumPy array")
    if device != CPU and view.device == CPU and argument.allocation == "device":
        raise RunError(
            WRONG_DEVICE, f"`{name}` is in host memory; this kernel runs on GPU {device}", "copy it to the GPU"
        )
    if view.device not in (None, CPU, device):
        raise RunError(WRONG_DEVICE, f"`{name}` is on GPU {view.device}; the kernel runs on GPU {device}")
    if view.readonly and argument.role != "input":
        raise RunError(WRONG_DEVICE, f"`{name}` is written by the kernel; the array passed is read-only")


def _check_overlap(manifest: Manifest, arrays: Mapping[str, ArrayView]) -> None:
    declared = [a for a in manifest.arguments if isinstance(a, ArrayArgument) and arrays[a.name].bytes]
    for a, b in combinations(declared, 2):
        first, second = arrays[a.name], arrays[b.name]
        overlap = first.address < second.address + second.bytes and second.address < first.address + first.bytes
        if overlap and (a.role, b.role) != ("input", "input"):
            raise RunError(OVERLAP, wording.OVERLAP.format(name=a.name, other_name=b.name))


def _number(argument: ScalarArgument, given: Any) -> Number:
    dtype = DTYPES[argument.dtype]
    try:
        number = given.item() if hasattr(given, "item") else given
        if not dtype.is_float and int(number) != number:
            raise ValueError("not an integer")
        value: Number = float(number) if dtype.is_float else int(number)
    except (TypeError, ValueError, OverflowError) as error:
        raise RunError(WRONG_DTYPE, f"`{argument.name}` is {given!r}; the kernel takes a {dtype.name}") from error
    if not dtype.is_float and not dtype.lowest <= value <= dtype.highest:
        raise RunError(WRONG_DTYPE, f"`{argument.name}` is {value}, which {dtype.name} can't represent")
    return value


def workspace_bytes(manifest: Manifest, params: Mapping[str, int]) -> dict[str, int]:
    """Bytes of each workspace buffer."""
    return {space.name: evaluate(space.elements, params) * DTYPES[space.dtype].bytes for space in manifest.workspace}


def _list(numbers: Sequence[int | str]) -> str:
    return "[" + ", ".join(map(str, numbers)) + "]"
