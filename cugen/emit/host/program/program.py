"""`<stem>_main.cpp` and `<stem>_main_overlap.cpp`: complete programs round a kernel's launcher."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from cugen.abi import sizes
from cugen.abi.manifest import ArrayArgument, Manifest, ParamArgument, ScalarArgument
from cugen.emit.describe import harmless, heading, origin
from cugen.emit.environment import environment
from cugen.emit.files import PROGRAMS
from cugen.emit.host.c_sizes import Name, SizePrinter
from cugen.emit.host.launcher import c_names
from cugen.emit.host.program.codes import NO_SIZE
from cugen.emit.host.program.expressions import BOUNDS, atom, size_printer
from cugen.emit.host.program.reference import STEP, HostNames, Reference, make_reference
from cugen.emit.host.program.split import Split, make_split
from cugen.emit.host.typed import make_typed
from cugen.emit.layout import tidy
from cugen.emit.printer.ctypes import c_name, literal
from cugen.emit.printer.functions import host_function_text
from cugen.machine import target
from cugen.machine.devices import default_device
from cugen.plan.context import Context
from cugen.plan.names import Names
from cugen.plan.symbols import Range
from cugen.spec.diagnostics import Reporter
from cugen.spec.model import Spec
from cugen.spec.prove.gathers import gather_ranges
from cugen.spec.types import DTYPES, DType, Kind

_MAGNITUDE = 100  # of random integers
# Names that the templates declare at file scope.
_DECLARED = """
    CHECK Arrays Comparison Part Stage runs parts part_rows link_peak bytes_in bytes_out kernel_bytes mapped_bytes
    allocate_device allocate_pageable allocate_pinned actual draw_integers draw_reals check checked_row_step clamp comparison copy_in copy_on_host
    copy_out copy_in_whole create_stage destroy_stage busy_milliseconds in out kernel cugen device doubles draw free_arrays given host is_inside is_right launch
    launch_part main memory_peak milliseconds part pageable pinned print_rate print_timeline reflect results run_parts
    saturated std stream symmetric wrap
"""


@dataclass(frozen=True, slots=True)
class ArrayText:
    """An array argument in the templates. `span` and `part_span` are arguments of the launcher."""

    name: str
    type: str
    elements_name: str
    elements: str
    span: str
    part_span: str
    low: str
    high: str
    draw: str
    is_input: bool
    is_output: bool
    is_inout: bool
    is_managed: bool
    is_mapped: bool
    is_copied: bool  # between host and device
    is_split: bool
    first: str  # of a split array: the first element of a part, and the number of its elements
    part_elements: str


def program(kind: str, context: Context, manifest: Manifest) -> str:
    """The text of a program, without its stamp. SpecError where the spec has no sizes, or can't be split."""
    spec = context.original
    params = _sizes(spec)
    split = make_split(spec, manifest) if kind == "main-overlap" else None
    host = _host_names(context)
    drawn = _drawn(spec, params)
    reference = make_reference(spec, host, params, drawn)
    text = environment().get_template(f"program/{kind.replace('-', '_')}.cpp.j2").render(
        **_variables(context, manifest, host, params, drawn, reference, split)
    )
    return tidy(text)


def _sizes(spec: Spec) -> dict[str, int]:
    """Values of all params. SpecError (CG2301) where a dynamic one has no default."""
    report = Reporter(spec.file, spec.text)
    values = {}
    for param in spec.params:
        value = param.default if param.value is None else param.value
        if value is None:
            report.error(
                NO_SIZE,
                f"a program needs a size for `{param.name}`, which is dynamic",
                param.span,
                key=f"params.{param.name}",
                label="has no default",
                help=f"give it one, such as `{param.name}: {{default: {max(param.minimum, 1024 * param.multiple_of)}}}`",
            )
        else:
            values[param.name] = value
    report.raise_if_failed()
    return values


def _host_names(context: Context) -> HostNames:
    names = Names()
    for declared in (*_DECLARED.split(), context.spec.kernel, f"{context.spec.kernel}_launch", STEP):
        names.allocate(declared)
    spec = context.original
    params = {param.name: names.allocate(param.name) for param in spec.params}
    arrays = {array.name: names.allocate(array.name) for array in spec.arrays}
    scalars = {scalar.name: names.allocate(scalar.name) for scalar in spec.scalars}
    elements = {name: names.allocate(f"{text}_elements") for name, text in arrays.items()}
    return HostNames(names, arrays, params, scalars, elements)


def _drawn(spec: Spec, params: Mapping[str, int]) -> dict[str, Range]:
    """Ranges of the random integers of inputs: elements that are subscripts are in bounds."""
    subscripts = gather_ranges(spec, params)
    ranges = {}
    for array in spec.arrays:
        if array.role not in ("input", "inout") or array.dtype.is_float:
            continue
        low, high = subscripts.get(array.name, (-_MAGNITUDE, _MAGNITUDE))
        low, high = (min(max(end, array.dtype.lowest), array.dtype.highest) for end in (low, high))
        ranges[array.name] = (low, max(low, high))
    return ranges


def _variables(
    context: Context,
    manifest: Manifest,
    host: HostNames,
    params: Mapping[str, int],
    drawn: Mapping[str, Range],
    reference: Reference,
    split: Split | None,
) -> dict[str, object]:
    spec = context.original
    arguments = [a for a in manifest.arguments if isinstance(a, ArrayArgument)]
    printer = SizePrinter({name: Name(host.params[name], value, value) for name, value in params.items()}, wide=True)
    arrays = [_array_text(spec, a, host, printer, drawn, split) for a in arguments]
    env = environment()
    device = default_device(spec.target)
    rows = host.params[split.rows] if split else ""
    return {
        "name": spec.kernel,
        "heading": heading(context),
        "computes": [harmless(" ".join(statement.text.split())) for statement in spec.statements],
        "origin": origin(context),
        "architecture": _architecture(spec.target),
        "target": spec.target,
        "main_file": f"{spec.kernel}{PROGRAMS['main']}",
        "overlap_file": f"{spec.kernel}{PROGRAMS['main-overlap']}",
        "shares_memory": any(not array.is_copied for array in arrays),
        "draws_reals": any(array.is_input and array.draw == "draw_reals" for array in arrays),
        "draws_integers": any(array.is_input and array.draw == "draw_integers" for array in arrays),
        "bounds": {name: name in reference.bounds for name in BOUNDS},
        "params": [_param_text(spec, name, host, params) for name in params],
        "scalars": [_scalar_text(spec, name, text) for name, text in host.scalars.items()],
        "arrays": arrays,
        "inputs": [array for array in arrays if array.is_input],
        "outputs": [array for array in arrays if array.is_output],
        "copied_in": [array for array in arrays if array.is_copied and array.is_input],
        "copied_out": [array for array in arrays if array.is_copied and array.is_output],
        "bytes_in": _bytes(a for a in arrays if a.is_copied and a.is_input),
        "bytes_out": _bytes(a for a in arrays if a.is_copied and a.is_output),
        "kernel_bytes": _kernel_bytes(a for a in arrays if not a.is_mapped),
        "mapped_bytes": _kernel_bytes(a for a in arrays if a.is_mapped),
        "has_inout": any(array.is_inout for array in arrays),
        "call": _call(spec, manifest, arrays, host, context, [array.span for array in arrays]),
        "part_call": _call(spec, manifest, arrays, host, context, [array.part_span for array in arrays], host_rows=rows),
        "reference": reference,
        "helpers": [host_function_text(env, *helper) for helper in reference.helpers],
        "uses_limits": reference.saturates or any("numeric_limits" in line for s in reference.statements for line in s.lines),
        "step": reference.step,
        "has_step": reference.step > 1,
        "is_checked": not reference.refusal,
        "link": device.host_link if device else None,
        "link_gigabytes": f"{device.host_link.bandwidth / 1e9:.1f}" if device else "0",
        "device": device.name if device else "",
        "rows": rows,
        "multiple": split.multiple if split else 1,
        "shared_in": [array for array in arrays if array.is_copied and array.is_input and not array.is_split],
        "split_in": [array for array in arrays if array.is_copied and array.is_input and array.is_split],
        "split_out": [array for array in arrays if array.is_copied and array.is_output and array.is_split],
    }


def _array_text(
    spec: Spec,
    argument: ArrayArgument,
    host: HostNames,
    printer: SizePrinter,
    drawn: Mapping[str, Range],
    split: Split | None,
) -> ArrayText:
    array, dtype, name = spec.array(argument.name), DTYPES[argument.dtype], host.arrays[argument.name]
    texts = size_printer(host.params, _values(printer))
    extents = [texts.print(extent) for extent in array.shape]
    strides = [texts.print(stride) for stride in array.strides]
    is_split = split is not None and argument.name in split.arrays
    is_dense = sizes.evaluate_all(argument.strides, _values(printer)) == tuple(_dense_strides(argument, printer))
    low, high = map(str, drawn[argument.name]) if argument.name in drawn else ("-1", "1")
    row = strides[0] if is_split else "1"
    elements = " * ".join(map(atom, extents)) if is_dense and extents else printer.print(argument.elements)
    return ArrayText(
        name=name,
        type=c_name(dtype),
        elements_name=host.elements[argument.name],
        elements=elements,
        span=_span(argument, dtype, f"device.{name}", extents, [] if is_dense else strides),
        part_span=_span(
            argument,
            dtype,
            f"device.{name} + {_product('part.first', row)}" if is_split else f"device.{name}",
            ["part.rows", *extents[1:]] if is_split else extents,
            [] if is_dense else strides,
        ),
        low=low,
        high=high,
        draw="draw_reals" if dtype.is_float else "draw_integers",
        is_input=argument.role != "output",
        is_output=argument.role != "input",
        is_inout=argument.role == "inout",
        is_managed=array.memory.allocation == "managed",
        is_mapped=array.memory.allocation == "mapped",
        is_copied=array.memory.allocation == "device",
        is_split=is_split,
        first=_product("part.first", row),
        part_elements=_product("part.rows", row),
    )


def _values(printer: SizePrinter) -> dict[str, int]:
    return {name: value.low for name, value in printer.names.items()}


def _dense_strides(argument: ArrayArgument, printer: SizePrinter) -> list[int]:
    extents = sizes.evaluate_all(argument.shape, _values(printer))
    return [prod(extents[dimension + 1 :]) for dimension in range(len(extents))]


def _span(
    argument: ArrayArgument, dtype: DType, pointer: str, extents: list[str], strides: list[str]
) -> str:
    inside = ", ".join([pointer, *extents])
    if not strides:
        return f"{{{inside}}}"
    constant = "const " if argument.role == "input" else ""
    return f"cugen::Span<{constant}{c_name(dtype)}, {len(extents)}>({inside}).with_strides({', '.join(strides)})"


def _call(
    spec: Spec,
    manifest: Manifest,
    arrays: list[ArrayText],
    host: HostNames,
    context: Context,
    spans: list[str],
    host_rows: str = "",
) -> str:
    """Call of the C++ launcher: arrays, scalars, and the params that no extent gives."""
    launcher_names = c_names(context)
    given = {name for name, _ in make_typed(manifest, launcher_names).sizes}
    remaining = iter(spans)
    arguments = []
    for argument in manifest.arguments:
        match argument:
            case ArrayArgument():
                arguments.append(next(remaining))
            case ScalarArgument(name=name):
                arguments.append(host.scalars[name])
            case ParamArgument(name=name) if launcher_names[name] not in given:
                arguments.append("part.rows" if host.params[name] == host_rows else host.params[name])
    if manifest.workspace:
        arguments.append("nullptr")
    return f"{spec.kernel}_launch({', '.join([*arguments, 'stream'])})"


def _param_text(spec: Spec, name: str, host: HostNames, params: Mapping[str, int]) -> str:
    param = spec.param(name)
    note = f"  // at launch: {param.allowed}" if param.is_dynamic else ""
    return f"constexpr long long {host.params[name]} = {params[name]};{note}"


def _scalar_text(spec: Spec, name: str, text: str) -> str:
    scalar = spec.scalar(name)
    kind = c_name(scalar.dtype)
    value = scalar.value
    if value is None:
        value = 0.75 if scalar.dtype.is_float else scalar.dtype.kind is Kind.BOOL or 2
    number = literal(value, scalar.dtype.compute).replace("CUDART_INF_F", "INFINITY").replace("CUDART_INF", "INFINITY")
    number = number.replace("CUDART_NAN_F", "NAN").replace("CUDART_NAN", "NAN")
    if scalar.dtype.compute != scalar.dtype:
        return f"const {kind} {text} = {kind}({number});"
    return f"constexpr {kind} {text} = {number};"


def _architecture(name: str) -> str:
    """The option of nvcc for a target."""
    if not target(name).is_architecture_specific:
        return f"-arch={name}"
    return f"-gencode arch=compute_{name.removeprefix('sm_')},code={name}"


def _bytes(arrays: Iterable[ArrayText]) -> str:
    return " + ".join(f"{array.elements_name} * sizeof({array.type})" for array in arrays)


def _kernel_bytes(arrays: Iterable[ArrayText]) -> str:
    """Bytes that a kernel has to move: what it reads and writes twice."""
    terms = [f"{'2 * ' if a.is_inout else ''}{a.elements_name} * sizeof({a.type})" for a in arrays]
    return " + ".join(terms)


def _product(factor: str, other: str) -> str:
    return factor if other == "1" else f"{factor} * {atom(other)}"


