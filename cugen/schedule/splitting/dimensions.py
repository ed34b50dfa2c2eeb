"""Dimensions and indices, split where that makes more of the statements those of a family other than the fallbacks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product

from cugen.families.registry import families
from cugen.plan.context import make_context
from cugen.rewrite.grouping import completed_statements, inlined_statements
from cugen.rewrite.split_dimensions import with_split_dimensions
from cugen.schedule.runs import group
from cugen.schedule.splitting.single_statements import single_of
from cugen.spec.expressions import Op, Read, Reduce, free_indices, walk
from cugen.spec.model import Spec


def with_taken_dimensions(spec: Spec) -> Spec:
    """The spec with dimensions and indices split where a family other than the fallbacks takes more statements then, or
    they have fewer divisions or sums over the parts of a subscript, and none is lost, nor a mixed group: other compound
    subscripts are left as they are."""
    inlined = replace(spec, statements=inlined_statements(spec))
    candidates = (spec, inlined, replace(inlined, statements=completed_statements(inlined)))
    matched = cache(_matched_targets)  # several candidates may be split alike
    for candidate, temporaries in product(candidates, (True, False)):
        split = with_split_dimensions(candidate, temporaries=temporaries)
        if split.statements != candidate.statements:
            kept = {statement.target for statement in candidate.statements}
            ranks, split_ranks = [(t, rank) for t, rank in matched(spec) if t in kept], matched(split)
            before, after = Counter(t for t, _ in ranks), Counter(t for t, _ in split_ranks)
            is_better = _division_count(split) < _division_count(candidate)
            is_better = is_better or _summed_parts(split) < _summed_parts(candidate)
            is_better = is_better and _keeps_ranks(ranks, split_ranks)
            if (is_better or before != after) and before <= after and _mixed_count(spec) <= _mixed_count(split):
                return split
    return spec


def _matched_targets(spec: Spec) -> list[tuple[str, int]]:
    """The targets of the statements that a family other than the fallbacks takes, with temporaries inlined, and the
    rank of the first such family."""
    context = make_context(spec)
    requests = [(s.target, single_of(s, context).request()) for s in inlined_statements(spec)]
    first = [(t, next((f for f in families() if not f.fallback and f.takes(r)), None)) for t, r in requests]
    return [(target, family.rank) for target, family in first if family is not None]


def _keeps_ranks(before: list[tuple[str, int]], after: list[tuple[str, int]]) -> bool:
    """Whether no target's statements go to families that are asked later."""
    lowest: dict[str, int] = {}
    for target_name, rank in after:
        lowest[target_name] = min(rank, lowest.get(target_name, rank))
    return all(rank <= lowest.get(target_name, rank) for target_name, rank in before)


def _mixed_count(spec: Spec) -> int:
    """The statements in mixed groups, such as the norm of a row and its elements."""
    return sum(len(planned.statements) for planned in group(make_context(spec)).groups if planned.mixed)


def _division_count(spec: Spec) -> int:
    divisions = ("floordiv", "mod")
    return sum(isinstance(node, Op) and node.name in divisions for s in spec.statements for node in walk(s.value))


def _summed_parts(spec: Spec) -> int:
    """The subscripts in terms of reductions over several of their indices, as `x[p * Q + q]` in a sum over p and q."""
    reductions = (node for s in spec.statements for node in walk(s.value) if isinstance(node, Reduce))
    bodies = ((node.body, {index.name for index in node.indices}) for node in reductions)
    reads = ((read, names) for body, names in bodies for read in walk(body) if isinstance(read, Read))
    return sum(len(free_indices(sub) & names) > 1 for read, names in reads for sub in read.subscripts)
