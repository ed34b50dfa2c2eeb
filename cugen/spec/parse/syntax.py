"""The parse tree of an expression: names unresolved, untyped, every node with its span."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cugen.spec.expressions import Span


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of source text with the position of each character: `positions[i]` is the 1-based (line, column) of
    `value[i]`, with one more entry for the end."""

    value: str
    positions: tuple[tuple[int, int], ...]

    def span(self, start: int, end: int) -> Span:
        """The span of `value[start:end]`, clipped to the text like a slice."""
        end = min(end, len(self.value))
        line, column = self.positions[start]
        last_line, last_column = self.positions[max(start, end - 1)]
        return Span(line, column, last_line, last_column + (1 if end > start else 0))


@dataclass(frozen=True, slots=True)
class NumberNode:
    """A number literal."""

    value: int | float
    span: Span


@dataclass(frozen=True, slots=True)
class NameNode:
    """A name."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class SubscriptNode:
    """`array[a, b]`; `array_span` is the name alone."""

    array: str
    subscripts: tuple[Node, ...]
    array_span: Span
    span: Span


@dataclass(frozen=True, slots=True)
class UnaryNode:
    """A unary operation."""

    operator: str  # - + ~ not
    operand: Node
    span: Span


@dataclass(frozen=True, slots=True)
class BinaryNode:
    """A binary operation, except comparisons."""

    operator: str  # + - * / // % ** & | ^ << >> and or
    left: Node
    right: Node
    span: Span


@dataclass(frozen=True, slots=True)
class CompareNode:
    """A chained comparison `a < b <= c`, with one operator fewer than operands."""

    operands: tuple[Node, ...]
    operators: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ConditionalNode:
    """`then if condition else orelse`."""

    condition: Node
    then: Node
    orelse: Node
    span: Span


@dataclass(frozen=True, slots=True)
class CallNode:
    """A call; `function_span` is the name alone."""

    function: str
    arguments: tuple[Node, ...]
    keywords: tuple[tuple[str, Node], ...]
    function_span: Span
    span: Span


Node = NumberNode | NameNode | SubscriptNode | UnaryNode | BinaryNode | CompareNode | ConditionalNode | CallNode


@dataclass(frozen=True, slots=True)
class StatementNode:
    """`target = value`, or `+=`; the target is a name or a subscripted name."""

    target: NameNode | SubscriptNode
    accumulate: bool
    value: Node
    text: str
    span: Span


def walk(node: Node) -> Iterator[Node]:
    """The node and all its descendants, in preorder and source order."""
    pending = [node]
    while pending:
        part = pending.pop()
        yield part
        pending.extend(reversed(_parts(part)))


def _parts(node: Node) -> tuple[Node, ...]:
    """The children of a node, in source order."""
    match node:
        case SubscriptNode(subscripts=parts) | CompareNode(operands=parts):
            return parts
        case UnaryNode(operand=operand):
            return (operand,)
        case BinaryNode(left=left, right=right):
            return (left, right)
        case ConditionalNode(condition=condition, then=then, orelse=orelse):
            return (then, condition, orelse)
        case CallNode(arguments=arguments, keywords=keywords):
            return (*arguments, *(value for _, value in keywords))
    return ()
