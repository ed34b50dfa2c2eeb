"""Coverage by form alone, for any size: dimension by dimension, and statements that share one dimension."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cugen.spec.model import Array, Param, Statement
from cugen.spec.prove.linear import Form, Variable, atom_form, floor_quotient, linear_form, multiply


@dataclass(frozen=True, slots=True)
class Run:
    """`start, start + stride, ...`: `length` positions of one dimension, each written once."""

    start: Form
    stride: int
    length: Form


def covers_symbolically(writers: list[Statement], array: Array, params: Mapping[str, Param]) -> bool:
    """Whether the statements together write every element exactly once; False means `not shown`."""
    shape = [linear_form(extent, params) for extent in array.shape]
    if len(writers) == 1 and _splits_flat_index(writers[0], shape, params):
        return True
    runs = [_runs(statement, params) for statement in writers]
    known = [run for run in runs if run is not None]
    if len(known) < len(runs):
        return False
    differing = [d for d in range(len(shape)) if not all(_fills(run[d], shape[d]) for run in known)]
    if not differing:
        return len(writers) == 1
    if len(differing) > 1:
        return False
    dimension = differing[0]
    parts = [run[dimension] for run in known]
    return _join(parts, shape[dimension]) or _interleave(parts, shape[dimension])


def writes_once_symbolically(writers: list[Statement], params: Mapping[str, Param]) -> bool:
    """Whether no element is written twice; shown for one statement only."""
    return len(writers) == 1 and _runs(writers[0], params) is not None


def _fills(run: Run, extent: Form) -> bool:
    return run.stride == 1 and run.start == Form() and run.length == extent


def _runs(statement: Statement, params: Mapping[str, Param]) -> list[Run] | None:
    """The run that each dimension makes, where every index occurs in exactly one of them."""
    extents = {index.name: linear_form(index.extent, params) for index in statement.indices}
    seen: dict[str, None] = {}
    runs: list[Run] = []
    for subscript in statement.subscripts:
        form = linear_form(subscript, params)
        run = _run(form, extents, seen)
        if run is None:
            return None
        runs.append(run)
    return runs if len(seen) == len(extents) else None


def _run(form: Form, extents: Mapping[str, Form], seen: dict[str, None]) -> Run | None:
    """A mixed radix: the index of stride s and extent n is followed by one of stride s * n."""
    strides: dict[str, Form] = {}
    start = Form((), form.constant)
    for atom, c in form.terms:
        names = [f.name for f in getattr(atom, "factors", (atom,)) if isinstance(f, Variable) and f.name in extents]
        if not names:
            start = start + atom_form(atom, c)
            continue
        if len(names) > 1 or names[0] in seen:
            return None
        factors = [f for f in getattr(atom, "factors", (atom,)) if f != Variable(names[0])]
        stride = Form((), c)
        for factor in factors:
            product = multiply(stride, atom_form(factor))
            if product is None:
                return None
            stride = product
        strides[names[0]] = strides.get(names[0], Form()) + stride
    if not strides:
        return Run(start, 1, Form((), 1))
    least = [s.constant for s in strides.values() if s.is_constant and s.constant > 0]
    first = min(least, default=0)
    if not first:
        return None
    step, length = Form((), first), Form((), 1)
    left = dict(strides)
    while left:
        name = next((n for n, stride in left.items() if stride == step), None)
        if name is None:
            return None
        del left[name]
        seen[name] = None
        more, longer = multiply(step, extents[name]), multiply(length, extents[name])
        if more is None or longer is None:
            return None
        step, length = more, longer
    return Run(start, first, length)


def _join(parts: list[Run], extent: Form) -> bool:
    """Runs of stride 1 that follow one another from 0 to the end."""
    left = [part for part in parts if part.length != Form()]
    end = Form()
    while left:
        following = next((p for p in left if p.start == end and (p.stride == 1 or p.length == Form((), 1))), None)
        if following is None:
            return False
        left.remove(following)
        end = end + following.length
    return end == extent


def _interleave(parts: list[Run], extent: Form) -> bool:
    """Runs of stride c that start at 0, 1, ... c - 1; each has as many positions as fit below the extent."""
    stride = len(parts)
    starts = sorted(part.start.constant if part.start.is_constant else -1 for part in parts)
    if starts != list(range(stride)) or any(part.stride != stride for part in parts):
        return False
    return all(part.length == floor_quotient(extent - part.start + (stride - 1), Form((), stride)) for part in parts)


def _splits_flat_index(statement: Statement, shape: list[Form], params: Mapping[str, Param]) -> bool:
    """`y[i // c, i % c]` with c the last extent and i over all elements, for any number of dimensions."""
    if len(statement.indices) != 1 or len(shape) < 2:
        return False
    index = statement.indices[0]
    rest, extent = atom_form(Variable(index.name)), linear_form(index.extent, params)
    total = Form((), 1)
    for size in shape:
        product = multiply(total, size)
        if product is None:
            return False
        total = product
    if total != extent:
        return False
    for subscript, size in zip(reversed(statement.subscripts[1:]), reversed(shape[1:]), strict=True):
        if not size.is_constant or size.constant < 1:
            return False
        quotient = floor_quotient(rest, size)
        if linear_form(subscript, params) != rest - quotient.scaled(size.constant):
            return False
        rest = quotient
    return linear_form(statement.subscripts[0], params) == rest
