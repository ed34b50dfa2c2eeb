"""Statements in several spellings that mean the same, to compare how they are planned.

Each has at least one spelling by hand (a temporary, a formula in place of a function, a split index, two statements),
and three derived ones: renamed and reordered, with extents of equal value in other forms, and with operands swapped
among parentheses and neutral elements.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cugen.spec.diagnostics import Reporter
from cugen.spec.parse.grammar import parse_statements
from cugen.spec.parse.syntax import (
    BinaryNode,
    CallNode,
    CompareNode,
    ConditionalNode,
    NameNode,
    Node,
    NumberNode,
    StatementNode,
    SubscriptNode,
    Text,
    UnaryNode,
    walk,
)

_FUNCTIONS = (
    "sum max min mean var prod norm argmax cumsum softmax log_softmax exp log sqrt rsqrt relu gelu silu where cast"
)
_RESERVED = {
    *_FUNCTIONS.split(),
    *[
        "sigmoid",
        "maximum",
        "minimum",
        "abs",
        "any",
        "all",
        "inside",
        "inf",
        "pi",
        "ddof",
        "p",
        "exclusive",
        "true",
        "false",
    ],
}


@dataclass(frozen=True)
class Body:
    """What a spec says: params, arrays with their shapes, extents of indices, statements."""

    params: Mapping[str, str]
    arrays: Mapping[str, tuple[str, ...]]  # the name with its shape; `@` begins further keys: `@dtype: float16`
    indices: Mapping[str, str]
    statements: tuple[str, ...]

    def text(self) -> str:
        lines = ["cugen: 1", "kernel: spelt", f"params: {{{_mapping(self.params)}}}", "arrays:"]
        for name, parts in self.arrays.items():
            shape = ", ".join(part for part in parts if not part.startswith("@"))
            keys = [part[1:] for part in parts if part.startswith("@")]
            if not any(key.startswith("dtype") for key in keys):
                keys.append("dtype: float32")
            lines.append(f"  {name}: {{shape: [{shape}], {', '.join(keys)}}}")
        words = set(re.findall(r"[A-Za-z_]\w*", " ".join(self.statements)))
        if indices := {name: extent for name, extent in self.indices.items() if name in words}:
            lines.append(f"indices: {{{_mapping(indices)}}}")
        return "\n".join([*lines, "compute: |", *(f"  {line}" for line in self.statements)]) + "\n"


def _mapping(items: Mapping[str, str]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in items.items())


def body(params: str, arrays: str, compute: str, indices: str = "") -> Body:
    """A body from short texts: `M: 4; N: 8`, `A M, N; B N @dtype: float16`, and statements by lines."""
    shapes = {}
    for part in filter(None, (p.strip() for p in arrays.split(";"))):
        name, _, keys_and_shape = part.partition(" ")
        shape, *keys = keys_and_shape.split(" @")
        shapes[name] = (*_commas(shape), *(f"@{key}" for key in keys))
    return Body(
        _entries(params), shapes, _entries(indices), tuple(line.strip() for line in compute.strip().split("\n"))
    )


def _entries(text: str) -> dict[str, str]:
    pairs = (part.split(":", 1) for part in text.split(";") if part.strip())
    return {key.strip(): value.strip() for key, value in pairs}


def _commas(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def spellings(written: Body, *by_hand: Body) -> dict[str, str]:
    """The texts of all spellings by their names."""
    named = {"written": written, **{f"by hand {n}": spelt for n, spelt in enumerate(by_hand, 1)}}
    named |= {"renamed": renamed(written), "extents": with_other_extents(written), "swapped": swapped(written)}
    return {name: spelt.text() for name, spelt in named.items()}


def renamed(spelt: Body) -> Body:
    """Other names, and params and arrays in reverse order where nothing depends on it."""
    names: dict[str, str] = {}
    words = [*spelt.params, *spelt.arrays, *spelt.indices]
    words += [word for line in spelt.statements for word in re.findall(r"[A-Za-z_]\w*", line)]
    for word in words:
        if word not in _RESERVED and word not in ("float16", "float32", "int32", "and", "or", "not", "if", "else"):
            names.setdefault(word, f"{'zyxwvutsrqponmlkjihgfedcba'[len(names) % 26]}{len(names)}")

    def change(text: str) -> str:
        return re.sub(r"[A-Za-z_]\w*", lambda match: names.get(match[0], match[0]), text)

    params = {change(key): change(value) for key, value in spelt.params.items()}
    if all(value.isdigit() for value in params.values()):
        params = dict(reversed(params.items()))
    arrays = {
        change(key): tuple(part if part.startswith("@") else change(part) for part in parts)
        for key, parts in reversed(spelt.arrays.items())
    }
    indices = {change(key): change(value) for key, value in reversed(spelt.indices.items())}
    return Body(params, arrays, indices, tuple(map(change, spelt.statements)))


def with_other_extents(spelt: Body) -> Body:
    """Each dimension with a param of its own, every second one as a product or a sum of two."""
    values: dict[str, int] = {}
    for name, value in spelt.params.items():
        values[name] = _number(value, values)
    params, arrays = dict(spelt.params), {}
    for name, parts in spelt.arrays.items():
        shape: list[str] = []
        for dimension, part in enumerate(parts):
            if part.startswith("@"):
                shape.append(part)
                continue
            size, param = _number(part, values), f"{name}_{dimension}"
            divisor = next((d for d in (4, 3, 2) if size % d == 0), 1)
            params[param] = str(size if dimension % 2 == 0 else size // divisor)
            shape.append(param if dimension % 2 == 0 or divisor == 1 else f"{param} * {divisor}")
        arrays[name] = tuple(shape)
    used = " ".join([*params.values(), *spelt.indices.values(), *spelt.statements])
    params = {key: value for key, value in params.items() if "_" in key or re.search(rf"\b{key}\b", used)}
    return Body(params, arrays, spelt.indices, spelt.statements)


def _number(text: str, values: Mapping[str, int]) -> int:
    """The value of an extent."""
    (statement,) = parse_statements(_located(f"x = {text}"), Reporter("", ""))

    def value(node: Node) -> int:
        match node:
            case NumberNode(value=int(number)):
                return number
            case NameNode(name=name):
                return values[name]
            case BinaryNode(operator=operator, left=left, right=right):
                a, b = value(left), value(right)
                return {"+": a + b, "-": a - b, "*": a * b, "//": a // max(b, 1)}[operator]
        raise ValueError(text)

    return value(statement.value)


def _located(text: str) -> Text:
    return Text(text, tuple((1, column) for column in range(1, len(text) + 2)))


def swapped(spelt: Body) -> Body:
    """Operands of `+` and `*` swapped, parentheses round everything, terms times 1 and subscripts plus 0."""
    lines = []
    for line in spelt.statements:
        (statement,) = parse_statements(_located(line), Reporter("", line))
        lines.append(_Swapped(statement, spelt).text())
    return Body(spelt.params, spelt.arrays, spelt.indices, tuple(lines))


class _Swapped:
    def __init__(self, statement: StatementNode, spelt: Body) -> None:
        self._statement = statement
        target = statement.target
        self._target = target.name if isinstance(target, NameNode) else target.array
        subscripts = () if isinstance(target, NameNode) else target.subscripts
        is_declared = self._target in spelt.arrays
        # Indices whose extents don't need the reads.
        self._bounded = {part.name for part in subscripts if isinstance(part, NameNode)} if is_declared else set()
        self._floats = not any("int" in part for parts in spelt.arrays.values() for part in parts)

    def text(self) -> str:
        target = self._statement.target
        if isinstance(target, SubscriptNode):
            left = f"{target.array}[{', '.join(self._printed(part) for part in target.subscripts)}]"
        else:
            left = target.name
        value = self._printed(self._statement.value)
        operator = "+=" if self._statement.accumulate else "="
        return f"{left} {operator} {value}" + (" * 1" if self._floats else "")

    def _printed(self, node: Node) -> str:
        match node:
            case NumberNode(value=value):
                return repr(value)
            case NameNode(name=name):
                return name
            case SubscriptNode(array=array, subscripts=subscripts):
                return f"{array}[{', '.join(map(self._subscript, subscripts))}]"
            case UnaryNode(operator=operator, operand=operand):
                return f"({operator} {self._printed(operand)})"
            case BinaryNode(operator="+" | "*" as operator, left=left, right=right):
                return f"({self._printed(right)} {operator} {self._printed(left)})"
            case BinaryNode(operator=operator, left=left, right=right):
                return f"({self._printed(left)} {operator} {self._printed(right)})"
            case CompareNode(operands=operands, operators=operators):
                parts = [self._printed(operands[0])]
                for operator, operand in zip(operators, operands[1:], strict=True):
                    parts += [operator, self._printed(operand)]
                return f"({' '.join(parts)})"
            case ConditionalNode(condition=condition, then=then, orelse=orelse):
                return f"({self._printed(then)} if {self._printed(condition)} else {self._printed(orelse)})"
            case CallNode(function=function, arguments=arguments, keywords=keywords):
                parts = [self._printed(argument) for argument in arguments]
                if function == "sum" and self._floats:
                    parts[0] = f"1 * {parts[0]} + 0"
                parts += [f"{key}={self._printed(value)}" for key, value in keywords]
                return f"{function}({', '.join(parts)})"

    def _subscript(self, node: Node) -> str:
        if isinstance(node, NameNode) and node.name not in self._bounded:
            return node.name
        has_read = any(isinstance(part, SubscriptNode) for part in walk(node))
        return self._printed(node) if has_read else f"0 + {self._printed(node)}"
