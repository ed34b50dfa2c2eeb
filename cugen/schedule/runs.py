"""Groups statements into kernels with what the families say about statements over different indices."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from cugen.families.base import Family
from cugen.families.registry import families, first_family
from cugen.machine import target
from cugen.plan.context import Context
from cugen.plan.request import Group, Request
from cugen.rewrite.grouping import Grouping, group_statements
from cugen.rewrite.schedules import schedule_of
from cugen.schedule.aliases import with_current_names
from cugen.spec.expressions import Read, Reduce, Scan, walk
from cugen.spec.model import Schedule, Spec, Statement


@dataclass(frozen=True, slots=True)
class _Question:
    """All that the groups of statements depend on. `statements` are the identities of the spec's: equal ones may have
    other texts, which notes and messages quote. `context`, one of the spec, is the first that has asked."""

    spec: Spec
    statements: tuple[int, ...]
    context: Context = field(compare=False)


def group(context: Context) -> Grouping:
    """The statements in order, grouped into kernels; a run over different indices is one where a family takes it."""
    return _grouped(_Question(context.spec, tuple(map(id, context.spec.statements)), context))


@lru_cache(maxsize=16)  # each step of planning asks for those of its spec, and few change it
def _grouped(question: _Question) -> Grouping:
    context = question.context

    def request(statements: tuple[Statement, ...], stored: tuple[str, ...], *, mixed: bool = False) -> Request:
        schedule = with_current_names(schedule_of(context.spec, statements), families())
        return Request("", Group(statements, mixed), context, schedule, target(context.spec.target), stored)

    def can_fuse(statements: tuple[Statement, ...], stored: tuple[str, ...]) -> bool:
        if any(statement.algorithm for statement in statements):
            return False  # its steps are launches of their own
        run = request(statements, stored, mixed=True)
        mixing = [family for family in families() if family.mixes]
        return any(family.takes(run) for family in mixing if run.schedule.family in (None, family.name))

    def may_join(group: tuple[Statement, ...], statement: Statement, stored: tuple[str, ...]) -> bool:
        joined = request((*group, statement), stored)
        family = first_family(joined)
        if joined.schedule != Schedule():
            return True
        parts: list[tuple[Statement, ...]] = [group, (statement,)]
        alone = [first_family(request(part, tuple(s.target for s in part))) for part in parts]
        if family is not None and not family.is_general:
            is_related = bool(_touched(group) & _touched((statement,)))
            share_passes = bool(reduced_arrays(group) & reduced_arrays((statement,)))
            return all(is_as_fast(family, part, is_related=is_related, share_passes=share_passes) for part in alone)
        # A map is as fast in the loop of a scan or a reduction that no family but the fallbacks takes.
        pairs = list(zip(parts, alone, strict=True))
        with_loops = [p for p in pairs if _has(Scan, p[0])] or [p for p in pairs if _has(Reduce, p[0])] or pairs
        return all(part is None or part.is_general for _, part in with_loops)

    return group_statements(context.spec, can_fuse, may_join)


def is_as_fast(family: Family | None, alone: Family | None, *, is_related: bool, share_passes: bool) -> bool:
    """Whether statements that `alone` takes are computed as fast in the kernel of a family with others.

    is_related: whether they touch arrays of the others; epilogues of products hide few loads of what is unrelated.
    share_passes: whether both reduce some array."""
    if alone is None or alone is family or alone.is_general:
        return True
    if family is None or family.is_general:
        return False
    if alone.elementwise:
        return is_related or family.share_passes or family.needs is None
    return share_passes and alone.share_passes and family.share_passes


def _touched(statements: tuple[Statement, ...]) -> set[str]:
    """The arrays that statements read and write."""
    reads = {node.array for s in statements for node in walk(s.value) if isinstance(node, Read)}
    return reads | {s.target for s in statements}


def reduced_arrays(statements: tuple[Statement, ...]) -> set[str]:
    """The arrays that reductions and scans of statements read."""
    nodes = (node for s in statements for node in walk(s.value) if isinstance(node, Reduce | Scan))
    return {read.array for node in nodes for read in walk(node) if isinstance(read, Read)}


def _has(kind: type[Scan] | type[Reduce], statements: tuple[Statement, ...]) -> bool:
    return any(isinstance(node, kind) for statement in statements for node in walk(statement.value))
