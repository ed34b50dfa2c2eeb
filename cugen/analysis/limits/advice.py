"""Changes of an array's declaration that move fewer sectors of global memory: each is tried before it is advised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cugen.analysis.limits.fixes import Planner, State, state_of
from cugen.spec.diagnostics import SpecError
from cugen.spec.expressions import Const
from cugen.spec.model import Array, Spec
from cugen.spec.resolve.keys.layout import dense_strides
from cugen.spec.types import INT64

MAX_TRIED_ARRAYS = 4  # of a spec; bounds the time of a check
ADJACENT = "adjacent threads have to access consecutive elements"
_MAX_SHARE = 0.95  # of the sectors, after a change that is advised (heuristic)
_ROW_BYTES = 128  # alignment of the rows that are tried: a cache line


class Advisor:
    """Advice for the arrays of one spec. `plan`: the launches of a spec; `params`: values of dynamic params."""

    def __init__(self, spec: Spec, plan: Planner, params: Mapping[str, int]) -> None:
        self._spec, self._plan, self._params = spec, plan, params
        self._before: State | None = None
        self._texts: dict[str, str] = {}

    def advise(self, array: str) -> str:
        """The changes of an array's declaration with which all launches move fewer sectors, the best first."""
        if array not in self._texts:
            self._texts[array] = self._advice(array) if len(self._texts) < MAX_TRIED_ARRAYS else ADJACENT
        return self._texts[array]

    def _advice(self, name: str) -> str:
        array = next((a for a in self._spec.arrays if a.name == name and not a.is_temporary), None)
        if array is None:
            return ADJACENT
        before = self._before = self._before or state_of([self._spec], self._plan, self._params)
        tried, helpful = [], []
        for text, changed in _changes(array):
            tried.append(f"`{text}`")
            after = self._state_with(changed)
            if (
                after is not None
                and _unknown(after) <= _unknown(before)
                and after.sectors <= _MAX_SHARE * before.sectors
            ):
                helpful.append((after.sectors, text))
        if not tried:
            return ADJACENT
        if not helpful:
            return f"{ADJACENT}; tried for `{name}` without effect: {', '.join(tried)}"
        moved = [f"`{text}`, with which all accesses move {sectors:,}" for sectors, text in sorted(helpful)]
        return f"all accesses move {before.sectors:,} sectors; write for `{name}` {'; or '.join(moved)}"

    def _state_with(self, changed: Array) -> State | None:
        arrays = tuple(changed if array.name == changed.name else array for array in self._spec.arrays)
        try:
            return state_of([replace(self._spec, arrays=arrays)], self._plan, self._params)
        except SpecError:
            return None


def _changes(array: Array) -> Iterator[tuple[str, Array]]:
    """Other declarations of an array, with what they change in the spec."""
    if len(array.shape) > 1:
        column = dense_strides(array.shape, column=True)
        is_column = array.strides == column
        strides = dense_strides(array.shape) if is_column else column
        yield f"layout: {'row' if is_column else 'column'}", replace(array, strides=strides)
        row = array.shape[-1]
        unit = _ROW_BYTES // array.dtype.bytes
        if array.strides == dense_strides(array.shape) and isinstance(row, Const) and int(row.value) % unit:
            pitch = Const(-(-int(row.value) // unit) * unit, INT64)
            yield f"pitch: {{align: {_ROW_BYTES}}}", replace(array, strides=dense_strides(array.shape, pitch=pitch))
    if array.role in ("input", "baked") and array.memory.space != "shared":
        yield "memory: shared", replace(array, memory=replace(array.memory, space="shared"))


def _unknown(state: State) -> int:
    return sum(report.verdict == "unknown" for launch in state.launches for report in launch.accesses)
