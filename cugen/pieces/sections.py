"""Sections of sections, guards, and loops as sections of a scope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cugen.plan.nodes import Comparison, For, Guard, If, Node, Section
from cugen.plan.scopes import Scope


@dataclass(frozen=True, slots=True)
class SectionGroup(Section):
    """A section of sections, which a template takes by name: `{{ body(stage.accumulators) }}`.

    One that isn't there is empty. False where all of them are. ValueError for a name that two of them have."""

    def __getitem__(self, name: str) -> Section:
        parts = [node for node in self.body if isinstance(node, Section) and node.name == name]
        if len(parts) > 1:  # a LookupError would be an undefined name to Jinja2
            raise ValueError(f"{len(parts)} sections of the group {self.name} have the name {name}")
        return parts[0] if parts else SectionGroup(name, ())

    def __bool__(self) -> bool:
        return any(bool(node) if isinstance(node, Section) else True for node in self.body)


def guarded(name: str, terms: tuple[Comparison, ...], sections: tuple[Section, ...]) -> tuple[Section, ...]:
    """The branch `name` around the sections, where there are terms; else the sections themselves."""
    return (Section(name, (If(Guard(terms), sections),)),) if terms else sections


def guarded_nodes(guard: Guard, nodes: Sequence[Node], orelse: tuple[Node, ...] = ()) -> tuple[Node, ...]:
    """The branch around the nodes, where the guard has terms; else the nodes themselves."""
    return (If(guard, tuple(nodes), orelse),) if guard.terms else tuple(nodes)


def append_loop(scope: Scope, before: str, name: str, loop: For) -> None:
    """Appends a loop to a scope as the section `name`; the nodes since the last section become the section `before`."""
    append_section(scope, before)
    scope.nodes.append(Section(name, (loop,)))


def append_section(scope: Scope, name: str) -> None:
    """Makes a section of a scope's nodes since its last section, if there are any."""
    nodes = since_last_section(scope.nodes)
    if nodes:
        scope.nodes[len(scope.nodes) - len(nodes) :] = [Section(name, nodes)]


def since_last_section(nodes: list[Node]) -> tuple[Node, ...]:
    """The nodes after the last section among them."""
    start = max((n + 1 for n, node in enumerate(nodes) if isinstance(node, Section)), default=0)
    return tuple(nodes[start:])
