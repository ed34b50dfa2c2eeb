"""Remarks on accesses: verdicts of the analysis as text, printed as comments above their access or in the head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cugen.plan.memory import Access, Element
from cugen.plan.nodes import For, If, Node
from cugen.plan.traversal.walking import accesses, values_of
from cugen.spec.expressions import walk


@dataclass(frozen=True)
class Remarks:
    """`claims`: a text per access, by its serial number, printed above it. `listed`: those that the head lists.
    `summary`: lines of the head, and `pipelines`: those about synchronisation. `bounds`: its line on which accesses are
    in bounds."""

    claims: Mapping[int, str] = field(default_factory=dict)  # serial number of an access -> text
    summary: tuple[str, ...] = ()
    listed: Mapping[int, str] = field(default_factory=dict)  # as `claims`
    pipelines: tuple[str, ...] = ()
    bounds: str = ""


def own_accesses(node: Node) -> tuple[Access, ...]:
    """The accesses that the node itself prints, without those of its children."""
    if isinstance(node, For | If):
        values = (leaf for value in values_of(node) for leaf in walk(value))
        return tuple(leaf.access for leaf in values if isinstance(leaf, Element))
    return tuple(accesses((node,)))
