"""Which elements left sides write, as sets: one integer's bits per dimension, or a byte per element."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from cugen.spec.expressions import IndexValue, walk
from cugen.spec.model import Param, Statement
from cugen.spec.prove.integers import evaluate
from cugen.spec.prove.linear import Form, Variable, linear_form

_MAX_BITS = 1 << 24


@dataclass(frozen=True, slots=True)
class Verdict:
    """`kind` is exact, missing, twice or unproved; `element` an example, `first` and `second` who writes it."""

    kind: str
    element: tuple[int, ...] = ()
    first: int = 0
    second: int = 0


def by_dimension(writers: list[Statement], sizes: list[int], params: Mapping[str, Param]) -> Verdict | None:
    """The verdict where each statement writes a product of sets; None where one doesn't, or a dimension is too long."""
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
    """The positions that a statement writes per dimension, and how many values its indices have together."""
    extents = {index.name: linear_form(index.extent, params).constant for index in statement.indices}
    owner: dict[str, int] = {}
    masks: list[int] = []
    for dimension, (subscript, size) in enumerate(zip(statement.subscripts, sizes, strict=True)):
        form = linear_form(subscript, params)
        if size > _MAX_BITS:
            return None
        for atom, _ in form.terms:
            if not isinstance(atom, Variable) or owner.setdefault(atom.name, dimension) != dimension:
                return None
        mask = _positions(form, extents)
        if mask is None:
            return None
        masks.append(mask)
    return masks, prod(extents.values())


def _positions(form: Form, extents: Mapping[str, int]) -> int | None:
    """The values of `constant + sum(c * index)` as the bits of an integer; bits below 0 are an error found before."""
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
        done = 1
        while done < extent:
            more = min(done, extent - done)
            mask |= mask << (step * more)
            done += more
    return mask


def _missing(boxes: list[list[int]], sizes: list[int]) -> tuple[int, ...]:
    """An element in no box: the first row of dimensions that some boxes leave out."""
    element: list[int] = []
    alive = boxes
    for dimension, size in enumerate(sizes):
        rest = prod(sizes[dimension + 1 :])
        chosen = 0
        candidates = [0]
        for box in alive:
            mask = box[dimension]
            # Where a box begins or ends is where what is covered can change.
            candidates += [_lowest(~mask), _lowest(mask), mask.bit_length()]
            candidates.append(_lowest(mask ^ (mask >> 1)) + 1)
        for position in sorted({c for c in candidates if 0 <= c < size}):
            here = [box for box in alive if box[dimension] >> position & 1]
            if sum(prod(mask.bit_count() for mask in box[dimension + 1 :]) for box in here) < rest:
                chosen = position
                break
        element.append(chosen)
        alive = [box for box in alive if box[dimension] >> chosen & 1]
    return tuple(element)


def by_enumeration(writers: list[Statement], sizes: list[int], params: Mapping[str, Param]) -> Verdict:
    """The verdict by writing a byte per element."""
    total = prod(sizes)
    owner = bytearray(total)
    values = {name: param.value for name, param in params.items() if param.value is not None}
    for position, statement in enumerate(writers):
        used = {p.name: None for s in statement.subscripts for p in walk(s) if isinstance(p, IndexValue)}
        names = [index.name for index in statement.indices if index.name in used]
        ranges = [range(evaluate(index.extent, values)) for index in statement.indices if index.name in used]
        for at in product(*ranges):
            values.update(zip(names, at, strict=True))
            element = tuple(evaluate(subscript, values) for subscript in statement.subscripts)
            if any(not 0 <= s < size for s, size in zip(element, sizes, strict=True)):
                return Verdict("unproved", (), position, position)
            flat = 0
            for subscript, size in zip(element, sizes, strict=True):
                flat = flat * size + subscript
            if owner[flat]:
                return Verdict("twice", element, min(owner[flat] - 1, position), position)
            owner[flat] = min(position + 1, 255)
    if all(owner):
        return Verdict("exact")
    flat = owner.index(0)
    element_list: list[int] = []
    for size in reversed(sizes):
        flat, digit = divmod(flat, size)
        element_list.append(digit)
    return Verdict("missing", tuple(reversed(element_list)))
