"""Definitions of indices, values and loaded elements that nothing uses."""

from __future__ import annotations

from dataclasses import replace

from cugen.plan.memory import Vector
from cugen.plan.nodes import Define, For, FunctionCall, If, Let, Load, Node, Section
from cugen.plan.traversal.sections import dissolved
from cugen.plan.traversal.usage import free_symbols, values
from cugen.spec.expressions import Local, walk


def without_unused(body: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes without definitions that nothing after them in their block uses, also in turn."""
    return _used_only(body, set())


def _used_only(body: tuple[Node, ...], used: set[str]) -> tuple[Node, ...]:
    """The nodes of a block or section. `used`: names that later nodes of the block use; those of `body` are added."""
    nodes: list[Node] = []
    for node in reversed(body):
        match node:
            case Define() if node.index.name not in used:
                continue
            case Let(local=local, mutable=False) | Load(local=local) if not (
                isinstance(local, Vector) or local.name in used
            ):
                continue
            case FunctionCall() if used.isdisjoint(result.name for result in node.results):
                continue
            case FunctionCall():
                pass  # the function is the same for all calls
            case Section():
                nodes.append(replace(node, body=_used_only(node.body, used)))
                continue
            case For():
                node = replace(node, body=_used_only(node.body, set()))
            case If():
                node = replace(node, then=_used_only(node.then, set()), orelse=_used_only(node.orelse, set()))
        used |= _names(node)
        nodes.append(node)
    return tuple(reversed(nodes))


def _names(node: Node) -> set[str]:
    nodes = dissolved((node,))
    names = {symbol.name for symbol in free_symbols(nodes)}
    return names | {leaf.name for value in values(nodes) for leaf in walk(value) if isinstance(leaf, Local)}
