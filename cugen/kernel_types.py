"""Warns of products that take several times as long since a temporary is wider than what tensor cores take.

A temporary that isn't declared keeps the type that its value computes in, which is float32 of 16- and 8-bit floats.
"""

from __future__ import annotations

from collections.abc import Iterator

from cugen.kernel import Kernel
from cugen.machine import target
from cugen.machine.mma import instruction_for
from cugen.spec.diagnostics import Diagnostic
from cugen.spec.expressions import Reduce, factors_of_product, walk
from cugen.spec.model import Array, Spec, Statement
from cugen.spec.prove.affine import text_of


def type_warnings(kernel: Kernel) -> tuple[Diagnostic, ...]:
    """A warning for each temporary that a product has beside an array of 16 or 8 bits; not for those of a chain in one
    statement, whose family multiplies them in registers."""
    spec = kernel.spec
    planned = {statement.target for statement in kernel.plan.context.spec.statements}
    warnings: dict[str, Diagnostic] = {}
    for statement in spec.statements:
        for wide, narrow in _mixed_products(statement, spec):
            if wide.name not in planned:
                continue
            warnings.setdefault(wide.name, _warning(wide, narrow, statement, spec))
    return tuple(warnings.values())


def _mixed_products(statement: Statement, spec: Spec) -> Iterator[tuple[Array, Array]]:
    """The factors of sums of products: the temporary, and the array whose type tensor cores multiply."""
    for node in walk(statement.value):
        if not isinstance(node, Reduce) or node.kind != "sum":
            continue
        factors = tuple(spec.array(read.array) for read in factors_of_product(node.body, node.dtype))
        for wide, narrow in zip(factors, reversed(factors), strict=True):
            if wide.is_temporary and _is_wider(wide, narrow, node, spec):
                yield wide, narrow


def _is_wider(wide: Array, narrow: Array, reduction: Reduce, spec: Spec) -> bool:
    """Whether tensor cores multiply the narrow type by itself, and the two types not or in parts."""
    on = target(spec.target)
    mixed, uniform = (
        instruction_for(factor.dtype.name, narrow.dtype.name, reduction.dtype.name, on, tf32=False, fast_fp8=False)
        for factor in (wide, narrow)
    )
    is_slower = mixed is None or bool(mixed.split)
    return is_slower and uniform is not None and uniform.feature.is_on(on) and wide.dtype.is_float


def _warning(wide: Array, narrow: Array, statement: Statement, spec: Spec) -> Diagnostic:
    shape = ", ".join(map(text_of, wide.shape))
    types = f"{wide.dtype.name} and {narrow.dtype.name}"
    message = f"`{wide.name}` has the type of its value: products of {types} in `{statement.target}` take long"
    declaration = f"{wide.name}: {{shape: [{shape}], dtype: {narrow.dtype.name}, memory: scratch}}"
    help = f"if {narrow.dtype.name} is exact enough, declare `{declaration}` under `arrays`: one instruction takes it"
    lines = spec.text.splitlines()
    line = lines[statement.span.line - 1] if 0 < statement.span.line <= len(lines) else ""
    return Diagnostic("CG2112", message, spec.path, statement.span, help=help, source_line=line, severity="warning")
