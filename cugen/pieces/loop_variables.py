"""Variables of generated loops, and loops over all of their values."""

from __future__ import annotations

from collections.abc import Iterable

import sympy

from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import For, Index, Loop, Node, Section
from cugen.plan.symbols import Integer, Range, bounds, integer, symbol


def loop_variable(name_hint: str, stop: int | Integer, lowering: Lowering, start: Integer = sympy.S.Zero) -> Index:
    """A loop variable from `start` to below `stop`; a `stop` over params is recorded as its limit."""
    high = stop if isinstance(stop, int) else max(bounds(stop, lowering.ranges)[1], 1)
    index = Index(lowering.names.allocate(name_hint), start, (int(start) if start.is_Integer else 0, high - 1))
    lowering.ranges[index.symbol] = index.range
    if not isinstance(stop, int):
        lowering.limits[index.symbol] = stop
    return index


def shared_loop_variable(name_hint: str, values: Range, lowering: Lowering, loop: str = "") -> Index:
    """A loop variable over `values`, inclusive; loops over the same range share its name, by the `loop` or the hint."""
    key = (loop or name_hint, values)
    name = lowering.loops.get(key) or lowering.names.allocate(name_hint)
    lowering.loops[key] = name
    lowering.ranges[symbol(name)] = values
    return Index(name, integer(values[0]), values)


def index_loop_variable(index: str, values: Range, lowering: Lowering, name_hint: str = "") -> Index:
    """The variable of a loop over an index of the spec, in which others may be nested: an index may have any name, and
    so it shares none with them."""
    return shared_loop_variable(name_hint or index, values, lowering, f"index {name_hint or index}")


def unrolled(
    index: Index, body: Iterable[Node], step: int = 1, *, stop: int | None = None, downward: bool = False
) -> For:
    """The unrolled loop over all values of its variable, below `stop` where another loop's range is wider."""
    first, last = index.range
    end = integer(last + step if stop is None else stop)
    return For(Loop(index, integer(first), end, step, unroll=True, downward=downward), tuple(body))


def repeated(index: Index, body: tuple[Node, ...], stop: int | None = None) -> tuple[Node, ...]:
    """As `unrolled`; the body alone for a single value, as `value_of`."""
    return body if _is_single(index) else (unrolled(index, body, stop=stop),)


def repeated_sections(
    name: str, index: Index, sections: tuple[Section, ...], stop: int | None = None
) -> tuple[Section, ...]:
    """As `repeated`: the loop is the section `name`, which macros/optional.cu.j2 takes."""
    return sections if _is_single(index) else (Section(name, (unrolled(index, sections, stop=stop),)),)


def value_of(index: Index) -> Integer:
    """The variable of a `repeated` loop, or its only value."""
    return integer(index.range[0]) if _is_single(index) else index.symbol


def _is_single(index: Index) -> bool:
    return index.range[0] == index.range[1]
