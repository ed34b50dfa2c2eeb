"""The host function that plays a plan's launches: for the end of the .cu and, declared, for the .h."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from cugen.emit.ctypes import c_name, header_of
from cugen.emit.integers import IntegerPrinter
from cugen.emit.nodes import NodePrinter
from cugen.plan.context import Context
from cugen.plan.ir import Kernel, Plan
from cugen.plan.symbols import FloorDiv, Integer, bounds, integer
from cugen.spec.expressions import Expr, ParamValue, walk


@dataclass(frozen=True, slots=True)
class LaunchText:
    """One launch: `condition` is empty where the grid can't be empty."""

    kernel: str
    condition: str
    call: str
    dynamic: bool
    shared: int


@dataclass(frozen=True)
class Launcher:
    name: str
    parameters: tuple[str, ...]
    checks: tuple[str, ...]
    uploads: tuple[str, ...]
    launches: tuple[LaunchText, ...]
    workspace: tuple[str, ...]
    workspace_total: str
    size_parameters: str
    size_arguments: str
    symbols: frozenset[str]  # params that the text mentions
    includes: tuple[str, ...]
    notes: tuple[str, ...]

    def variables(self) -> dict[str, Any]:
        """What the launch template needs."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("symbols", "includes", "notes")}


def make_launcher(context: Context, plan: Plan) -> Launcher:
    spec = context.spec
    printer = IntegerPrinter(context.ranges, frozenset(s.name for s in context.symbols.values()))
    mentioned: dict[str, None] = {}

    def text(expr: Integer, *, wide: bool = False) -> str:
        mentioned.update(dict.fromkeys(s.name for s in expr.free_symbols))
        return printer.print(expr, wide=wide)

    parameters: list[str] = []
    includes: dict[str, None] = {}
    notes: list[str] = []
    for declared in spec.arrays:
        if declared.role in ("input", "output", "inout"):
            constant = "const " if declared.role == "input" else ""
            parameters.append(f"{constant}{c_name(declared.dtype)}* {_parameter(context, declared.name)}")
            if (include := header_of(declared.dtype)) is not None:
                includes[include] = None
            asked = max((dict(kernel.alignments).get(declared.name, 0) for kernel in plan.kernels), default=0)
            if asked > declared.dtype.bytes:
                notes.append(f"{_parameter(context, declared.name)} must be aligned to {asked} bytes.")
    for scalar in spec.scalars:
        if scalar.value is None:
            parameters.append(f"{c_name(scalar.dtype)} {_parameter(context, scalar.name)}")
            if (include := header_of(scalar.dtype)) is not None:
                includes[include] = None
    dynamic = [p for p in spec.params if p.is_dynamic]
    parameters += [f"int {context.symbols[p.name].name}" for p in dynamic]
    checks = []
    for param in dynamic:
        name = context.symbols[param.name].name
        checks.append(f"{name} < {param.minimum}")
        if param.maximum < 2**31 - 1:
            checks[-1] += f" || {name} > {param.maximum}"
        if param.multiple_of > 1:
            checks[-1] += f" || {name} % {param.multiple_of} != 0"
    checks += [
        _requirement(context, requirement.condition, mentioned)
        for requirement in spec.require
        if _is_open(context, requirement.condition)
    ]
    if plan.workspace:
        parameters.append("void* workspace")
        notes.append("`workspace` may be null: the launch then allocates and frees its own, in the stream's order.")
    pieces, total = [], integer(0)
    for array in plan.workspace:
        elements = context.elements(spec.array(array.name))
        kind = c_name(array.dtype)
        start = text(total, wide=True) if total != 0 else "0"
        pieces.append(
            f"{kind}* const {array.symbol} = reinterpret_cast<{kind}*>(static_cast<char*>(workspace) + {start})"
        )
        total = total + _aligned(elements * array.dtype.bytes)
    uploads = []
    for upload in plan.uploads:
        if upload.argument in context.arrays:
            source, direction = upload.parameter, "cudaMemcpyDeviceToDevice"
        else:
            source, direction = f"&{upload.parameter}", "cudaMemcpyHostToDevice"
        uploads.append(f"cudaMemcpyToSymbolAsync({upload.symbol}, {source}, {upload.bytes}, 0, {direction}, stream)")
    launches = tuple(_launch(context, kernel, text, printer) for kernel in plan.kernels)
    workspace_total = text(total, wide=True) if plan.workspace else ""
    return Launcher(
        spec.kernel,
        tuple(parameters),
        tuple(checks),
        tuple(uploads),
        launches,
        tuple(pieces),
        workspace_total,
        ", ".join(f"int {context.symbols[p.name].name}" for p in dynamic) or "void",
        ", ".join(context.symbols[p.name].name for p in dynamic),
        frozenset(mentioned),
        tuple(includes),
        tuple(notes),
    )


def _launch(context: Context, kernel: Kernel, text: Any, printer: IntegerPrinter) -> LaunchText:
    grid = [text(extent) for extent in kernel.grid]
    while len(grid) > 1 and grid[-1] == "1":
        grid.pop()
    block = [str(size) for size in kernel.block]
    while len(block) > 1 and block[-1] == "1":
        block.pop()
    empty = [text(extent) for extent in kernel.grid if bounds(extent, context.ranges)[0] < 1]
    arguments = []
    for name in kernel.arguments:
        if name in context.arrays:
            arguments.append(_parameter(context, name))
        elif name in context.scalar_symbols:
            arguments.append(context.scalar_symbols[name])
        else:
            arguments.append(context.symbols[name].name)
    shared = str(kernel.dynamic_shared_bytes)
    configuration = f"dim3({', '.join(grid)}), dim3({', '.join(block)}), {shared}, stream"
    call = f"{kernel.name}<<<{configuration}>>>({', '.join(arguments)})"
    return LaunchText(
        kernel.name,
        " && ".join(f"{extent} > 0" for extent in empty),
        call,
        kernel.dynamic_shared_bytes > 0 and kernel.shared_bytes + kernel.dynamic_shared_bytes > 48 * 1024,
        kernel.dynamic_shared_bytes,
    )


def _parameter(context: Context, name: str) -> str:
    """The launcher's name for an array or scalar: the symbol of a constant one stands for the copy on the device."""
    for upload in context.uploads:
        if upload.argument == name:
            return upload.parameter
    return context.arrays[name].symbol if name in context.arrays else context.scalar_symbols[name]


def _aligned(size: Integer) -> Integer:
    """Pieces of a workspace begin at multiples of 256 bytes, as allocations do."""
    return FloorDiv(size + 255, integer(256)) * 256


def _is_open(context: Context, condition: Expr) -> bool:
    """Whether a requirement mentions a dynamic param; the others were checked when the spec was read."""
    return any(isinstance(n, ParamValue) and context.spec.param(n.name).is_dynamic for n in walk(condition))


def _requirement(context: Context, condition: Expr, mentioned: dict[str, None]) -> str:
    names = {name: expr.name for name, expr in context.symbols.items()}
    mentioned.update({names[n.name]: None for n in walk(condition) if isinstance(n, ParamValue)})
    return f"!({NodePrinter(context.ranges, {}, names).print(condition)})"
