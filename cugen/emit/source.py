"""Texts of `<stem>.cu`, `<stem>.h` and `<stem>.hpp`: a plan's kernels rendered by the templates of their families."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import jinja2

from cugen.emit.describe import header_lines, heading, ideal_accesses
from cugen.emit.environment import environment
from cugen.emit.host.apis import RUNTIME
from cugen.emit.host.launcher import c_names, make_launcher
from cugen.emit.host.typed import make_typed
from cugen.emit.layout import tidy
from cugen.emit.manifests import make_manifest
from cugen.emit.printer.ctypes import c_name, header_of, literal, widened
from cugen.emit.printer.file_scope import constants, param_constants, symbols
from cugen.emit.printer.functions import function_text
from cugen.emit.printer.nodes import NodePrinter
from cugen.emit.printer.pipelines import HEADER as TENSOR_MAP_HEADER
from cugen.emit.printer.statements import EmissionError, Sections, StatementPrinter, checked, parameters_of
from cugen.machine import target
from cugen.machine.features import CACHE_FUNCTIONS
from cugen.plan.context import Context
from cugen.plan.kernel import Kernel, Plan
from cugen.plan.memory import Start
from cugen.plan.nodes import ConvertFragment, FunctionCall, Mma, Node
from cugen.plan.remarks import Remarks
from cugen.plan.traversal import usage
from cugen.plan.traversal.walking import accesses, walk_nodes


@dataclass(frozen=True, slots=True)
class Sources:
    """Texts of the three files."""

    source: str
    header: str
    typed_header: str


def render(context: Context, plan: Plan, remarks: Remarks | None = None) -> Sources:
    """Deterministic texts of the files."""
    raw = render_raw(environment(plan.templates), context, plan, remarks or Remarks())
    return Sources(tidy(raw.source), tidy(raw.header), tidy(raw.typed_header))


def render_raw(
    env: jinja2.Environment,
    context: Context,
    plan: Plan,
    remarks: Remarks,
    printers: type[NodePrinter] = NodePrinter,
    statements: type[StatementPrinter] = StatementPrinter,
) -> Sources:
    """The files before `tidy`. `printers` is the class that prints the nodes, `statements` that of the sections."""
    texts: list[str] = []
    functions: dict[tuple[str, str], None] = {}
    headers: dict[str, None] = {}
    ideal: list[str] = []
    # All kernels declare one array of dynamic shared memory, which has one alignment.
    alignment = max((k.dynamic_shared_alignment for k in plan.kernels if k.dynamic_shared_bytes), default=16)
    for kernel in plan.kernels:
        printer = printers(
            dict(kernel.ranges),
            _scalar_texts(context),
            {n: s.name for n, s in context.symbols.items()},
            remarks.claims,
            usage.constants(kernel.body),
            fast_math=kernel.options.fast_math,
            cache_functions=CACHE_FUNCTIONS.is_on(target(context.spec.target)),
        )
        texts.append(_kernel_text(env, context, kernel, statements(printer), alignment))
        functions.update(printer.functions)
        headers.update(printer.headers)
        listed = [
            (printer.texts[access.serial], remarks.listed[access.serial])
            for access in printer.printed
            if access.serial in remarks.listed
        ]
        ideal += ideal_accesses(listed, kernel.name if len(plan.kernels) > 1 else "")
    bodies = tuple(node for kernel in plan.kernels for node in kernel.body)
    declared, symbol_headers = symbols(context, bodies)
    headers.update(symbol_headers)
    headers.update(_headers_of_types(context, bodies))
    launcher = make_launcher(context, plan)
    typed = make_typed(make_manifest(context, plan, "", "", "", ""), c_names(context))
    fixed = constants(context, bodies, _words((*texts, *declared)))
    host_constants = [c for c in param_constants(context, launcher.symbols) if c not in fixed]
    functions.update(dict.fromkeys(launcher.functions))
    helper_texts = [
        function_text(env, name, kind, host=(name, kind) in launcher.functions)
        for name, kind in sorted(functions, key=lambda function: (function[0] != "vector", function))
    ]
    source = env.get_template("file.cu.j2").render(
        heading=heading(context),
        header=(*header_lines(context, plan, remarks), *ideal),
        includes=sorted(headers.keys() - {TENSOR_MAP_HEADER}),
        has_tensor_maps=TENSOR_MAP_HEADER in headers,
        constants=fixed,
        symbols=declared,
        functions=helper_texts,
        kernels=texts,
        launcher=env.get_template("launch.cu.j2").render(constants=host_constants, **launcher.variables()),
    )
    header = env.get_template("kernel.h.j2").render(
        heading=heading(context), header=header_lines(context, plan), **launcher.declaration(RUNTIME)
    )
    typed_header = env.get_template("kernel.hpp.j2").render(
        typed.variables(context, RUNTIME, workspace=bool(launcher.workspace))
    )
    return Sources(source, header, typed_header)


def _words(texts: Iterable[str]) -> set[str]:
    """The words of the code, without those of comments and of strings, as that of `extern "C"`."""
    lines = (re.sub(r'"[^"]*"', "", line) for text in texts for line in text.splitlines())
    return {word for line in lines for word in re.findall(r"\w+", line.partition("//")[0])}


def _headers_of_types(context: Context, bodies: tuple[Node, ...]) -> dict[str, None]:
    """CUDA headers of the types of arrays and run-time scalars."""
    types = [array.dtype for array in usage.arrays(bodies)]
    mentioned = usage.scalars(bodies)
    types += [scalar.dtype for scalar in context.spec.scalars if scalar.value is None and scalar.name in mentioned]
    return {header: None for dtype in types if (header := header_of(dtype)) is not None}


def _scalar_texts(context: Context) -> dict[str, str]:
    """C text of each scalar's value: its name, widened to the compute type.

    Infinities and NaN are no constant expressions in C++; scalars of these values are printed as literals."""
    texts = {}
    for scalar, name in zip(context.spec.scalars, context.scalar_symbols.values(), strict=True):
        if scalar.value is None:
            texts[scalar.name] = widened(name, scalar.dtype)
        else:
            texts[scalar.name] = name if math.isfinite(scalar.value) else literal(scalar.value, scalar.dtype.compute)
    return texts


def _kernel_text(
    env: jinja2.Environment, context: Context, kernel: Kernel, statements: StatementPrinter, shared_alignment: int
) -> str:
    template = env.get_template(f"{kernel.family}.cu.j2")
    printer = statements.printer
    if kernel.is_clustered:
        printer.headers.setdefault("cooperative_groups.h")
    variables = {
        "launch_bounds": _launch_bounds(kernel),
        "parameters": _parameters(context, kernel),
        "shared_alignment": shared_alignment,
    }
    try:
        text = template.render(kernel=kernel, parts=Sections(kernel.sections), **variables, **statements.functions())
    except jinja2.UndefinedError as error:
        raise EmissionError(f"{kernel.name}: {template.name}: {error}") from None
    text = checked(text, statements, kernel.body, kernel.name)
    _check_accesses(kernel, printer, text)
    return "\n".join([*(_function_text(env, call, statements) for call in statements.called.values()), text])


def _function_text(env: jinja2.Environment, call: FunctionCall, statements: StatementPrinter) -> str:
    """The function of a kernel's calls."""
    integers = statements.printer.integers
    types = {node.index.symbol: statements.printer.declared_type(node.index) for node in call.definitions}
    kinds = [("long long" if integers.is_wide(name) else "int", name) for name in parameters_of(call)]
    variables = {
        "call": call,
        "parameters": ", ".join(f"{kind} {name}" for kind, name in kinds),
        "Result": call.name.title().replace("_", ""),
        "fields": [f"{types[result]} {result}" for result in call.results],
        "results": ", ".join(result.name for result in call.results),
    }
    text = env.get_template("function.cu.j2").render(variables, **statements.functions())
    return checked(text, statements, call.body, call.function)


def _launch_bounds(kernel: Kernel) -> str:
    """The qualifier that bounds a thread's registers; CUDA takes one of them."""
    if kernel.options.max_registers:
        return f"__maxnreg__({kernel.options.max_registers})"
    blocks = f", {kernel.minimum_blocks}" if kernel.minimum_blocks else ""
    return f"__launch_bounds__({kernel.threads}{blocks})"


def _check_accesses(kernel: Kernel, printer: NodePrinter, text: str) -> None:
    """EmissionError unless the text has each planned access once and no others."""
    planned = list(accesses(kernel.body))
    if len(printer.printed) != len(planned) or {a.serial for a in printer.printed} != {a.serial for a in planned}:
        missing = [a.array.symbol for a in planned if all(a is not p for p in printer.printed)]
        raise EmissionError(
            f"{kernel.name}: planned {len(planned)} accesses, printed {len(printer.printed)} ({missing})"
        )
    code = re.sub(r"//.*", "", text)
    starts = [node for node in walk_nodes(kernel.body) if isinstance(node, Start)]
    expected = Counter(a.printed()[0] for a in planned)
    expected.update(start.array.symbol for start in starts)
    for array in usage.arrays(kernel.body):
        expected[array.symbol] += array.space in ("shared", "register") and not array.dynamic
    scalars = {array.symbol for array in usage.arrays(kernel.body) if not array.shape}
    printed = Counter(re.findall(r"(?<![\w.])(\w+)\[", code))  # `x4.data[v]` is no access to an array `data`
    printed.update(re.findall(r"\b(?:map_shared_rank|tex(?:1Dfetch|2D)<[a-z ]+>)\((\w+), ", code))
    for call in re.findall(r"\btma_\w+\(.*", code):
        printed.update(re.findall(r"&(\w+), ", call))
    for function in {node.function for node in walk_nodes(kernel.body) if isinstance(node, ConvertFragment | Mma)}:
        for call in re.findall(rf"\b{function}\(([^;]*)\)", code):  # on rows, or on whole arrays
            printed.update(re.findall(r"([A-Za-z_]\w*)(?:,|$)", call))
    for name in sorted(expected.keys() - scalars):
        if printed[name] != expected[name]:
            raise EmissionError(f"{kernel.name}: {name} is subscripted {printed[name]} times, planned {expected[name]}")


def _parameters(context: Context, kernel: Kernel) -> list[str]:
    """C parameters of the `__global__` function."""
    stores = {a.array.symbol for a in accesses(kernel.body) if not a.is_load}
    parameters = [f"const __grid_constant__ CUtensorMap {array.symbol}" for array in kernel.tensor_maps]
    # Not `__restrict__`: other blocks write to the workspace concurrently.
    workspace = {array.name: f"{c_name(array.dtype)}* {array.symbol}" for array in kernel.workspace}
    for name in kernel.arguments:
        if name in workspace:
            parameters.append(workspace[name])
        elif name in context.arrays and context.arrays[name].space == "texture":
            parameters.append(f"cudaTextureObject_t {context.arrays[name].symbol}")
        elif name in context.arrays:
            array = context.arrays[name]
            constant = "" if array.symbol in stores else "const "
            parameters.append(f"{constant}{c_name(array.dtype)}* __restrict__ {array.symbol}")
        elif name in context.scalar_symbols:
            parameters.append(f"{c_name(context.spec.scalar(name).dtype)} {context.scalar_symbols[name]}")
        else:
            parameters.append(f"int {context.symbols[name].name}")
    return parameters
