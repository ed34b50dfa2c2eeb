"""Coverage by explicit sets: one bit set per dimension, or one byte per element."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from cugen.spec.expressions import IndexValue, walk
from cugen.spec.model import Param, Statement
from cugen.spec.prove.affine import AffineForm, Variable, affine_form
from cugen.spec.prove.integers import evaluate

_MAX_BITS = 1 << 24  # of the bit set of one dimension


@dataclass(frozen=True, slots=True)
class Verdict:
    """`kind` is exact, missing, twice or unproved; `element` an example, written by statements `first` and `second`."""

    kind: str
    element: tuple[int, ...] = ()
    first: int = 0
    second: int = 0


def by_dimension(writers: list[Statement], sizes: list[int], params: Mapping[str, Param]) -> Verdict | None:
    """The verdict if each statement writes a Cartesian product of sets; None if not, or if a dimension is too long."""
    boxes: list[list[int]] = []
    for position, statement in enumerate(writers):
        box = _box(statement, sizes, params)
        if box is None:
            return None
        masks, terms = box
        if prod(mask.bit_count() for mask in masks) != terms:
            element = tuple(map(_lowest, masks))
            return Verdict("twice", element, position, position)
        boxes.append(masks)
    for b, later in enumerate(boxes):
        for a, earlier in enumerate(boxes[:b]):
            common = [x & y for x, y in zip(earlier, later, strict=True)]
            if all(common):
                return Verdict("twice", tuple(map(_lowest, common)), a, b)
    written = sum(prod(mask.bit_count() for mask in masks) for masks in boxes)
    if written == prod(sizes):
        return Verdict("exact")
    return Verdict("missing", _missing(boxes, sizes), 0, 0)


def _lowest(mask: int) -> int:
    return max((mask & -mask).bit_length() - 1, 0)


def _box(statement: Statement, sizes: list[int], params: Mapping[str, Param]) -> tuple[list[int], int] | None:
    """The bit set of positions that a statement writes per dimension, and the size of its iteration space."""
    extents = {index.name: affine_form(index.extent, params).constant for index in statement.indices}
    writer: dict[str, int] = {}
    masks: list[int] = []
    for dimension, (subscript, size) in enumerate(zip(statement.subscripts, sizes, strict=True)):
        form = affine_form(subscript, params)
        if size > _MAX_BITS:
            return None
        for atom, _ in form.terms:
            if not isinstance(atom, Variable) or writer.setdefault(atom.name, dimension) != dimension:
                return None
        mask = _positions(form, extents)
        if mask is None:
            return None
        masks.append(mask)
    return masks, prod(extents.values())


def _positions(form: AffineForm, extents: Mapping[str, int]) -> int | None:
    """The values of `constant + sum(c * index)` as a bit set; negative ones were reported by the bounds check."""
    low = form.constant
    steps: list[tuple[int, int]] = []
    for atom, c in form.terms:
        assert isinstance(atom, Variable)
        extent = extents[atom.name]
        if extent < 1:
            return 0
        low += min(c * (extent - 1), 0)
        steps.append((abs(c), extent))
    top = low + sum(step * (extent - 1) for step, extent in steps)
    if low < 0 or top > 2 * _MAX_BITS:
        return None
    mask = 1 << low
    for step, extent in steps:
        covered = 1
        while covered < extent:
            more = min(covered, extent - covered)
            mask |= mask << (step * more)
            covered += more
    return mask


def _missing(boxes: list[list[int]], sizes: list[int]) -> tuple[int, ...]:
    """The lexicographically first element that is in no box."""
    element: list[int] = []
    remaining = boxes
    for dimension, size in enumerate(sizes):
        elements_per_position = prod(sizes[dimension + 1 :])
        chosen = 0
        candidates = [0]
        for box in remaining:
            mask = box[dimension]
            # Coverage changes only where the set of a box begins or ends.
            candidates += [_lowest(~mask), _lowest(mask), mask.bit_length()]
            candidates.append(_lowest(mask ^ (mask >> 1)) + 1)
        for position in sorted({c for c in candidates if 0 <= c < size}):
            here = [box for box in remaining if box[dimension] >> position & 1]
            if sum(prod(mask.bit_count() for mask in box[dimension + 1 :]) for box in here) < elements_per_position:
                chosen = position
                break
        element.append(chosen)
        remaining = [box for box in remaining if box[dimension] >> chosen & 1]
    return tuple(element)


def by_enumeration(writers: list[Statement], sizes: list[int], params: Mapping[str, Param]) -> Verdict:
    """The verdict by marking one byte per element."""
    total = prod(sizes)
    writer = bytearray(total)
    values = {name: param.value for name, param in params.items() if param.value is not None}
    for position, statement in enumerate(writers):
        used = {p.name: None for s in statement.subscripts for p in walk(s) if isinstance(p, IndexValue)}
        names = [index.name for index in statement.indices if index.name in used]
        ranges = [range(evaluate(index.extent, values)) for index in statement.indices if index.name in used]
        for point in product(*ranges):
            values.update(zip(names, point, strict=True))
            element = tuple(evaluate(subscript, values) for subscript in statement.subscripts)
            if any(not 0 <= s < size for s, size in zip(element, sizes, strict=True)):
                return Verdict("unproved", (), position, position)
            flat = 0
            for subscript, size in zip(element, sizes, strict=True):
                flat = flat * size + subscript
            if writer[flat]:
                return Verdict("twice", element, min(writer[flat] - 1, position), position)
            writer[flat] = min(position + 1, 255)
    if all(writer):
        return Verdict("exact")
    flat = writer.index(0)
    element_list: list[int] = []
    for size in reversed(sizes):
        flat, digit = divmod(flat, size)
        element_list.append(digit)
    return Verdict("missing", tuple(reversed(element_list)))
