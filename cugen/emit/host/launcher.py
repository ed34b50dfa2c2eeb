"""The host function that plays a plan's launches: for the end of the .cu and, declared, for the .h."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from cugen.emit.printer.ctypes import alias_in_c, c_name, header_of
from cugen.emit.printer.nodes import NodePrinter
from cugen.plan.context import Context
from cugen.plan.kernel import Kernel, Plan, Upload
from cugen.plan.symbols import FloorDiv, Integer, bounds, integer
from cugen.spec.expressions import Expr, ParamValue, walk
from cugen.spec.model import Param


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
    """The text of the host function. `functions` are the helpers that it calls, with their types in C."""

    name: str
    parameters: tuple[str, ...]
    checks: tuple[str, ...]
    uploads: tuple[str, ...]
    launches: tuple[LaunchText, ...]
    workspace: tuple[str, ...]
    zeros: tuple[str, ...]  # what is set to zeros before the launches
    workspace_total: str
    size_parameters: str
    size_definition: str  # the same, without names for those that the size doesn't depend on
    size_arguments: str
    symbols: frozenset[str]  # params that the text mentions
    functions: tuple[tuple[str, str], ...]
    includes: tuple[str, ...]
    aliases: tuple[str, ...]  # of types for which CUDA's headers have another name in C
    notes: tuple[str, ...]

    def variables(self) -> dict[str, Any]:
        """What the launch template needs."""
        others = ("symbols", "functions", "includes", "aliases", "notes")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in others}


class _Texts:
    """Prints sizes and conditions over params; remembers the params and the helpers that the texts mention."""

    def __init__(self, context: Context) -> None:
        names = {name: expr.name for name, expr in context.symbols.items()}
        self._printer = NodePrinter(context.ranges, {}, names)
        self._names = names
        self.symbols: dict[str, None] = {}

    @property
    def functions(self) -> dict[tuple[str, str], None]:
        return self._printer.functions

    def size(self, expr: Integer, *, wide: bool = False) -> str:
        self.symbols.update(dict.fromkeys(s.name for s in expr.free_symbols))
        return self._printer.integers.print(expr, wide=wide)

    def condition(self, expr: Expr) -> str:
        self.symbols.update({self._names[n.name]: None for n in walk(expr) if isinstance(n, ParamValue)})
        return self._printer.print(expr)


def make_launcher(context: Context, plan: Plan) -> Launcher:
    """The host function of a plan. What it is given stands in the order of the spec: arrays, scalars, params."""
    spec, texts = context.spec, _Texts(context)
    dynamic = [param for param in spec.params if param.is_dynamic]
    arrays = [a for a in spec.arrays if a.role in ("input", "output", "inout")]
    scalars = [s for s in spec.scalars if s.value is None]
    parameters = [
        f"{'const ' if array.role == 'input' else ''}{c_name(array.dtype)}* {_parameter(context, array.name)}"
        for array in arrays
    ]
    parameters += [f"{c_name(scalar.dtype)} {_parameter(context, scalar.name)}" for scalar in scalars]
    sizes = [context.symbols[param.name].name for param in dynamic]
    parameters += [f"int {size}" for size in sizes]
    notes = [
        f"{_parameter(context, array.name)} must be aligned to {asked} bytes."
        for array in arrays
        if (asked := _alignment(plan, array.name)) > array.dtype.bytes
    ]
    if plan.workspace:
        parameters.append("void* workspace")
        notes.append("`workspace` may be null: the launch then allocates and frees its own, in the stream's order.")
    checks = [_check(param, context.symbols[param.name].name) for param in dynamic]
    conditions = [requirement.condition for requirement in spec.require]
    checks += [f"!({texts.condition(condition)})" for condition in conditions if _is_open(context, condition)]
    pieces, zeros, total, needed = _workspace(context, plan, texts)
    launches = tuple(_launch(context, kernel, texts) for kernel in plan.kernels)
    types = [*(array.dtype for array in arrays), *(scalar.dtype for scalar in scalars)]
    return Launcher(
        spec.kernel,
        tuple(parameters),
        tuple(checks),
        tuple(_upload(context, upload) for upload in plan.uploads),
        launches,
        pieces,
        zeros,
        total,
        ", ".join(f"int {size}" for size in sizes) or "void",
        ", ".join(f"int {size}" if size in needed else f"int /* {size} */" for size in sizes) or "void",
        ", ".join(sizes),
        frozenset(texts.symbols),
        tuple(texts.functions),
        tuple(dict.fromkeys(header for dtype in types if (header := header_of(dtype)))),
        tuple(dict.fromkeys(alias for dtype in types if (alias := alias_in_c(dtype)))),
        tuple(notes),
    )


def c_names(context: Context) -> dict[str, str]:
    """What the launcher calls each argument, by the spec's names."""
    spec = context.spec
    found = {array.name: _parameter(context, array.name) for array in spec.arrays if array.name in context.arrays}
    found |= {scalar.name: _parameter(context, scalar.name) for scalar in spec.scalars}
    return found | {param.name: context.symbols[param.name].name for param in spec.params}


def _alignment(plan: Plan, array: str) -> int:
    """The bytes to which some kernel asks that the array be aligned."""
    return max((dict(kernel.alignments).get(array, 0) for kernel in plan.kernels), default=0)


def _check(param: Param, name: str) -> str:
    """The condition under which the param has a value that the spec doesn't allow."""
    text = f"{name} < {param.minimum}"
    if param.maximum < 2**31 - 1:
        text += f" || {name} > {param.maximum}"
    if param.multiple_of > 1:
        text += f" || {name} % {param.multiple_of} != 0"
    return text


def _workspace(
    context: Context, plan: Plan, texts: _Texts
) -> tuple[tuple[str, ...], tuple[str, ...], str, frozenset[str]]:
    """The pieces of the workspace, one for each array, what zeroes some of them, its size in bytes, and the params that
    the size names."""
    pieces, zeros, total = [], [], integer(0)
    for array in plan.workspace:
        kind = c_name(array.dtype)
        start = texts.size(total, wide=True) if total != 0 else "0"
        pieces.append(
            f"{kind}* const {array.symbol} = reinterpret_cast<{kind}*>(static_cast<char*>(workspace) + {start})"
        )
        size = context.elements_of(array) * array.dtype.bytes
        if array.zeroed:
            zeros.append(f"cudaMemsetAsync({array.symbol}, 0, {texts.size(size, wide=True)}, stream)")
        total = total + _aligned(size)
    needed = frozenset(symbol.name for symbol in total.free_symbols)
    return tuple(pieces), tuple(zeros), texts.size(total, wide=True) if plan.workspace else "", needed


def _upload(context: Context, upload: Upload) -> str:
    on_device = upload.argument in context.arrays
    source = upload.parameter if on_device else f"&{upload.parameter}"
    direction = "cudaMemcpyDeviceToDevice" if on_device else "cudaMemcpyHostToDevice"
    return f"cudaMemcpyToSymbolAsync({upload.symbol}, {source}, {upload.bytes}, 0, {direction}, stream)"


def _launch(context: Context, kernel: Kernel, texts: _Texts) -> LaunchText:
    grid = [texts.size(extent) for extent in kernel.grid]
    while len(grid) > 1 and grid[-1] == "1":
        grid.pop()
    block = [str(size) for size in kernel.block]
    while len(block) > 1 and block[-1] == "1":
        block.pop()
    empty = [texts.size(extent) for extent in kernel.grid if bounds(extent, context.ranges)[0] < 1]
    arguments = []
    own = {array.name: array.symbol for array in kernel.workspace}
    for name in kernel.arguments:
        if name in own:
            arguments.append(own[name])
        elif name in context.arrays:
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
