"""`scalars`: compile-time constants or kernel arguments."""

from __future__ import annotations

from cugen.spec.expressions import Span
from cugen.spec.model import Scalar
from cugen.spec.parse.keys import SCALAR_KEYS
from cugen.spec.parse.nodes import Entry, YamlNode
from cugen.spec.parse.reading import join, read_choice, read_keys, read_mapping, read_type, shorten
from cugen.spec.resolve import resolve
from cugen.spec.resolve.keys.fitting import Number, convert, literal, misfit
from cugen.spec.resolve.keys.scope import Scope
from cugen.spec.resolve.keys.values import report_misfit
from cugen.spec.types import DType


def read_scalars(node: YamlNode, scope: Scope) -> list[Scalar]:
    """The declared scalars in the order of the file; names of invalid ones are marked broken."""
    scalars: list[Scalar] = []
    for entry in read_mapping(node, scope.report, key="scalars") or ():
        key = join("scalars", entry.name)
        if not scope.declare(entry.key, "a scalar", key=key):
            continue
        scalar = _read_scalar(entry, scope, key)
        if scalar is None:
            scope.mark_broken((entry.name,))
        else:
            scalars.append(scalar)
    return scalars


def _read_scalar(entry: Entry, scope: Scope, key: str) -> Scalar | None:
    report = scope.report
    options = read_keys(entry.value, SCALAR_KEYS, report, key=key, required=("dtype",), help="write `{dtype: float32}`")
    if not options or "dtype" not in options:
        return None
    before = len(report.diagnostics)
    dtype = read_type(options["dtype"].value, report, key=f"{key}.dtype")
    constant = False
    if "memory" in options:
        spaces = ("constant",)
        constant = bool(
            read_choice(options["memory"].value, spaces, report, key=f"{key}.memory", what="memory space of a scalar")
        )
    if dtype is None:
        return None
    value = _read_value(options["value"].value, dtype, scope, f"{key}.value") if "value" in options else None
    value = _set(entry.name, entry.key.span, dtype, value, scope, key)
    if len(report.diagnostics) > before:
        return None
    return Scalar(entry.name, dtype, value, constant, entry.key.span)


def _read_value(node: YamlNode, dtype: DType, scope: Scope, key: str) -> Number | None:
    value = literal(node)
    if value is None:
        tree = scope.parse(node, key=key, expected="a number or an expression in params")
        value = None if tree is None else resolve.resolve_number(tree, scope.params, scope.report, key=key)
    if value is None:
        return None
    problem = misfit(value, dtype)
    if problem is not None:
        report_misfit(node, dtype, problem, scope, key=key)
        return None
    return convert(value, dtype)


def _set(name: str, span: Span, dtype: DType, value: Number | None, scope: Scope, key: str) -> Number | None:
    """The scalar's value, overridden by the caller's; for a kernel argument that is only checked."""
    if name not in scope.settings:
        return value
    setting = scope.settings[name]
    problem = misfit(setting, dtype) if isinstance(setting, int | float) else "it isn't a number"
    if problem is not None:
        scope.report.error(
            "CG1023",
            f"`{name}` can't be set to {shorten(str(setting))}: {problem}",
            span,
            key=key,
            label="declared here",
            help=f"set a value that {dtype} can hold",
        )
        return value
    return None if value is None else convert(setting, dtype)
