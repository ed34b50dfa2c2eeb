"""What is said about accesses in the source: a verdict reaches the emitter as text and is printed beside its access."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cugen.plan.memory import Access, Element
from cugen.plan.nodes import For, If, Node
from cugen.plan.walking import accesses, values_of
from cugen.spec.expressions import walk


@dataclass(frozen=True)
class Remarks:
    """`claims` holds a line for each access that has one, by its identity; `summary` stands in the file's head."""

    claims: Mapping[int, str] = field(default_factory=dict)  # id(access) -> text
    summary: tuple[str, ...] = ()


def own_accesses(node: Node) -> tuple[Access, ...]:
    """The accesses that the node itself prints, those of its children left out."""
    if isinstance(node, For | If):
        values = (leaf for value in values_of(node) for leaf in walk(value))
        return tuple(leaf.access for leaf in values if isinstance(leaf, Element))
    return tuple(accesses((node,)))
