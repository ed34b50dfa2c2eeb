"""The text of `<stem>.cu` and `<stem>.h`: a plan's kernels through their families' templates."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

import jinja2

from cugen.emit.ctypes import c_name, header_of, literal, widened
from cugen.emit.describe import header_lines, heading
from cugen.emit.environment import bind, environment
from cugen.emit.launcher import make_launcher
from cugen.emit.layout import tidy
from cugen.emit.nodes import NodePrinter
from cugen.plan import usage
from cugen.plan.context import Context
from cugen.plan.ir import Array, Kernel, Node, Plan, accesses
from cugen.plan.rounding import rounded
from cugen.plan.symbols import Integer, integer
from cugen.spec.types import DTYPES


class EmissionError(AssertionError):
    """A template printed other accesses than the plan holds: a fault of cugen's own."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The texts of the two files."""

    source: str
    header: str


def render(context: Context, plan: Plan) -> Sources:
    """Both files; the same plan gives the same bytes."""
    raw = render_raw(environment(), context, plan)
    return Sources(tidy(raw.source), tidy(raw.header))


def render_raw(env: jinja2.Environment, context: Context, plan: Plan) -> Sources:
    """Both files as the templates print them, before the last pass over the layout."""
    texts: list[str] = []
    functions: dict[tuple[str, str], None] = {}
    headers: dict[str, None] = {}
    for kernel in plan.kernels:
        printer = NodePrinter(
            dict(kernel.ranges), _scalar_texts(context), {n: s.name for n, s in context.symbols.items()}
        )
        texts.append(_kernel_text(env, context, plan, kernel, printer))
        functions.update(printer.functions)
        headers.update(printer.headers)
    bodies = tuple(node for kernel in plan.kernels for node in kernel.body)
    symbols, symbol_headers = _symbols(context, plan, bodies)
    headers.update(symbol_headers)
    for array in usage.arrays(bodies):
        if (include := header_of(array.dtype)) is not None:
            headers.setdefault(include)
    scalars = [s for s in context.spec.scalars if s.value is None and s.name in usage.scalars(bodies)]
    for scalar in scalars:
        if (include := header_of(scalar.dtype)) is not None:
            headers.setdefault(include)
    launcher = make_launcher(context, plan)
    constants = _constants(context, bodies)
    of_host = [c for c in _param_constants(context, launcher.symbols) if c not in constants]
    helper_texts = [_function_text(env, name, kind) for name, kind in sorted(functions)]
    source = env.get_template("file.cu.j2").render(
        heading=heading(context),
        header=header_lines(context, plan),
        includes=sorted(headers),
        constants=constants,
        symbols=symbols,
        functions=helper_texts,
        kernels=texts,
        launcher=env.get_template("launch.cu.j2").render(constants=of_host, **launcher.variables()),
    )
    header = env.get_template("kernel.h.j2").render(
        heading=heading(context),
        header=header_lines(context, plan),
        includes=sorted(launcher.includes),
        notes=launcher.notes,
        **launcher.variables(),
    )
    return Sources(source, header)


def _scalar_texts(context: Context) -> dict[str, str]:
    """What stands for each scalar's value: its name, and a conversion round it where it is stored as a narrow float."""
    return {
        scalar.name: widened(symbol, scalar.dtype) if scalar.value is None else symbol
        for scalar, symbol in zip(context.spec.scalars, context.scalar_symbols.values(), strict=True)
    }


def _kernel_text(env: jinja2.Environment, context: Context, plan: Plan, kernel: Kernel, printer: NodePrinter) -> str:
    template = bind(env, printer).get_template(f"{kernel.family}.cu.j2")
    launch_bounds = str(kernel.threads)
    if kernel.minimum_blocks:
        launch_bounds += f", {kernel.minimum_blocks}"
    text = template.render(
        kernel=kernel,
        parts=dict(kernel.parts),
        launch_bounds=launch_bounds,
        parameters=_parameters(context, plan, kernel),
    )
    _check_accesses(kernel, printer, text)
    return text


def _check_accesses(kernel: Kernel, printer: NodePrinter, text: str) -> None:
    """All planned accesses and no others stand in the text, each once."""
    planned = list(accesses(kernel.body))
    if len(printer.printed) != len(planned) or {id(a) for a in printer.printed} != {id(a) for a in planned}:
        missing = [a.array.symbol for a in planned if all(a is not p for p in printer.printed)]
        raise EmissionError(
            f"{kernel.name}: planned {len(planned)} accesses, printed {len(printer.printed)} ({missing})"
        )
    for array in usage.arrays(kernel.body):
        declarations = 1 if array.space in ("shared", "register") and not array.dynamic else 0
        expected = sum(1 for a in planned if a.array.symbol == array.symbol) + declarations
        found = len(re.findall(rf"\b{re.escape(array.symbol)}\[", text))
        if found != expected and array.shape:
            raise EmissionError(f"{kernel.name}: {array.symbol} is subscripted {found} times, planned {expected}")


def _parameters(context: Context, plan: Plan, kernel: Kernel) -> list[str]:
    """C parameters of the `__global__` function."""
    stores = {a.array.symbol for a in accesses(kernel.body) if a.kind == "store"}
    parameters = []
    for name in kernel.arguments:
        if name in context.arrays:
            array = context.arrays[name]
            constant = "" if array.symbol in stores else "const "
            parameters.append(f"{constant}{c_name(array.dtype)}* __restrict__ {array.symbol}")
        elif name in context.scalar_symbols:
            parameters.append(f"{c_name(context.spec.scalar(name).dtype)} {context.scalar_symbols[name]}")
        else:
            parameters.append(f"int {context.symbols[name].name}")
    return parameters


def _symbols(context: Context, plan: Plan, bodies: tuple[Node, ...]) -> tuple[list[str], dict[str, None]]:
    """`__constant__` arrays and scalars, and tables of baked values, at file scope."""
    texts = []
    headers: dict[str, None] = {}
    used = {array.symbol for array in usage.arrays(bodies)}
    for array in context.constants:
        if array.symbol not in used:
            continue
        texts.append(_symbol_text(array, context, headers))
    for scalar in context.spec.scalars:
        if scalar.constant and scalar.value is None:
            texts.append(f"__constant__ {c_name(scalar.dtype)} {context.scalar_symbols[scalar.name]}")
    return texts, headers


def _symbol_text(array: Array, context: Context, headers: dict[str, None]) -> str:
    printer = NodePrinter(context.ranges, {}, {n: s.name for n, s in context.symbols.items()})
    if array.flat:
        extents = f"[{printer.integer(_span(array))}]" if array.shape else ""
    else:
        extents = "".join(f"[{printer.integer(extent)}]" for extent in array.shape)
    qualifier = "__constant__" if array.space == "constant" else "__device__"
    first = f" = {printer.initializer(array)}" if array.values is not None else ""
    headers.update(printer.headers)
    return f"{qualifier} {c_name(array.dtype)} {array.symbol}{extents}{first}"


def _span(array: Array) -> Integer:
    total = integer(1)
    for extent, stride in zip(array.shape, array.strides, strict=True):
        total = total + (extent - 1) * stride
    return total.expand()


def _constants(context: Context, bodies: tuple[Node, ...]) -> list[str]:
    """`int M = 1000` for each fixed param that the kernels mention, `float eps = 1e-5f` for baked scalars."""
    mentioned = {s.name for s in usage.free_symbols(bodies)}
    mentioned |= {context.symbols[name].name for name in usage.params(bodies)}
    declared = [a for a in usage.arrays(bodies) if a.space not in ("global", "readonly") or a.values is not None]
    mentioned |= {s.name for array in declared for e in array.padded_shape for s in e.free_symbols}
    texts = _param_constants(context, mentioned)
    for scalar in context.spec.scalars:
        if scalar.value is not None and scalar.name in usage.scalars(bodies):
            compute = scalar.dtype.compute
            value = literal(rounded(scalar.value, scalar.dtype), compute)
            texts.append(f"{c_name(compute)} {context.scalar_symbols[scalar.name]} = {value}")
    return texts


def _param_constants(context: Context, mentioned: Collection[str]) -> list[str]:
    """The fixed params whose C names are in `mentioned`, in the order of the spec."""
    texts = []
    for param in context.spec.params:
        name = context.symbols[param.name].name
        if param.value is not None and name in mentioned:
            kind = "int" if -(2**31) <= param.value < 2**31 else "long long"
            texts.append(f"{kind} {name} = {param.value}")
    return texts


def _function_text(env: jinja2.Environment, name: str, kind: str) -> str:
    """A helper for one element type, or a template over all of them where `kind` is empty."""
    if not kind:
        return env.get_template(f"functions/{name}.cu.j2").render()
    dtype = next(t for t in DTYPES.values() if c_name(t) == kind)
    return env.get_template(f"functions/{name}.cu.j2").render(
        T=kind,
        U="unsigned long long" if dtype.bits == 64 else "unsigned int",
        bits=dtype.bits,
        is_float=dtype.is_float,
        is_signed=dtype.name.startswith("int"),
        suffix="f" if dtype.name == "float32" else "",
    )
