"""Elaboration: parse tree to typed expression tree; resolves names and types operators. Calls are in `calls`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Const, Expr, IndexValue, ParamValue, Read, Sample, ScalarValue, Span, walk
from cugen.spec.model import Array, Param, Scalar
from cugen.spec.nearest import nearest
from cugen.spec.parse.names import name_problem
from cugen.spec.parse.syntax import (
    BinaryNode,
    CallNode,
    CompareNode,
    ConditionalNode,
    NameNode,
    Node,
    NumberNode,
    SubscriptNode,
    UnaryNode,
)
from cugen.spec.resolve.bindings import BoundIndex, Scope, is_narrower
from cugen.spec.resolve.calls import calls
from cugen.spec.resolve.calls.functions import FUNCTIONS
from cugen.spec.resolve.extents import Extents
from cugen.spec.resolve.param_expressions import COMPARISONS
from cugen.spec.resolve.subscripts import resolve_coordinate, resolve_subscript
from cugen.spec.resolve.typing_rules import Typing, Value
from cugen.spec.rewriting import SEPARATOR
from cugen.spec.types import BOOL, DTYPES, FLOAT32, FLOAT64, INT64, DType

_BINARY = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "//": "floordiv",
    "%": "mod",
    "**": "pow",
    "&": "bitand",
    "|": "bitor",
    "^": "bitxor",
    "<<": "shl",
    ">>": "shr",
}
_UNARY = {"+": "plus", "-": "neg", "~": "invert"}
_CONSTANTS: dict[str, float] = {"inf": math.inf, "nan": math.nan, "pi": math.pi}


class Elaborator:
    """Elaborates the expressions of one spec. `arrays` includes the temporaries defined so far; `broken` are names with
    an invalid definition, whose uses report no further errors."""

    def __init__(
        self,
        params: Mapping[str, Param],
        scalars: Mapping[str, Scalar],
        arrays: Mapping[str, Array],
        extents: Extents,
        accumulate: DType | None,
        report: Reporter,
    ) -> None:
        self.params = params
        self.scalars = scalars
        self.arrays = dict(arrays)
        self.later: dict[str, Span] = {}  # temporaries that a later statement defines
        self.broken: dict[str, None] = {}
        self.extents = extents
        self.accumulate = accumulate
        self.report = report
        self.typing = Typing(FLOAT64 if accumulate == FLOAT64 else FLOAT32, report)
        self.leaves: list[DType] = []
        self._index_count = 0

    def fresh(self, name: str) -> str:
        """A unique name for a bound index, until `rewriting.FinalNames` replaces it."""
        self._index_count += 1
        return f"{name}{SEPARATOR}{self._index_count}"

    def value(self, node: Node, scope: Scope) -> Value | None:
        """The typed tree of an expression; None after reporting an error, or if it uses a broken name."""
        match node:
            case NumberNode(value=value):
                return self.typing.number(value)
            case NameNode():
                return self._name(node, scope)
            case SubscriptNode():
                return self.read(node, scope)
            case UnaryNode(operator="not", operand=operand):
                test = self.condition(operand, scope)
                return None if test is None else self.typing.logic("not", (test,), node.span)
            case UnaryNode(operator=sign, operand=operand):
                arg = self.value(operand, scope)
                return None if arg is None else self.typing.unary(_UNARY[sign], arg, node.span)
            case BinaryNode(operator="and" | "or" as name, left=left, right=right):
                a, b = self.condition(left, scope), self.condition(right, scope)
                return None if a is None or b is None else self.typing.logic(name, (a, b), node.span)
            case BinaryNode(operator=symbol, left=left, right=right):
                a, b = self.value(left, scope), self.value(right, scope)
                return None if a is None or b is None else self.typing.arithmetic(_BINARY[symbol], a, b, node.span)
            case CompareNode():
                return self._comparison(node, scope)
            case ConditionalNode(condition=condition, then=then, orelse=orelse):
                test = self.condition(condition, scope)
                a, b = self.value(then, scope), self.value(orelse, scope)
                return None if test is None or a is None or b is None else self.typing.select(test, a, b, node.span)
            case CallNode():
                return calls.resolve_call(self, node, scope)

    def condition(self, node: Node, scope: Scope) -> Value | None:
        """The typed tree of a condition, converted to bool."""
        mark = len(self.leaves)
        value = self.value(node, scope.without_widening)
        del self.leaves[mark:]
        return None if value is None else self.typing.as_bool(value, node.span)

    def leaf(self, value: Value, scope: Scope, span: Span) -> Value | None:
        """A loaded value; within a sum it is widened to the accumulator type if narrower."""
        self.leaves.append(value.dtype)
        if scope.widen is None or not is_narrower(value.dtype, scope.widen):
            return value
        expr = self.typing.convert(value, scope.widen, span)
        return None if expr is None else replace(value, expr=expr, dtype=scope.widen)

    def _comparison(self, node: CompareNode, scope: Scope) -> Value | None:
        mark = len(self.leaves)
        values = [self.value(operand, scope.without_widening) for operand in node.operands]
        del self.leaves[mark:]
        result: Value | None = None
        for a, symbol, b in zip(values, node.operators, values[1:], strict=False):
            if a is None or b is None:
                return None
            link = self.typing.compare(COMPARISONS[symbol], a, b, node.span)
            if link is None:
                return None
            result = link if result is None else self.typing.logic("and", (result, link), node.span)
            if result is None:
                return None
        return result

    def _name(self, node: NameNode, scope: Scope) -> Value | None:
        name = node.name
        meaning = scope.names.get(name)
        if isinstance(meaning, Value):
            return meaning
        if isinstance(meaning, BoundIndex):
            return Value(IndexValue(meaning.name), INT64, weak=True)
        if name in _CONSTANTS:
            return self.typing.number(_CONSTANTS[name])
        if name in ("true", "false"):
            return Value(Const(name == "true", BOOL), BOOL)
        if name in self.params:
            return Value(ParamValue(name), INT64, weak=True)
        if name in self.scalars:
            dtype = self.scalars[name].dtype
            return self.leaf(Value(ScalarValue(name, dtype.compute), dtype), scope, node.span)
        if name in self.arrays:
            return self.read(SubscriptNode(name, (), node.span, node.span), scope)
        self.unknown(node, scope)
        return None

    def unknown(self, node: NameNode, scope: Scope) -> None:
        """Reports an unresolved name, unless its definition is broken."""
        name = node.name
        if name in self.broken:
            return
        if name in self.later:
            self.read_too_early(name, node.span)
            return
        if name in FUNCTIONS:
            message, label = f"`{name}` is a function", "not called"
            help = f"write `{FUNCTIONS[name].usage}`"
        elif name in DTYPES:
            message, label = f"`{name}` is a type", "not a value"
            help = f"write `cast(x, {name})`"
        else:
            message, label = f"the name `{name}` is unknown", "unknown"
            known = (*scope.names, *self.params, *self.scalars, *self.arrays, *_CONSTANTS, "true", "false")
            suggestion = nearest(name, known)
            bind = f"bind it as an index, as in `sum(..., {name})`, or put it on the left"
            help = (
                f"did you mean `{suggestion}`?" if suggestion else f"declare it under `params` or `scalars`; or {bind}"
            )
        self.report.error("CG1201", message, node.span, label=label, help=help)

    def read_too_early(self, name: str, span: Span) -> None:
        """Reports a use of a temporary before its definition, once."""
        self.broken[name] = None
        self.report.error(
            "CG1310",
            f"`{name}` is read before it is written",
            span,
            label="has no value yet",
            notes=(f"it is written in line {self.later[name].line}",),
            help="move the statement that writes it up",
        )

    def read(self, node: SubscriptNode, scope: Scope) -> Value | None:
        """The typed tree of an array access; None after reporting an error."""
        array = self.arrays.get(node.array)
        if array is not None and array.is_filtered:
            return self._sample(node, array, scope)
        exact: list[tuple[Expr, int]] = []
        subscripts = [resolve_subscript(self, subscript, scope, exact) for subscript in node.subscripts]
        if array is None:
            self._not_an_array(node, scope)
            return None
        if len(node.subscripts) != len(array.shape):
            self.wrong_rank(array, len(node.subscripts), node.span)
            return None
        trees = tuple(tree for tree in subscripts if tree is not None)
        if len(trees) < len(subscripts):
            return None
        read = Read(array.name, trees, array.dtype.compute, array.boundary, tuple(exact), node.span)
        descendants = sum(1 for tree in trees for _ in walk(tree))
        return self.leaf(Value(read, array.dtype, size=1 + descendants), scope, node.span)

    def _sample(self, node: SubscriptNode, array: Array, scope: Scope) -> Value | None:
        """The typed tree of a read between the elements of a filtered texture."""
        if len(node.subscripts) != len(array.shape):
            self.wrong_rank(array, len(node.subscripts), node.span)
            return None
        values = [resolve_coordinate(self, subscript, scope) for subscript in node.subscripts]
        coordinates = [value for value in values if value is not None]
        if len(coordinates) < len(values):
            return None
        trees = tuple(coordinate.expr for coordinate in coordinates)
        sample = Sample(array.name, trees, array.dtype, array.boundary, node.span)
        value = self.typing.build(sample, array.dtype, coordinates, node.span)
        return None if value is None else self.leaf(value, scope, node.span)

    def wrong_rank(self, array: Array, given: int, span: Span) -> None:
        """Reports a wrong number of subscripts."""
        rank = len(array.shape)
        help = f"write `{array.name}` alone" if rank == 0 else f"write `{array.name}[{', '.join('ijklmnpq'[:rank])}]`"
        self.report.error(
            "CG1206",
            f"`{array.name}` has {rank} dimension{'' if rank == 1 else 's'}, but {given} "
            f"subscript{' is' if given == 1 else 's are'} given",
            span,
            label=f"{given} of {rank}",
            help=help,
        )

    def _not_an_array(self, node: SubscriptNode, scope: Scope) -> None:
        name = node.array
        if name in self.broken:
            return
        if name in self.later:
            self.read_too_early(name, node.array_span)
            return
        kind = self.kind_of(name, scope)
        if name in FUNCTIONS:
            message, help = f"`{name}` is a function", f"write `{FUNCTIONS[name].usage}`"
        elif kind is None:
            suggestion = nearest(name, self.arrays)
            message = f"there is no array `{name}`"
            help = (
                f"did you mean `{suggestion}`?"
                if suggestion
                else "declare it under `arrays`, or write it in a statement above"
            )
        else:
            message, help = f"`{name}` is {kind}, not an array", f"write `{name}` without subscripts"
        code = "CG1201" if kind is None and name not in FUNCTIONS else "CG1207"
        self.report.error(code, message, node.array_span, label="not an array", help=help)

    def kind_of(self, name: str, scope: Scope) -> str | None:
        """The kind of entity that a name is bound to, or None for a free name."""
        if name in scope.names:
            return "an index"
        if name in self.params:
            return "a param"
        if name in self.scalars:
            return "a scalar"
        if name in self.arrays or name in self.later:
            return "an array"
        return None

    def is_unbound(self, name: str, scope: Scope) -> bool:
        """Whether a name is probably an unbound index: it is free, and isn't similar to a declared name, but for the
        case of its letters, as `k` is to its extent `K`."""
        if self.kind_of(name, scope) is not None or name in self.broken or name_problem(name) is not None:
            return False
        similar = nearest(name, (*self.params, *self.scalars))
        return similar is None or similar.lower() == name.lower()

    def new_index(self, node: NameNode, scope: Scope) -> bool:
        """Whether a name can be bound as an index; reports an error if not."""
        kind = self.kind_of(node.name, scope)
        problem = name_problem(node.name)
        if kind is None and problem is None:
            return True
        message = f"`{node.name}` is already {kind}" if kind else f"`{node.name}` can't be an index"
        label = "already in scope" if kind else (problem or ("", ""))[0]
        self.report.error("CG1204", message, node.span, label=label, help="choose another name for the index")
        return False
