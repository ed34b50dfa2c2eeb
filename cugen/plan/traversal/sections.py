"""Sections of a kernel: named parts for the template, dissolved for the analysis."""

from __future__ import annotations

from dataclasses import replace

from cugen.plan.nodes import Barrier, ClusterBarrier, For, If, NamedBarrier, Node, Section
from cugen.plan.pipeline_nodes import AwaitBarrier


def dissolved(body: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes without sections round them; what has none comes back as it is."""
    nodes: list[Node] = []
    for node in body:
        match node:
            case Section():
                nodes += dissolved(node.body)
            case For() if any(map(has_sections, node.body)):
                nodes.append(replace(node, body=dissolved(node.body)))
            case If() if any(map(has_sections, (*node.then, *node.orelse))):
                nodes.append(replace(node, then=dissolved(node.then), orelse=dissolved(node.orelse)))
            case _:
                nodes.append(node)
    return tuple(nodes)


def has_sections(node: Node) -> bool:
    """Whether a node is a section, or has one below it."""
    match node:
        case Section():
            return True
        case For():
            return any(map(has_sections, node.body))
        case If():
            return any(map(has_sections, (*node.then, *node.orelse)))
    return False


def is_synchronising(node: Node) -> bool:
    """Whether a node is a barrier, or has one below it."""
    match node:
        case Barrier() | NamedBarrier() | ClusterBarrier() | AwaitBarrier():
            return True
        case For() | Section():
            return any(map(is_synchronising, node.body))
        case If():
            return any(map(is_synchronising, (*node.then, *node.orelse)))
    return False
