"""Chains of products and softmaxes in one statement, where a family computes that in less time than their parts.

    s[i, j] = sum(q[i, c] * k[j, c], c);  p[i, j] = softmax(s[i, j], j);  o[i, d] = sum(p[i, j] * v[j, d], j)
becomes one statement of o, whatever temporaries it is spelt with."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod

from cugen.families.registry import families
from cugen.machine.devices import modelled_device
from cugen.machine.latency import STORING_LAUNCH_SECONDS
from cugen.plan.context import make_context
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.grouping import is_short, is_single_temporary
from cugen.rewrite.readers import Readers, array_reads
from cugen.rewrite.temporaries import storing_seconds
from cugen.schedule.splitting.single_statements import single_of
from cugen.spec.expressions import Expr, Index, IndexValue, Read, Reduce, children, walk
from cugen.spec.model import Schedule, Spec, Statement
from cugen.spec.rewriting import converted, rebuild, rename


def with_whole_chains(spec: Spec) -> Spec:
    """The spec with temporaries inlined that are then stored nowhere; the same object if there are none."""
    for position in reversed(range(len(spec.statements))):
        chain = _chain(spec, position)
        if chain is None:
            continue
        whole, inlined = chain
        if _pays(whole, inlined, spec):
            kept = (s for s in spec.statements[:position] if s not in inlined)
            return replace(spec, statements=(*kept, whole, *spec.statements[position + 1 :]))
    return spec


def _chain(spec: Spec, position: int) -> tuple[Statement, tuple[Statement, ...]] | None:
    """A statement with all temporaries inlined that nothing else reads, and their statements; None unless two of the
    reductions are nested in another."""
    statement, written = spec.statements[position], Counter(s.target for s in spec.statements)
    last_write = {s.target: n for n, s in enumerate(spec.statements)}
    readers, inlined, value = Readers(spec.statements), list[Statement](), statement.value
    members = {position}
    for earlier in reversed(range(position)):
        source = spec.statements[earlier]
        reading = set(readers.positions(source.target))
        if not reading & members:
            continue
        is_single = is_single_temporary(source, spec, written) and spec.array(source.target).memory.space is None
        is_fixed = all(last_write.get(read.array, -1) < earlier for read in array_reads(source))
        if not (is_single and is_fixed and reading <= members):
            continue  # it is stored, and read in place
        value = _inlined(value, source, spec)
        is_left = any(isinstance(node, Read) and node.array == source.target for node in walk(value))
        if is_left or not is_short(value):
            return None
        inlined.append(source)
        members.add(earlier)
    if _nesting(value) < 3:
        return None
    return replace(statement, value=with_common_names(value, statement)), tuple(inlined)


def _inlined(value: Expr, source: Statement, spec: Spec) -> Expr:
    names = [sub.name for sub in source.subscripts if isinstance(sub, IndexValue)]

    def on_read(read: Read) -> Expr | None:
        if read.array != source.target or read.boundary is not None or read.exact:
            return None
        there = substitute(source.value, dict(zip(names, read.subscripts, strict=True)))
        return converted(there, spec.array(read.array).dtype)

    return substitute(value, {}, on_read)


def _nesting(expr: Expr) -> int:
    """How many reductions are inside of each other."""
    below = max((_nesting(child) for child in children(expr)), default=0)
    return below + isinstance(expr, Reduce)


def with_common_names(value: Expr, statement: Statement) -> Expr:
    """The value with the indices of its reductions named by their extents and by what is nested in them, so that equal
    reductions are equal trees, whatever names they were written with."""
    taken = {index.name for index in statement.indices}
    chosen: dict[tuple[int, int, Expr], str] = {}

    def name_of(index: Index, height: int, number: int) -> str:
        key = height, number, index.extent
        if key not in chosen:
            name = index.name
            while name in taken:
                name += "_"
            taken.add(name)
            chosen[key] = name
        return chosen[key]

    def named(expr: Expr) -> tuple[Expr, int]:
        heights = [0]

        def change(child: Expr) -> Expr:
            tree, height = named(child)
            heights.append(height)
            return tree

        expr = rebuild(expr, change)
        if not isinstance(expr, Reduce):
            return expr, max(heights)
        height = max(heights) + 1
        names = {index.name: name_of(index, height, n) for n, index in enumerate(expr.indices)}
        indices = tuple(replace(index, name=names[index.name]) for index in expr.indices)
        where = None if expr.where is None else rename(expr.where, names)
        return replace(expr, indices=indices, body=rename(expr.body, names), where=where), height

    return named(value)[0]


def _pays(whole: Statement, inlined: tuple[Statement, ...], spec: Spec) -> bool:
    """Whether a family takes the whole, in less time than its parts take to store what they hand on, or because the
    schedule asks for it by name or by a tunable."""
    context = make_context(spec)
    request = single_of(whole, context).request()
    device, schedule = modelled_device(spec.target), request.schedule
    for family in families():
        if family.keeps_nested is None or family.predicted_seconds is None or not family.keeps_nested(request):
            continue
        if schedule != Schedule():
            tunables = {tunable.name for tunable in family.tunables}
            return schedule.family == family.name or any(name in tunables for name, _ in schedule.tunables)
        seconds = family.predicted_seconds(request)
        stored = STORING_LAUNCH_SECONDS  # of the last part
        for source in inlined:
            elements = prod(context.planned_extent(index) for index in source.indices)
            stored += storing_seconds(elements * spec.array(source.target).dtype.bytes, device)
        return seconds is not None and seconds < stored
    return False
