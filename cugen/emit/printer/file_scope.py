"""File-scope declarations of a .cu: fixed params and scalars, `__constant__` symbols and constant tables."""

from __future__ import annotations

import math
from collections.abc import Collection

from cugen.emit.printer.ctypes import c_name, literal
from cugen.emit.printer.nodes import NodePrinter
from cugen.plan.context import Context
from cugen.plan.memory import ARGUMENTS, Array
from cugen.plan.nodes import Node
from cugen.plan.symbols import Integer, integer
from cugen.plan.traversal import usage
from cugen.spec.floats.rounding import rounded


def symbols(context: Context, bodies: tuple[Node, ...]) -> tuple[list[str], dict[str, None]]:
    """Declarations of `__constant__` arrays and scalars and of constant tables, and the headers they need."""
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
    initializer = f" = {printer.initializer(array)}" if array.values is not None else ""
    headers.update(printer.headers)
    return f"{qualifier} {c_name(array.dtype)} {array.symbol}{extents}{initializer}"


def _span(array: Array) -> Integer:
    total = integer(1)
    for extent, stride in zip(array.shape, array.strides, strict=True):
        total = total + (extent - 1) * stride
    return total.expand()


def constants(context: Context, bodies: tuple[Node, ...], printed: Collection[str]) -> list[str]:
    """`int M = 1000` for each fixed param that the kernels use, `float eps = 1e-5f` for fixed scalars. Params that
    aren't among the `printed` words have none: a printed expression may be simpler than its node."""
    mentioned = {s.name for s in usage.free_symbols(bodies)}
    mentioned |= {context.symbols[name].name for name in usage.params(bodies)}
    declared = [a for a in usage.arrays(bodies) if a.space not in ARGUMENTS or a.values is not None]
    mentioned |= {s.name for array in declared for e in array.padded_shape for s in e.free_symbols}
    texts = param_constants(context, mentioned & set(printed))
    for scalar in context.spec.scalars:
        if scalar.value is not None and math.isfinite(scalar.value) and scalar.name in usage.scalars(bodies):
            compute = scalar.dtype.compute
            value = literal(rounded(scalar.value, scalar.dtype), compute)
            texts.append(f"{c_name(compute)} {context.scalar_symbols[scalar.name]} = {value}")
    return texts


def param_constants(context: Context, mentioned: Collection[str]) -> list[str]:
    """Fixed params whose C names are in `mentioned`, in the order of the spec."""
    texts = []
    for param in context.spec.params:
        name = context.symbols[param.name].name
        if param.value is not None and name in mentioned:
            kind = "int" if -(2**31) <= param.value < 2**31 else "long long"
            texts.append(f"{kind} {name} = {param.value}")
    return texts
