"""Counters in the header of a loop over k-tiles: stages and parities, which the number of the k-tile gives, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import sympy

from cugen.analysis.pipelines.claims import NotRecognised
from cugen.analysis.pipelines.expressions import FILL, K_TILE, numbered, reduced
from cugen.analysis.totals.affine import evaluator
from cugen.plan.nodes import Define
from cugen.plan.symbols import FloorDiv, Integer, Mod

_MAX_PERIOD = 64  # k-tiles


def counted_by_fill(
    counters: tuple[Define, ...], values: Mapping[sympy.Symbol, Integer], base: Integer | None
) -> dict[sympy.Symbol, Integer]:
    """The definitions of the counters, over FILL where its value in the loop is `base`. NotRecognised unless each
    counter has the value of its definition in all k-tiles. In the first one it has: the loop begins with that."""
    unnumbered = {counter.index.symbol: counter.index.definition.xreplace(values) for counter in counters}
    defined = {name: numbered(definition, base) for name, definition in unnumbered.items()}
    if all(definition.free_symbols <= {FILL} for definition in defined.values()):
        _check(counters, values, defined, FILL)
    else:
        _check(counters, values, unnumbered, K_TILE)
    return defined


def _check(
    counters: tuple[Define, ...],
    values: Mapping[sympy.Symbol, Integer],
    definitions: Mapping[sympy.Symbol, Integer],
    number: sympy.Symbol,
) -> None:
    """At all residues of the k-tile's `number`, and of what is the same for all k-tiles of a loop."""
    defined = {name: reduced(definition) for name, definition in definitions.items()}
    names = sorted(set[sympy.Symbol]().union(*(d.free_symbols for d in defined.values())) | {number}, key=str)
    divisors = [part.args[1] for d in defined.values() for part in d.atoms(FloorDiv, Mod)]
    if len(names) > 2 or not all(divisor.is_Integer for divisor in divisors):
        raise NotRecognised("a counter of k-tiles isn't defined by their number alone")
    period = 2 * max(map(int, divisors), default=1)
    later = [reduced(d.xreplace({name: name + period})) == d for d in defined.values() for name in names]
    if period > _MAX_PERIOD or not all(later):
        raise NotRecognised(f"counters of k-tiles have other periods than {period}")
    grid = np.meshgrid(*(np.arange(period) for _ in names), indexing="ij")
    state = dict(zip(names, grid, strict=True))
    following = {**state, number: state[number] + 1}
    state |= {name: _value(definition, state) for name, definition in defined.items()}
    for counter in counters:  # in the order of the header, each after those before it
        assert counter.then is not None
        state[counter.index.symbol] = _value(counter.then.xreplace(values), state)
    for name, definition in defined.items():
        if not np.array_equal(state[name], _value(definition, following)):
            raise NotRecognised("a loop over k-tiles counts its stages or parities otherwise than these are defined")


def _value(expr: Integer, values: Mapping[sympy.Symbol, Any]) -> Any:
    """At values below the period, or equal to it."""
    value = evaluator(expr, dict.fromkeys(values, (0, _MAX_PERIOD)))(values)
    return np.broadcast_to(value, np.shape(next(iter(values.values()))))
