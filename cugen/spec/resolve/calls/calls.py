"""Resolution of calls: elementwise functions, expansions, reductions and scans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cugen.spec.expressions import Cast, Const, Expr, Op, Read, Sample, Span
from cugen.spec.nearest import did_you_mean
from cugen.spec.parse import idioms
from cugen.spec.parse.keys import TYPE_SYNONYMS
from cugen.spec.parse.syntax import CallNode, NameNode, Node, NumberNode, SubscriptNode
from cugen.spec.resolve.bindings import Scope
from cugen.spec.resolve.calls import reductions
from cugen.spec.resolve.calls.functions import FUNCTIONS, MAX_INDICES, Function, expansion_tree
from cugen.spec.resolve.typing_rules import Value
from cugen.spec.types import BOOL, DTYPES, FLOAT32, INT64

if TYPE_CHECKING:
    from cugen.spec.resolve.elaborate import Elaborator

_AXES = ("axis", "axes", "dim", "dims")  # options of NumPy and PyTorch


def resolve_call(elaborator: Elaborator, node: CallNode, scope: Scope) -> Value | None:
    """The typed tree of a call, or None after reporting an error."""
    function = FUNCTIONS.get(node.function)
    if function is None:
        _unknown(elaborator, node)
        return None
    arguments = match_arguments(elaborator, node, function)
    if arguments is None:
        return None
    if function.group in ("reduction", "scan", "softmax"):
        return reductions.resolve(elaborator, node, function, arguments, scope)
    if function.name == "inside":
        return _inside(elaborator, node, scope)
    if function.name == "cast":
        return _cast(elaborator, node, arguments, scope)
    if function.name == "where":
        test = elaborator.condition(arguments["condition"], scope)
        a, b = elaborator.value(arguments["a"], scope), elaborator.value(arguments["b"], scope)
        return None if test is None or a is None or b is None else elaborator.typing.select(test, a, b, node.span)
    return _elementwise(elaborator, node, function, arguments, scope)


def _elementwise(
    elaborator: Elaborator, node: CallNode, function: Function, arguments: dict[str, Node], scope: Scope
) -> Value | None:
    evaluated = {name: elaborator.value(argument, scope) for name, argument in arguments.items()}
    values = {name: value for name, value in evaluated.items() if value is not None}
    if len(values) < len(evaluated):
        return None
    if function.of_floats:
        values = {name: elaborator.typing.as_float(value, node.span) for name, value in values.items()}
    if function.group == "expansion":
        return expand(elaborator, function.expansion, values, node.span)
    operands = list(values.values())
    if function.name == "fma":
        return elaborator.typing.fma(operands, node.span)
    if len(operands) == 2:
        return elaborator.typing.arithmetic(function.name, operands[0], operands[1], node.span)
    return elaborator.typing.unary(function.name, operands[0], node.span)


def expand(elaborator: Elaborator, text: str, values: dict[str, Value], span: Span) -> Value | None:
    """An expansion with its arguments substituted; all its nodes have the span `span`."""
    return elaborator.value(expansion_tree(text, span), Scope(values))


def match_arguments(elaborator: Elaborator, node: CallNode, function: Function) -> dict[str, Node] | None:
    """The argument and option nodes by name; None after reporting an error. Index names stay in `node.arguments`."""

    def wrong(message: str, span: Span, label: str) -> None:
        help = f"write `{function.usage}`"
        elaborator.report.error("CG1203", f"`{function.name}` {message}", span, label=label, help=help)

    min_indices, max_indices = function.indices
    positional = [name for name, default in function.arguments if default is None or not max_indices]
    required = [name for name, default in function.arguments if default is None]
    given = len(node.arguments)
    if given > len(positional) + max_indices and max_indices < MAX_INDICES:
        if function.name in ("argmax", "argmin") and given == 3:
            wrong("works along one index", node.arguments[2].span, "one too many")
        else:
            limit = len(positional) + max_indices
            wrong(f"takes at most {limit} argument{'s' if limit > 1 else ''}, not {given}", node.span, "too many")
        return None
    result = dict(zip(positional, node.arguments, strict=False))
    defaults = {name: default for name, default in function.arguments if default is not None}
    for name, value in node.keywords:
        if name not in (*(n for n, _ in function.arguments), *function.options):
            known = (*defaults, *function.options)
            if name in _AXES and max_indices:
                help = f"name the index that it runs over: `{_reduced(elaborator, node, value)}`"
            else:
                help = did_you_mean(name, known, what="options")
            message = f"`{function.name}` has no option `{name}`"
            elaborator.report.error("CG1203", message, value.span, label=f"for `{name}`", help=help)
            return None
        if name in result:
            wrong(f"is given `{name}` twice", value.span, "second time")
            return None
        result[name] = value
    missing = [name for name in required if name not in result]
    if missing:
        wrong(f"needs `{missing[0]}`", node.span, "too few arguments")
        return None
    if given < len(positional) + min_indices and max_indices:
        help = f"name the index that it runs over: `{_reduced(elaborator, node)}`"
        message = f"`{function.name}` needs the name of an index"
        elaborator.report.error("CG1203", message, node.span, label="no index", help=help)
        return None
    for name, default in defaults.items():
        result.setdefault(name, expansion_tree(default, node.span))
    return result


def _reduced(elaborator: Elaborator, node: CallNode, axis: Node | None = None) -> str:
    """The call of a reduction with an index, by default the last one, in place of a number of an axis."""
    operand = node.arguments[0] if node.arguments else None
    array = elaborator.arrays.get(getattr(operand, "name", getattr(operand, "array", "")))
    if array is None or not array.shape:
        return f"{node.function}(x[i, k], k)"
    indices = list("ijklmnpq"[: len(array.shape)])
    if isinstance(operand, SubscriptNode):
        indices = [part.name for part in operand.subscripts if isinstance(part, NameNode)] or indices
    number = axis.value if isinstance(axis, NumberNode) else -1
    name = indices[number] if isinstance(number, int) and number < len(indices) else indices[-1]
    return f"{node.function}({array.name}[{', '.join(indices)}], {name})"


def _unknown(elaborator: Elaborator, node: CallNode) -> None:
    if (dtype := TYPE_SYNONYMS.get(node.function, node.function)) in DTYPES:
        help = f"write `cast(x, {dtype})`"
    elif node.function in elaborator.arrays:
        help = f"subscript an array with brackets: `{node.function}[...]`"
    else:
        help = idioms.call(node.function) or did_you_mean(node.function.lstrip("_"), FUNCTIONS, what="functions")
    message = f"there is no function `{node.function}`"
    elaborator.report.error("CG1202", message, node.function_span, label="unknown", help=help)


def _cast(elaborator: Elaborator, node: CallNode, arguments: dict[str, Node], scope: Scope) -> Value | None:
    mark = len(elaborator.leaves)
    value = elaborator.value(arguments["x"], scope.without_widening)
    del elaborator.leaves[mark:]
    name = arguments["dtype"]
    dtype = DTYPES.get(name.name) if isinstance(name, NameNode) else None
    if dtype is None:
        written = name.name if isinstance(name, NameNode) else ""
        synonym = TYPE_SYNONYMS.get(written)
        help = f"did you mean `{synonym}`?" if synonym else did_you_mean(written, DTYPES, what="types")
        elaborator.report.error(
            "CG1203", "the second argument of `cast` is a type", name.span, label="not a type", help=help
        )
        return None
    if value is None:
        return None
    result = elaborator.typing.cast(value, dtype, node.span)
    return None if result is None else elaborator.leaf(result, scope, node.span)


def _inside(elaborator: Elaborator, node: CallNode, scope: Scope) -> Value | None:
    """The condition that an access is in bounds: subscripts in range, exact divisions without remainder."""
    argument = node.arguments[0] if node.arguments else None
    if not isinstance(argument, SubscriptNode):
        span = argument.span if argument else node.span
        help = "write `inside(x[i + 1])`"
        elaborator.report.error(
            "CG1203", "the argument of `inside` is an array access", span, label="not an array access", help=help
        )
        return None
    mark = len(elaborator.leaves)
    value = elaborator.read(argument, scope.without_widening)
    del elaborator.leaves[mark:]
    if value is None:
        return None
    if isinstance(value.expr, Sample):
        return _between_elements(elaborator, value, value.expr, node.span)
    if not isinstance(value.expr, Read):
        return None
    tests: list[Expr] = []
    for dividend, divisor in value.expr.exact:
        remainder = Op("mod", (dividend, Const(divisor, INT64)), INT64, node.span)
        tests.append(Op("eq", (remainder, Const(0, INT64)), BOOL, node.span))
    for subscript, extent in zip(value.expr.subscripts, elaborator.arrays[value.expr.array].shape, strict=True):
        tests.append(Op("le", (Const(0, INT64), subscript), BOOL, node.span))
        tests.append(Op("lt", (subscript, extent), BOOL, node.span))
    return _all(elaborator, tests, value, node.span)


def _between_elements(elaborator: Elaborator, value: Value, sample: Sample, span: Span) -> Value | None:
    """The condition that a point is between the first and the last elements."""
    tests: list[Expr] = []
    for coordinate, extent in zip(sample.coordinates, elaborator.arrays[sample.array].shape, strict=True):
        last = Cast(Op("sub", (extent, Const(1, INT64)), INT64, span), FLOAT32, span)
        tests.append(Op("le", (Const(0.0, FLOAT32), coordinate), BOOL, span))
        tests.append(Op("le", (coordinate, last), BOOL, span))
    return _all(elaborator, tests, value, span)


def _all(elaborator: Elaborator, tests: list[Expr], read: Value, span: Span) -> Value | None:
    """The conjunction of tests, each with parts of a read."""
    result = tests[0]
    for test in tests[1:]:
        result = Op("and", (result, test), BOOL, span)
    return elaborator.typing.build(result, BOOL, [read] * len(tests), span)
