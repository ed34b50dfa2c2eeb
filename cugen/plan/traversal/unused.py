"""Definitions of indices, values and loaded elements that nothing uses."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from math import prod

from cugen.plan.memory import Vector
from cugen.plan.nodes import Declare, Define, For, FunctionCall, If, Let, Load, Node, Section
from cugen.plan.traversal.sections import dissolved
from cugen.plan.traversal.usage import free_symbols, values
from cugen.plan.traversal.walking import walk_nodes
from cugen.spec.expressions import Local, walk


def without_unused(body: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes without definitions that nothing after them in their block uses, also in turn."""
    return _used_only(body, set(), _open_tiles(body))


def _used_only(body: tuple[Node, ...], used: set[str], open_tiles: Set[str]) -> tuple[Node, ...]:
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
                nodes.append(replace(node, body=_used_only(node.body, used, open_tiles)))
                continue
            case For():
                node = replace(node, body=_used_only(node.body, set(), open_tiles))
            case If():
                then, orelse = (_used_only(branch, set(), open_tiles) for branch in (node.then, node.orelse))
                node = replace(node, then=then, orelse=orelse)
        used |= _names(node, open_tiles)
        nodes.append(node)
    return tuple(reversed(nodes))


def _open_tiles(body: tuple[Node, ...]) -> frozenset[str]:
    """The tiles in dynamic shared memory whose number of rows isn't printed: no other tile starts at their end."""
    tiles = [node.array for node in walk_nodes(dissolved(body)) if isinstance(node, Declare) and node.array.dynamic]
    starts = {int(tile.dynamic_offset) for tile in tiles}
    ends = {tile.symbol: int(tile.dynamic_offset) + prod(tile.padded_shape) * tile.dtype.bytes for tile in tiles}
    return frozenset(name for name, end in ends.items() if end not in starts)


def _names(node: Node, open_tiles: Set[str]) -> set[str]:
    if isinstance(node, Declare) and node.array.symbol in open_tiles:
        rows = (*node.array.printed_shape[1:], *node.array.shape[1:])
        return {symbol.name for extent in rows for symbol in extent.free_symbols}
    nodes = dissolved((node,))
    names = {symbol.name for symbol in free_symbols(nodes)}
    return names | {leaf.name for value in values(nodes) for leaf in walk(value) if isinstance(leaf, Local)}
