"""Numbers of stages and conditions of k-tiles, as values in a state: functions of the k-tile, and of those left."""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy

from cugen.analysis.pipelines.async_copies.states import KLoop, State
from cugen.analysis.pipelines.claims import NotRecognised
from cugen.analysis.pipelines.expressions import K_TILE, reduced
from cugen.analysis.totals.affine import evaluator, quasi_period
from cugen.plan.symbols import Choice, FloorDiv, Integer, Maximum, Minimum, integer


@dataclass
class StageNumbers:
    """Values of expressions of the k-tile in the states of a pipeline of so many `stages`.

    NotRecognised where a value isn't a function of the k-tile that repeats, or isn't known in the state."""

    stages: int
    known: dict[tuple[Integer, int | None, int, KLoop | None], int] = field(default_factory=dict)

    @property
    def period(self) -> int:
        return 4 * self.stages

    @property
    def many(self) -> int:
        """So many k-tiles left, or more."""
        return self.stages + 2

    def is_many(self, state: State, k: KLoop) -> bool:
        """Whether more k-tiles may be left than the state says."""
        return state.left == self.many and k.max_trips > self.many + 1

    def value(self, expr: Integer, state: State, k: KLoop | None) -> int:
        """The value of a stage's number."""
        if expr.is_Integer:
            return int(expr)
        key = (expr, state.k_tile, state.left, k)
        if key not in self.known:
            self.known[key] = self._number(expr, state, k)
        return self.known[key]

    def _number(self, expr: Integer, state: State, k: KLoop | None) -> int:
        decided = self._decided(expr, state, k)
        if not decided.free_symbols <= ({K_TILE} if k else set()):
            raise NotRecognised(f"the stage `{expr}` isn't a function of the k-tile")
        if k is not None and k.max_trips >= self.period and not _repeats(decided, self.period):
            raise NotRecognised(f"the stage `{expr}` doesn't repeat")
        return self.evaluated(decided, state.k_tile or 0)

    def evaluated(self, expr: Integer, k_tile: int) -> int:
        """The value of an expression of K_TILE alone."""
        return int(evaluator(expr, {K_TILE: (0, self.period)})({K_TILE: k_tile}))

    def _decided(self, expr: Integer, state: State, k: KLoop | None) -> Integer:
        """The expression with the chosen operand of each extremum and choice."""
        if not expr.args:
            return expr
        args = [self._decided(arg, state, k) for arg in expr.args]
        if isinstance(expr, Minimum | Maximum | Choice):
            difference = self.difference(args[0], args[1], state, k)
            if difference is not None:
                if isinstance(expr, Choice):
                    return args[2] if difference < 0 else args[3]
                is_first = (difference < 0) == isinstance(expr, Minimum)
                # The one over K_TILE alone: they differ by a constant.
                if args[0].free_symbols <= {K_TILE}:
                    return args[0] if is_first else args[0] - difference
                return args[1] + difference if is_first else args[1]
        return expr.func(*args)

    def difference(self, a: Integer, b: Integer, state: State, k: KLoop | None) -> int | None:
        """a - b where it is a constant, or one of the number of k-tiles left; None otherwise."""
        difference = sympy.expand(reduced(a) - reduced(b))
        if difference.is_Integer and (k is None or not k.stop.is_Integer):
            return int(difference)
        slope = difference.coeff(K_TILE, 1)
        if k is None or not slope.is_Integer or slope == 0:
            return int(difference) if difference.is_Integer else None
        trips = reduced(FloorDiv(k.stop, integer(k.step)))
        for scale, end in ((k.step, k.stop), (1, trips)):
            if abs(slope) != scale:
                continue
            sign = int(slope) // scale
            offset = sympy.expand(difference + sign * end - slope * K_TILE)
            if offset.is_Integer:  # difference = slope * K_TILE + offset - sign * scale * (K_TILE + left + 1)
                value = int(offset) - int(slope) * (state.left + 1)
                if self.is_many(state, k) and value * sign >= 0:
                    raise NotRecognised("a condition compares k-tiles more than STAGES apart")
                return value
        return None


def _repeats(expr: Integer, period: int) -> bool:
    """Whether an expression of K_TILE has a period that divides this one."""
    found = None if expr.has(Choice) else quasi_period(expr, K_TILE)
    if found is not None and found[1] == 0 and period % found[0] == 0:
        return True
    return bool(expr.args) and all(_repeats(arg, period) for arg in expr.args)
