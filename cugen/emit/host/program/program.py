"""`<stem>_main.cpp` and `<stem>_main_overlap.cpp`: complete programs round a kernel's launcher."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cugen.abi.manifest import ArrayArgument, Manifest, ParamArgument, ScalarArgument
from cugen.emit.describe import harmless, heading, origin
from cugen.emit.environment import environment
from cugen.emit.files import PROGRAMS
from cugen.emit.host.launcher import c_names
from cugen.emit.host.program.arrays import ArrayText, array_text, drawn_integers
from cugen.emit.host.program.codes import NO_SIZE
from cugen.emit.host.program.expressions import BOUNDS, host_literal
from cugen.emit.host.program.names import HostNames, host_names
from cugen.emit.host.program.reference import make_reference
from cugen.emit.host.program.split import PARTS, make_split
from cugen.emit.host.typed import make_typed
from cugen.emit.layout import tidy
from cugen.emit.printer.ctypes import c_name
from cugen.emit.printer.functions import host_function_text
from cugen.machine import target
from cugen.machine.devices import default_device
from cugen.plan.context import Context
from cugen.spec.diagnostics import Reporter
from cugen.spec.model import Scalar, Spec
from cugen.spec.types import Kind


def program(kind: str, context: Context, manifest: Manifest) -> str:
    """The text of a program, `main` or `main-overlap`. SpecError where a dynamic param has no default, or the work
    can't be split."""
    spec = context.original
    params = _sizes(spec)
    split = make_split(spec, manifest, params) if kind == "main-overlap" else None
    host = host_names(spec)
    drawn = drawn_integers(spec, params)
    reference = make_reference(spec, host, params, drawn)
    env = environment()
    device = default_device(spec.target)
    arrays = [
        array_text(spec, a, host, params, drawn, is_split=split is not None and a.name in split.arrays)
        for a in manifest.arguments
        if isinstance(a, ArrayArgument)
    ]
    text = env.get_template(f"program/{kind.replace('-', '_')}.cpp.j2").render(
        name=spec.kernel,
        file=f"{spec.kernel}{PROGRAMS[kind]}",
        heading=heading(context),
        computes=[harmless(" ".join(statement.text.split())) for statement in spec.statements],
        origin=origin(context),
        architecture=_architecture(spec.target),
        params=[_param_text(spec, name, host, params) for name in params],
        scalars=[_scalar_text(scalar, host.scalars[scalar.name]) for scalar in spec.scalars],
        call=_call(manifest, host, context, [array.span for array in arrays]),
        part_call=_call(manifest, host, context, [array.part_span for array in arrays]),
        reference=reference,
        bounds={name: name in reference.bounds for name in BOUNDS},
        helpers=[host_function_text(env, *helper) for helper in reference.helpers],
        is_checked=not reference.refusal,
        has_step=reference.step > 1,
        link=device.host_link if device else None,
        link_gigabytes=f"{device.host_link.bandwidth / 1e9:.1f}" if device else "0",
        device=device.name if device else "",
        rows=host.params[split.rows] if split else "",
        parts=PARTS,
        has_multiple=split is not None and split.multiple > 1,
        multiple=split.multiple if split else 1,
        **_groups(arrays),
    )
    return tidy(text)


def _groups(arrays: list[ArrayText]) -> dict[str, Any]:
    """The arrays by what the program does with them, and the bytes that it moves."""
    copied_in = [array for array in arrays if array.is_copied and array.is_input]
    copied_out = [array for array in arrays if array.is_copied and array.is_output]
    return {
        "arrays": arrays,
        "inputs": [array for array in arrays if array.is_input],
        "copied_in": copied_in,
        "copied_out": copied_out,
        "shared_in": [array for array in copied_in if not array.is_split],
        "split_in": [array for array in copied_in if array.is_split],
        "split_out": [array for array in copied_out if array.is_split],
        "bytes_in": " + ".join(array.bytes for array in copied_in),
        "bytes_out": " + ".join(array.bytes for array in copied_out),
        "kernel_bytes": _moved(array for array in arrays if not array.is_mapped),
        "mapped_bytes": _moved(array for array in arrays if array.is_mapped),
        "has_inout": any(array.role == "inout" for array in arrays),
        "shares_memory": not all(array.is_copied for array in arrays),
        "draws_reals": any(array.is_input and array.draw == "draw_reals" for array in arrays),
        "draws_integers": any(array.is_input and array.draw == "draw_integers" for array in arrays),
    }


def _moved(arrays: Iterable[ArrayText]) -> str:
    """Bytes that a kernel has to move: those that it reads, and those that it writes."""
    return " + ".join(f"{'2 * ' if array.role == 'inout' else ''}{array.bytes}" for array in arrays)


def _sizes(spec: Spec) -> dict[str, int]:
    """Values of all params. SpecError (CG2401) where a dynamic one has no default."""
    report = Reporter(spec.path, spec.text)
    values = {}
    for param in spec.params:
        value = param.default if param.value is None else param.value
        if value is None:
            example = max(param.minimum, 1024 * param.multiple_of)
            report.error(
                NO_SIZE,
                f"a program needs a size for `{param.name}`, which is dynamic",
                param.span,
                key=f"params.{param.name}",
                label="has no default",
                help=f"give it one, such as `{param.name}: {{default: {min(example, param.maximum)}}}`",
            )
        else:
            values[param.name] = value
    report.raise_if_failed()
    return values


def _call(manifest: Manifest, host: HostNames, context: Context, spans: list[str]) -> str:
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
                arguments.append(host.params[name])
    if manifest.workspace:
        arguments.append("nullptr")  # the launcher allocates it
    return f"{manifest.kernel}_launch({', '.join([*arguments, 'stream'])})"


def _param_text(spec: Spec, name: str, host: HostNames, params: Mapping[str, int]) -> str:
    param = spec.param(name)
    note = f"  // at launch: {param.allowed}" if param.is_dynamic else ""
    return f"constexpr long long {host.params[name]} = {params[name]};{note}"


def _scalar_text(scalar: Scalar, name: str) -> str:
    """The declaration of a scalar, with a number of the program's own where the spec leaves it to the launch."""
    kind, value = c_name(scalar.dtype), scalar.value
    if value is None:
        value = 0.75 if scalar.dtype.is_float else scalar.dtype.kind is Kind.BOOL or 2
    number = host_literal(value, scalar.dtype.compute)
    if scalar.dtype.compute != scalar.dtype:
        return f"const {kind} {name} = {kind}({number});"
    return f"constexpr {kind} {name} = {number};"


def _architecture(name: str) -> str:
    """The option of nvcc for a target."""
    if not target(name).is_architecture_specific:
        return f"-arch={name}"
    return f"-gencode arch=compute_{name.removeprefix('sm_')},code={name}"
