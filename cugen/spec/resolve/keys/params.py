"""`params`: compile-time constants, or kernel arguments if dynamic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.spec.expressions import Span
from cugen.spec.model import Param
from cugen.spec.nearest import nearest
from cugen.spec.parse.keys import DYNAMIC_KEYS
from cugen.spec.parse.nodes import Entry, YamlMapping, YamlNode, YamlScalar, YamlSequence
from cugen.spec.parse.reading import join, read_integer, read_keys, read_mapping, shorten, wrong_type
from cugen.spec.parse.syntax import NameNode, walk
from cugen.spec.resolve.keys.scope import Scope

MAX_DYNAMIC = 2**31 - 1
_INT64 = range(-(2**63), 2**63)
_VALUE_HELP = (
    "write an integer, an expression in earlier params, `dynamic`, or `{range: [lo, hi], multiple_of: n, default: d}`"
)


def read_params(node: YamlNode, scope: Scope) -> None:
    """Declares the params in the order of the file; appends the valid ones to `scope.params`."""
    entries = read_mapping(node, scope.report, key="params") or ()
    scope.mark_broken(_listed_names(node))
    names = [entry.name for entry in entries]
    for position, entry in enumerate(entries):
        key = join("params", entry.name)
        if not scope.declare(entry.key, "a param", key=key):
            continue
        param = _read_param(entry, names[position:], scope, key)
        if param is None:
            scope.mark_broken((entry.name,))
        else:
            scope.params.append(_set(param, scope, key))


def _listed_names(node: YamlNode) -> Iterator[str]:
    """The params of a list, which was refused in place of a mapping: `[N]`, or `- N: 1000`."""
    for item in node.items if isinstance(node, YamlSequence) else ():
        if isinstance(item, YamlScalar):
            yield item.string
        elif isinstance(item, YamlMapping):
            yield from (entry.name for entry in item.entries)


def _read_param(entry: Entry, later: list[str], scope: Scope, key: str) -> Param | None:
    node, name, span = entry.value, entry.name, entry.key.span
    if isinstance(node, YamlMapping):
        return _read_dynamic(node, name, span, scope, key)
    if isinstance(node, YamlScalar) and node.string == "dynamic":
        return Param(name, None, span=span)
    if isinstance(node, YamlScalar) and isinstance(node.value, int) and not isinstance(node.value, bool):
        value: int | None = node.value
    elif isinstance(node, YamlScalar) and isinstance(node.value, str):
        value = _evaluate(node, later, scope, key)
    else:
        help = _VALUE_HELP
        if isinstance(node, YamlScalar) and isinstance(node.value, float):
            scalar = f"{name}: {{dtype: float32, value: {shorten(node.string)}}}"
            help = f"a number that isn't an integer is declared under `scalars`: `{scalar}`"
        wrong_type(node, "an integer", scope.report, key=key, help=help)
        return None
    if value is not None and value not in _INT64:
        scope.report.error(
            "CG1020",
            f"the param `{name}` is {shorten(str(value))}, which doesn't fit into 64 bits",
            node.span,
            key=key,
            label="out of range",
            help="choose a value between -2**63 and 2**63 - 1",
        )
        return None
    return None if value is None else Param(name, value, span=span)


def _evaluate(node: YamlScalar, later: list[str], scope: Scope, key: str) -> int | None:
    tree = scope.parse(node, key=key, expected="an integer or an expression in params")
    if tree is None:
        return None
    known = [param.name for param in scope.params]
    if isinstance(tree, NameNode) and tree.name not in (*known, *later):
        similar = nearest(tree.name, (*known, "dynamic"))
        scope.report.error(
            "CG1201",
            f"`{tree.name}` isn't a param",
            tree.span,
            key=key,
            label="unknown here",
            help=f"did you mean `{similar}`?" if similar else _VALUE_HELP,
        )
        return None
    for part in walk(tree):
        if isinstance(part, NameNode) and part.name in later:
            is_self_reference = part.name == later[0]
            scope.report.error(
                "CG1019",
                f"`{part.name}` isn't declared yet: a param may use only earlier params",
                part.span,
                key=key,
                label="refers to itself" if is_self_reference else "declared further down",
                help="give it a value that doesn't use itself"
                if is_self_reference
                else f"move `{part.name}` above this param",
            )
            return None
        if isinstance(part, NameNode) and any(p.name == part.name and p.is_dynamic for p in scope.params):
            scope.report.error(
                "CG1055",
                f"`{part.name}` is dynamic, so `{later[0]}` has no value at compile time",
                part.span,
                key=key,
                label="known only at launch",
                help=f"write the expression where `{later[0]}` is used, such as in a shape",
            )
            return None
    expr = scope.resolve(tree, key=key)
    return None if expr is None else scope.static(expr)


def _read_dynamic(node: YamlMapping, name: str, span: Span, scope: Scope, key: str) -> Param | None:
    options = read_keys(node, DYNAMIC_KEYS, scope.report, key=key)
    low, high, multiple = 0, MAX_DYNAMIC, 1
    before = len(scope.report.diagnostics)
    if options and "range" in options:
        bounds = options["range"].value
        if isinstance(bounds, YamlSequence) and len(bounds.items) == 2:
            first = read_integer(bounds.items[0], scope.report, key=f"{key}.range", low=0, high=MAX_DYNAMIC)
            last = read_integer(bounds.items[1], scope.report, key=f"{key}.range", low=0, high=MAX_DYNAMIC)
            low, high = first or 0, MAX_DYNAMIC if last is None else last
        else:
            wrong_type(bounds, "a list of the minimum and the maximum", scope.report, key=f"{key}.range")
    if options and "multiple_of" in options:
        entry = options["multiple_of"]
        multiple = read_integer(entry.value, scope.report, key=f"{key}.multiple_of", low=1, high=MAX_DYNAMIC) or 1
    if not options or len(scope.report.diagnostics) > before:
        if options == {} and not node.entries:
            wrong_type(
                node,
                "`dynamic`, or a mapping with `range`, `multiple_of` or `default`",
                scope.report,
                key=key,
                help=_VALUE_HELP,
            )
        return None
    if high // multiple * multiple < low:
        entry = options.get("range") or options["multiple_of"]
        scope.report.error(
            "CG1021",
            f"no value of `{name}` is allowed: none in {low} to {high} is a multiple of {multiple}"
            if low <= high
            else f"no value of `{name}` is allowed: the range {low} to {high} is empty",
            entry.value.span,
            key=key,
            label="empty",
            help="write the lower bound first, and include a multiple in the range",
        )
        return None
    param = Param(name, None, low, high, multiple, span)
    return (
        replace(param, default=_read_default(options["default"].value, param, scope, key))
        if "default" in options
        else param
    )


def _read_default(node: YamlNode, param: Param, scope: Scope, key: str) -> int | None:
    default = read_integer(node, scope.report, key=f"{key}.default", low=0, high=MAX_DYNAMIC)
    problem = None if default is None else _setting_problem(param, default)
    if problem is not None:
        scope.report.error(
            "CG1056",
            f"the default of `{param.name}` can't be {default}: {problem}",
            node.span,
            key=f"{key}.default",
            label="not allowed",
            help=f"write {_allowed(param)}",
        )
    return default


def _set(param: Param, scope: Scope, key: str) -> Param:
    """The param with the caller's value; a dynamic one stays dynamic, its value is only checked."""
    if param.name not in scope.settings:
        return param
    value = scope.settings[param.name]
    problem = _setting_problem(param, value)
    if problem is not None:
        scope.report.error(
            "CG1023",
            f"`{param.name}` can't be set to {shorten(str(value))}: {problem}",
            param.span,
            key=key,
            label="declared here",
            help=f"set {_allowed(param)}",
        )
        return param
    return param if param.is_dynamic else Param(param.name, int(value), span=param.span)


def _setting_problem(param: Param, value: object) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return "a param is an integer"
    if not param.is_dynamic:
        return None if value in _INT64 else "it doesn't fit into 64 bits"
    if not param.minimum <= value <= param.maximum:
        return f"its range is {param.minimum} to {param.maximum}"
    if value % param.multiple_of:
        return f"it must be a multiple of {param.multiple_of}"
    return None


def _allowed(param: Param) -> str:
    if not param.is_dynamic:
        return "a whole number of at most 64 bits"
    return param.allowed
