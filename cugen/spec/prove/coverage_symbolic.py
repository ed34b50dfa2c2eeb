"""Symbolic coverage, for any size: per dimension, and for statements that partition dimensions, one after another.

A dimension in which an index fills only a part of the next one's stride, as `j` with four values in `8 * i + j` and
`8 * i + j + 4`, is split at that stride into two, as if the array had a dimension for the multiples of 8 and another
for what remains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from cugen.spec.model import Array, Param, Statement
from cugen.spec.prove.affine import AffineForm, Variable, affine_form, atom_form, floor_quotient, multiply


@dataclass(frozen=True, slots=True)
class Progression:
    """The positions `start, start + stride, ...` of one dimension, `length` in number, each written once."""

    start: AffineForm
    stride: int
    length: AffineForm


@dataclass(frozen=True, slots=True)
class _Target:
    """The subscripts that a statement writes, and the extents of its indices."""

    subscripts: tuple[AffineForm, ...]
    extents: Mapping[str, AffineForm]


@dataclass(frozen=True, slots=True)
class _Split:
    """Dimension `dimension` is taken as two: the multiples of `radix`, and what remains of them."""

    dimension: int
    radix: int


def covers_symbolically(writers: list[Statement], array: Array, params: Mapping[str, Param]) -> bool:
    """Whether the statements together write every element exactly once; False means `not proved`."""
    shape = [affine_form(extent, params) for extent in array.shape]
    if len(writers) == 1 and _delinearises_index(writers[0], shape, params):
        return True
    separated = _separated([_target(statement, params) for statement in writers])
    if separated is None:
        return False
    parts, splits = separated
    for split in splits:
        extent, radix = shape[split.dimension], AffineForm((), split.radix)
        multiples = floor_quotient(extent, radix)
        if multiples.scaled(split.radix) != extent:
            return False
        shape[split.dimension : split.dimension + 1] = [multiples, radix]
    return _cover(parts, shape)


def _cover(parts: list[tuple[Progression, ...]], shape: list[AffineForm]) -> bool:
    """Whether the products of progressions partition the array: those that differ along some dimension partition it,
    and what has one of them there partitions the other dimensions."""
    differing = [d for d in range(len(shape)) if not all(_fills(part[d], shape[d]) for part in parts)]
    for d in differing:
        others: dict[Progression, list[tuple[Progression, ...]]] = {}
        for part in parts:
            others.setdefault(part[d], []).append((*part[:d], *part[d + 1 :]))
        if _concatenate(list(others), shape[d]) or _interleave(list(others), shape[d]):
            return all(_cover(parts, [*shape[:d], *shape[d + 1 :]]) for parts in others.values())
    return not differing and len(parts) == 1


def writes_once_symbolically(writers: list[Statement], params: Mapping[str, Param]) -> bool:
    """Whether no element is written twice; False means `not proved`."""
    separated = _separated([_target(statement, params) for statement in writers])
    return separated is not None and all(any(map(_are_disjoint, a, b)) for a, b in combinations(separated[0], 2))


def _are_disjoint(a: Progression, b: Progression) -> bool:
    """Whether two progressions of one dimension are interleaved, or one begins behind the end of the other."""
    distance = b.start - a.start
    if distance.is_constant and a.stride == b.stride and distance.constant % a.stride:
        return True
    return _is_behind(distance, a) or _is_behind(distance.scaled(-1), b)


def _is_behind(distance: AffineForm, progression: Progression) -> bool:
    """Whether a position at this distance from the start of a progression is behind its end."""
    gap = distance - (progression.length - AffineForm((), 1)).scaled(progression.stride)
    return gap.is_constant and gap.constant > 0


def _fills(progression: Progression, extent: AffineForm) -> bool:
    return progression.stride == 1 and progression.start == AffineForm() and progression.length == extent


def _target(statement: Statement, params: Mapping[str, Param]) -> _Target:
    subscripts = tuple(affine_form(subscript, params) for subscript in statement.subscripts)
    return _Target(subscripts, {index.name: affine_form(index.extent, params) for index in statement.indices})


def _separated(targets: list[_Target]) -> tuple[list[tuple[Progression, ...]], tuple[_Split, ...]] | None:
    """The progressions of each statement, and the splits of dimensions that it takes, in this order; else None."""
    progressions = [_progressions(target) for target in targets]
    known = [progression for progression in progressions if progression is not None]
    if len(known) == len(targets):
        return known, ()
    for d in range(len(targets[0].subscripts)):
        radices = {c for target in targets for _, c in target.subscripts[d].terms if c > 1}
        for radix in sorted(radices, reverse=True):
            parts = [part for target in targets if (part := _split(target, _Split(d, radix))) is not None]
            separated = _separated(parts) if len(parts) == len(targets) else None
            if separated is not None:
                return separated[0], (_Split(d, radix), *separated[1])
    return None


def _split(target: _Target, split: _Split) -> _Target | None:
    """The target with a dimension for the multiples of a radix and one for the remainder, if that is smaller."""
    form, radix = target.subscripts[split.dimension], split.radix
    whole = AffineForm(tuple((atom, c // radix) for atom, c in form.terms if c % radix == 0), form.constant // radix)
    remainder = AffineForm(tuple((atom, c) for atom, c in form.terms if c % radix), form.constant % radix)
    lowest = highest = remainder.constant
    for atom, c in remainder.terms:
        extent = target.extents.get(atom.name) if isinstance(atom, Variable) else None
        if extent is None or not extent.is_constant:
            return None
        lowest, highest = lowest + min(c * (extent.constant - 1), 0), highest + max(c * (extent.constant - 1), 0)
    if lowest < 0 or highest >= radix:
        return None
    before, after = target.subscripts[: split.dimension], target.subscripts[split.dimension + 1 :]
    return replace(target, subscripts=(*before, whole, remainder, *after))


def _progressions(target: _Target) -> tuple[Progression, ...] | None:
    """The progression of each dimension; None unless every index occurs in exactly one dimension."""
    seen: dict[str, None] = {}
    progressions: list[Progression] = []
    for form in target.subscripts:
        progression = _progression(form, target.extents, seen)
        if progression is None:
            return None
        progressions.append(progression)
    return tuple(progressions) if len(seen) == len(target.extents) else None


def _progression(form: AffineForm, extents: Mapping[str, AffineForm], seen: dict[str, None]) -> Progression | None:
    """A mixed-radix subscript as a progression: after the index of stride s and extent n comes one of stride s * n."""
    strides: dict[str, AffineForm] = {}
    start = AffineForm((), form.constant)
    for atom, c in form.terms:
        names = [f.name for f in getattr(atom, "factors", (atom,)) if isinstance(f, Variable) and f.name in extents]
        if not names:
            start = start + atom_form(atom, c)
            continue
        if len(names) > 1 or names[0] in seen:
            return None
        factors = [f for f in getattr(atom, "factors", (atom,)) if f != Variable(names[0])]
        stride = AffineForm((), c)
        for factor in factors:
            product = multiply(stride, atom_form(factor))
            if product is None:
                return None
            stride = product
        strides[names[0]] = strides.get(names[0], AffineForm()) + stride
    if not strides:
        return Progression(start, 1, AffineForm((), 1))
    for index, stride in strides.items():
        if stride.is_constant and stride.constant < 0:  # the same positions, from the other end
            start = start + extents[index].scaled(stride.constant) - stride
            strides[index] = stride.scaled(-1)
    positive_strides = [s.constant for s in strides.values() if s.is_constant and s.constant > 0]
    smallest = min(positive_strides, default=0)
    if not smallest:
        return None
    step, length = AffineForm((), smallest), AffineForm((), 1)
    remaining = dict(strides)
    while remaining:
        name = next((n for n, stride in remaining.items() if stride == step), None)
        if name is None:
            return None
        del remaining[name]
        seen[name] = None
        more, longer = multiply(step, extents[name]), multiply(length, extents[name])
        if more is None or longer is None:
            return None
        step, length = more, longer
    return Progression(start, smallest, length)


def _concatenate(parts: list[Progression], extent: AffineForm) -> bool:
    """Whether contiguous ranges concatenate to the whole dimension."""
    remaining = [part for part in parts if part.length != AffineForm()]
    end = AffineForm()
    while remaining:
        following = next(
            (p for p in remaining if p.start == end and (p.stride == 1 or p.length == AffineForm((), 1))), None
        )
        if following is None:
            return False
        remaining.remove(following)
        end = end + following.length
    return end == extent


def _interleave(parts: list[Progression], extent: AffineForm) -> bool:
    """Whether c progressions of stride c, starting at 0, 1, ... c - 1, interleave to the whole dimension."""
    stride = len(parts)
    starts = sorted(part.start.constant if part.start.is_constant else -1 for part in parts)
    if starts != list(range(stride)) or any(part.stride != stride for part in parts):
        return False
    return all(
        part.length == floor_quotient(extent - part.start + (stride - 1), AffineForm((), stride)) for part in parts
    )


def _delinearises_index(statement: Statement, shape: list[AffineForm], params: Mapping[str, Param]) -> bool:
    """Whether one index over all elements is delinearised: `y[i // c, i % c]`, for any number of dimensions."""
    if len(statement.indices) != 1 or len(shape) < 2:
        return False
    index = statement.indices[0]
    remaining_index, extent = atom_form(Variable(index.name)), affine_form(index.extent, params)
    total = AffineForm((), 1)
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
        quotient = floor_quotient(remaining_index, size)
        if affine_form(subscript, params) != remaining_index - quotient.scaled(size.constant):
            return False
        remaining_index = quotient
    return affine_form(statement.subscripts[0], params) == remaining_index
