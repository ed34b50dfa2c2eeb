"""Names that a nested block declares again: in C these hide the outer ones, which the plan's expressions may mean."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.plan.memory import Start, Vector
from cugen.plan.nodes import Declare, Define, For, If, Let, Load, LoadBlockId, Node, Section


def shadowing(nodes: tuple[Node, ...], enclosing: frozenset[str] = frozenset()) -> Iterator[str]:
    """The names in C that are declared while a block round them has one of that name."""
    declared = set(enclosing)
    for node in nodes:
        if (name := declared_name(node)) is not None:
            if name in declared:
                yield name
            declared.add(name)
        match node:
            case For(loop=loop):
                if loop.index.name in declared:
                    yield loop.index.name
                yield from shadowing(node.body, frozenset((*declared, loop.index.name)))
            case If():
                yield from shadowing(node.then, frozenset(declared))
                yield from shadowing(node.orelse, frozenset(declared))
            case Section():
                yield from shadowing(node.body, frozenset(declared))


def declared_name(node: Node) -> str | None:
    """The name in C that a node declares for the nodes after it in its block."""
    match node:
        case Define(index=index) | LoadBlockId(index=index):
            return index.name
        case Load(local=Vector(index=index)) if index is not None:
            return None  # of an array that is declared before
        case Let(local=local) | Load(local=local):
            return local.name
        case Declare(array=array):
            return array.symbol
        case Start(name=name):
            return name
    return None
